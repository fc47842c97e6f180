//! Congestion windows of the gateway's own sockets, by every source of the ladder, against socket diagnostics, which is
//! where `ss -ti` has its figures from, and against `ss -ti` itself.

use std::net::SocketAddr;
use std::time::Duration;

use pendulum::bpf::abi::{pendulum_flow_key, pendulum_socket};
use pendulum::bpf::{Cwnd, CwndSource};
use pendulum::net::read_sockets;
use pendulum::snapshot::FlowKey;
use pendulum_lab::shaper::Shaper;
use pendulum_lab::topology::IpVersion;
use pendulum_lab::truth::{self, SocketReading};
use pendulum_lab::{LinkSpec, Role};
use pendulum_model::rate::BufferSize;

use crate::rig::{Rig, with_rig};

const PORT: u16 = 5001;
const SOURCES: [CwndSource; 4] =
    [CwndSource::Fexit, CwndSource::Fentry, CwndSource::Probe, CwndSource::SockDiag];
const RECENT: Duration = Duration::from_secs(5);

#[test]
fn every_source_tells_what_socket_diagnostics_tell() {
    // A buffer that a window of this size does not fill: no loss, so that the window is at rest between ACKs.
    let deep = Shaper { buffer: BufferSize::Bytes(400_000), ..LinkSpec::FIG1.uplink };
    let spec = LinkSpec { uplink: deep, ..LinkSpec::FIG1 };
    with_rig("every_source_tells_what_socket_diagnostics_tell", spec, |rig| {
        let best = start(rig, CwndSource::Fexit);
        println!("best source {:?}, refused {:?}", best.source(), best.refused());
        for (source, reason) in best.refused() {
            assert!(*source < best.source() && !reason.is_empty(), "{source:?}: {reason}");
        }
        let better = SOURCES.iter().filter(|source| **source < best.source()).count();
        assert_eq!(best.refused().len(), better, "every better source was tried");
        if std::env::var("PENDULUM_IN_VM").is_ok_and(|value| value == "1") {
            assert!(best.source() <= CwndSource::Fentry, "full kernels trace functions");
        }
        drop(best);
        upload_from_gateway(rig, |rig| {
            for source in SOURCES {
                let cwnd = start(rig, source);
                if cwnd.source() == source {
                    compare(rig, &cwnd);
                } else {
                    println!("{}: not on this kernel: {:?}", source.name(), cwnd.refused());
                }
            }
        });
    });
}

fn start(rig: &Rig, best: CwndSource) -> Cwnd {
    rig.lab.gateway().inside(|| Cwnd::start(best)).expect("inside the gateway")
}

/// A transfer whose sender is the gateway itself.
fn upload_from_gateway(rig: &Rig, deed: impl FnOnce(&Rig)) {
    let address = Role::U1.address(IpVersion::V4).expect("an endpoint").to_string();
    let port = PORT.to_string();
    let (server, gateway) = (rig.lab.host(Role::U1), rig.lab.gateway());
    let mut command = server.command("iperf3").expect("a command");
    command.args(["-s", "-1", "-p", &port]);
    let _server = server.spawn(command, "server").expect("it starts");
    std::thread::sleep(Duration::from_millis(700));
    let mut command = gateway.command("iperf3").expect("a command");
    command.args(["-c", &address, "-p", &port, "-t", "60", "-C", "reno", "-w", "60K"]);
    let _client = gateway.spawn(command, "client").expect("it starts");
    std::thread::sleep(Duration::from_secs(2));
    deed(rig);
}

fn read(rig: &Rig, cwnd: &Cwnd) -> (Option<pendulum_socket>, Option<pendulum_socket>) {
    let pick = |sockets: Vec<(pendulum_flow_key, pendulum_socket)>| {
        let ours =
            |key: &pendulum_flow_key| matches!(FlowKey(*key).remote(), SocketAddr::V4(a) if a.port() == PORT);
        // iperf3's control connection has the same port: the data connection is the one that has more under way.
        sockets.into_iter().filter(|(key, _)| ours(key)).map(|(_, s)| s).max_by_key(|s| s.in_flight)
    };
    let (traced, told) = rig
        .lab
        .gateway()
        .inside(|| (cwnd.sockets(RECENT).expect("sockets"), read_sockets().expect("sockets")))
        .expect("inside the gateway");
    (pick(traced), pick(told))
}

/// The transfer's socket as `ss -ti` shows it at this moment.
fn shown_by_ss(rig: &Rig) -> Option<SocketReading> {
    let port = format!(":{PORT}");
    let sockets = truth::read_sockets(&rig.lab.gateway()).expect("ss runs");
    sockets.into_iter().filter(|socket| socket.peer.ends_with(&port)).max_by_key(|socket| socket.sent_bytes)
}

fn compare(rig: &Rig, cwnd: &Cwnd) {
    let name = cwnd.source().name();
    let mut compared = 0;
    for _ in 0..400 {
        std::thread::sleep(Duration::from_millis(25));
        let (Some(traced), Some(told)) = read(rig, cwnd) else { continue };
        let shown = shown_by_ss(rig);
        let (Some(again), _) = read(rig, cwnd) else { continue };
        // Socket diagnostics do not tell when: the RTT changes with every ACK.
        let moment = |socket: &pendulum_socket| (socket.at_ns, socket.srtt_us, socket.snd_cwnd);
        if moment(&traced) != moment(&again) || told.in_flight < 3 {
            continue;
        }
        assert_eq!(traced.mss, told.mss, "{name}: {traced:?} {told:?}");
        // Before an ACK for two segments is processed the window may be two smaller (slow start).
        let step = if matches!(cwnd.source(), CwndSource::Fexit | CwndSource::SockDiag) { 0 } else { 2 };
        let same_state = traced.ca_state == told.ca_state;
        if same_state && told.ca_state == 0 {
            assert!(told.snd_cwnd.abs_diff(traced.snd_cwnd) <= step, "{name}: {traced:?} {told:?}");
            assert_eq!(traced.snd_ssthresh, told.snd_ssthresh, "{name}: {traced:?} {told:?}");
            assert_eq!(traced.retransmitted, told.retransmitted, "{name}: {traced:?} {told:?}");
            let near = told.srtt_us / 4 + 1000;
            assert!(told.srtt_us.abs_diff(traced.srtt_us) <= near, "{name}: {traced:?} {told:?}");
            // `ss` looked between two readings that were the same.
            let shown = shown.expect("ss lists the connection");
            let traced_figures = (u64::from(traced.snd_cwnd), u64::from(traced.mss));
            let (cwnd, mss) = (shown.cwnd_segments, shown.mss_bytes);
            assert!(cwnd.abs_diff(traced_figures.0) <= u64::from(step), "{name}: {traced:?}, ss {shown:?}");
            assert_eq!(mss, traced_figures.1, "{name}: {traced:?}, ss {shown:?}");
            compared += 1;
        }
        if compared >= 5 {
            println!("{name}: {compared} comparisons, the last with {traced:?}");
            return;
        }
    }
    assert!(compared > 0, "{name}: no socket to compare");
    println!("{name}: {compared} comparisons");
}
