//! Locks by the simulator go through the recorder and the disk, and are judged again.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use pendulum_model::detector::{Config, Detector};
use pendulum_model::event::Event;
use pendulum_model::findings::{Change, Evidence, Verdict};
use pendulum_model::link::Link;
use pendulum_model::rate::BufferSize;
use pendulum_model::sample::{FlowSample, Sample};
use pendulum_model::segment::{Direction, PerDirection};
use pendulum_model::simulate::{CongestionControl, FlowLoad};

use super::*;
use simulator::{Flow, Scenario};

#[path = "../../../model/tests/simulator/mod.rs"]
#[expect(dead_code, reason = "the model's own tests use the rest")]
mod simulator;

/// Two-way transfers over the link of paper 000, from 12 s on, until the end. `buffer`: packets of both.
fn samples(seed: u64, buffer: [u64; 2]) -> Vec<Sample> {
    let flow = |direction| Flow {
        direction,
        start_s: 12.0,
        stop_s: 110.0,
        remote_ms: 20.0,
        load: FlowLoad::Bulk,
        congestion_control: CongestionControl::Reno,
    };
    let [up, down] = buffer.map(BufferSize::Packets);
    Scenario {
        down_bps: 2.4e6,
        up_bps: 196e3,
        propagation_ms: 10.0,
        buffer: PerDirection { up, down },
        delayed_acks: true,
        flows: vec![flow(Direction::Up), flow(Direction::Up), flow(Direction::Down), flow(Direction::Down)],
        duration_s: 110.0,
        seed,
        start_spread_s: 2.0,
    }
    .samples()
}

/// What the agent does with samples, without a link.
fn record(samples: &[Sample], link: Link, directory: &Path) -> wire::Incidents {
    let store = Store::start(directory.to_owned(), false);
    let mut recorder = Recorder::new("dsl", Some(store.clone()));
    let mut detector = Detector::new(Config { link, ..Config::default() });
    for sample in samples {
        let events = detector.push(sample);
        recorder.push(sample, PerDirection { up: sample.round_trip, down: None }, detector.verdict());
        for event in &events {
            recorder.note(event, Duration::ZERO, &detector);
        }
    }
    drop(recorder);
    store.written()
}

fn file(directory: &Path, incident: &wire::Incident) -> std::path::PathBuf {
    directory.join(format!("{}.json.gz", incident.id))
}

#[test]
fn a_row_keeps_what_the_detector_reads() {
    let samples: Vec<Sample> = samples(1, [20, 20]).into_iter().skip(3_000).take(500).collect();
    let mut previous = samples[0].at - samples[0].span;
    let rows: Vec<_> = samples
        .iter()
        .map(|sample| {
            let row = table::SampleRow::of(sample, previous, PerDirection::default());
            previous = sample.at;
            row
        })
        .collect();
    let again = table::samples(&table::columns(&rows), rows.len()).unwrap();
    let shift = again[0].at - samples[0].at;
    for (one, two) in samples.iter().zip(&again) {
        let close = |one: f64, two: f64| (one - two).abs() <= 0.5;
        assert_eq!((one.at + shift, one.span), (two.at, two.span));
        for x in Direction::ALL {
            let (one, two) = (&one.link[x], &two.link[x]);
            assert_eq!(
                (one.traffic, one.composition, one.ack_bursts),
                (two.traffic, two.composition, two.ack_bursts)
            );
            let (one, two) = (one.queue.unwrap(), two.queue.unwrap());
            assert!(close(one.min_bytes, two.min_bytes) && close(one.mean_bytes, two.mean_bytes));
            assert_eq!(one.source, two.source);
        }
        let micros = |seconds: Option<f64>| seconds.map(|seconds| (seconds * 1e6).round());
        assert_eq!(micros(one.round_trip), micros(two.round_trip));
    }
}

/// The rates are configured in half of them.
#[test]
fn a_lock_replays_to_the_same_verdict() {
    let mut sizes = Vec::new();
    // `PENDULUM_LONG=1`: twenty of twenty.
    for seed in 0..if std::env::var_os("PENDULUM_LONG").is_some() { 20 } else { 4 } {
        let directory = tempfile::tempdir().unwrap();
        let link = if seed % 2 == 0 { Link::with_capacity(24_500.0, 300_000.0) } else { Link::default() };
        let incidents = record(&samples(seed, [30 + seed, 20]), link, directory.path()).incidents;
        let lock = incidents.iter().find(|incident| incident.what == "locked_uplink");
        let lock = lock.unwrap_or_else(|| panic!("seed {seed}: {incidents:?}"));
        assert_eq!(lock.verdict, "locked_uplink");
        assert!((14.0..=15.1).contains(&lock.before_s), "{}", lock.before_s);
        let path = file(directory.path(), lock);
        sizes.push(std::fs::metadata(&path).unwrap().len());
        let incident = read(&path).unwrap();
        assert!(incident.rows >= 7_000, "{}", incident.rows);
        let judged = incident.judge().unwrap();
        assert!(
            judged.agrees && judged.verdict == Verdict::LockedUplink,
            "seed {seed}: {:?}",
            judged.verdict
        );
    }
    println!("bytes of each: {sizes:?}");
    assert!(sizes.iter().all(|bytes| *bytes <= 300_000), "{sizes:?}");
}

