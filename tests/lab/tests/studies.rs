//! The studies through the binary: the ACK filters' reference models, and the mitigations that every kernel can run.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop right there")]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn lab(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pendulum-lab")).args(arguments).output().unwrap()
}

fn report(arguments: &[&str]) -> Value {
    let output = lab(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn case<'a>(report: &'a Value, name: &str) -> &'a Value {
    let cases = report["cases"].as_array().unwrap();
    cases.iter().find(|case| case["name"] == name).unwrap_or_else(|| panic!("no case {name} in {report}"))
}

/// A directory for one test, gone afterwards.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("pendulum-{name}-{}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn has(&self, name: &str) -> bool {
        std::fs::metadata(self.0.join(name)).is_ok_and(|file| file.len() > 0)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn ack_threshold_has_the_paper_s_order_and_its_figures() {
    let out = Directory::new("ack-threshold");
    let directory = out.path().to_str().unwrap();
    let report = report(&["run", "ack-threshold", "--quick", "--format", "json", "--out", directory]);
    let acked = |name: &str| case(&report, name)["measured"]["acked_segments"].as_f64().unwrap();
    for delta in ["delta-1", "delta-3", "delta-500"] {
        assert!(acked("delta-30") > acked(delta), "{delta}");
    }
    assert!(acked("delayed") >= acked("delta-30"));
    for file in
        ["report.json", "report.txt", "curves.csv", "fig4-window.png", "fig5-rate.svg", "fig7-delayed.png"]
    {
        assert!(out.has(file), "{file}");
    }
}

#[test]
fn paper_figures_have_paper_equation_simulation_and_linux() {
    let out = Directory::new("paper-figures");
    let directory = out.path().to_str().unwrap();
    let report = report(&[
        "run",
        "paper-figures",
        "--quick",
        "--duration",
        "20",
        "--format",
        "json",
        "--out",
        directory,
    ]);
    let point = case(&report, "15000b up, 22500b down, 20 ms, reno");
    assert!(point["predicted"]["paper"]["ratio"].as_f64().unwrap() > 1.0, "{point}");
    assert!(point["measured"]["ratio"].as_f64().unwrap() > 1.0, "{point}");
    assert!(point["truth"]["linux_ratio"][0].as_f64().unwrap() > 1.0, "{point}");
    let point = case(&report, "25p up, 50p down, 20 ms, reno, B_TCP 256 kB");
    assert!((point["paper"]["ratio"].as_f64().unwrap() - 2_400.0 / 196.0).abs() < 1e-6, "{point}");
    for figure in
        ["000-fig10-tp20", "000-fig10-tp100", "000-fig11", "000-fig12", "001-fig10", "001-fig6", "001-fig7"]
    {
        assert!(out.has(&format!("{figure}.svg")) && out.has(&format!("{figure}.png")), "{figure}");
    }
    assert!(out.has("points.csv"));
}

#[test]
fn ack_many_has_every_strategy_and_both_buffers() {
    let out = Directory::new("ack-many");
    let directory = out.path().to_str().unwrap();
    let report =
        report(&["run", "ack-many", "--quick", "--duration", "20", "--format", "json", "--out", directory]);
    let rate = |name: &str| case(&report, name)["measured"]["download_bps"].as_f64().unwrap();
    for buffer in ["large", "small"] {
        let fair = rate(&format!("{buffer}, N = 5, per connection, round robin"));
        assert!(fair > rate(&format!("{buffer}, N = 5, no filtering")), "{buffer}");
        assert!(out.has(&format!("{buffer}-buffer.png")));
    }
    assert!(out.has("points.csv"));
}

#[test]
fn mitigations_refuse_what_they_do_not_have() {
    let output = lab(&["run", "mitigations", "--only", "paper,cale"]);
    assert_eq!(output.status.code(), Some(64));
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(words.contains("`cale`") && words.contains("cake-ack-filter-aggressive"), "{words}");
}

#[test]
fn mitigations_score_what_runs_here_and_say_why_the_rest_does_not() {
    if !pendulum_lab::is_root() {
        // Not eprintln!: the test harness would keep that to itself.
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("studies");
        let _ = writeln!(std::io::stderr(), "SKIPPED {name}: network namespaces need root");
        return;
    }
    // A program that is no agent: its cases are listed with the reason.
    let only = "paper,reno,no-ecn,fifo,fifo-model,lane";
    let arguments = ["--quick", "--duration", "8", "--agent", "/bin/false", "--format", "json"];
    let report = report(&[&["run", "mitigations", "--only", only][..], &arguments[..]].concat());
    let download = |name: &str| case(&report, name)["measured"]["download_bps"].as_f64().unwrap();
    // Physics: the small uplink buffer keeps the download's ACKs from waiting for a second.
    assert!(download("fifo-model") > 1.5 * download("fifo"), "{report}");
    let ping = |name: &str| case(&report, name)["measured"]["ping_p95_s"].as_f64().unwrap();
    assert!(ping("fifo") > 1.5 * ping("fifo-model"), "{report}");
    let share = case(&report, "fifo")["measured"]["smaller_host_share"].as_f64().unwrap();
    assert!((0.0..=0.5).contains(&share), "{share}");
    let score = case(&report, "fifo")["measured"]["score"].as_f64().unwrap();
    assert!((0.3..2.1).contains(&score), "{score}");
    assert_eq!(case(&report, "fifo")["params"]["link"], "paper");
    assert_eq!(case(&report, "fifo")["params"]["cc"], "reno");
    let reason = case(&report, "lane")["not_runnable"].as_str().unwrap();
    assert!(reason.contains("/bin/false"), "{reason}");
}

