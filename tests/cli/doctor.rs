//! `pendulum doctor`: the exit code is the verdict, and looking changes nothing.

use serde_json::Value;

use crate::agent::PENDULUM;
use crate::netns::{Netns, outcome, run};

fn doctor(netns: &Netns, arguments: &[&str]) -> (i32, Value) {
    let before = netns.hooks();
    let (code, stdout, stderr) =
        outcome(netns.command(PENDULUM).args(["doctor", "--format", "json"]).args(arguments));
    assert_eq!(stderr, "");
    assert_eq!(netns.hooks(), before);
    let report: Value = serde_json::from_str(&stdout).unwrap();
    let verdict = match code {
        0 => "ok",
        1 => "degraded",
        2 => "cannot_run",
        other => panic!("exit code {other}"),
    };
    assert_eq!(report["verdict"], verdict, "{report:#}");
    (code, report)
}

fn check<'a>(report: &'a Value, name: &str) -> &'a Value {
    let checks = report["checks"].as_array().unwrap();
    checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("no {name} in {report:#}"))
}

#[test]
fn every_check_has_its_finding() {
    let Some((gateway, _provider)) = Netns::with_provider("every_check_has_its_finding") else { return };
    let (_, report) = doctor(&gateway, &["--wan", "wan0"]);
    for name in [
        "kernel",
        "capabilities",
        "tc_programs",
        "listen",
        "conntrack",
        "device",
        "qdisc",
        "offloads",
        "tc_beside",
    ] {
        let check = check(&report, name);
        assert_eq!(check["status"], "ok", "{check}");
        assert!(!check["reason"].as_str().unwrap().is_empty(), "{check}");
    }
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/guide/troubleshooting.md");
    let page = std::fs::read_to_string(page).unwrap();
    for check in report["checks"].as_array().unwrap() {
        let named = format!("`{}`", check["name"].as_str().unwrap());
        let explained = page
            .lines()
            .any(|line| line.starts_with("| `") && line.split(" | ").next().unwrap().contains(&named));
        assert!(explained, "docs/guide/troubleshooting.md has no row for {named}");
    }
    for check in report["checks"].as_array().unwrap().iter().filter(|check| check["status"] != "ok") {
        for field in ["reason", "remedy", "cost"] {
            assert!(!check[field].as_str().unwrap().is_empty(), "{field} of {check}");
        }
    }
}

#[test]
fn an_unusable_device_cannot_run() {
    let Some((gateway, _provider)) = Netns::with_provider("an_unusable_device_cannot_run") else { return };
    gateway.ip("link set dev wan0 down");
    for (device, remedy) in [("wan0", "ip link set dev wan0 up"), ("wan9", "did you mean `wan0`?")] {
        let (code, report) = doctor(&gateway, &["--wan", device]);
        assert_eq!(code, 2);
        assert!(check(&report, "device")["remedy"].as_str().unwrap().contains(remedy), "{report:#}");
    }
}

#[test]
fn other_programs_and_filters_are_named() {
    let Some((gateway, _provider)) = Netns::with_provider("other_programs_and_filters_are_named") else {
        return;
    };
    run(gateway.command("tc").args(["qdisc", "add", "dev", "wan0", "clsact"]));
    let filter = "filter add dev wan0 ingress protocol ip u32 match u32 0 0 flowid 1:1";
    run(gateway.command("tc").args(filter.split(' ')));
    let (_, report) = doctor(&gateway, &["--wan", "wan0"]);
    let beside = check(&report, "tc_beside");
    assert!(beside["reason"].as_str().unwrap().contains("ingress: u32"), "{beside}");
}

#[test]
fn text_ends_with_the_verdict() {
    let Some(netns) = Netns::new("text_ends_with_the_verdict") else { return };
    let (code, stdout, _) = outcome(netns.command(PENDULUM).arg("doctor"));
    let last = stdout.lines().last().unwrap();
    let expected = ["all ", "the agent can run; ", "the agent cannot run: "][usize::try_from(code).unwrap()];
    assert!(last.starts_with(expected), "{stdout}");
}

/// The checks agree with the known abilities of this kernel.
#[test]
fn the_checks_of_this_kernel() {
    let Some((gateway, _provider)) = Netns::with_provider("the_checks_of_this_kernel") else {
        return;
    };
    let (_, report) = doctor(&gateway, &["--wan", "wan0"]);
    for check in report["checks"].as_array().unwrap() {
        println!(
            "{:<10}{:<20}{}",
            check["status"].as_str().unwrap(),
            check["name"].as_str().unwrap(),
            check["reason"]
        );
    }
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map(|number| number.trim().parse().unwrap_or(0));
    let version: (u32, u32) = (numbers.next().unwrap(), numbers.next().unwrap());
    let is_ok = |name| check(&report, name)["status"] == "ok";
    // Without TCX (6.6), clsact is used.
    assert_eq!(is_ok("tcx"), version >= (6, 6), "Linux {release}: {report:#}");
    assert!(is_ok("btf") && is_ok("queue_tracepoints"), "{report:#}");
    let cwnd = check(&report, "cwnd");
    let reason = cwnd["reason"].as_str().unwrap();
    if std::env::var_os("PENDULUM_IN_VM").is_some() {
        assert!(is_ok("cwnd") && reason.starts_with("fexit"), "full kernels trace functions: {cwnd}");
    } else if !is_ok("cwnd") {
        assert!(reason.contains("fexit: ") && reason.ends_with("is used"), "{cwnd}");
    }
}

/// One file for a request for help: all parts, also without an agent, and no address.
#[test]
fn a_report_has_every_part_and_no_address() {
    let name = "a_report_has_every_part_and_no_address";
    let Some((gateway, _provider)) = Netns::with_provider(name) else { return };
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pendulum.toml");
    std::fs::write(
        &file,
        "listen = \"192.0.2.1:9924\"\n[http]\nnames = [\"gateway.example\"]\n[[link]]\nwan = \"wan0\"\n",
    )
    .unwrap();
    let mut command = gateway.command(PENDULUM);
    let (code, stdout, stderr) = outcome(command.args(["report", "--wan", "wan0", "--config"]).arg(&file));
    assert_eq!((code, stderr.as_str()), (0, ""));
    let report: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(report["configuration"]["link"][0]["wan"], "wan0");
    assert_eq!(report["configuration"]["listen"], "ip-1:9924");
    assert_eq!(check(&report["doctor"], "device")["name"], "device");
    for part in ["state", "events", "incidents"] {
        assert!(report[part]["unavailable"].as_str().unwrap().contains("is the agent running"), "{report:#}");
    }
    assert!(!stdout.contains("192.0.2") && !stdout.contains("gateway.example"), "{stdout}");
}
