//! What the agent says of a congested link against what the kernel says: device counters, sockets, and a capture.

mod truth;

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pendulum::replay::meter::Meter;
use pendulum_lab::agent::Agent;
use pendulum_lab::lab::{Lab, LinkSpec};
use pendulum_lab::topology::{IpVersion, LAN_DEVICE, Role, WAN_DEVICE};
use pendulum_lab::traffic::{Transfer as Iperf, TransferSpec};
use pendulum_lab::truth::Capture;
use pendulum_model::segment::{Class, Direction};
use serde_json::Value;

use crate::agent::PENDULUM;
use crate::metrics::Samples;
use crate::rig::{is_allowed, wait_until};
use crate::tcp::{Transfer, info, set_congestion_control, set_receive_buffer};
use truth::{Reading, replay, retransmitted_by_ss};

/// Eight seconds of the uplink, into a full queue: something is lost.
const LOSSY: UploadSpec = UploadSpec { bytes: 190_000, receive_buffer: None };
/// Five seconds with a handful of segments in the queue: nothing is lost, and every RTT is beyond doubt.
const LOSSLESS: UploadSpec = UploadSpec { bytes: 110_000, receive_buffer: Some(8_000) };

#[derive(Clone, Copy)]
struct UploadSpec {
    bytes: u64,
    /// SO_RCVBUF of the other end.
    receive_buffer: Option<u32>,
}

/// The sender's own state at one moment.
struct SocketSample {
    at: Instant,
    in_flight_bytes: u64,
    mss_bytes: u64,
    rtt_s: f64,
}

/// The agent's view of the same connection; swept from the kernel between `at` and `until`.
struct FlowSample {
    at: Instant,
    until: Instant,
    in_flight_bytes: u64,
    /// Sum in seconds and number of all RTT samples of the link's WAN side until then.
    rtt: (f64, f64),
}

/// All that is known of the upload when it has been acknowledged to its end.
struct Upload {
    socket: Vec<SocketSample>,
    flow: Vec<FlowSample>,
    retransmitted_segments: u64,
    last: Value,
}

fn flow_of(agent: &Agent, client: SocketAddr) -> Option<Value> {
    let answer: Value = serde_json::from_str(&agent.get("/api/v1/flows?limit=100").unwrap()).unwrap();
    answer["flows"].as_array()?.iter().find(|flow| flow["client"] == client.to_string()).cloned()
}

fn rtt_of_wan(agent: &Agent) -> (f64, f64) {
    let samples = Samples::parse(&agent.get("/metrics").unwrap());
    let figure = |end| samples.get(&format!("pendulum_rtt_seconds_{end}{{link=\"wan0\",side=\"wan\"}}"));
    (figure("sum"), figure("count"))
}

/// Sends with reno from U2 to U1, and looks from both sides meanwhile.
fn upload(lab: &Lab, agent: &Agent, spec: UploadSpec) -> Upload {
    let address = SocketAddr::new(Role::U1.address(IpVersion::V4).unwrap(), 6001);
    let home = lab.host(Role::U2);
    let listener = lab.host(Role::U1).inside(|| TcpListener::bind(address)).unwrap().unwrap();
    if let Some(bytes) = spec.receive_buffer {
        set_receive_buffer(&listener, bytes);
    }
    let stream = home.inside(|| TcpStream::connect(address)).unwrap().unwrap();
    let client = stream.local_addr().unwrap();
    let transfer = Transfer::over(stream, listener.accept().unwrap().0);
    set_congestion_control(&transfer.sending, "reno");
    let is_over = AtomicBool::new(false);
    let (socket, flow) = std::thread::scope(|scope| {
        let sampler = scope.spawn(|| sample_socket(&transfer.sending, &is_over));
        let asker = scope.spawn(|| sample_flow(agent, client, &is_over));
        transfer.send(spec.bytes);
        is_over.store(true, Ordering::Relaxed);
        (sampler.join().unwrap(), asker.join().unwrap())
    });
    let retransmitted_segments = retransmitted_by_ss(&home, client);
    assert_eq!(transfer.finish(), spec.bytes);
    wait_until("the end of the upload is swept", || {
        flow_of(agent, client).is_some_and(|flow| flow["state"] == "closed")
    });
    let last = flow_of(agent, client).unwrap();
    Upload { socket, flow, retransmitted_segments, last }
}

