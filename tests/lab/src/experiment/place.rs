//! The bottleneck by chance in one segment of the way, or nowhere: does the agent's delay budget name it?
//!
//! All the time small requests go between two hosts at home and two on the internet. Then bulk transfers fill the buffer of the chosen place. Both are
//! TCP, QUIC, or each one by chance. The truth is the kernel's: the longest mean wait of all buffers of the lab.

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pendulum_model::named;
use pendulum_model::rate::{BufferSize, Rate};
use pendulum_model::segment::Direction;
use serde_json::{Value, json};

use super::report::align_figures as align;
use super::{About, Experiment, ExperimentError, OwnCase, Printed, Progress, Report, RunOptions};
use crate::agent::{Agent, Rates};
use crate::delay::Delays;
use crate::lab::{Lab, LinkSpec};
use crate::netns::Host;
use crate::shaper::Shaper;
use crate::splitmix::{STEP, mixed};
use crate::topology::{BufferPlace, IpVersion, Role};
use crate::traffic::{Ends, Quic, QuicRequests, Spin, TrafficError, Transfer, TransferSpec};
use crate::truth::QueuePoller;

/// See the module.
pub(super) struct Where;

const NAME: &str = "where";
/// Cases, and those of the short form.
const CASES: u32 = 200;
const QUICK: u32 = 24;
/// Only small requests; then the transfers fill the buffer; then it is judged.
const CALM: Duration = Duration::from_secs(3);
const FILLING: Duration = Duration::from_secs(6);
const JUDGED: Duration = Duration::from_secs(5);
const CASE: Duration = CALM.saturating_add(FILLING).saturating_add(JUDGED);

const DOWNLINK_BPS: u64 = 4_000_000;
const UPLINK_BPS: u64 = 1_000_000;
/// A bottleneck elsewhere has this part of the line's rate.
const ELSEWHERE_PART: u64 = 2;
const BUFFER_BYTES: u64 = 60_000;
/// From here on a wait counts as the place, and below the other there is none. In between it is too small to judge.
const WAITS_S: f64 = 0.06;
const FREE_S: f64 = 0.02;

const REQUEST_EVERY: Duration = Duration::from_millis(150);
/// Each opens a connection.
const QUIC_REQUEST_EVERY: Duration = Duration::from_millis(500);
const REQUEST_BYTES: usize = 200;
const REPLY_BYTES: usize = 900;
/// Who asks whom: at home and on the internet.
const REQUESTS: [Ends; 3] = [
    Ends { home: Role::U2, internet: Role::D1 },
    Ends { home: Role::D2, internet: Role::U1 },
    Ends { home: Role::D2, internet: Role::D1 },
];
/// The device by which packets that come from D1 are delayed.
const IFB: &str = "ifb0";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Home,
    Gateway,
    Uplink,
    Downlink,
    BeyondUp,
    BeyondDown,
    Nowhere,
}

impl Place {
    #[cfg(test)]
    const ALL: [Self; 7] = [
        Self::Home,
        Self::Gateway,
        Self::Uplink,
        Self::Downlink,
        Self::BeyondUp,
        Self::BeyondDown,
        Self::Nowhere,
    ];

    /// The segment's name in the agent's answer.
    const fn segment(self) -> &'static str {
        match self {
            Self::Home => "home",
            Self::Gateway => "gateway",
            Self::Uplink => "uplink",
            Self::Downlink => "downlink",
            Self::BeyondUp | Self::BeyondDown => "beyond",
            Self::Nowhere => "nowhere",
        }
    }
}

named! {
    /// The protocol of transfers and requests.
    enum Protocols {
        Tcp = "tcp",
        Quic = "quic",
        Mixed = "mixed",
    }
}

/// One case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Plan {
    place: Place,
    cc: &'static str,
    traffic: Protocols,
    tcp_streams: u32,
    quic_streams: u32,
    /// Index with [`REQUESTS`].
    quic_requests: [bool; REQUESTS.len()],
    rates: Rates,
    /// The uplink's buffer, where the case does not say it.
    buffer_at: BufferPlace,
    /// One-way delay of the line, milliseconds.
    line_ms: u64,
}

