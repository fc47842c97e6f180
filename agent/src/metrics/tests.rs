use pendulum_model::segment::PerDirection;

use super::*;
use crate::config::Config;
use crate::snapshot::{DeviceState, example};

fn active() -> watch::Receiver<Active> {
    let (send, active) = Active::start(Config::default());
    send.send_modify(|active| {
        active.adopt(&Config::default());
        active.refuse("a mistake".to_owned());
    });
    active
}

fn exposition(format: ExpositionFormat) -> String {
    let board = example::board(vec![example::link("dsl"), example::link("lte")]);
    written(&Exposition::new(&board, active(), true), format)
}

fn written(exposition: &Exposition, format: ExpositionFormat) -> String {
    String::from_utf8(exposition.encode(format).unwrap()).unwrap()
}

fn value<'a>(text: &'a str, sample: &str) -> &'a str {
    let found = text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    found.unwrap_or_else(|| panic!("no sample {sample} in\n{text}"))
}

#[test]
fn every_figure_of_the_snapshot_is_exported_once_under_its_name() {
    let text = exposition(ExpositionFormat::Text);
    for (sample, expected) in [
        ("pendulum_segments_total{link=\"dsl\",direction=\"up\",class=\"data\"}", "1000"),
        ("pendulum_segments_total{link=\"lte\",direction=\"down\",class=\"non_tcp\"}", "2011"),
        ("pendulum_bytes_total{link=\"dsl\",direction=\"down\",class=\"dup_ack\"}", "200200"),
        ("pendulum_payload_bytes_total{link=\"dsl\",direction=\"up\"}", "90000"),
        ("pendulum_marked_segments_total{link=\"dsl\",direction=\"up\",mark=\"sack\"}", "1004"),
        ("pendulum_retransmitted_segments_total{link=\"dsl\",direction=\"up\"}", "1005"),
        ("pendulum_reordered_segments_total{link=\"dsl\",direction=\"down\"}", "2006"),
        ("pendulum_rtt_seconds_sum{link=\"dsl\",side=\"wan\"}", "40.0"),
        ("pendulum_rtt_seconds_count{link=\"dsl\",side=\"lan\"}", "2000"),
        ("pendulum_rtt_seconds_bucket{le=\"0.02\",link=\"dsl\",side=\"wan\"}", "0"),
        ("pendulum_rtt_seconds_bucket{le=\"0.05\",link=\"dsl\",side=\"wan\"}", "1000"),
        ("pendulum_rtt_seconds_bucket{le=\"+Inf\",link=\"dsl\",side=\"wan\"}", "1000"),
        ("pendulum_ack_burst_segments_sum{link=\"dsl\",direction=\"up\"}", "1020.0"),
        ("pendulum_ack_burst_segments_bucket{le=\"16.0\",link=\"dsl\",direction=\"up\"}", "1000"),
        ("pendulum_ack_burst_segments_bucket{le=\"20.0\",link=\"dsl\",direction=\"up\"}", "1001"),
        ("pendulum_in_flight_bytes{link=\"dsl\",direction=\"down\"}", "5432"),
        ("pendulum_flows{link=\"dsl\",direction=\"up\"}", "2"),
        ("pendulum_flow_table_events_total{link=\"dsl\",event=\"promoted\"}", "113"),
        ("pendulum_flow_table_events_total{link=\"dsl\",event=\"evicted\"}", "7"),
        ("pendulum_shape_state_info{link=\"dsl\",state=\"enforcing\"}", "1"),
        ("pendulum_shaping{link=\"dsl\"}", "1.0"),
        ("pendulum_shape_rate_bytes_per_second{link=\"dsl\",direction=\"up\"}", "1225000.0"),
        ("pendulum_shape_waits_behind_seconds{link=\"dsl\",direction=\"up\"}", "0.0175"),
        ("pendulum_link_up{link=\"dsl\"}", "1"),
        ("pendulum_link_info{link=\"dsl\",device=\"wan0\"}", "1"),
        ("pendulum_throughput_bytes_per_second{link=\"dsl\",direction=\"up\"}", "12500.0"),
        ("pendulum_link_rate_bytes_per_second{link=\"dsl\",direction=\"up\"}", "25000.0"),
        ("pendulum_link_utilization_ratio{link=\"dsl\",direction=\"up\"}", "0.5"),
        ("pendulum_unseen_bytes_ratio{link=\"dsl\",direction=\"up\"}", "0.25"),
        ("pendulum_source_info{link=\"dsl\",direction=\"up\",what=\"rate\",source=\"config\"}", "1"),
        ("pendulum_source_info{link=\"dsl\",direction=\"down\",what=\"rate\",source=\"unknown\"}", "1"),
        ("pendulum_bpf_program_attached{link=\"dsl\",program=\"pendulum_up\"}", "1"),
        ("pendulum_bpf_program_runs_total{link=\"dsl\",program=\"pendulum_up\"}", "41"),
        ("pendulum_bpf_program_run_seconds_total{link=\"dsl\",program=\"pendulum_up\"}", "1.5"),
        ("pendulum_map_entries{link=\"dsl\",map=\"flows\"}", "3"),
        ("pendulum_map_capacity{link=\"dsl\",map=\"flows\"}", "256"),
        ("pendulum_unmeasured_total{link=\"dsl\",reason=\"link_header\"}", "100"),
        ("pendulum_lost_total{link=\"dsl\",reason=\"link_header\"}", "100"),
        ("pendulum_unmeasured_total{link=\"dsl\",reason=\"sequence_jump\"}", "110"),
        ("pendulum_unmeasured_total{link=\"dsl\",reason=\"sample_rejected\"}", "3"),
        ("pendulum_unmeasured_total{link=\"dsl\",reason=\"event_log\"}", "1"),
        ("pendulum_unmeasured_total{link=\"dsl\",reason=\"stream_client_slow\"}", "4"),
        ("pendulum_queue_bytes{link=\"dsl\",direction=\"up\"}", "4542.0"),
        ("pendulum_queue_packets{link=\"dsl\",direction=\"up\"}", "4.0"),
        ("pendulum_queue_peak_bytes{link=\"dsl\",direction=\"up\"}", "6056.0"),
        ("pendulum_queue_limit_bytes{link=\"dsl\",direction=\"up\"}", "30000.0"),
        ("pendulum_queue_uncertainty_bytes{link=\"dsl\",direction=\"up\"}", "0.0"),
        ("pendulum_queue_drops_total{link=\"dsl\",direction=\"up\",reason=\"overlimit\"}", "7"),
        ("pendulum_queue_drops_total{link=\"dsl\",direction=\"up\",reason=\"aqm\"}", "3"),
        ("pendulum_queue_drops_total{link=\"dsl\",direction=\"up\",reason=\"ack_filter\"}", "2"),
        ("pendulum_queue_drops_total{link=\"dsl\",direction=\"up\",reason=\"other\"}", "1"),
        ("pendulum_queue_events_total{link=\"dsl\",direction=\"up\",event=\"drift\"}", "16"),
        ("pendulum_queue_events_total{link=\"dsl\",direction=\"up\",event=\"unknown_ack\"}", "11"),
        ("pendulum_queue_sojourn_seconds_sum{link=\"dsl\",direction=\"up\",class=\"ack\"}", "0.2"),
        ("pendulum_queue_sojourn_seconds_count{link=\"dsl\",direction=\"up\",class=\"ack\"}", "5"),
        ("pendulum_queue_standing_bytes{link=\"dsl\",direction=\"up\"}", "3028.0"),
        ("pendulum_queue_composition_ratio{link=\"dsl\",direction=\"up\",kind=\"tcp_data\"}", "0.125"),
        ("pendulum_queue_composition_ratio{link=\"dsl\",direction=\"up\",kind=\"ack\"}", "0.0"),
        ("pendulum_queue_composition_ratio{link=\"dsl\",direction=\"up\",kind=\"udp\"}", "0.875"),
        ("pendulum_unmeasured_total{link=\"dsl\",reason=\"slots_overwritten\"}", "2"),
        ("pendulum_unmeasured_total{link=\"dsl\",reason=\"torn_answers\"}", "1"),
        ("pendulum_unmeasured_total{link=\"dsl\",reason=\"program_recursion\"}", "5"),
        ("pendulum_phase{link=\"dsl\",phase=\"uplink_bound\"}", "1"),
        ("pendulum_phase{link=\"dsl\",phase=\"idle\"}", "0"),
        ("pendulum_phase_seconds_total{link=\"dsl\",phase=\"downlink_bound\"}", "20.25"),
        ("pendulum_phase_transitions_total{link=\"dsl\",from=\"uplink_bound\",to=\"downlink_bound\"}", "5"),
        ("pendulum_phase_transitions_total{link=\"dsl\",from=\"idle\",to=\"balanced\"}", "0"),
        ("pendulum_verdict{link=\"dsl\",verdict=\"locked_uplink\"}", "1"),
        ("pendulum_verdict{link=\"dsl\",verdict=\"swinging\"}", "0"),
        ("pendulum_swing_period_seconds{link=\"dsl\"}", "2.5"),
        ("pendulum_queue_correlation{link=\"dsl\"}", "-0.75"),
        ("pendulum_throughput_ratio{link=\"dsl\",kind=\"measured\"}", "1.25"),
        ("pendulum_throughput_ratio{link=\"dsl\",kind=\"predicted\"}", "1.5"),
        ("pendulum_advised_buffer_bytes{link=\"dsl\",direction=\"up\"}", "6000.0"),
        ("pendulum_advised_buffer_bytes{link=\"dsl\",direction=\"down\"}", "70000.0"),
        ("pendulum_lost_bytes_per_second{link=\"dsl\",direction=\"down\"}", "256000.0"),
        ("pendulum_lost_bytes_per_second{link=\"dsl\",direction=\"up\"}", "0.0"),
        ("pendulum_starved_bytes_per_second{link=\"dsl\",direction=\"down\"}", "256000.0"),
        ("pendulum_near_far_throughput_ratio{link=\"dsl\",direction=\"down\"}", "4.0"),
        ("pendulum_finding{link=\"dsl\",direction=\"down\",finding=\"rtt_unfairness\"}", "1"),
        ("pendulum_finding{link=\"dsl\",direction=\"up\",finding=\"rtt_unfairness\"}", "0"),
        ("pendulum_finding{link=\"dsl\",direction=\"up\",finding=\"bufferbloat\"}", "1"),
        ("pendulum_finding{link=\"dsl\",direction=\"down\",finding=\"bufferbloat\"}", "0"),
        ("pendulum_finding{link=\"dsl\",direction=\"up\",finding=\"shaping_not_helping\"}", "1"),
        ("pendulum_finding{link=\"dsl\",direction=\"up\",finding=\"shaping_ineffective\"}", "0"),
        ("pendulum_config_reloads_total{result=\"applied\"}", "1"),
        ("pendulum_config_reloads_total{result=\"refused\"}", "1"),
        ("pendulum_config_last_reload_successful", "0"),
        ("pendulum_config_settings_waiting", "0"),
        ("pendulum_collector_success{link=\"dsl\",collector=\"counters\"}", "1"),
        ("pendulum_collector_failures_total{link=\"dsl\",collector=\"flows\"}", "2"),
        ("pendulum_collector_duration_seconds{link=\"dsl\",collector=\"programs\"}", "0.004"),
    ] {
        assert_eq!(value(&text, sample), expected, "{sample}");
        assert_eq!(text.matches(&format!("\n{sample} ")).count(), 1, "{sample}");
    }
}