fn sample_socket(stream: &TcpStream, is_over: &AtomicBool) -> Vec<SocketSample> {
    let mut samples = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        let info = info(stream);
        samples.push(SocketSample {
            at: Instant::now(),
            in_flight_bytes: u64::from(info.tcpi_unacked) * u64::from(info.tcpi_snd_mss),
            mss_bytes: info.tcpi_snd_mss.into(),
            rtt_s: f64::from(info.tcpi_rtt) / 1e6,
        });
        std::thread::sleep(Duration::from_millis(4));
    }
    samples
}

fn sample_flow(agent: &Agent, client: SocketAddr, is_over: &AtomicBool) -> Vec<FlowSample> {
    let mut samples = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        let asked = Instant::now();
        if let Some(flow) = flow_of(agent, client) {
            let answered = Instant::now();
            // A busy flow changes from sweep to sweep: it has been idle since the newest.
            let idle = Duration::from_secs_f64(flow["idle_s"].as_f64().unwrap());
            if let Some(at) = asked.checked_sub(idle).filter(|_| idle < Duration::from_secs(1)) {
                let in_flight_bytes = flow["up"]["in_flight_bytes"].as_u64().unwrap();
                let until = answered - idle;
                samples.push(FlowSample { at, until, in_flight_bytes, rtt: rtt_of_wan(agent) });
            }
        }
        std::thread::sleep(Duration::from_millis(250));
    }
    samples
}

#[test]
fn figures_are_what_the_kernel_says() {
    if !is_allowed("figures_are_what_the_kernel_says") {
        return;
    }
    let lab = Lab::start(LinkSpec::default()).expect("the lab starts");
    let agent = Agent::start(&lab, Path::new(PENDULUM)).expect("the agent starts");
    let directory = tempfile::tempdir().unwrap();
    let before = Reading::when_quiet(&lab, &agent);
    let captures = [WAN_DEVICE, LAN_DEVICE].map(|device| {
        let file = directory.path().join(device);
        Capture::start(&lab.gateway(), device, &file, 128).expect("tcpdump starts")
    });

    let lossless = upload(&lab, &agent, LOSSLESS);
    let down = TransferSpec::new(Direction::Down, Duration::from_secs(8));
    let v6 = |direction| TransferSpec {
        ip: IpVersion::V6,
        ..TransferSpec::new(direction, Duration::from_secs(2))
    };
    let iperfs = [down, v6(Direction::Down), v6(Direction::Up)]
        .map(|spec| Iperf::start(&lab, spec).expect("iperf3 starts"));
    let lossy = upload(&lab, &agent, LOSSY);
    for iperf in iperfs {
        iperf.finish(Duration::from_secs(60)).expect("iperf3 ends");
    }

    let after = Reading::when_quiet(&lab, &agent);
    let files = captures.map(|capture| {
        let file = capture.file().to_owned();
        let counts = capture.stop().expect("tcpdump ends");
        assert_eq!(counts.dropped_by_kernel, 0, "a capture with holes proves nothing");
        file
    });
    state_and_metrics_agree(&after);
    device_counters_agree(&before, &after);
    captures_agree(&before, &after, &replay(&files));
    assert!(retransmissions_agree(&lossy) > 0, "something was sent again");
    // The queue grows faster than the sender's timeout at first: even here something may be sent again.
    retransmissions_agree(&lossless);
    in_flight_agrees(&lossy);
    in_flight_agrees(&lossless);
    round_trip_times_agree(&lossless);
    lab.stop().expect("the lab is gone");
}

