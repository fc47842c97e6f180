//! Own checks of the dashboards, after the rules of Grafana's dashboard-linter, which cannot be had from Debian or the Go
//! module proxy: datasource templated, units, titles and descriptions, no foreign ids, matchers, rate intervals, refresh.

use std::collections::BTreeSet;
use std::process::Command;

use crate::files::{Dashboard, home, text};

/// Reports every complaint at once.
fn assert_none(complaints: Vec<String>) {
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn files_are_what_the_generator_writes() {
    let mut command = Command::new("python3");
    command.arg("-B").arg(home().join("grafana/generate.py")).arg("--check");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn dashboards_can_be_provisioned_anywhere() {
    let mut complaints = Vec::new();
    let mut uids = BTreeSet::new();
    for dashboard in Dashboard::all() {
        let (name, json) = (&dashboard.name, &dashboard.json);
        let mut must = |holds: bool, what: &str| {
            if !holds {
                complaints.push(format!("{name}: {what}"));
            }
        };
        must(json["id"].is_null(), "has the id of a database row");
        must(uids.insert(text(&json["uid"])), "uid is used twice");
        // 36 is Grafana 9; 41 is the newest of the classic format.
        must(
            json["schemaVersion"].as_u64().is_some_and(|v| (36..=41).contains(&v)),
            "schemaVersion is not classic",
        );
        must(json["graphTooltip"] == 1, "no shared crosshair");
        must(!text(&json["refresh"]).is_empty(), "does not refresh");
        must(!text(&json["description"]).is_empty(), "has no description");
        // The only id of a data source is the variable.
        let whole = json.to_string();
        must(
            whole.matches("\"type\":\"prometheus\"").count()
                == whole.matches("\"uid\":\"${datasource}\"").count(),
            "a data source is fixed",
        );
        must(!whole.contains("http://") && !whole.contains("https://"), "names a host");
        let kinds: Vec<String> =
            dashboard.variables().iter().map(|variable| text(&variable["name"])).collect();
        must(
            kinds == ["datasource", "job", "instance", "link"],
            "variables are not datasource, job, instance, link",
        );
        let mut ids = BTreeSet::new();
        let all = json["panels"].as_array().unwrap().iter().chain(dashboard.panels());
        let ids_of: Vec<(&str, u64)> =
            all.map(|panel| (panel["title"].as_str().unwrap(), panel["id"].as_u64().unwrap())).collect();
        ids.extend(ids_of.iter().map(|(_, id)| *id));
        must(ids.len() == ids_of.iter().collect::<BTreeSet<_>>().len(), "two panels have one id");
    }
    assert_none(complaints);
}

#[test]
fn panels_explain_themselves() {
    let mut complaints = Vec::new();
    for dashboard in Dashboard::all() {
        for panel in dashboard.panels() {
            let title = panel["title"].as_str().unwrap_or_default();
            let mut must = |holds: bool, what: &str| {
                if !holds {
                    complaints.push(format!("{}: {title}: {what}", dashboard.name));
                }
            };
            must(!title.is_empty(), "has no title");
            let description = panel["description"].as_str().unwrap_or_default();
            must(description.ends_with('.'), "has no description that is a sentence");
            must(panel["fieldConfig"]["defaults"]["unit"].is_string(), "has no unit");
            let place = &panel["gridPos"];
            must(place["x"].as_u64().unwrap() + place["w"].as_u64().unwrap() <= 24, "is outside the grid");
            must(!panel["targets"].as_array().unwrap().is_empty(), "asks for nothing");
        }
    }
    assert_none(complaints);
}

#[test]
fn every_query_keeps_to_what_was_chosen() {
    let mut complaints = Vec::new();
    for dashboard in Dashboard::all() {
        for (title, expression) in [dashboard.queries(), dashboard.annotations()].concat() {
            let mut must = |holds: bool, what: &str| {
                if !holds {
                    complaints.push(format!("{}: {title}: {what}: {expression}", dashboard.name));
                }
            };
            must(
                expression.contains("$instance") || expression.contains("ALERTS"),
                "does not choose the gateway",
            );
            // ALERTS, up, process_… and the build belong to a gateway, not to a link.
            let of_a_link = expression.contains("pendulum_") && !expression.contains("pendulum_build_info");
            must(expression.contains("$link") || !of_a_link, "does not choose the link");
            for function in ["rate(", "increase("] {
                for call in expression.split(function).skip(1) {
                    must(call.contains("[$__rate_interval]"), "a window that ignores the scrape interval");
                }
            }
            let counters =
                crate::files::series_in(&expression).into_iter().filter(|name| name.ends_with("_total"));
            for counter in counters {
                must(expression.contains(&format!("({counter}{{")), "a counter outside rate or increase");
            }
        }
    }
    assert_none(complaints);
}