#[test]
fn unknown_capacity_is_absent_not_zero() {
    let text = exposition(ExpositionFormat::Text);
    assert!(!text.contains("pendulum_link_rate_bytes_per_second{link=\"dsl\",direction=\"down\"}"));
    assert!(!text.contains("pendulum_link_utilization_ratio{link=\"dsl\",direction=\"down\"}"));
    // Nothing entered the downlink.
    assert!(!text.contains("pendulum_queue_composition_ratio{link=\"dsl\",direction=\"down\""));
}

#[test]
fn nothing_is_said_about_a_link_that_is_not_measured() {
    let mut silent = example::link("dsl");
    silent.findings = None;
    let board = example::board(vec![silent]);
    let text =
        written(&Exposition::new(&board, Active::start(Config::default()).1, true), ExpositionFormat::Text);
    for family in ["pendulum_phase{", "pendulum_verdict{", "pendulum_phase_seconds_total{", "sample_rejected"]
    {
        assert!(!text.contains(family), "{family} in\n{text}");
    }
    assert!(text.contains("pendulum_unmeasured_total{link=\"dsl\",reason=\"event_log\"} 1"));
}

/// Each of the three may be missing: programs, the device, its state.
#[test]
fn a_link_is_up_only_with_programs_on_a_device_that_is_up() {
    for (attached, device, up) in [
        (true, DeviceState::Up, "1"),
        (true, DeviceState::Down, "0"),
        (false, DeviceState::Up, "0"),
        (false, DeviceState::Missing, "0"),
    ] {
        let mut link = example::link("dsl");
        link.device = device;
        link.hooks = link.hooks.filter(|_| attached);
        let text =
            written(&Exposition::new(&example::board(vec![link]), active(), true), ExpositionFormat::Text);
        assert_eq!(value(&text, "pendulum_link_up{link=\"dsl\"}"), up, "programs {attached}, {device:?}");
    }
}

