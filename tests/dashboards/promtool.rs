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

#[test]
fn alerts_fire_and_do_not_fire() {
    tool("alerts_fire_and_do_not_fire", "promtool", &["test", "rules"], &below("tests", ".test.yml"));
}

#[test]
fn the_route_is_valid() {
    tool("the_route_is_valid", "amtool", &["check-config"], &[home().join("alertmanager.yml")]);
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
