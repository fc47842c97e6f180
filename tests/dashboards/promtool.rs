//! The rules by Prometheus' and Alertmanager's own tools.

use std::process::Command;

use crate::files::{below, home};

/// Runs a tool that has to succeed, or says why it cannot.
pub(crate) fn tool(test: &str, program: &str, arguments: &[&str], files: &[std::path::PathBuf]) {
    let mut command = Command::new(program);
    let output = match command.args(arguments).args(files).output() {
        Ok(output) => output,
        Err(error) => return eprintln!("SKIPPED {test}: {program} cannot be run: {error}"),
    };
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&said));
}

#[test]
fn rules_are_valid() {
    tool("rules_are_valid", "promtool", &["check", "rules"], &below("rules", ".yml"));
    tool("rules_are_valid", "promtool", &["check", "config"], &[home().join("prometheus.yml")]);
}

/// A file as it is included: promtool of before 2.43 knows no `scrape_config_files`. Token and certificate of the example have to be there.
#[test]
fn the_scrape_fragment_is_valid() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().to_str().unwrap();
    let text = std::fs::read_to_string(home().join("scrape-fragment.yml")).unwrap();
    for file in ["pendulum.token", "pendulum-ca.pem"] {
        assert!(text.contains(&format!("/etc/prometheus/{file}")), "no {file}");
        std::fs::write(directory.path().join(file), "").unwrap();
    }
    let config = directory.path().join("prometheus.yml");
    std::fs::write(&config, text.replace("/etc/prometheus", place)).unwrap();
    tool("the_scrape_fragment_is_valid", "promtool", &["check", "config"], &[config]);
}

#[test]
fn alerts_fire_and_do_not_fire() {
    tool("alerts_fire_and_do_not_fire", "promtool", &["test", "rules"], &below("tests", ".test.yml"));
}

/// The fragment within somebody's configuration: its routes below a root, its inhibitions beside others.
#[test]
fn the_route_fragment_is_valid() {
    let text = std::fs::read_to_string(home().join("alertmanager-fragment.yml")).unwrap();
    let (routes, rest) = text.split_once("\ninhibit_rules:\n").unwrap();
    let (_, routes) = routes.split_once("\nroutes:\n").unwrap();
    let routes: String = routes.lines().map(|line| format!("  {line}\n")).collect();
    let whole = format!(
        "route:\n  receiver: mail\n  routes:\n{routes}\
         inhibit_rules:\n  - source_matchers: ['a=\"1\"']\n    target_matchers: ['b=\"1\"']\n{rest}\
         \x20 - name: mail\n  - name: pager\n"
    );
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("alertmanager.yml");
    std::fs::write(&config, whole).unwrap();
    tool("the_route_fragment_is_valid", "amtool", &["check-config"], &[config]);
}

/// Severities and the runbook's address by configuration.
#[test]
fn rules_take_severities_and_an_absolute_runbook() {
    let directory = tempfile::tempdir().unwrap();
    let configure = |arguments: &[&str]| {
        let mut command = Command::new("python3");
        command.arg("-B").arg(home().join("configure.py")).arg("--out").arg(directory.path());
        command.args(arguments).output().unwrap()
    };
    let output = configure(&[
        "--runbook-base",
        "https://wiki.example/alerts",
        "--severity",
        "PendulumUplinkLocked=critical",
        "--severity",
        "PendulumLinkGone=warning",
    ]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let read = |file: &str| std::fs::read_to_string(directory.path().join(file)).unwrap();
    let (before, after) = (
        std::fs::read_to_string(home().join("rules/pendulum-alerts.yml")).unwrap(),
        read("rules/pendulum-alerts.yml"),
    );
    let mut changed = Vec::new();
    let mut alert = String::new();
    for (old, new) in before.lines().zip(after.lines()) {
        if let Some(name) = old.trim().strip_prefix("- alert: ") {
            name.clone_into(&mut alert);
        }
        if old.contains("runbook_url") && !old.starts_with('#') {
            assert_eq!(new, old.replace("docs/guide/alerts.md", "https://wiki.example/alerts"));
        } else if old != new {
            changed.push((alert.clone(), new.trim().to_owned()));
        }
    }
    let severity = |alert: &str, severity: &str| (alert.to_owned(), format!("severity: {severity}"));
    assert_eq!(
        changed,
        [severity("PendulumUplinkLocked", "critical"), severity("PendulumLinkGone", "warning")]
    );
    for board in ["link", "fleet"] {
        assert!(
            read(&format!("grafana/{board}.json")).contains("\"query\": \"https://wiki.example/alerts\"")
        );
    }
    let rules =
        ["rules/pendulum-alerts.yml", "rules/pendulum-records.yml"].map(|file| directory.path().join(file));
    tool("rules_take_severities_and_an_absolute_runbook", "promtool", &["check", "rules"], &rules);
    for (wrong, reason) in [
        (["--severity", "PendulumNoSuch=critical"], "no alert of this name: PendulumNoSuch"),
        (["--severity", "PendulumLinkGone=urgent"], "critical, warning, info"),
        (["--runbook-base", "docs/alerts.md"], "not an address"),
    ] {
        let output = configure(&wrong);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(reason), "{wrong:?}: {said}");
    }
}

/// Text of a rule file, in pieces that each begin with an alert.
fn alerts() -> Vec<(String, String)> {
    let text: String =
        below("rules", ".yml").iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let pieces = text.split("- alert: ").skip(1);
    pieces.map(|piece| (piece.lines().next().unwrap().trim().to_owned(), piece.to_owned())).collect()
}

#[test]
fn every_alert_waits_stays_and_leads_to_its_runbook() {
    let runbook = std::fs::read_to_string(home().join("../docs/guide/alerts.md")).unwrap();
    let tests: String =
        below("tests", ".test.yml").iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    for (name, alert) in alerts() {
        for part in [" for: ", " keep_firing_for: ", " severity: ", " summary: ", " description: "] {
            assert!(alert.contains(part), "{name} has no{part}");
        }
        let anchor = format!("docs/guide/alerts.md#{}", name.to_lowercase());
        assert!(alert.contains(&anchor), "{name} does not lead to {anchor}");
        assert!(runbook.contains(&format!("\n## {name}\n")), "docs/guide/alerts.md does not explain {name}");
        assert!(name.len() <= 40, "{name} is too long");
        // At least one case in which it fires and one in which it does not.
        let cases: Vec<&str> =
            tests.split("        alertname: ").filter(|case| case.starts_with(&name)).collect();
        assert!(cases.iter().any(|case| case.contains("exp_labels")), "no test in which {name} fires");
        assert!(
            cases.iter().any(|case| case.contains("exp_alerts: []")),
            "no test in which {name} does not fire"
        );
        for story in [
            "fires, and ends when its gateway is gone",
            "goes on over a restart of the agent",
            "does not fire for what holds one minute in five",
        ] {
            let told = tests.contains(&format!("'{name} {story}'"));
            assert!(told || name.starts_with("PendulumTarget"), "no test of {name} that {story}");
        }
        // Who is woken reads this first; the dashboard Link has it too.
        let section = runbook.split(&format!("\n## {name}\n")).nth(1).unwrap();
        assert!(
            section.trim_start().starts_with("**First:** "),
            "docs/guide/alerts.md: what to do first for {name}?"
        );
    }
}