#[test]
fn mitigations_say_which_kernel_accurate_ecn_needs() {
    if !pendulum_lab::is_root() {
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED mitigations_say_which_kernel_accurate_ecn_needs: network namespaces need root"
        );
        return;
    }
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    if release.split('.').next().and_then(|major| major.parse().ok()).is_some_and(|major: u32| major >= 7) {
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED mitigations_say_which_kernel_accurate_ecn_needs: Linux {release} has it"
        );
        return;
    }
    let report =
        report(&["run", "mitigations", "--only", "paper,reno,accecn,fifo", "--quick", "--format", "json"]);
    let case = case(&report, "fifo");
    assert!(case["not_runnable"].as_str().unwrap().contains("Linux 7.0"), "{case}");
    assert_eq!((&case["params"]["ecn"], &case["measured"]["score"]), (&Value::from("accecn"), &Value::Null));
}

/// A directory with one pair of traces: 2 Mb/s down, packed, and 1 Mb/s up.
fn traces(name: &str) -> Directory {
    let directory = Directory::new(name);
    let lines = |every: u64| (1..=1000 / every).map(|n| format!("{}\n", n * every)).collect::<String>();
    std::fs::write(directory.path().join("even.up"), lines(12)).unwrap();
    let packed = zstd::encode_all(lines(6).as_bytes(), 3).unwrap();
    std::fs::write(directory.path().join("even.down.zst"), packed).unwrap();
    directory
}

#[test]
fn autorate_has_a_case_for_each_trace_and_contender_with_the_contract_s_figures() {
    if !pendulum_lab::is_root() {
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED autorate_has_a_case_for_each_trace_and_contender_with_the_contract_s_figures: network namespaces need root"
        );
        return;
    }
    let (directory, out) = (traces("autorate-traces"), Directory::new("autorate"));
    let arguments = [
        ["--traces", directory.path().to_str().unwrap()],
        ["--out", out.path().to_str().unwrap()],
        ["--only", "none,ours"],
        ["--agent", "/bin/false"],
        ["--duration", "16"],
        ["--format", "json"],
    ];
    let report = report(&[&["run", "autorate"][..], arguments.as_flattened()].concat());
    assert_eq!(report["experiment"], "autorate");
    let none = case(&report, "even, none");
    assert_eq!((&none["params"]["trace"], &none["params"]["contender"]), (&"even".into(), &"none".into()));
    for direction in ["up", "down"] {
        let seen = &none["measured"][direction];
        for key in ["utilization", "ping_p50_s", "ping_p95_s", "ping_p99_s", "tcp_rtt_p95_s"] {
            assert!(seen[key].as_f64().is_some_and(|value| value > 0.0), "{direction} {key}: {seen}");
        }
        assert_eq!(seen["probe_bytes"], 0);
        // Nothing passes that the trace has not given, but for a packet that was half on its way.
        assert!(seen["utilization"].as_f64().unwrap() < 1.05, "{seen}");
        assert!(seen["ping_p50_s"].as_f64() <= seen["ping_p99_s"].as_f64(), "{seen}");
    }
    // Physics: two uploads fill a buffer of a second's worth, and nobody keeps them from it.
    assert!(none["measured"]["up"]["ping_p95_s"].as_f64().unwrap() > 0.1, "{none}");
    let reason = case(&report, "even, ours")["not_runnable"].as_str().unwrap();
    assert!(reason.contains("/bin/false"), "{reason}");
    assert!(out.has("even-none.png") && out.has("report.json"));
}

#[test]
fn autorate_refuses_what_is_no_pair_of_traces() {
    let directory = traces("autorate-no-traces");
    let path = directory.path().to_str().unwrap();
    let refusal = |arguments: &[&str], code: i32, word: &str| {
        let output = lab(&[&["run", "autorate"], arguments].concat());
        let words = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{words}");
        assert!(words.contains(word), "{words}");
    };
    refusal(&["--traces", path, "--only", "evne"], 64, "`evne`");
    refusal(&["--traces", "/nonexistent/traces"], 66, "/nonexistent/traces");
    std::fs::write(directory.path().join("even.up"), "9\n8\n").unwrap();
    refusal(&["--traces", path], 65, "line 2");
    std::fs::remove_file(directory.path().join("even.up")).unwrap();
    refusal(&["--traces", path], 66, "even.up");
}
