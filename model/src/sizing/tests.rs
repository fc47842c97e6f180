use super::*;

mod words;

fn input() -> AdviceInput {
    let rate = |text: &str| text.parse().expect("a rate");
    AdviceInput::new(rate("2400kbit"), rate("196kbit"), Duration::from_millis(40))
}

fn with_buffers(down: &str, up: Option<&str>) -> AdviceInput {
    let size = |text: &str| text.parse().expect("a size");
    AdviceInput { downlink_buffer: Some(size(down)), uplink_buffer: up.map(size), ..input() }
}

#[test]
fn the_papers_link_with_30_kb_downstream() {
    // By hand in ratio::paper: γ(k) = 10.63031, B_u = 42,000/10.63031 − 980 = 2,970.97 bytes.
    let advice = advise(&with_buffers("30000", None)).expect("advice");
    assert_eq!(advice.uplink_buffer_bytes, 2_971);
    assert_eq!(advice.downlink_buffer_bytes, 30_000);
    // 30,000 B are 20 packets; half of them with delayed ACKs.
    assert_eq!(advice.uplink_buffer_packets, 10);
    assert!((advice.wanted_ratio - 2400.0 / 196.0).abs() < 1e-9);
    assert!((advice.paper_ratio.expect("a ratio") - advice.wanted_ratio).abs() < 0.01);
    // 2,971/24,500 + 30,000/300,000 = 0.12127 + 0.1 s
    assert!((advice.max_queue_delay_s - 0.22127).abs() < 1e-4);
    assert!(advice.commands.iter().any(|command| command.ends_with("bfifo limit 2971")));
    // 98 % of 196,000 bit/s.
    assert!(advice.commands[1].ends_with("htb rate 192080bit"), "{}", advice.commands[1]);
    assert_eq!(advice.commands.len(), 3);
}

#[test]
fn given_buffers_give_their_own_ratios() {
    // 30,000 B both ways, T_p = 20 ms: γ = 42,000/30,980 = 1.355713, r = (γ − a)/(1 − aγ) = 1.343213/0.983054 = 1.366368.
    let advice = advise(&with_buffers("30000", Some("30000"))).expect("advice");
    assert!((advice.paper_ratio.expect("a ratio") - 1.366_368).abs() < 1e-5, "{:?}", advice.paper_ratio);
    assert!(advice.refined_ratio > advice.paper_ratio.expect("a ratio"));
    // The recommendation is still for r = k.
    assert_eq!(advice.uplink_buffer_bytes, 2_971);
    assert!(advice.explanation.caveats.contains(&Caveat::AcksStandUpstream));
}

#[test]
fn without_buffers_both_are_recommended() {
    let advice = advise(&input()).expect("advice");
    // B_u: four segments. B_d = γ(k)·(6,000 + 980) − 12,000 = 10.63031 · 6,980 − 12,000 = 62,199.6.
    assert_eq!(advice.uplink_buffer_bytes, 6_000);
    assert_eq!(advice.downlink_buffer_bytes, 62_200);
    assert!(advice.commands.iter().any(|command| command.contains("ifb")));
    assert!(advice.download_bps <= 2_400_000.0 && advice.download_bps > 1_500_000.0);
    assert!(advice.upload_bps <= 196_000.0 && advice.upload_bps > 98_000.0);
}

#[test]
fn packets_follow_figure_11() {
    let mut asked = with_buffers("50p", Some("50p"));
    asked.unit = BufferUnit::Packets;
    let advice = advise(&asked).expect("advice");
    assert_eq!(advice.uplink_buffer_packets, 25);
    assert!(advice.commands.iter().any(|command| command.ends_with("pfifo limit 25")));
    assert!(advice.explanation.caveats.contains(&Caveat::PacketCounted));
    asked.delayed_acks = false;
    assert_eq!(advise(&asked).expect("advice").uplink_buffer_packets, 50);
}

#[test]
fn one_way_rule_of_001() {
    // Eq. 6 for 300 ms RTT, 2 Mb/s and 192 kb/s, MTU 1500: 0.3 · 250,000/1500 = 50; 0.3 · 24,000/1500 = 4.8 → 5.
    assert_eq!((one_way_packets(250_000.0, 0.3), one_way_packets(24_000.0, 0.3)), (50, 5));
}