#[test]
fn run_metrics_are_absent_without_the_kernels_statistics() {
    let board = example::board(vec![example::link("dsl")]);
    let text = written(&Exposition::new(&board, active(), false), ExpositionFormat::Text);
    assert!(!text.contains("pendulum_bpf_program_run"));
    assert!(text.contains("pendulum_bpf_program_attached"));
}

/// Both directions have a ring, and each program is passed over for itself.
#[test]
fn what_was_lost_is_summed_over_directions_and_programs() {
    let mut link = example::link("dsl");
    let PerDirection { up, down } = &mut link.directions;
    down.queue = up.queue.clone();
    down.queue.as_mut().unwrap().lost_buckets = 4;
    let mut programs = link.programs.to_vec();
    programs[0].missed = Some(5);
    programs.push(programs[0]);
    programs[1].missed = Some(7);
    link.programs = programs.into();
    let lost: std::collections::HashMap<_, _> = lost_by_reason(&link).collect();
    assert_eq!((lost["history_overwritten"], lost["program_recursion"]), (10, 12));
}

/// Time in the kernel is part of it: reading files takes some.
#[test]
fn processor_time_is_that_of_the_program_and_of_the_kernel_for_it() {
    let ticks = || procfs::process::Process::myself().and_then(|process| process.stat()).unwrap();
    let before = std::iter::repeat_with(ticks).find(|stat| stat.stime >= 5).unwrap();
    let text = exposition(ExpositionFormat::Text);
    let after = ticks();
    let seconds: f64 = value(&text, "process_cpu_seconds_total").parse().unwrap();
    let [least, most] =
        [before, after].map(|stat| (stat.utime + stat.stime) as f64 / procfs::ticks_per_second() as f64);
    assert!((least..=most).contains(&seconds), "{seconds} s, not {least} to {most} s");
}

