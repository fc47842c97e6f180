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
