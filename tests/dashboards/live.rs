//! Every query, on a real Prometheus that scrapes the real agent on the lab's link.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pendulum_lab::agent::Agent;
use pendulum_lab::lab::{Lab, LinkSpec};
use pendulum_lab::prometheus::{Prometheus, Setup};
use pendulum_lab::traffic::{Transfer, TransferSpec};
use pendulum_model::segment::Direction;

use crate::files::{Dashboard, below, series_in, text};
use crate::past::the_past_is_not_shown_as_the_present;
use crate::protobuf::the_same_by_protobuf;

/// Generous: a loaded machine must not fail a test.
const PATIENCE: Duration = Duration::from_secs(120);
/// Series that this link and this traffic do not give, and why. Their names are checked all the same.
const ABSENT: [(&[&str], &str); 10] = [
    (
        &["pendulum_queue_limit_bytes{", "direction=\"down\""],
        "the provider's buffer, whose size nobody tells",
    ),
    (&["pendulum_queue_ack_bytes{", "direction=\"down\""], "its ACKs cannot be told from its data"),
    (&["pendulum_cwnd_bytes"], "no socket on the gateway itself sends"),
    (&["pendulum_ack_filter"], "shaping is off"),
    (&["pendulum_shape_"], "shaping is off; crate::found has its own series"),
    (&["ALERTS"], "nothing fires within a minute"),
    (&["pendulum_unmeasured_total", "> 0"], "nothing was lost"),
    (&["pendulum_queue_drops_total", "> 0"], "nothing need be dropped within the time of a test"),
    (&["pendulum_collector_success", "== 0"], "nothing fails"),
    (&["pendulum_config_last_reload_successful", "== 0"], "nothing was refused"),
];

fn is_absent(expression: &str) -> bool {
    ABSENT.iter().any(|(parts, _)| parts.iter().all(|part| expression.contains(part)))
}

/// `PENDULUM_PROMETHEUS`, or the one in PATH.
fn prometheus() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("PENDULUM_PROMETHEUS") {
        return Some(path.into());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|directory| directory.join("prometheus"))
        .find(|program| program.is_file())
}

/// As Grafana would fill it in.
pub(crate) fn filled(expression: &str) -> String {
    filled_for(expression, Prometheus::INSTANCE)
}

/// For what is scraped there.
pub(crate) fn filled_for(expression: &str, instance: SocketAddr) -> String {
    expression
        .replace("$__rate_interval", "10s")
        .replace("$job", "pendulum")
        .replace("$instance", &instance.to_string())
        .replace("$link", "wan0")
}

/// All names that the agent exports: those of samples, and those it only declares.
fn exported(exposition: &str) -> BTreeSet<String> {
    let name = |line: &str| match line.strip_prefix("# TYPE ") {
        Some(declared) => declared.split(' ').next().map(str::to_owned),
        None => line.split(['{', ' ']).next().filter(|name| !name.starts_with('#')).map(str::to_owned),
    };
    exposition.lines().filter_map(name).collect()
}

struct Run {
    lab: Lab,
    agent: Agent,
    prometheus: Prometheus,
    traffic: [Transfer; 2],
    program: PathBuf,
}

impl Run {
    fn start(test: &str) -> Option<Self> {
        if !pendulum_lab::is_root() {
            eprintln!("SKIPPED {test}: network namespaces need root");
            return None;
        }
        let Some(program) = prometheus() else {
            eprintln!(
                "SKIPPED {test}: there is no prometheus in PATH; `./dev test dashboards` unpacks Debian's"
            );
            return None;
        };
        let lab = Lab::start(LinkSpec::FIG1).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        // The kernel counts runs of programs only where it is asked to.
        let words = format!(
            "listen = \"{}\"\n[metrics]\nbpf-statistics = true\n\
             [[link]]\nwan = \"wan0\"\nlan = [\"lan0\"]\nuplink-rate = \"{}\"\ndownlink-rate = \"{}\"\n",
            Agent::ADDRESS,
            lab.spec().uplink.rate,
            lab.spec().downlink.rate
        );
        std::fs::write(file.path(), words).unwrap();
        let agent = Agent::configured(&lab, Path::new(env!("CARGO_BIN_EXE_pendulum")), file.path()).unwrap();
        let setup = Setup { rules: below("rules", ".yml"), ..Setup::new(program.clone()) };
        let prometheus = Prometheus::start(&lab, &setup).unwrap();
        let traffic = [Direction::Down, Direction::Up]
            .map(|direction| Transfer::start(&lab, TransferSpec::new(direction, PATIENCE * 2)).unwrap());
        Some(Self { lab, agent, prometheus, traffic, program })
    }