#[test]
fn no_address_leaves_through_metrics() {
    let text = exposition(ExpositionFormat::OpenMetrics);
    for part in ["192.0.2", "40001", ":443"] {
        assert!(!text.contains(part), "{part}");
    }
}

#[test]
fn every_family_has_help_and_type_and_stands_together() {
    for format in [ExpositionFormat::OpenMetrics, ExpositionFormat::Text] {
        let text = exposition(format);
        assert!(text.ends_with("# EOF\n"));
        let mut families = std::collections::HashSet::new();
        let mut family = "";
        for line in text.lines().filter(|line| *line != "# EOF") {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').unwrap();
                assert!(help.len() > 10 && help.ends_with('.'), "{line}");
                assert!(families.insert(name), "{name} twice");
                family = name;
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                assert!(rest.starts_with(family), "{line} does not follow its help");
            } else if !line.starts_with("# UNIT ") {
                assert!(line.starts_with(family), "{line} stands outside its family {family}");
            }
        }
    }
}

#[test]
fn the_address_of_the_page_is_a_label_where_it_is_configured() {
    let board = example::board(vec![example::link("dsl")]);
    let mut config = Config::default();
    config.http.external_url = Some("https://gw.example".to_owned());
    let text = written(&Exposition::new(&board, Active::start(config).1, false), ExpositionFormat::Text);
    let line = "pendulum_link_info{link=\"dsl\",device=\"wan0\",url=\"https://gw.example/#dsl\"} 1";
    assert!(text.lines().any(|found| found == line), "{text}");
}

#[test]
fn series_are_few() {
    let text = exposition(ExpositionFormat::Text);
    let samples = text.lines().filter(|line| !line.starts_with('#')).count();
    assert!(samples < 800, "{samples} samples for two links");
}