impl Plan {
    fn by_chance(seed: u64, number: u32) -> Self {
        let mut state = mixed(seed.wrapping_mul(STEP).wrapping_add(u64::from(number)));
        let mut choose = |count: usize| {
            state = mixed(state.wrapping_add(STEP));
            (state % count as u64) as usize
        };
        let beyond = [Place::BeyondUp, Place::BeyondDown][choose(2)];
        let place =
            [Place::Home, Place::Gateway, Place::Uplink, Place::Downlink, beyond, Place::Nowhere][choose(6)];
        let buffer_at = match place {
            Place::Gateway => BufferPlace::Gateway,
            Place::Uplink => BufferPlace::Modem,
            _ => [BufferPlace::Gateway, BufferPlace::Modem][choose(2)],
        };
        let cc = ["reno", "cubic", "bbr"][choose(3)];
        let streams = [1, 2, 4][choose(3)];
        let rates = [Rates::Told, Rates::Untold][choose(2)];
        let line_ms = [5, 15, 40][choose(3)];
        let traffic = Protocols::ALL[choose(3)];
        let mut is_quic = || match traffic {
            Protocols::Tcp => false,
            Protocols::Quic => true,
            Protocols::Mixed => choose(2) == 1,
        };
        let quic_streams = (0..streams).filter(|_| is_quic()).count() as u32;
        let quic_requests = REQUESTS.map(|_| is_quic());
        let tcp_streams = streams - quic_streams;
        Self { place, buffer_at, cc, traffic, tcp_streams, quic_streams, quic_requests, rates, line_ms }
    }

    fn link(&self) -> LinkSpec {
        let shaper = |bps| {
            Rate::from_bits_per_second(bps)
                .map(|rate| Shaper { rate, buffer: BufferSize::Bytes(BUFFER_BYTES) })
        };
        let fig1 = LinkSpec::FIG1;
        LinkSpec {
            downlink: shaper(DOWNLINK_BPS).unwrap_or(fig1.downlink),
            uplink: shaper(UPLINK_BPS).unwrap_or(fig1.uplink),
            uplink_buffer_at: self.buffer_at,
            delays: Delays {
                propagation: Duration::from_millis(self.line_ms),
                d1_access: Duration::from_millis(3),
                u1_access: Duration::from_millis(9),
            },
            ..fig1
        }
    }

    /// Starts the transfers that fill the place.
    fn transfer(&self, lab: &Lab, quic: Option<&Quic>) -> Result<Option<Transfer>, TrafficError> {
        let direction = match self.place {
            Place::Home | Place::Downlink | Place::BeyondDown => Direction::Down,
            Place::Gateway | Place::Uplink | Place::BeyondUp => Direction::Up,
            Place::Nowhere => return Ok(None),
        };
        for _ in 0..self.quic_streams {
            quic.map(|quic| quic.transfer(lab, direction, Ends::of(direction))).transpose()?;
        }
        if self.tcp_streams == 0 {
            return Ok(None);
        }
        let duration = FILLING + JUDGED + Duration::from_secs(5);
        let spec = TransferSpec {
            streams: self.tcp_streams,
            congestion_control: self.cc.into(),
            ..TransferSpec::new(direction, duration)
        };
        Transfer::start(lab, spec).map(Some)
    }

    /// Starts the small requests; those of TCP end when they are dropped.
    fn requests(&self, lab: &Lab, quic: Option<&Quic>) -> Result<Vec<Requests>, ExperimentError> {
        let mut tcp = Vec::new();
        for (ends, is_quic) in REQUESTS.into_iter().zip(self.quic_requests) {
            match quic.filter(|_| is_quic) {
                Some(quic) => quic.requests(
                    lab,
                    QuicRequests {
                        ends,
                        every: QUIC_REQUEST_EVERY,
                        request_bytes: REQUEST_BYTES,
                        reply_bytes: REPLY_BYTES as u64,
                    },
                )?,
                None => tcp.push(Requests::start(lab, ends)?),
            }
        }
        Ok(tcp)
    }

    /// The slow place, unless it is the line; its machine, device and rate.
    fn slow(&self, lab: &Lab) -> Result<Option<(Host, &'static str, u64)>, ExperimentError> {
        let (host, device, bps) = match self.place {
            Place::Home => (lab.host(Role::Switch), "p1", DOWNLINK_BPS / ELSEWHERE_PART),
            Place::BeyondUp => (lab.host(Role::R1), "u1", UPLINK_BPS / ELSEWHERE_PART),
            Place::BeyondDown => {
                let host = lab.host(Role::R1);
                for command in [format!("link add {IFB} type ifb"), format!("link set {IFB} up")] {
                    host.run("ip", &command.split(' ').collect::<Vec<_>>())?;
                }
                for command in [
                    "qdisc add dev d1 ingress".to_owned(),
                    format!(
                        "filter add dev d1 parent ffff: matchall action mirred egress redirect dev {IFB}"
                    ),
                ] {
                    host.run("tc", &command.split(' ').collect::<Vec<_>>())?;
                }
                (host, IFB, DOWNLINK_BPS / ELSEWHERE_PART)
            }
            _ => return Ok(None),
        };
        if let Some(rate) = Rate::from_bits_per_second(bps) {
            Shaper { rate, buffer: BufferSize::Bytes(BUFFER_BYTES) }.install(&host, device)?;
        }
        Ok(Some((host, device, bps)))
    }

