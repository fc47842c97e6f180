//! A known row of packets through a real qdisc: the programs in the kernel, and figures that do not depend on when the machine
//! finds time for it. A token bucket without tokens holds what the test puts in, and lets it go when the test gives it a rate.

use std::process::Command;
use std::time::{Duration, Instant};

use aya::maps::Array;
use pendulum::bpf::abi::{self, pendulum_departure, pendulum_queue};
use pendulum::bpf::{LinkPrograms, LoadOptions, QueuePrograms};
use pendulum_model::segment::Direction;

use crate::cable::{NEAR, PacketSocket, index, is_root, with_cable};
use crate::craft::{LinkLayer, Tcp, up};
use crate::native::Kind;

/// Bytes on the link of every data packet, and of every ACK.
const SIZES: [u64; 2] = [1054, 66];
/// In the order in which they come. The first one passes at once: the bucket is full at the start. The second one waits for 8 s, if the
/// test lets it.
const ROW: [Kind; 14] = {
    use Kind::{Ack, Data};
    [Data, Data, Ack, Data, Ack, Ack, Data, Ack, Data, Ack, Ack, Ack, Data, Ack]
};
const TICK_NS: u64 = 4096;
/// Between two packets: more than a tick. Those of one class that come in the same tick share a record of when they left.
const GAP: Duration = Duration::from_micros(10);

