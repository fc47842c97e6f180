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
        // The one address is the gateway's own page, which the variable or the row names.
        let elsewhere =
            whole.replace("http://${instance}/", "").replace("http://${__data.fields.instance}/", "");
        must(!elsewhere.contains("http://") && !elsewhere.contains("https://"), "names a host");
        let kinds: Vec<String> =
            dashboard.variables().iter().map(|variable| text(&variable["name"])).collect();
        must(
            kinds == ["datasource", "job", "instance", "link", "runbook"],
            "variables are not datasource, job, instance, link, runbook",
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
            let place = &panel["gridPos"];
            must(place["x"].as_u64().unwrap() + place["w"].as_u64().unwrap() <= 24, "is outside the grid");
            if panel["type"] == "text" {
                continue;
            }
            must(!panel["targets"].as_array().unwrap().is_empty(), "asks for nothing");
            let defaults = &panel["fieldConfig"]["defaults"];
            // Rates in bit/s and decimal bytes, as everywhere else.
            let unit = defaults["unit"].as_str().unwrap_or_default();
            let known = ["none", "percentunit", "s", "si:bit/s", "decbytes", "suffix:packets/s", "suffix:/s"];
            must(known.contains(&unit), "has a unit of its own");
            must(
                !defaults["noValue"].as_str().unwrap_or_default().is_empty(),
                "does not say what no data means",
            );
            // Grafana's own thresholds paint what is above 80 red.
            let steps = defaults["thresholds"]["steps"].as_array().map_or(0, Vec::len);
            must(steps > 0, "leaves thresholds to Grafana");
        }
    }
    assert_none(complaints);
}

/// A figure of the present comes from the present: over a range the newest value of a series that ended long ago would be shown.
#[test]
fn what_is_said_of_the_present_is_asked_of_the_present() {
    let mut complaints = Vec::new();
    for dashboard in Dashboard::all() {
        for panel in dashboard.panels() {
            let title = panel["title"].as_str().unwrap();
            let kind = panel["type"].as_str().unwrap();
            let mut must = |holds: bool, what: &str| {
                if !holds {
                    complaints.push(format!("{}: {title}: {what}", dashboard.name));
                }
            };
            if ["stat", "table"].contains(&kind) {
                for target in panel["targets"].as_array().unwrap() {
                    must(target["instant"] == true && target["range"] == false, "asks for a range");
                }
            }
            must(
                kind != "stat" || panel["options"]["graphMode"] == "none",
                "draws a line through its number",
            );
            must(
                !["state-timeline", "timeseries"].contains(&kind)
                    || panel["options"]["legend"]["showLegend"] == true,
                "has no legend",
            );
        }
    }
    assert_none(complaints);
}

/// Alerts that want something of somebody, of this link, in the colour of their severity; nothing else is painted over the graphs
/// unless it is asked for.
#[test]
fn annotations_are_alerts_by_severity() {
    let colours = colours();
    for dashboard in Dashboard::all() {
        for mark in dashboard.json["annotations"]["list"].as_array().unwrap() {
            let (name, expression) = (text(&mark["name"]), text(&mark["expr"]));
            if mark["enable"] == false {
                continue;
            }
            let severity = ["critical", "warning"]
                .into_iter()
                .find(|severity| expression.contains(&format!("severity=\"{severity}\"")));
            let severity = severity.unwrap_or_else(|| panic!("{name} is not of one severity that matters"));
            assert_eq!(mark["iconColor"], colours["severity"][severity]["any"], "{name}");
            assert!(expression.contains("link=~\"$link|\""), "{name} shows the alerts of other links");
            // An alert that holds would tint all of a graph.
            let shown: Vec<_> = mark["filter"]["ids"].as_array().unwrap().iter().collect();
            let top = dashboard.json["panels"].as_array().unwrap();
            let strips = top.iter().filter(|panel| panel["type"] == "state-timeline");
            assert_eq!(shown, strips.map(|panel| &panel["id"]).collect::<Vec<_>>(), "{name}");
            assert_eq!(mark["filter"]["exclude"], false, "{name}");
        }
    }
}

/// What model/src/colour.rs says.
fn colours() -> serde_json::Value {
    serde_json::from_str(&std::fs::read_to_string(home().join("colours.json")).unwrap()).unwrap()
}

#[test]
fn every_colour_is_that_of_the_one_definition() {
    let colours = colours();
    let known: BTreeSet<String> = colours
        .as_object()
        .unwrap()
        .values()
        .flat_map(|group| group.as_object().unwrap().values())
        .flat_map(|colour| ["any", "light", "dark"].map(|ground| text(&colour[ground])))
        .collect();
    let mut complaints = Vec::new();
    for dashboard in Dashboard::all() {
        let whole = dashboard.json.to_string();
        for piece in whole.split("\"#").skip(1) {
            let colour = format!("#{}", piece.split('"').next().unwrap());
            if !known.contains(&colour) {
                complaints.push(format!("{}: {colour} is not in colours.json", dashboard.name));
            }
        }
        for panel in dashboard.panels() {
            for one in panel["fieldConfig"]["overrides"].as_array().into_iter().flatten() {
                let legend = text(&one["matcher"]["options"]);
                let direction = match legend.as_str() {
                    name if name.starts_with('▲') || name.split(' ').next() == Some("up") => "up",
                    name if name.starts_with('▼') || name.split(' ').next() == Some("down") => "down",
                    _ => continue,
                };
                let properties = one["properties"].as_array().unwrap();
                let colour = properties.iter().find(|property| property["id"] == "color").unwrap();
                if colour["value"]["fixedColor"] != colours["direction"][direction]["any"] {
                    complaints
                        .push(format!("{}: {legend} has not the colour of {direction}", panel["title"]));
                }
            }
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
            let of_a_link = expression.contains("pendulum_")
                && !["pendulum_build_info", "pendulum_config_"].iter().any(|name| expression.contains(name));
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