    /// What happened.
    fn run(&self, agent: &std::path::Path, options: &RunOptions) -> Result<Value, ExperimentError> {
        let lab = Lab::start(self.link())?;
        let mut buffers = vec![];
        for direction in [Direction::Up, Direction::Down] {
            let (host, device) = lab.queue(direction);
            let (segment, bps) = match direction {
                Direction::Up => (self.uplink_segment(), UPLINK_BPS),
                Direction::Down => ("downlink", DOWNLINK_BPS),
            };
            buffers.push(Buffer::open(segment, &host, device, bps)?);
        }
        if let Some((host, device, bps)) = self.slow(&lab)? {
            buffers.push(Buffer::open(self.place.segment(), &host, device, bps)?);
        }
        let agent = Agent::start_with(&lab, agent, self.rates, &[])?;
        let quic = (self.traffic != Protocols::Tcp)
            .then(|| Quic::start(&lab, self.cc, Spin::ByChance))
            .transpose()?;
        let _requests = self.requests(&lab, quic.as_ref())?;
        let began = Instant::now();
        options.interrupt.sleep_until(began + CALM)?;
        let _transfer = self.transfer(&lab, quic.as_ref())?;
        options.interrupt.sleep_until(began + CALM + FILLING)?;
        let mut places = Vec::new();
        let mut newest = Value::Null;
        for second in 1..=JUDGED.as_secs() * 4 {
            options
                .interrupt
                .sleep_until(began + CALM + FILLING + Duration::from_millis(250) * second as u32)?;
            buffers.iter_mut().for_each(Buffer::look);
            if second % 4 == 0 {
                let state: Value = agent.json("/api/v1/state")?;
                newest = state["links"][0].clone();
                places.push(newest["delay"]["place"].as_str().unwrap_or("unknown").to_owned());
            }
        }
        agent.stop()?;
        let truth =
            truth_of(&buffers.iter().map(|buffer| (buffer.segment, buffer.mean_s())).collect::<Vec<_>>());
        Ok(json!({
            "truth": truth,
            "agent": {"segment": most(&places), "places": places, "delay": newest["delay"], "verdict": newest["verdict"],
                "bufferbloat": newest["bufferbloat"]},
        }))
    }

    const fn uplink_segment(&self) -> &'static str {
        match self.buffer_at {
            BufferPlace::Gateway => "gateway",
            BufferPlace::Modem => "uplink",
        }
    }
}

/// A buffer of the lab and what the kernel says of it.
struct Buffer {
    segment: &'static str,
    poller: QueuePoller,
    bps: u64,
    bytes: f64,
    looks: u32,
}

impl Buffer {
    fn open(segment: &'static str, host: &Host, device: &str, bps: u64) -> Result<Self, ExperimentError> {
        Ok(Self { segment, poller: QueuePoller::open(host, device)?, bps, bytes: 0.0, looks: 0 })
    }

    fn look(&mut self) {
        if let Ok(reading) = self.poller.take() {
            self.bytes += reading.backlog_bytes as f64;
            self.looks += 1;
        }
    }

    fn mean_s(&self) -> f64 {
        self.bytes / f64::from(self.looks.max(1)) * 8.0 / self.bps as f64
    }
}

/// The place by the kernel's waits; `null` where they are too small to judge.
fn truth_of(waits: &[(&str, f64)]) -> Value {
    let waits_s: serde_json::Map<String, Value> =
        waits.iter().map(|(segment, wait_s)| ((*segment).to_owned(), (*wait_s).into())).collect();
    let longest = waits.iter().max_by(|(_, a), (_, b)| a.total_cmp(b));
    let segment = match longest {
        Some((segment, wait_s)) if *wait_s >= WAITS_S => Some(*segment),
        Some((_, wait_s)) if *wait_s > FREE_S => None,
        _ => Some("nowhere"),
    };
    json!({"segment": segment, "wait_s": waits_s})
}