#[test]
fn the_json_is_the_contract() {
    let json = serde_json::to_value(advise(&input()).expect("advice")).expect("json");
    let mut keys: Vec<&String> = json.as_object().expect("an object").keys().collect();
    keys.sort();
    let mut contract = [
        "paper_ratio",
        "refined_ratio",
        "wanted_ratio",
        "uplink_buffer_bytes",
        "uplink_buffer_packets",
        "downlink_buffer_bytes",
        "download_bps",
        "upload_bps",
        "max_queue_delay_s",
        "commands",
    ];
    contract.sort_unstable();
    assert_eq!(keys, contract);
}

#[test]
fn mixed_units_are_refused_with_a_remedy() {
    let error = advise(&with_buffers("50p", None)).expect_err("packets among bytes").to_string();
    assert!(error.contains("--unit packets"), "{error}");
    let mut asked = with_buffers("30000", None);
    asked.unit = BufferUnit::Packets;
    assert!(advise(&asked).expect_err("bytes among packets").to_string().contains("50p"));
}

#[test]
fn the_text_says_what_it_used_and_how_sure_it_is() {
    let text = advise(&with_buffers("30000", Some("30000"))).expect("advice").to_string();
    for part in
        ["12.24", "2971 bytes", "refined model", "at best", "tc qdisc replace dev wan", "ACKs upstream"]
    {
        assert!(text.contains(part), "{part} is missing:\n{text}");
    }
}

#[test]
fn bbr_is_predicted_where_runs_with_and_without_jitter_agree_and_only_there() {
    let bbr = |down: &str, up: &str, buffer: u64| {
        let rate = |text: &str| text.parse().expect("a rate");
        let buffer = Some(crate::rate::BufferSize::Bytes(buffer));
        let link = AdviceInput {
            downlink_buffer: buffer,
            uplink_buffer: buffer,
            ..AdviceInput::new(rate(down), rate(up), Duration::from_millis(60))
        };
        let traffic = Transfers { congestion_control: CongestionControl::Bbr, ..Transfers::default() };
        let advice = advise(&link).expect("advice");
        let recommended = recommend(&link, &advice, traffic, Duration::from_millis(250));
        assert_eq!(recommended, Err(NotPredicted::BbrBuffers));
        predict(&link, &advice, traffic)
    };
    let [low, high] = bbr("3mbit", "1mbit", 20_000).expect("a figure").ratio_interval;
    assert!(high <= crate::simulate::AGREED_FACTOR * low, "{low} {high}");
    match bbr("8mbit", "1mbit", 30_000) {
        Err(NotPredicted::Bbr { low, high }) => {
            assert!(high > crate::simulate::AGREED_FACTOR * low, "{low} {high}")
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn packets_wait_as_long_as_full_ones() {
    let mut asked = with_buffers("50p", Some("50p"));
    asked.unit = BufferUnit::Packets;
    let advice = advise(&asked).expect("advice");
    // 25 · 1,500/24,500 + 50 · 1,500/300,000 s.
    assert!((advice.max_queue_delay_s - 1.780_612).abs() < 1e-6, "{}", advice.max_queue_delay_s);
    assert_eq!(advice.downlink_buffer_bytes, 75_000);
    asked.downlink_buffer = None;
    // What was recommended is given in whole packets.
    let advice = advise(&asked).expect("advice");
    let packets = advice.downlink_buffer_bytes.div_ceil(1_500);
    assert!(
        advice.commands.last().is_some_and(|last| last.ends_with(&format!("pfifo limit {packets}"))),
        "{:?}",
        advice.commands
    );
}

#[test]
fn an_uplink_buffer_below_a_frame_is_raised_to_one() {
    let advice = advise(&with_buffers("1500", None)).expect("advice");
    // γ(k) = 10.63031: (1,500 + 12,000)/10.63031 − 980 is 290 bytes.
    assert_eq!((advice.uplink_buffer_bytes, advice.explanation.uplink_at_minimum), (1_514, true));
    assert!(!advise(&with_buffers("30000", None)).expect("advice").explanation.uplink_at_minimum);
}
