//! The same figures by protobuf: a real Prometheus that asks for nothing else, and what the agent answers it with.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pendulum_lab::agent::Agent;
use pendulum_lab::lab::Lab;
use pendulum_lab::prometheus::{Prometheus, Setup};
use pendulum_lab::traffic::{Transfer, TransferSpec};
use pendulum_model::segment::Direction;
use serde_json::Value;

use crate::files::Dashboard;
use crate::live::filled_for;

/// Stands between Prometheus and the agent.
const RELAY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9925);
const PATIENCE: Duration = Duration::from_secs(60);
/// Exported as classic and as native histograms.
const TIMES: [&str; 2] = ["pendulum_rtt_seconds", "pendulum_queue_sojourn_seconds"];
/// Bounds in seconds that both kinds have.
const SHARED_BOUNDS: [f64; 3] = [0.5, 1.0, 2.0];

/// Passes on what comes, and keeps the beginning of each piece that comes back.
fn relay(lab: &Lab) -> Arc<Mutex<String>> {
    let host = lab.gateway();
    let listener = host.inside(|| TcpListener::bind(RELAY)).unwrap().unwrap();
    let seen = Arc::new(Mutex::new(String::new()));
    let kept = Arc::clone(&seen);
    std::thread::spawn(move || {
        // Ends with the test's process.
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(Ok(agent)) = host.inside(|| TcpStream::connect(Agent::ADDRESS)) else { return };
            let (from_client, from_agent) = (client.try_clone().unwrap(), agent.try_clone().unwrap());
            std::thread::spawn(move || pass(from_client, agent, |_| ()));
            let kept = Arc::clone(&kept);
            std::thread::spawn(move || {
                pass(from_agent, client, |piece| {
                    kept.lock().unwrap().push_str(&String::from_utf8_lossy(&piece[..piece.len().min(1024)]));
                });
            });
        }
    });
    seen
}

