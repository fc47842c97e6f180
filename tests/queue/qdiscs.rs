//! Every qdisc of this kernel: level, totals and drops equal to its own, and where figures come from.

use std::time::Duration;

use pendulum::bpf::abi::{self, pendulum_queue};
use pendulum::bpf::{RingReader, source_of};
use pendulum::net::Qdisc;
use pendulum_lab::LinkSpec;
use pendulum_lab::topology::WAN_DEVICE;
use pendulum_model::sample::QueueSource;

use crate::rig::{Rig, with_rig};

/// One arrangement: its name, the qdiscs (`tc qdisc add dev wan0 …`), and what is expected.
struct Arrangement {
    name: &'static str,
    commands: &'static [&'static str],
    source: QueueSource,
    /// Something stands in it: it shapes, so that levels can be compared while it does.
    shapes: bool,
}

const fn shaping(name: &'static str, commands: &'static [&'static str]) -> Arrangement {
    Arrangement { name, commands, source: QueueSource::Tracepoint, shapes: true }
}

const fn passing(name: &'static str, commands: &'static [&'static str], source: QueueSource) -> Arrangement {
    Arrangement { name, commands, source, shapes: false }
}

const HTB: [&str; 2] =
    ["root handle 1: htb default 1", "class parent 1: classid 1:1 htb rate 1mbit burst 1600 cburst 1600"];

const ARRANGEMENTS: [Arrangement; 15] = [
    shaping("tbf", &["root handle 1: tbf rate 1mbit burst 1600 limit 20000"]),
    shaping(
        "tbf+bfifo",
        &["root handle 1: tbf rate 1mbit burst 1600 limit 9000", "parent 1:1 bfifo limit 15000"],
    ),
    shaping("htb+bfifo", &[HTB[0], HTB[1], "parent 1:1 handle 10: bfifo limit 15000"]),
    shaping("htb+pfifo", &[HTB[0], HTB[1], "parent 1:1 handle 10: pfifo limit 12"]),
    shaping("htb+fq_codel", &[HTB[0], HTB[1], "parent 1:1 handle 10: fq_codel"]),
    shaping("cake", &["root handle 1: cake bandwidth 1mbit"]),
    shaping("cake ack-filter", &["root handle 1: cake bandwidth 500kbit ack-filter"]),
    passing("bfifo", &["root handle 1: bfifo limit 30000"], QueueSource::Tracepoint),
    passing("pfifo", &["root handle 1: pfifo limit 50"], QueueSource::Tracepoint),
    passing("fq_codel", &["root handle 1: fq_codel"], QueueSource::Tracepoint),
    passing("fq", &["root handle 1: fq"], QueueSource::Tracepoint),
    passing("prio", &["root handle 1: prio"], QueueSource::Tracepoint),
    passing("pfifo_fast", &["root handle 1: pfifo_fast"], QueueSource::Netlink),
    Arrangement {
        name: "mq+tbf",
        commands: &["root handle 1: mq", "parent 1:1 handle 10: tbf rate 1mbit burst 1600 limit 20000"],
        source: QueueSource::Netlink,
        shapes: true,
    },
    passing("mq", &["root handle 1: mq"], QueueSource::Netlink),
];

#[test]
fn every_qdisc_of_this_kernel_is_exact_to_the_packet() {
    with_rig("every_qdisc_of_this_kernel_is_exact_to_the_packet", LinkSpec::FIG1, |rig| {
        let mut wrong = Vec::new();
        let mut seen = 0;
        for arrangement in &ARRANGEMENTS {
            let former = rig.state().events[abi::PENDULUM_QUEUE_ADOPTED as usize];
            match set_up(rig, arrangement) {
                Ok(()) => {
                    seen += 1;
                    wrong.extend(measure(rig, arrangement, former));
                }
                Err(reason) => println!("{}: not on this kernel: {reason}", arrangement.name),
            }
        }
        assert!(seen >= 6, "tbf, htb, bfifo, pfifo and pfifo_fast are in every kernel");
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    });
}

/// Segmentation offload on: packets of up to 64 KiB come, tbf and cake take them apart, the others keep them whole.
#[test]
fn super_packets_are_accounted_for() {
    let spec = LinkSpec { offloads: true, ..LinkSpec::FIG1 };
    with_rig("super_packets_are_accounted_for", spec, |rig| {
        let mut wrong = Vec::new();
        for arrangement in ARRANGEMENTS.iter().filter(|a| ["tbf", "htb+pfifo", "cake"].contains(&a.name)) {
            let former = rig.state().events[abi::PENDULUM_QUEUE_ADOPTED as usize];
            match set_up(rig, arrangement) {
                Ok(()) => wrong.extend(measure(rig, arrangement, former)),
                Err(reason) => println!("{}: not on this kernel: {reason}", arrangement.name),
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    });
}

/// Replace what is on the device.
fn set_up(rig: &mut Rig, arrangement: &Arrangement) -> Result<(), String> {
    let _ = rig.tc(&format!("qdisc del dev {WAN_DEVICE} root"));
    for command in arrangement.commands {
        let command = match command.strip_prefix("class ") {
            Some(class) => format!("class add dev {WAN_DEVICE} {class}"),
            None => format!("qdisc add dev {WAN_DEVICE} {command}"),
        };
        rig.tc(&command).map_err(|error| error.lines().last().unwrap_or_default().to_owned())?;
    }
    rig.track();
    Ok(())
}

/// Traffic through it, and all that is not as it should be.
fn measure(rig: &Rig, arrangement: &Arrangement, former: u64) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut expect = |holds: bool, what: String| {
        if !holds {
            complaints.push(format!("{}: {what}", arrangement.name));
        }
    };
    let sojourns_before = sojourns(rig);
    let (root_before, before) = rig.both_at_rest();
    let mut reader = rig.reader();
    let transfers = rig.two_way(1);
    let mut waiting = 0;
    let mut behind = 0;
    let mut round = 0;
    // The traffic may come late, or never hold still between two readings.
    while round < 40 || (arrangement.shapes && waiting == 0 && round < 160) {
        round += 1;
        if let Some((root, ours)) = rig.both()
            && ours.events[abi::PENDULUM_QUEUE_ADOPTED as usize] > former
            && arrangement.source == QueueSource::Tracepoint
        {
            let (theirs, ours) = levels(&root, &ours);
            waiting += usize::from(theirs.1 > 0);
            if theirs != ours {
                println!("{}: the qdisc holds {theirs:?}, we say {ours:?}", arrangement.name);
                behind += 1;
            }
        }
        std::thread::sleep(Duration::from_millis(15));
    }
    rig.finish(transfers, || {});
    let (root, after) = rig.both_at_rest();
    let method = source_of(&rig.tree(), &after);
    expect(method == arrangement.source, format!("{method:?}, expected {:?}", arrangement.source));
    let sojourns = sojourns(rig) - sojourns_before;
    if method == QueueSource::Netlink {
        println!("{}: level by netlink, {sojourns} sojourns", arrangement.name);
        expect(!arrangement.shapes || sojourns > 0, "no time in the queue was measured".to_owned());
        return complaints;
    }

    let totals = after.totals.since(&before.totals);
    let sum = |pair: [u64; 2]| pair[0] + pair[1];
    let (left, left_bytes) = (sum(totals.dequeued_packets), sum(totals.dequeued_bytes));
    let drops: [u64; 4] = std::array::from_fn(|i| after.drops[i] - before.drops[i]);
    println!(
        "{}: {:?} entered, {left} packets ({} ACKs) left, drops {drops:?}, {waiting} comparisons with packets waiting, \
         mean sojourn {:?} us, events {:?}",
        arrangement.name,
        totals.enqueued_packets,
        totals.dequeued_packets[1],
        [0, 1].map(|i| totals.sojourn_sum_us[i] / totals.sojourn_packets[i].max(1)),
        events(&before, &after),
    );
    let dropped = root.drops - root_before.drops;
    let (ours, theirs) = (drops.iter().sum::<u64>(), u64::from(dropped));
    // tbf frees a super-packet once more after none of its segments found room.
    let twice = if rig.lab.spec().offloads { theirs / 5 + 2 } else { 0 };
    expect(ours >= theirs && ours <= theirs + twice, format!("{drops:?}, the qdisc counted {theirs}"));
    // What bypasses an empty queue is counted as sent, but was never in it.
    let sent = (root.sent_packets - root_before.sent_packets, root.sent_bytes - root_before.sent_bytes);
    expect(
        !arrangement.shapes || (left, left_bytes) == sent,
        format!("{left} packets of {left_bytes} left, the qdisc sent {sent:?}"),
    );
    let entered = (sum(totals.enqueued_packets), sum(totals.enqueued_bytes));
    let drops_inside = root.kind == "cake" || rig.tree().has("fq_codel");
    let inside = if drops_inside { (sum(totals.dropped_packets), sum(totals.dropped_bytes)) } else { (0, 0) };
    let stood = (u64::from(before.level.packets), u64::from(before.level.bytes));
    let accounted = (left + inside.0 - stood.0, left_bytes + inside.1 - stood.1);
    expect(entered == accounted, format!("{entered:?} entered, {accounted:?} left or were dropped inside"));
    let mut events = events(&before, &after);
    // It may have been met by a late packet before the first reading.
    let adopted = after.events[abi::PENDULUM_QUEUE_ADOPTED as usize] - former;
    events[abi::PENDULUM_QUEUE_ADOPTED as usize] = 0;
    expect(adopted <= 3, format!("the qdisc was noticed {adopted} times"));
    if arrangement.shapes {
        let measured = sum(totals.sojourn_packets);
        // A super-packet that is kept whole has one sojourn and many segments.
        let whole = rig.lab.spec().offloads && root.kind == "htb";
        expect(measured == left || whole && measured < left, format!("{measured} sojourns, {left} left"));
        // After an enqueue that made room by dropping and is not reported as a success, the level is as before, up to the next event.
        let differ = format!("{behind} of {waiting} levels differ");
        expect(behind == 0 || drops_inside && behind <= 1 + waiting / 4, differ);
        // The AQMs keep their queue so short that a slow machine may never find it filled.
        expect(waiting > 0 || drops_inside, "no comparison with packets waiting".to_owned());
        expect(adopted > 0, "the change of qdisc was not noticed".to_owned());
        expect(totals.dequeued_packets.iter().all(|packets| *packets > 0), "data and ACKs pass".to_owned());
        expect(sojourns >= measured, format!("{sojourns} in the histogram, {measured} in the totals"));
    }
    let level = (after.level.bytes, after.level.packets, after.level.ack_bytes, after.level.ack_packets);
    expect(level == (0, 0, 0, 0), format!("{level:?} stand in an empty queue"));
    // An enqueue that made room in its own flow is reported as a failure, so by no event: the next event finds both
    // packets' change at once, and counts a drift. Each of these dropped a packet inside. So does an ACK that left although
    // it was taken for one that was dropped.
    let [drift, unknown] = [abi::PENDULUM_QUEUE_DRIFT, abi::PENDULUM_QUEUE_UNKNOWN_ACK].map(|at| at as usize);
    let of_acks = drops[abi::PENDULUM_DROP_AQM as usize] + drops[abi::PENDULUM_DROP_ACK_FILTER as usize];
    let explained = drops[abi::PENDULUM_DROP_OVERLIMIT as usize] + events[unknown];
    if drops_inside && events[drift] <= explained && events[unknown] <= of_acks {
        events[drift] = 0;
        events[unknown] = 0;
    }
    expect(events == [0; 6], format!("events {events:?}"));
    complaints
        .extend(ring_agrees(rig, &mut reader, &before).map(|what| format!("{}: {what}", arrangement.name)));
    complaints
}

/// Bytes and packets that stand in the queue: by the qdisc, by us.
fn levels(root: &Qdisc, ours: &pendulum_queue) -> ((u32, u32), (u32, u32)) {
    ((root.backlog_bytes, root.backlog_packets), (ours.level.bytes, ours.level.packets))
}

/// The ring has seen what the totals have.
fn ring_agrees(rig: &Rig, reader: &mut RingReader, before: &pendulum_queue) -> Option<String> {
    let mut left = [0; 2];
    let mut last = None;
    let mut wrong = None;
    let mut expected = [0; 2];
    for _ in 0..50 {
        expected = rig.state().totals.since(&before.totals).dequeued_packets;
        // What just happened is in a bucket that is not over.
        std::thread::sleep(Duration::from_millis(20));
        reader.read(|interval| {
            for (left, more) in left.iter_mut().zip(interval.events.dequeued_packets) {
                *left += more;
            }
            if last.is_some_and(|last| interval.number != last + 1)
                || f64::from(interval.min_bytes) > interval.mean_bytes
                || f64::from(interval.max_bytes) < interval.mean_bytes
            {
                wrong = Some(format!("{interval:?} after {last:?}"));
            }
            last = Some(interval.number);
        });
        if left == expected {
            return wrong;
        }
    }
    Some(format!("{left:?} packets left in the ring's buckets, not {expected:?}"))
}

fn events(before: &pendulum_queue, after: &pendulum_queue) -> [u64; abi::PENDULUM_QUEUE_EVENTS as usize] {
    std::array::from_fn(|i| after.events[i] - before.events[i])
}

fn sojourns(rig: &Rig) -> u64 {
    let up = rig.queues.sojourns().expect("the map is read").up;
    up.iter().flat_map(|class| class.slots).sum()
}
