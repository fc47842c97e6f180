//! Congestion windows of the gateway's own sockets, by every source, against socket diagnostics, which is
//! where `ss -ti` has its figures from, and against `ss -ti` itself.

use std::net::SocketAddr;
use std::time::Duration;

use pendulum::bpf::abi::{pendulum_flow_key, pendulum_socket};
use pendulum::bpf::read_sockets;
use pendulum::bpf::{Cwnd, CwndSource};
use pendulum_lab::process::Process;
use pendulum_lab::shaper::Shaper;
use pendulum_lab::topology::IpVersion;
use pendulum_lab::truth;
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
        assert!(best.source() <= CwndSource::Fentry, "Debian's kernels trace functions");
        drop(best);
        upload_from_gateway(rig, |rig, client| {
            for source in SOURCES {
                let mut cwnd = start(rig, source);
                if cwnd.source() == source {
                    let of_loopback = start_on(rig, source, 1);
                    compare(rig, &cwnd);
                    if source != CwndSource::SockDiag {
                        assert_eq!(read(rig, &of_loopback).0, None, "{source:?}: it is of another device");
                    }
                    compare_with_ss(rig, &cwnd, client);
                    is_attached_only_while_needed(rig, &mut cwnd);
                } else {
                    println!("{}: not on this kernel: {:?}", source.name(), cwnd.refused());
                }
            }
        });
    });
}

fn start(rig: &Rig, best: CwndSource) -> Cwnd {
    start_on(rig, best, rig.ifindex)
}

fn start_on(rig: &Rig, best: CwndSource, device: u32) -> Cwnd {
    let mut cwnd = rig.lab.gateway().inside(|| Cwnd::start(best)).expect("inside the gateway");
    cwnd.watch(Some(device)).expect("the kernel takes it");
    cwnd
}

/// A transfer whose sender is the gateway itself.
fn upload_from_gateway(rig: &Rig, action: impl FnOnce(&Rig, &mut Process)) {
    let address = Role::U1.address(IpVersion::V4).expect("an endpoint").to_string();
    let port = PORT.to_string();
    let (server, gateway) = (rig.lab.host(Role::U1), rig.lab.gateway());
    let mut command = server.command("iperf3").expect("a command");
    command.args(["-s", "-1", "-p", &port]);
    let _server = server.spawn(command, "server").expect("it starts");
    std::thread::sleep(Duration::from_millis(700));
    let mut command = gateway.command("iperf3").expect("a command");
    command.args(["-c", &address, "-p", &port, "-t", "60", "-C", "reno", "-w", "60K"]);
    let mut client = gateway.spawn(command, "client").expect("it starts");
    std::thread::sleep(Duration::from_secs(2));
    action(rig, &mut client);
}

fn read(rig: &Rig, cwnd: &Cwnd) -> (Option<pendulum_socket>, Option<pendulum_socket>) {
    let pick = |sockets: Vec<(pendulum_flow_key, pendulum_socket)>| {
        let ours = |key: &pendulum_flow_key| matches!(key.remote(), SocketAddr::V4(a) if a.port() == PORT);
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

/// Without a socket to follow its program is not attached, and diagnostics tell of all; with one it starts with what they tell.
fn is_attached_only_while_needed(rig: &Rig, cwnd: &mut Cwnd) {
    let is_traced = cwnd.source() != CwndSource::SockDiag;
    cwnd.attach_for(&[]).expect("detached");
    assert!(!cwnd.is_attached());
    let found =
        rig.lab.gateway().inside(|| cwnd.sockets(RECENT).expect("sockets")).expect("inside the gateway");
    let ours = |key: &pendulum_flow_key| key.remote().port() == PORT;
    let found: Vec<_> = found.into_iter().filter(|(key, _)| ours(key)).collect();
    assert!(!found.is_empty(), "{}: diagnostics tell of the upload", cwnd.source().name());
    cwnd.attach_for(&found).expect("the kernel takes it again");
    assert_eq!(cwnd.is_attached(), is_traced, "{:?}", cwnd.refused());
    let known = cwnd.sockets(RECENT).expect("sockets");
    assert!(!is_traced || found.iter().all(|(key, _)| known.iter().any(|(known, _)| known == key)));
}

/// The same against `ss -ti`, which is slow to start: with the sender held, once all it has sent is acknowledged, nothing
/// changes any more.
fn compare_with_ss(rig: &Rig, cwnd: &Cwnd, client: &mut Process) {
    let name = cwnd.source().name();
    let port = format!(":{PORT}");
    client.signal(libc::SIGSTOP).expect("the client is there");
    let mut shown = None;
    for _ in 0..100 {
        let sockets = truth::read_sockets(&rig.lab.gateway()).expect("ss runs");
        let data = sockets.into_iter().filter(|socket| socket.peer.ends_with(&port));
        shown = data.max_by_key(|socket| socket.sent_bytes).filter(|socket| socket.outstanding_bytes() == 0);
        if shown.is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let shown = shown.expect("what the sender has sent gets acknowledged");
    let traced =
        rig.lab.gateway().inside(|| cwnd.sockets(RECENT).expect("sockets")).expect("inside the gateway");
    let traced = traced.into_iter().find(|(key, _)| key.home().to_string() == shown.local);
    let (_, traced) = traced.unwrap_or_else(|| panic!("{name}: nothing known of {shown:?}"));
    assert_eq!(u64::from(traced.mss), shown.mss_bytes, "{name}: {traced:?}, ss {shown:?}");
    let step = if matches!(cwnd.source(), CwndSource::Fexit | CwndSource::SockDiag) { 0 } else { 2 };
    let differ = u64::from(traced.snd_cwnd).abs_diff(shown.cwnd_segments);
    assert!(differ <= step, "{name}: {traced:?}, ss {shown:?}");
    println!("{name}: ss says {} segments, so do we", shown.cwnd_segments);
    client.signal(libc::SIGCONT).expect("the client is there");
    std::thread::sleep(Duration::from_secs(1));
}

fn compare(rig: &Rig, cwnd: &Cwnd) {
    let name = cwnd.source().name();
    let mut compared = 0;
    for _ in 0..400 {
        std::thread::sleep(Duration::from_millis(25));
        let (Some(traced), Some(told)) = read(rig, cwnd) else { continue };
        let (Some(again), _) = read(rig, cwnd) else { continue };
        // Socket diagnostics tell the moment to a millisecond: the RTT changes with every ACK.
        let moment = |socket: &pendulum_socket| (socket.at_ns / 10_000_000, socket.srtt_us, socket.snd_cwnd);
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