fn pass(mut from: TcpStream, mut to: TcpStream, mut look: impl FnMut(&[u8])) {
    let mut piece = [0; 65_536];
    while let Ok(count @ 1..) = from.read(&mut piece) {
        look(&piece[..count]);
        if to.write_all(&piece[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

/// Values by name and labels. `le` is a number: 1 and 1.0 are the same.
type Series = BTreeMap<Key, f64>;
type Key = (String, BTreeMap<String, String>);

fn key(name: &str, labels: impl Iterator<Item = (String, String)>) -> Key {
    let labels = labels.filter(|(label, _)| !["job", "instance", "__name__"].contains(&label.as_str()));
    let labels = labels.map(|(label, value)| {
        let bound = (label == "le").then(|| value.parse::<f64>().unwrap().to_string());
        (label, bound.unwrap_or(value))
    });
    (name.to_owned(), labels.collect())
}

fn by_text(agent: &Agent) -> Series {
    let text = agent.get("/metrics").unwrap();
    let samples = text.lines().filter(|line| line.starts_with("pendulum_"));
    samples
        .map(|line| {
            let (head, value) = line.rsplit_once(' ').unwrap();
            let (name, labels) = head.trim_end_matches('}').split_once('{').unwrap_or((head, ""));
            let labels =
                labels.trim_end_matches('"').split("\",").filter_map(|label| label.split_once("=\""));
            let labels = labels.map(|(label, value)| (label.to_owned(), value.to_owned()));
            (key(name, labels), value.parse().unwrap())
        })
        .collect()
}

/// A native histogram as the classic series that both kinds have: what it counts, their sum, and how many lie up to the bounds that are powers of two.
fn native(name: &str, labels: &BTreeMap<String, String>, histogram: &Value) -> Vec<(Key, f64)> {
    let number = |text: &Value| text.as_str().unwrap().parse::<f64>().unwrap();
    let count = number(&histogram["count"]);
    let buckets: Vec<_> = histogram["buckets"].as_array().into_iter().flatten().collect();
    let series = |what: &str, bound: Option<f64>, value| {
        let bound = bound.map(|bound| ("le".to_owned(), bound.to_string()));
        (key(&format!("{name}_{what}"), labels.clone().into_iter().chain(bound)), value)
    };
    let up_to = |bound: f64| {
        let below = buckets.iter().filter(|bucket| number(&bucket[2]) <= bound * (1.0 + 1e-9));
        series("bucket", Some(bound), below.map(|bucket| number(&bucket[3])).sum())
    };
    let mut told = vec![
        series("count", None, count),
        series("sum", None, number(&histogram["sum"])),
        series("bucket", Some(f64::INFINITY), count),
    ];
    told.extend(SHARED_BOUNDS.map(up_to));
    told
}

fn by_prometheus(prometheus: &Prometheus) -> Series {
    let found = prometheus.query(&format!("{{__name__=~\"pendulum_.+\", instance=\"{RELAY}\"}}")).unwrap();
    found
        .iter()
        .flat_map(|one| {
            let labels = one["metric"].as_object().unwrap();
            let name = labels["__name__"].as_str().unwrap();
            let labels =
                labels.iter().map(|(label, value)| (label.clone(), value.as_str().unwrap().to_owned()));
            match &one["histogram"] {
                Value::Null => {
                    vec![(key(name, labels), one["value"][1].as_str().unwrap().parse().unwrap())]
                }
                told => native(name, &labels.collect(), &told[1]),
            }
        })
        .collect()
}

/// What a Prometheus that keeps native histograms has of those that we export as both kinds: not their other classic buckets.
fn without_classic_buckets(mut series: Series) -> Series {
    series.retain(|(name, labels), _| {
        let is_both = TIMES.iter().any(|family| name.strip_suffix("_bucket") == Some(family));
        let is_shared = |bound: f64| bound.is_infinite() || SHARED_BOUNDS.contains(&bound);
        !is_both || is_shared(labels["le"].parse().unwrap())
    });
    series
}

/// Figures that stand still once nothing flows.
fn counted(series: &Series) -> Vec<(&Key, &f64)> {
    const STEADY: [&str; 4] = [
        "pendulum_segments_total",
        "pendulum_payload_bytes_total",
        "pendulum_rtt_seconds_",
        "pendulum_ack_burst_segments_",
    ];
    series.iter().filter(|((name, _), _)| STEADY.iter().any(|start| name.starts_with(start))).collect()
}

/// The dashboards' pictures of histograms, where Prometheus has no classic ones. Without traffic there is nothing in them.
fn pictures_have_native_histograms(lab: &Lab, prometheus: &Prometheus, dashboards: &[Dashboard]) {
    let _traffic = [Direction::Down, Direction::Up]
        .map(|direction| Transfer::start(lab, TransferSpec::new(direction, PATIENCE * 2)).unwrap());
    let queries = dashboards.iter().flat_map(Dashboard::queries);
    let queries: Vec<_> = queries
        .filter(|(_, query)| TIMES.iter().any(|family| query.contains(&format!("{family}_bucket"))))
        .map(|(title, query)| (title, filled_for(&query, RELAY)))
        .collect();
    assert!(queries.len() >= 8, "{queries:?}");
    let deadline = Instant::now() + PATIENCE;
    for (title, query) in queries {
        while prometheus.query(&query).unwrap().is_empty() {
            assert!(Instant::now() < deadline, "{title}: nothing from {query}");
            std::thread::sleep(Duration::from_millis(500));
        }
    }
}

pub(crate) fn the_same_by_protobuf(lab: &Lab, agent: &Agent, program: PathBuf, dashboards: &[Dashboard]) {
    let answers = relay(lab);
    let setup = Setup { target: RELAY, protobuf: true, ..Setup::new(program) };
    let prometheus = Prometheus::start(lab, &setup).unwrap();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (mut text, scraped) = (by_text(agent), by_prometheus(&prometheus));
        if prometheus.keeps_native_histograms() {
            text = without_classic_buckets(text);
        }
        // As many series, and the same figures where nothing changes between two looks.
        if !counted(&text).is_empty() && text.keys().eq(scraped.keys()) && counted(&text) == counted(&scraped)
        {
            break;
        }
        let missing: Vec<_> = text.keys().filter(|key| !scraped.contains_key(key)).take(5).collect();
        let foreign: Vec<_> = scraped.keys().filter(|key| !text.contains_key(key)).take(5).collect();
        assert!(
            Instant::now() < deadline,
            "{} series by text, {} by protobuf; missing {missing:?}; not in the text {foreign:?}",
            text.len(),
            scraped.len()
        );
        std::thread::sleep(Duration::from_millis(500));
    }
    if prometheus.keeps_native_histograms() {
        pictures_have_native_histograms(lab, &prometheus, dashboards);
    }
    let answers = answers.lock().unwrap().to_ascii_lowercase();
    let kinds: Vec<&str> = answers.lines().filter(|line| line.starts_with("content-type:")).collect();
    assert!(!kinds.is_empty());
    let wanted = "content-type: application/vnd.google.protobuf; proto=io.prometheus.client.metricfamily; encoding=delimited";
    assert!(kinds.iter().all(|kind| *kind == wanted), "{kinds:?}");
}