/// A gigabit each way in which no figure stays, with more flows than are kept.
fn busy(samples: &mut [Sample]) {
    let mut state = 1_u64;
    let mut below = |most: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % most
    };
    let mut counted = PerDirection::from_fn(|_| [0; 4]);
    for (number, sample) in samples.iter_mut().enumerate() {
        for x in Direction::ALL {
            // Counted ten times a second; by the queue's events, which the downlink has not, for each row.
            if number % 10 == 0 {
                counted[x] = [700 + below(60), 300 + below(60), below(60), 100 + below(100)];
            }
            let [data, acks, udp, bursts] = counted[x];
            let more = if x == Direction::Up { below(60) } else { 0 };
            let way = &mut sample.link[x];
            let bytes = [1_514 * (data + more), 66 * (acks + more), 1_200 * udp];
            way.traffic.wire_bytes = bytes.iter().sum();
            (way.traffic.data_bytes, way.traffic.data_segments, way.traffic.ack_segments) =
                (bytes[0], data, acks);
            [way.composition.tcp_data, way.composition.ack, way.composition.udp] = bytes;
            (way.ack_bursts.bursts, way.ack_bursts.segments) = (bursts, acks);
            if let Some(queue) = &mut way.queue {
                queue.min_bytes += below(100_000) as f64;
                queue.mean_bytes = queue.min_bytes + below(20_000) as f64;
                queue.max_bytes = queue.mean_bytes + below(20_000) as f64;
            }
        }
        sample.round_trip = Some(0.05 + below(10_000) as f64 / 1e6);
        if number % 100 == 0 {
            let flow = |id| FlowSample {
                id,
                direction: if id % 2 == 0 { Direction::Up } else { Direction::Down },
                data_bytes: below(5_000_000),
                in_flight_bytes: Some(below(1_000_000) as f64),
                round_trip: Some(below(100_000) as f64 / 1e6),
                base_round_trip: Some(below(50_000) as f64 / 1e6),
            };
            sample.flows = (0..200).map(flow).collect();
        }
    }
}

/// The processor's time is printed, not asserted: docs/results/cost.md.
#[test]
fn the_recording_of_a_busy_link_is_small() {
    let directory = tempfile::tempdir().unwrap();
    let mut samples = samples(2, [30, 20]);
    let detector = Detector::new(Config::default());
    let event = Event {
        at_s: 20.0,
        change: Change::Verdict { from: Verdict::Clear, to: Verdict::LockedUplink },
        evidence: Evidence::new("r", "", Vec::new(), 20.0),
    };
    busy(&mut samples);
    let store = Store::start(directory.path().to_owned(), false);
    let mut recorder = Recorder::new("dsl", Some(store.clone()));
    let (before, mut noted) = (processor_time(), false);
    for sample in &samples {
        recorder.push(sample, PerDirection { up: sample.round_trip, down: None }, Verdict::LockedUplink);
        if !noted && sample.at >= Duration::from_secs(20) {
            recorder.note(&event, Duration::ZERO, &detector);
            noted = true;
        }
    }
    drop(recorder);
    let kept = store.written().incidents;
    let spent = processor_time() - before;
    let bytes = std::fs::metadata(file(directory.path(), &kept[0])).unwrap().len();
    let (span, share) = (samples.len() as f64 / 100.0, spent.as_secs_f64() / samples.len() as f64 * 1e4);
    println!(
        "{bytes} bytes; {spent:?} of processor time in {span} s with one incident: {share:.3} % of a core"
    );
    assert!(bytes <= 300_000, "{bytes}");
}

/// Of all threads of this process.
fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is there to be written.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

fn lock(directory: &Path) -> wire::Incident {
    let incidents = record(&samples(2, [30, 20]), Link::default(), directory).incidents;
    incidents.into_iter().find(|incident| incident.what == "locked_uplink").unwrap()
}

/// A store that has read what an earlier one left: a lock of this id.
pub(crate) fn a_store_with_a_lock(directory: &Path) -> (Store, String) {
    let lock = lock(directory);
    // Nothing else, so that it comes first.
    for entry in std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
        if entry != file(directory, &lock) {
            std::fs::remove_file(entry).unwrap();
        }
    }
    (started(directory), lock.id)
}

