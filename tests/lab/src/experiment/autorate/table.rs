//! The table of each trace, and who was better where.

use std::fmt::Write as _;

use pendulum_model::segment::Direction;
use serde_json::Value;

use crate::experiment::OwnCase;
use crate::experiment::report::align_figures as align;

const NOTHING: &str = "–";

/// Text of all cases over one trace.
pub(super) fn block(title: &str, cases: &[OwnCase]) -> String {
    let mut text = format!("{title}\n\n");
    let heading = [
        "contender",
        "",
        "used %",
        "ping p50 ms",
        "p95",
        "p99",
        "added p95",
        "lost %",
        "TCP RTT p95 ms",
        "goodput kb/s",
        "hidden kB",
        "probes kB",
    ];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    for case in cases.iter().filter(|case| case.not_runnable.is_none()) {
        rows.extend(["down", "up"].map(|direction| row(case, direction)));
    }
    text.push_str(&align(&rows));
    for case in cases {
        if let Some(reason) = &case.not_runnable {
            // Writing to a String does not fail.
            let _ = writeln!(text, "{}: not runnable here: {reason}", contender(case));
        }
    }
    text.push('\n');
    text
}

fn contender(case: &OwnCase) -> &str {
    case.params.get("contender").and_then(Value::as_str).unwrap_or_default()
}

fn row(case: &OwnCase, direction: &str) -> Vec<String> {
    let number = |name: &str, scale: f64, digits: usize| {
        let value = case.measured[direction][name].as_f64();
        value.map_or_else(|| NOTHING.to_owned(), |value| format!("{:.digits$}", value * scale))
    };
    vec![
        if direction == "down" { contender(case).to_owned() } else { String::new() },
        direction.to_owned(),
        number("utilization", 1e2, 1),
        number("ping_p50_s", 1e3, 0),
        number("ping_p95_s", 1e3, 0),
        number("ping_p99_s", 1e3, 0),
        number("ping_added_p95_s", 1e3, 0),
        number("ping_loss", 1e2, 1),
        number("tcp_rtt_p95_s", 1e3, 0),
        number("goodput_bps", 1e-3, 0),
        number("hidden_queue_mean_bytes", 1e-3, 1),
        number("probe_bytes", 1e-3, 1),
    ]
}

/// How ours compares with the reference over all traces and directions; empty if one of the two did not run.
pub(super) fn comparison(cases: &[OwnCase]) -> String {
    let find = |trace: &Value, name: &str| {
        cases.iter().find(|case| {
            case.params["trace"] == *trace && contender(case) == name && case.not_runnable.is_none()
        })
    };
    let (mut all, mut better, mut worse) = (0, 0, 0);
    for ours in cases.iter().filter(|case| contender(case) == "ours") {
        let Some((ours, reference)) =
            find(&ours.params["trace"], "ours").zip(find(&ours.params["trace"], "reference"))
        else {
            continue;
        };
        for direction in [Direction::Up, Direction::Down].map(Direction::name) {
            let of = |case: &OwnCase, name: &str| case.measured[direction][name].as_f64();
            let figures = |name| of(ours, name).zip(of(reference, name));
            let Some((used, delay)) = figures("utilization").zip(figures("ping_p95_s")) else { continue };
            all += 1;
            better += u32::from(used.0 >= used.1 && delay.0 <= delay.1);
            worse += u32::from(used.0 < used.1 && delay.0 > delay.1);
        }
    }
    if all == 0 {
        return String::new();
    }
    format!(
        "ours against the reference, of {all} (trace, direction): on both axes (used, ping p95) better or equal in {better}, worse in {worse}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn case(contender: &str, used: f64, delay: f64) -> OwnCase {
        let params = json!({"trace": "walk", "contender": contender});
        let seen = json!({"utilization": used, "ping_p95_s": delay, "probe_bytes": 0});
        OwnCase {
            params: params.as_object().cloned().unwrap(),
            measured: json!({"up": seen, "down": seen}),
            ..OwnCase::default()
        }
    }

    #[test]
    fn a_block_has_both_directions_and_the_reasons() {
        let missing = OwnCase { not_runnable: Some("no cake".into()), ..case("cake-mean", 0.0, 0.0) };
        let text = block("walk", &[case("none", 0.994, 0.25), missing]);
        assert!(text.contains("cake-mean: not runnable here: no cake"), "{text}");
        let up = text.lines().find(|line| line.trim_start().starts_with("up")).unwrap();
        assert!(up.contains("99.4") && up.contains("250") && up.contains(NOTHING), "{up}");
    }

    #[test]
    fn ours_is_compared_where_both_ran() {
        assert_eq!(comparison(&[case("ours", 0.9, 0.1)]), "");
        let text = comparison(&[case("ours", 0.9, 0.1), case("reference", 0.8, 0.2)]);
        assert!(text.contains("of 2") && text.contains("equal in 2, worse in 0"), "{text}");
        let text = comparison(&[case("ours", 0.7, 0.3), case("reference", 0.8, 0.2)]);
        assert!(text.contains("equal in 0, worse in 2"), "{text}");
    }
}
