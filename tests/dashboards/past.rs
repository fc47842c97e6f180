//! A gateway that goes away and comes back: what the dashboards say of the present must not be the past.

use std::path::Path;
use std::time::{Duration, Instant};

use pendulum_lab::agent::Agent;
use pendulum_lab::lab::Lab;
use pendulum_lab::prometheus::Prometheus;
use serde_json::Value;

use crate::files::{Dashboard, text};
use crate::live::filled;

const PATIENCE: Duration = Duration::from_secs(120);
/// What is said of a gateway that is gone: panel, or column of the table of links, and what it has to be.
const OF_THE_GONE: [(&str, Gone); 7] = [
    // 3: the agent is down (words.py).
    ("Is this link watched?", Gone::Is(3.0)),
    ("State", Gone::Is(3.0)),
    ("DOWN", Gone::Is(1.0)),
    ("answer", Gone::Is(0.0)),
    ("NOT MEASURED", Gone::Is(1.0)),
    ("measured", Gone::Is(0.0)),
    // Ages.
    ("age", Gone::Something),
];

/// What a query gives of it.
#[derive(Clone, Copy, Debug)]
enum Gone {
    Is(f64),
    Something,
}

/// A query for the present: what it is called, and the query.
struct Saying {
    name: String,
    query: String,
}

fn sayings() -> Vec<Saying> {
    let mut found = Vec::new();
    for dashboard in Dashboard::all() {
        for panel in dashboard.panels() {
            let title = text(&panel["title"]);
            if !["stat", "table"].contains(&panel["type"].as_str().unwrap()) {
                continue;
            }
            for target in panel["targets"].as_array().unwrap() {
                let legend = text(&target["legendFormat"]);
                let name =
                    if legend.is_empty() || title == "Is this link watched?" { &title } else { &legend };
                found.push(Saying { name: name.clone(), query: filled(&text(&target["expr"])) });
            }
        }
    }
    found
}

fn values(prometheus: &Prometheus, query: &str) -> Vec<f64> {
    let found = prometheus.query(query).unwrap_or_else(|error| panic!("{query}: {error}"));
    let value = |one: &Value| one["value"][1].as_str().unwrap().parse().unwrap();
    found.iter().map(value).collect()
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// Stops the agent, looks at everything that is said of the present, starts another and looks again.
pub(crate) fn the_past_is_not_shown_as_the_present(
    lab: &Lab,
    agent: Agent,
    prometheus: &Prometheus,
) -> Agent {
    let sayings = sayings();
    let said = |name: &str| {
        let saying = sayings.iter().find(|saying| saying.name == name).unwrap_or_else(|| panic!("{name}"));
        values(prometheus, &saying.query)
    };
    assert_eq!(
        (said("Is this link watched?"), said("State"), said("DOWN")),
        (vec![1.0], vec![1.0], vec![0.0])
    );

    // When it was last seen is looked up in steps of 15 s: one of them has to fall into the agent's life.
    wait_until("a step of the subquery saw the agent", || {
        !values(prometheus, "max_over_time((timestamp(up == 1))[1d:15s])").is_empty()
    });
    agent.stop().unwrap();
    wait_until("Prometheus sees that the agent is gone", || values(prometheus, "up") == [0.0]);
    for Saying { name, query } in &sayings {
        let values = values(prometheus, query);
        let wanted =
            OF_THE_GONE.iter().find(|(known, _)| name.eq_ignore_ascii_case(known) || name.ends_with(known));
        match wanted.map(|(_, wanted)| *wanted) {
            Some(Gone::Is(wanted)) => assert_eq!(values, [wanted], "{name}: {query}"),
            Some(Gone::Something) => assert!(!values.is_empty(), "{name}: {query}"),
            // An alert goes on for a while, and says so.
            None if query.contains("ALERTS") => {}
            None => assert!(values.is_empty(), "{name} shows {values:?} of a gateway that is gone: {query}"),
        }
    }

    let agent = Agent::start(lab, Path::new(env!("CARGO_BIN_EXE_pendulum"))).unwrap();
    wait_until("the gateway is back", || said("Is this link watched?") == [1.0] && said("State") == [1.0]);
    // Its verdict is younger than its start.
    wait_until("it has a verdict", || said("Held for").len() == 1);
    // The agent's age is asked for later.
    let held = said("Held for")[0];
    let runs = values(prometheus, "time() - process_start_time_seconds{job=\"pendulum\"}")[0];
    assert!(held <= runs + 1.0, "a verdict that held for {held} s of an agent that has run for {runs} s");
    agent
}