/// Both are taken on a quiet link, so they have to be the same to the last segment.
fn state_and_metrics_agree(reading: &Reading) {
    let samples = Samples::parse(&reading.metrics);
    let mut compared = 0;
    for direction in Direction::ALL.map(Direction::name) {
        let state = &reading.state["directions"][direction];
        let labels = format!("{{link=\"wan0\",direction=\"{direction}\"");
        let mut check = |name: String, value: &Value| {
            assert_eq!(samples.get(&name), value.as_f64().unwrap(), "{name}");
            compared += 1;
        };
        let mut bytes = 0.0;
        for class in Class::ALL.map(Class::name) {
            let class_labels = format!("{labels},class=\"{class}\"}}");
            check(format!("pendulum_segments_total{class_labels}"), &state["segments"][class]);
            bytes += samples.get(&format!("pendulum_bytes_total{class_labels}"));
        }
        assert_eq!(bytes, state["bytes"].as_f64().unwrap(), "bytes {direction}");
        for mark in ["ce", "ece", "cwr", "sack"] {
            let name = format!("pendulum_marked_segments_total{labels},mark=\"{mark}\"}}");
            check(name, &state["marked_segments"][mark]);
        }
        for field in ["payload_bytes", "retransmitted_segments", "reordered_segments"] {
            check(format!("pendulum_{field}_total{labels}}}"), &state[field]);
        }
    }
    for (reason, count) in reading.state["losses"].as_object().unwrap() {
        let name = format!("pendulum_unmeasured_total{{link=\"wan0\",reason=\"{reason}\"}}");
        assert_eq!(samples.get(&name), count.as_f64().unwrap(), "{name}");
    }
    println!("state and metrics: {compared} figures are the same");
}

/// TC ingress sees what the device has received; TC egress what it has sent, and what its queue then dropped.
fn device_counters_agree(before: &Reading, after: &Reading) {
    let grown = |figure: fn(&Reading) -> u64| figure(after) - figure(before);
    let received = (grown(|r| r.link.received_packets), grown(|r| r.link.received_bytes));
    let down = (grown(|r| r.segments("down")), grown(|r| r.bytes("down")));
    let (sent, dropped) = (grown(|r| r.link.sent_packets), grown(|r| r.queue.dropped_packets));
    let (up, up_bytes) = (grown(|r| r.segments("up")), grown(|r| r.bytes("up")));
    println!("received (packets, bytes): device {received:?}, agent {down:?}");
    println!("sent: device {sent} + dropped {dropped}, agent {up}");
    assert_eq!(down, received);
    assert_eq!(up, sent + dropped);
    assert!(dropped > 0, "the queue was full at times");
    let sent_bytes = grown(|r| r.link.sent_bytes);
    assert!((sent_bytes..=sent_bytes + dropped * 1514).contains(&up_bytes), "{up_bytes}, sent {sent_bytes}");
}

/// What comes in at both sides of the gateway is what the hooks of the WAN device see: on the way up, before the queue.
fn captures_agree(before: &Reading, after: &Reading, meter: &Meter) {
    let grown = |pointer: &str| {
        let figure = |reading: &Reading| reading.state.pointer(pointer).and_then(Value::as_u64).unwrap();
        figure(after) - figure(before)
    };
    for direction in Direction::ALL {
        let counters = meter.counters[direction];
        let way = format!("/directions/{}", direction.name());
        let ours = Class::ALL.map(|class| grown(&format!("{way}/segments/{}", class.name())));
        println!("{direction:?}, segments by class: agent {ours:?}, captures {:?}", counters.segments);
        assert_eq!(ours, counters.segments, "{direction:?}");
        assert!(ours[Class::Data as usize] > 100, "there was traffic");
        for (field, theirs) in [
            ("bytes", counters.bytes.iter().sum::<u64>()),
            ("payload_bytes", counters.payload_bytes),
            ("retransmitted_segments", counters.retransmitted_segments),
            ("reordered_segments", counters.reordered_segments),
        ] {
            let ours = grown(&format!("{way}/{field}"));
            println!("{direction:?}, {field}: agent {ours}, captures {theirs}");
            assert_eq!(ours, theirs, "{direction:?}, {field}");
        }
    }
}