    /// Waits until every one of these gives data.
    fn wait_for_data(&self, mut pending: Vec<(String, String)>) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            pending.retain(|(what, expression)| {
                let result = self.prometheus.query(expression);
                result.unwrap_or_else(|error| panic!("{what}: {expression}: {error}")).is_empty()
            });
            if pending.is_empty() {
                return;
            }
            let left: Vec<String> =
                pending.iter().map(|(what, expression)| format!("{what}: {expression}")).collect();
            assert!(Instant::now() < deadline, "no data from\n{}", left.join("\n"));
            std::thread::sleep(Duration::from_secs(1));
        }
    }
}

/// One lab for all of it: building one, and waiting for rates and verdicts, is what costs time.
#[test]
fn every_query_gives_data_and_every_name_exists() {
    let Some(run) = Run::start("every_query_gives_data_and_every_name_exists") else { return };
    let dashboards = Dashboard::all();
    let mut queries = Vec::new();
    for dashboard in &dashboards {
        let panels = dashboard.queries().into_iter();
        queries.extend(panels.map(|(title, query)| (format!("{}: {title}", dashboard.name), filled(&query))));
    }
    let (absent, present): (Vec<_>, Vec<_>) = queries.into_iter().partition(|(_, query)| is_absent(query));
    run.wait_for_data(present.clone());
    // Accepted, whether there is data or not.
    let marks =
        dashboards.iter().flat_map(Dashboard::annotations).map(|(name, query)| (name, filled(&query)));
    let marks: Vec<_> = marks.collect();
    for (what, query) in absent.iter().chain(&marks) {
        run.prometheus.query(query).unwrap_or_else(|error| panic!("{what}: {query}: {error}"));
    }
    variables_offer_something(&run, &dashboards);
    let rules = rules_work(&run);

    let known = exported(&run.agent.get("/metrics").unwrap());
    let recorded: BTreeSet<String> = rules.iter().map(|(name, _)| name.clone()).collect();
    let all = [present, absent, marks, rules].concat();
    let unknown: Vec<String> = all
        .iter()
        .flat_map(|(what, query)| series_in(query).into_iter().map(move |name| (what, name)))
        .filter(|(_, name)| !known.contains(name) && !recorded.contains(name))
        .filter(|(_, name)| {
            // A histogram that has no sample yet is declared by its family's name.
            let family = name.strip_suffix("_bucket").unwrap_or(name);
            !known.contains(family)
        })
        .map(|(what, name)| format!("{what}: the agent does not export {name}"))
        .collect();
    assert!(unknown.is_empty(), "{}", unknown.join("\n"));
    let Run { lab, agent, prometheus, traffic, program } = run;
    let agent = the_past_is_not_shown_as_the_present(&lab, agent, &prometheus);
    drop((prometheus, traffic));
    the_same_by_protobuf(&lab, &agent, program, &dashboards);
    agent.stop().unwrap();
    lab.stop().unwrap();
}

/// Job, gateway and link can be chosen.
fn variables_offer_something(run: &Run, dashboards: &[Dashboard]) {
    for variable in dashboards.iter().flat_map(Dashboard::variables) {
        if variable["type"] != "query" {
            continue;
        }
        let definition = text(&variable["definition"]);
        let inside =
            definition.strip_prefix("label_values(").and_then(|rest| rest.strip_suffix(')')).unwrap();
        let (series, label) = inside.rsplit_once(", ").unwrap();
        let found = run.prometheus.query(&filled(series)).unwrap();
        assert!(found.iter().any(|one| one["metric"][label].is_string()), "{definition} offers nothing");
    }
}

/// Prometheus has loaded and evaluated all rules without an error: their names and expressions.
fn rules_work(run: &Run) -> Vec<(String, String)> {
    let answer = run.prometheus.api("/api/v1/rules").unwrap();
    let groups = answer["groups"].as_array().unwrap();
    let rules: Vec<_> = groups.iter().flat_map(|group| group["rules"].as_array().unwrap()).collect();
    for rule in &rules {
        assert_eq!(rule["health"], "ok", "{rule:#}");
    }
    rules.iter().map(|rule| (text(&rule["name"]), text(&rule["query"]))).collect()
}