/// A store that has read its directory, in which something is.
fn started(directory: &Path) -> Store {
    let store = Store::start(directory.to_owned(), false);
    for _ in 0..6_000 {
        if !store.list().incidents.is_empty() {
            return store;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("nothing was read in a minute");
}

#[test]
fn incidents_survive_a_restart_and_what_is_foreign_or_damaged_stays_where_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("incidents");
    let lock = lock(&place);
    let whole = std::fs::read(file(&place, &lock)).unwrap();
    let foreign = [
        ("notes.txt", &b"mine"[..]),
        ("half.json.gz", &whole[..whole.len() / 2]),
        // A copy under another name is not what its name says.
        ("copy.json.gz", &whole[..]),
        ("empty.json.gz", b""),
    ];
    for (name, content) in foreign {
        std::fs::write(place.join(name), content).unwrap();
    }
    std::os::unix::fs::symlink("/etc/passwd", place.join("link.json.gz")).unwrap();
    let store = started(&place);
    let listed = store.list();
    assert!(listed.incidents.contains(&lock) && listed.trouble.is_none(), "{:?}", listed.trouble);
    assert!(store.text(&lock.id).unwrap().unwrap().starts_with(b"{"));
    for id in ["copy", "link", "../../etc/passwd", "half"] {
        assert!(store.text(id).is_none(), "{id}");
    }
    drop(store);
    for (name, content) in foreign {
        assert_eq!(std::fs::read(place.join(name)).unwrap(), content);
    }
}

#[test]
fn what_cannot_be_written_is_said_and_the_agent_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "").unwrap();
    // Root may write anywhere: a file in the directory's place, and a file system that takes no files.
    for place in [file, Path::new("/proc/incidents").to_owned()] {
        let incidents = record(&samples(2, [30, 20]), Link::default(), &place);
        let trouble = incidents.trouble.unwrap();
        let named = place.display().to_string();
        assert!(trouble.contains(&named) && trouble.contains("free space on its disk"), "{trouble}");
        assert!(incidents.incidents.is_empty());
    }
}

#[test]
fn the_oldest_of_the_least_urgent_makes_room() {
    let directory = tempfile::tempdir().unwrap();
    let lock = lock(directory.path());
    let mut incident = read(&file(directory.path(), &lock)).unwrap();
    // What a file holds beyond its summary does not matter here, and takes long to pack.
    (incident.rows, incident.columns, incident.flow_samples) = (0, BTreeMap::new(), Vec::new());
    let store = Store::start(directory.path().to_owned(), false);
    for number in 0..104 {
        let severity = if number == 0 { "critical" } else { "warning" };
        let mut another = incident.clone();
        another.summary.id = format!("a{number:03}");
        another.summary.time = format!("a{number:03}");
        another.summary.severity = severity.into();
        let id = another.summary.id.clone();
        store.keep(another);
        // No more are handed over than may wait for the disk.
        while store.list().incidents.first().is_none_or(|newest| newest.id != id) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    let kept: Vec<String> = store.written().incidents.into_iter().map(|incident| incident.id).collect();
    assert_eq!((kept.len(), kept[0].as_str()), (100, "a103"));
    // The first lock, and the oldest ones, are gone; the urgent one stays.
    assert!(kept.contains(&"a000".to_owned()) && !kept.contains(&"a001".to_owned()), "{kept:?}");
    let files = std::fs::read_dir(directory.path()).unwrap().count();
    assert_eq!(files, 100);
}

#[test]
fn a_file_that_is_no_incident_is_named_with_its_reason() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.json");
    let said = || read(&path).unwrap_err().to_string();
    assert!(said().contains("cannot read the incident") && said().contains("check the path"), "{}", said());
    for content in ["", "{}", "[]", "{\"summary\": 1}", "\u{1f}\u{8b}"] {
        std::fs::write(&path, content).unwrap();
        assert!(said().contains("is not an incident"), "{}", said());
    }
    // Figures that do not fit together.
    let lock = lock(directory.path());
    let whole = read(&file(directory.path(), &lock)).unwrap();
    for (rows, reason) in [(10, "for 10 rows"), (1 << 40, "at most"), (whole.rows - 1, "rows")] {
        let damaged = Incident { rows, ..whole.clone() };
        assert!(damaged.judge().unwrap_err().contains(reason));
    }
}

#[test]
fn a_lock_that_ends_early_is_no_incident_and_one_that_ends_later_says_when() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::start(directory.path().to_owned(), false);
    let mut recorder = Recorder::new("dsl", Some(store.clone()));
    let detector = Detector::new(Config::default());
    let change = |at_s, from, to| Event {
        at_s,
        change: Change::Verdict { from, to },
        evidence: Evidence::new("r", "a reason", Vec::new(), at_s),
    };
    let (locked, clear) = (Verdict::LockedUplink, Verdict::Clear);
    let events = [(20, clear, locked), (29, locked, clear), (40, clear, locked), (61, locked, clear)];
    for tick in 1..=12_000_u64 {
        let at = Duration::from_millis(10 * tick);
        let sample = Sample { at, span: Duration::from_millis(10), ..Sample::default() };
        let verdict = if (40..61).contains(&at.as_secs()) { locked } else { clear };
        recorder.push(&sample, PerDirection::default(), verdict);
        for (second, from, to) in events.into_iter().filter(|(second, ..)| Duration::from_secs(*second) == at)
        {
            recorder.note(&change(second as f64, from, to), Duration::ZERO, &detector);
        }
    }
    drop(recorder);
    let kept = store.written().incidents;
    assert_eq!(kept.len(), 1);
    assert_eq!(
        (kept[0].lasted_s, &*kept[0].verdict, kept[0].before_s.round()),
        (21.0, "locked_uplink", 15.0)
    );
}