fn tc(arguments: &str) {
    let output = Command::new("tc").args(arguments.split(' ')).output().expect("iproute2 is there");
    assert!(output.status.success(), "tc {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The packet at a place of the row.
fn packet(at: usize) -> Tcp {
    let number = at as u32;
    match ROW[at] {
        Kind::Data => up().seq(1 + 1000 * number).payload(1000),
        Kind::Ack => up().home_port(41_000).ack(1 + number).ts(number + 1, 1),
    }
}

fn count(kind: Kind) -> u64 {
    ROW.iter().filter(|of| **of == kind).count() as u64
}

/// The queue's state as soon as `done` says so.
fn wait(queues: &QueuePrograms, what: &str, done: impl Fn(&pendulum_queue) -> bool) -> pendulum_queue {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        let state = queues.state(Direction::Up);
        if done(&state) {
            return state;
        }
        assert!(Instant::now() < end, "{what} does not come about: {state:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Time in the queue of each packet that left, by class, in ticks: what stands in the departures.
fn departures(queues: &mut QueuePrograms) -> [Vec<u64>; 2] {
    let map = queues.object_mut().map("departures").expect("there");
    let map: Array<_, pendulum_departure> = map.try_into().expect("an array");
    let mut sojourns = [Vec::new(), Vec::new()];
    for index in 0..map.len() {
        let passage = map.get(&index, 0).expect("readable").passage;
        if passage != 0 {
            let (mark, left) = (passage >> 32, passage & 0xffff_ffff);
            let class = usize::from(index >= abi::PENDULUM_DEPARTURES);
            sojourns[class].push(left.wrapping_sub(mark) & 0xff_ffff);
        }
    }
    sojourns
}

/// All packets come, then all leave.
fn run() {
    let ifindex = index(NEAR);
    // 1 kbit/s: 8 ms for each byte. The bucket holds one full packet, and less than an ACK beside it.
    tc(&format!("qdisc replace dev {NEAR} root handle 1: tbf rate 1kbit burst 1100 limit 60000"));
    let mut programs =
        LinkPrograms::load(&LoadOptions { queue_mark: true, ..LoadOptions::default() }).expect("they load");
    programs.attach(NEAR, ifindex).expect("and attach");
    let mut queues = QueuePrograms::load().expect("they load");
    queues.track(Direction::Up, ifindex, 0).expect("registered");
    let mut reader = queues.reader(Direction::Up);
    let socket = PacketSocket::new(NEAR);
    for at in 0..ROW.len() {
        socket.send(&packet(at).build(LinkLayer::Ethernet).bytes, 14);
        std::thread::sleep(GAP);
    }
    let of = |state: &pendulum_queue, of: fn(&abi::pendulum_queue_totals) -> [u64; 2]| of(&state.totals);
    let full = wait(&queues, "a full queue", |state| state.level.packets as usize == ROW.len() - 1);
    let stands = [SIZES[0] * (count(Kind::Data) - 1), SIZES[1] * count(Kind::Ack)];
    let level = (full.level.bytes, full.level.ack_bytes, full.level.ack_packets);
    let expected = (stands[0] + stands[1], stands[1], count(Kind::Ack));
    assert_eq!((level.0.into(), level.1.into(), level.2.into()), expected, "level when all have come");
    // Longer than a bucket of the ring, so that several have nothing but a level.
    std::thread::sleep(Duration::from_millis(35));
    tc(&format!("qdisc change dev {NEAR} root handle 1: tbf rate 100mbit burst 60000 limit 60000"));
    // Nothing but the next packet makes the qdisc look at its new rate.
    socket.send(&up().home_port(42_000).seq(1).payload(1000).build(LinkLayer::Ethernet).bytes, 14);
    let sent = ROW.len() as u64 + 1;
    let after = wait(&queues, "an empty queue", |state| {
        of(state, |t| t.dequeued_packets).iter().sum::<u64>() == sent
    });
    // The last bucket must be over, to be read.
    std::thread::sleep(Duration::from_millis(25));
    assert_eq!(after.events[abi::PENDULUM_QUEUE_DRIFT as usize], 0, "no event was left out");
    let packets = [count(Kind::Data) + 1, count(Kind::Ack)];
    let bytes = [0, 1].map(|class| packets[class] * SIZES[class]);
    for (what, told, expected) in [
        ("enqueued packets", of(&after, |t| t.enqueued_packets), packets),
        ("enqueued bytes", of(&after, |t| t.enqueued_bytes), bytes),
        ("dequeued packets", of(&after, |t| t.dequeued_packets), packets),
        ("dequeued bytes", of(&after, |t| t.dequeued_bytes), bytes),
        ("packets timed", of(&after, |t| t.sojourn_packets), packets),
    ] {
        assert_eq!(told, expected, "{what}");
    }
    let mut means = [0.0; 3];
    let (mut highest, mut most, mut longest) = (0, 0, [0; 2]);
    reader.read(|interval| {
        let these = [interval.mean_bytes, interval.mean_ack_bytes, interval.mean_packets];
        means = std::array::from_fn(|i| means[i] + these[i]);
        highest = highest.max(interval.max_bytes.into());
        most = most.max(interval.max_packets as usize);
        longest = [0, 1].map(|class| longest[class].max(u64::from(interval.sojourn_max_us[class])));
        assert!(interval.mean_bytes <= f64::from(interval.max_bytes) + 1e-6, "{interval:?}");
        assert!(interval.mean_bytes >= f64::from(interval.min_bytes) - 1e-6, "{interval:?}");
    });
    assert_eq!(reader.lost(), 0);
    // One more than stood before the last one came.
    assert_eq!((highest, most), (stands[0] + stands[1] + SIZES[0], ROW.len()));
    let sojourns = departures(&mut queues);
    let us = |ticks: &u64| ticks * TICK_NS / 1000;
    assert_eq!([0, 1].map(|class: usize| sojourns[class].len() as u64), packets, "each has left once");
    let sums = [0, 1].map(|class: usize| sojourns[class].iter().map(us).sum::<u64>());
    assert_eq!(of(&after, |t| t.sojourn_sum_us), sums, "sum of the times of all that left");
    assert_eq!(longest, [0, 1].map(|class: usize| sojourns[class].iter().map(us).max().expect("some left")));
    let histograms = queues.sojourns().expect("readable").up;
    assert_eq!(histograms.map(|histogram| histogram.sum_us), sums);
    assert_eq!(histograms.map(|histogram| histogram.slots.iter().sum::<u64>()), packets);
    // Little: the integral of the level is size · time, summed over the packets. A packet's time in it begins with the event and
    // not with TC where nothing happened just before: that of the first of all, and of the one after the pause.
    let seconds = sums.map(|us| us as f64 / 1e6);
    let by_packets = [
        SIZES[0] as f64 * seconds[0] + SIZES[1] as f64 * seconds[1],
        SIZES[1] as f64 * seconds[1],
        seconds[0] + seconds[1],
    ];
    let ours = means.map(|sum| sum * pendulum::bpf::BUCKET.as_secs_f64());
    println!("integrals {ours:?}, size times time {by_packets:?}");
    for (ours, by_packets) in ours.into_iter().zip(by_packets) {
        assert!((ours - by_packets).abs() <= 0.01 * by_packets, "{ours}, not {by_packets}");
    }
}

#[test]
fn a_known_row_of_packets_is_accounted_for_in_the_kernel() {
    if !is_root() {
        return println!("SKIPPED a_known_row_of_packets_is_accounted_for_in_the_kernel: needs root");
    }
    with_cable(run);
}