/// What was said in more than half of the seconds.
fn most(places: &[String]) -> &str {
    let count = |place: &String| places.iter().filter(|other| *other == place).count();
    places.iter().find(|place| 2 * count(place) > places.len()).map_or("unknown", String::as_str)
}

/// Small requests over one connection, again and again. Dropping it ends them.
struct Requests {
    stopped: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Requests {
    fn start(lab: &Lab, Ends { internet, home }: Ends) -> Result<Self, ExperimentError> {
        let failed = |role| move |source| ExperimentError::from(TrafficError::Short { role, source });
        let address = internet.address(IpVersion::V4).unwrap_or(IpAddr::from([0, 0, 0, 0]));
        let at = SocketAddr::new(address, lab.next_port());
        let stopped = Arc::new(AtomicBool::new(false));
        let listener = lab.host(internet).inside(|| TcpListener::bind(at))?.map_err(failed(internet))?;
        let server = thread::spawn(move || drop(listener.accept().and_then(|(stream, _)| reply(stream))));
        let stream = lab.host(home).inside(|| TcpStream::connect(at))?.map_err(failed(home))?;
        let client = {
            let stopped = Arc::clone(&stopped);
            thread::spawn(move || drop(request(stream, &stopped)))
        };
        Ok(Self { stopped, threads: vec![client, server] })
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn reply(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut request = [0; REQUEST_BYTES];
    loop {
        stream.read_exact(&mut request)?;
        stream.write_all(&[0; REPLY_BYTES])?;
    }
}

fn request(mut stream: TcpStream, stopped: &AtomicBool) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reply = [0; REPLY_BYTES];
    while !stopped.load(Ordering::Relaxed) {
        stream.write_all(&[0; REQUEST_BYTES])?;
        stream.read_exact(&mut reply)?;
        thread::sleep(REQUEST_EVERY);
    }
    Ok(())
}

impl Experiment for Where {
    fn about(&self) -> About {
        About {
            name: NAME,
            source: "docs/guide/where.md",
            what: "the bottleneck by chance in home, gateway, uplink, downlink, beyond, or nowhere: what the agent's delay budget names; --seed, --cases",
            usual: CASE * CASES,
            quick: CASE * QUICK,
            shortest: CASE,
        }
    }

    fn run(
        &self,
        options: &RunOptions,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<Printed, ExperimentError> {
        let by_time = options.total.map(|total| (total.as_secs() / CASE.as_secs()).max(1) as u32);
        let count = options.cases.or(by_time).unwrap_or(if options.quick { QUICK } else { CASES });
        let mut cases = Vec::new();
        for number in 0..count {
            let plan = Plan::by_chance(options.seed, number);
            let name = format!("{number}-{}-{}-{}", plan.place.segment(), plan.traffic.name(), plan.cc);
            progress(Progress { total: CASE * count, elapsed: CASE * number, what: name.clone() });
            let params = json!({
                "place": format!("{:?}", plan.place), "cc": plan.cc, "traffic": plan.traffic.name(), "streams": plan.tcp_streams + plan.quic_streams,
                "quic_streams": plan.quic_streams, "quic_requests": plan.quic_requests, "rates_told": plan.rates == Rates::Told,
                "buffer_at": plan.buffer_at.name(), "line_ms": plan.line_ms, "seed": options.seed,
            });
            let params = params.as_object().cloned().unwrap_or_default();
            let case = OwnCase { name, params, ..OwnCase::default() };
            let Some(agent) = options.agent.clone().or_else(Agent::beside_this_program) else {
                let reason = "no agent; give --agent PATH, or put `pendulum` beside `pendulum-lab`";
                cases.push(OwnCase { not_runnable: Some(reason.into()), ..case });
                continue;
            };
            let mut found = plan.run(&agent, options)?;
            cases.push(OwnCase { truth: found["truth"].take(), agent: found["agent"].take(), ..case });
        }
        let text = table(&cases);
        Report::new(NAME, cases, text).finish(options)
    }
}

/// Right, unknown and wrong by true segment and by traffic, and every case that is not right.
fn table(cases: &[OwnCase]) -> String {
    let segments = ["home", "gateway", "uplink", "downlink", "beyond", "nowhere"];
    let said = |case: &OwnCase| case.agent["segment"].as_str().unwrap_or("unknown").to_owned();
    let row = |name: &str, belongs: &dyn Fn(&OwnCase, &str) -> bool| {
        let judged: Vec<_> = cases
            .iter()
            .filter_map(|case| Some((case, case.truth["segment"].as_str()?)))
            .filter(|(case, truth)| belongs(case, truth))
            .map(|(case, truth)| (truth == said(case), said(case) == "unknown"))
            .collect();
        let right = judged.iter().filter(|(is_right, _)| *is_right).count();
        let unknown = judged.iter().filter(|(_, is_unknown)| *is_unknown).count();
        let counts = [judged.len(), right, unknown, judged.len() - right - unknown];
        [name.to_owned()].into_iter().chain(counts.map(|count| count.to_string())).collect::<Vec<_>>()
    };
    let mut rows = vec![["bottleneck", "cases", "right", "unknown", "wrong"].map(str::to_owned).to_vec()];
    rows.extend(segments.map(|segment| row(segment, &|_, truth| truth == segment)));
    rows.extend(Protocols::ALL.map(|traffic| {
        let name = traffic.name();
        row(name, &|case, _| case.params.get("traffic").is_some_and(|it| *it == name))
    }));
    rows.push(row("all", &|_, _| true));
    let mut text = align(&rows);
    let small =
        cases.iter().filter(|case| case.not_runnable.is_none() && case.truth["segment"].is_null()).count();
    text.push_str(&format!("too small a wait to judge: {small}\n"));
    for case in cases {
        if let Some(reason) = &case.not_runnable {
            text.push_str(&format!("{}: not runnable here: {reason}\n", case.name));
        } else if case.truth["segment"].as_str().is_some_and(|truth| truth != said(case)) {
            text.push_str(&format!("{}: {} for {}\n", case.name, said(case), case.truth["segment"]));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chance_is_the_seed_s_and_reaches_every_place() {
        let plans = |seed| (0..60).map(|number| Plan::by_chance(seed, number)).collect::<Vec<_>>();
        assert_eq!(plans(3), plans(3));
        assert_ne!(plans(3), plans(4));
        for place in Place::ALL {
            assert!(plans(3).iter().any(|plan| plan.place == place), "{place:?}");
        }
        for traffic in Protocols::ALL {
            assert!(plans(3).iter().any(|plan| plan.traffic == traffic), "{traffic:?}");
        }
        let mixed = |plan: &&Plan| plan.traffic == Protocols::Mixed;
        assert!(plans(3).iter().filter(mixed).any(|plan| plan.tcp_streams > 0 && plan.quic_streams > 0));
        let in_modem = |plan: &&Plan| plan.place == Place::Uplink;
        assert!(plans(3).iter().filter(in_modem).all(|plan| plan.buffer_at == BufferPlace::Modem));
    }

    #[test]
    fn the_truth_is_the_longest_wait_and_a_small_one_is_not_judged() {
        let segment = |waits: &[(&str, f64)]| truth_of(waits)["segment"].clone();
        assert_eq!(segment(&[("uplink", 0.2), ("downlink", 0.01)]), "uplink");
        assert_eq!(segment(&[("uplink", 0.01)]), "nowhere");
        assert_eq!(segment(&[("uplink", 0.04)]), Value::Null);
    }

    #[test]
    fn the_table_counts_what_is_right_unknown_and_wrong() {
        let case = |truth: Value, agent: &str| OwnCase {
            name: format!("{agent}-for"),
            truth: json!({"segment": truth}),
            agent: json!({"segment": agent}),
            ..OwnCase::default()
        };
        let cases = [
            case("home".into(), "home"),
            case("home".into(), "unknown"),
            case("beyond".into(), "downlink"),
            case(Value::Null, "home"),
        ];
        let text = table(&cases);
        let row = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(name)).expect("a row");
            line.split_whitespace().skip(1).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(
            (row("home"), row("beyond")),
            (
                ["2", "1", "1", "0"].map(String::from).to_vec(),
                ["1", "0", "0", "1"].map(String::from).to_vec()
            )
        );
        assert_eq!(row("all"), ["3", "1", "1", "1"]);
        assert!(
            text.contains("to judge: 1") && text.contains("downlink-for: downlink for \"beyond\""),
            "{text}"
        );
        let places = ["home", "unknown", "home"].map(str::to_owned);
        assert_eq!((most(&places), most(&places[..2])), ("home", "unknown"));
    }
}