/// Nothing is lost between the sender and TC egress, so each segment sent again is seen again.
fn retransmissions_agree(upload: &Upload) -> u64 {
    let ours = upload.last["up"]["retransmitted_segments"].as_u64().unwrap();
    println!("upload, retransmitted: {ours}, by ss {}", upload.retransmitted_segments);
    assert_eq!(ours, upload.retransmitted_segments);
    ours
}

/// Within one train of segments of what the socket had unacknowledged about when the agent swept.
fn in_flight_agrees(upload: &Upload) {
    const TRAIN_SEGMENTS: u64 = 2;
    const ABOUT: Duration = Duration::from_millis(100);
    let mut largest = 0;
    for flow in &upload.flow {
        let from = upload.socket.partition_point(|sample| sample.at + ABOUT < flow.at);
        let to = upload.socket.partition_point(|sample| sample.at <= flow.until + ABOUT);
        // With the last one before and the first one after: a busy machine may leave gaps.
        let near = upload.socket.iter().take(to + 1).skip(from.saturating_sub(1));
        let apart = |sample: &&SocketSample| sample.in_flight_bytes.abs_diff(flow.in_flight_bytes);
        let nearest = near.min_by_key(apart).unwrap();
        let difference = apart(&nearest);
        largest = largest.max(difference);
        assert!(
            difference <= TRAIN_SEGMENTS * nearest.mss_bytes,
            "in flight {}, by the socket {}",
            flow.in_flight_bytes,
            nearest.in_flight_bytes
        );
    }
    println!("upload, in flight: {} looks, at most {largest} bytes from the socket's", upload.flow.len());
    assert!(upload.flow.len() >= 4, "{} looks", upload.flow.len());
}

/// The mean of both over the steady part of a lossless upload that has the link for itself. Linux keeps a moving mean with
/// weight 1/8 (RFC 6298; tcp_rtt_estimator() of net/ipv4/tcp_input.c): two successive values tell the sample between.
fn round_trip_times_agree(upload: &Upload) {
    let steady = upload.socket[0].at + Duration::from_secs(1);
    let mut looks = upload.flow.iter().filter(|look| look.at >= steady);
    let (first, last) = (looks.next().unwrap(), looks.next_back().unwrap());
    let ours = (last.rtt.0 - first.rtt.0) / (last.rtt.1 - first.rtt.1);

    let within = upload.socket.iter().filter(|sample| (first.at..=last.at).contains(&sample.at));
    let mut smoothed: Vec<f64> = within.map(|sample| sample.rtt_s).collect();
    smoothed.dedup();
    let samples: Vec<f64> = smoothed.windows(2).map(|pair| 8.0 * pair[1] - 7.0 * pair[0]).collect();
    let theirs = samples.iter().sum::<f64>() / samples.len() as f64;
    println!(
        "upload, mean RTT: {ours:.4} s of {} samples; of the socket's {} samples {theirs:.4} s",
        last.rtt.1 - first.rtt.1,
        samples.len()
    );
    assert!(samples.len() >= 10 && last.rtt.1 - first.rtt.1 >= 5.0, "enough samples");
    assert!((ours - theirs).abs() <= 0.1 * theirs, "{ours} s, by the socket {theirs} s");
    // The whole flow's mean has the beginning in it too, but nothing else.
    let whole = upload.last["up"]["rtt_mean_s"].as_f64().unwrap();
    assert!(whole > 0.5 * theirs && whole < 1.1 * theirs, "{whole} s, by the socket {theirs} s");
}
