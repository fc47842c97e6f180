//! The methods of paper 002 beside the static one: what they measure, and when they withhold.

use std::time::Duration;

use pendulum::bpf::abi::{self, pendulum_channel, pendulum_sliding_rate};
use pendulum_reference::tsw::Tsw;

use crate::craft::{self, Tcp, flag};
use crate::decisions::{ack, ethernet};
use crate::kernel::{Filter, MILLISECOND, rate_at};
use crate::random::Random;

const WINDOW: Duration = Duration::from_millis(100);

fn data(bytes: usize) -> Tcp {
    craft::up().payload(bytes)
}

/// §3.1, §3: the rate of all that leaves, and the two thresholds around it. The program rounds down to whole bytes per second, each time.
#[test]
fn the_channel_is_used_up_between_two_thresholds() {
    let Some(mut filter) = Filter::for_test("the_channel_is_used_up_between_two_thresholds") else { return };
    filter.control.filter = abi::PENDULUM_FILTER_DELAYED;
    filter.tell();
    filter.reset();
    let channel = filter.control.channel_bytes_per_s as f64;
    let random = &mut Random(0x75);
    let mut tsw = Tsw::new(WINDOW, Duration::from_nanos(filter.now));
    filter.set_channel(pendulum_channel { rate: rate_at(filter.now), ..Default::default() });
    let (mut filtering, mut turns) = (false, 0);
    for step in 0..2_000 {
        // Busy and idle times, of a hundred packets each.
        let busy = step / 100 % 2 == 0;
        filter.now += (1 + random.below(if busy { 60 } else { 160 })) * MILLISECOND;
        let bytes = if random.below(2) == 0 { 1_400 } else { random.below(200) as usize };
        let packet = ethernet(&data(bytes)).bytes;
        filter.depart(&packet).expect("it leaves");
        tsw.note(packet.len() as f64, Duration::from_nanos(filter.now));
        let expected = tsw.rate(Duration::from_nanos(filter.now));
        let found = filter.channel_now();
        assert!(
            (found.rate.bytes_per_s as f64 - expected).abs() < 40.0,
            "step {step}: {} and {expected}",
            found.rate.bytes_per_s
        );
        let used = found.rate.bytes_per_s as f64 / channel;
        let before = filtering;
        filtering = if filtering { used >= 0.7 } else { used >= 0.9 };
        assert_eq!(found.filtering != 0, filtering, "step {step}: {used}");
        turns += u32::from(before != filtering);
    }
    assert!(turns > 10, "{turns} changes");
    // In a minute of silence it forgets nearly all.
    let before = filter.channel_now().rate.bytes_per_s;
    filter.now += 60_000 * MILLISECOND;
    filter.depart(&ethernet(&data(0)).bytes).expect("it leaves");
    assert!(filter.channel_now().rate.bytes_per_s < before / 100);
}

/// §4.1: a connection is filtered while its rate times the number of connections with ACKs exceeds the channel's rate.
#[test]
fn the_fair_share_is_divided_by_the_connections() {
    let Some(mut filter) = Filter::for_test("the_fair_share_is_divided_by_the_connections") else { return };
    filter.control.filter = abi::PENDULUM_FILTER_PER_CONNECTION;
    let of = |port: u16, number: u32| ethernet(&ack(number).home_port(port));
    // One ACK of 66 bytes in 10 ms: 6,600 bytes per second each, for half a second of windows.
    for (connections, channel, fate) in [
        (1, 6_000, "held redundant"),
        (1, 9_000, "passed fair_share"),
        (2, 9_000, "held redundant"),
        (2, 15_000, "passed fair_share"),
        (4, 15_000, "held redundant"),
        (4, 30_000, "passed fair_share"),
    ] {
        filter.control.channel_bytes_per_s = channel;
        filter.tell();
        filter.reset();
        // The beginning of an epoch.
        filter.now = ((filter.now >> 30) + 1) << 30;
        for round in 1..=50 {
            filter.now += 10 * MILLISECOND;
            for port in 0..connections {
                // Each leaves before the next one comes.
                let packet = filter.arrive(&of(1_000 + port, 10_000 * round)).expect("nothing is queued");
                filter.depart(&packet).expect("it leaves");
            }
        }
        assert_eq!(filter.channel_now().active, u32::from(connections), "each once");
        let decide = |filter: &mut Filter, number: u32| {
            let carrier = filter.arrive(&of(1_000, number)).expect("nothing is queued");
            let (_, fates) = filter.fate_of(|filter| filter.arrive(&of(1_000, number + 1)));
            filter.depart(&carrier).expect("it leaves");
            fates.concat()
        };
        assert_eq!(decide(&mut filter, 600_000), fate, "{connections} connections, {channel} bytes/s");
        // In the next epoch those of the last one count still; in the one after the next no more.
        filter.now = ((filter.now >> 30) + 1) << 30;
        filter.depart(&ethernet(&data(9)).bytes).expect("it leaves");
        let counted = filter.channel_now();
        assert_eq!((counted.active, counted.active_before), (0, u32::from(connections)));
        filter.now += 2 << 30;
        filter.depart(&ethernet(&data(9)).bytes).expect("it leaves");
        assert_eq!(filter.channel_now().active_before, 0);
    }
}

/// Those of the epoch before count: the first ACK of an epoch would else be alone.
#[test]
fn connections_of_the_epoch_before_count() {
    let Some(mut filter) = Filter::for_test("connections_of_the_epoch_before_count") else { return };
    filter.control.filter = abi::PENDULUM_FILTER_PER_CONNECTION;
    filter.control.channel_bytes_per_s = 1_500;
    filter.now += 9_000 * MILLISECOND;
    filter.tell();
    for (active, active_before, held) in [(1, 1, false), (1, 4, true), (4, 1, true)] {
        filter.reset();
        // The first of a connection tells no rate. The second one: 66 bytes in a window of 100 ms, 660 bytes per second.
        for number in [10_000, 15_000] {
            let packet = filter.arrive(&ethernet(&ack(number))).expect("it passes");
            filter.depart(&packet).expect("it leaves");
        }
        filter.arrive(&ethernet(&ack(20_000))).expect("it passes");
        let channel = filter.channel_now();
        filter.set_channel(pendulum_channel { active, active_before, ..channel });
        assert_eq!(filter.arrive(&ethernet(&ack(30_000))).is_none(), held, "{active}, {active_before}");
    }
    // Those of the epoch before the last do not.
    let rate = pendulum_sliding_rate { at_ns: ((filter.now >> 30) - 2) << 30, ..Default::default() };
    filter.set_channel(pendulum_channel { active: 4, rate, ..Default::default() });
    filter.depart(&ethernet(&data(9)).bytes).expect("it leaves");
    assert_eq!(filter.channel_now().active_before, 0);
}

/// Nothing comes back in a dry run: ACKs count as queued for as long as packets wait on average, and the use is counted as they come.
#[test]
fn a_dry_run_takes_the_queue_to_be_as_long_as_measured() {
    let Some(mut filter) = Filter::for_test("a_dry_run_takes_the_queue_to_be_as_long_as_measured") else {
        return;
    };
    filter.control.mode = abi::PENDULUM_SHAPE_DRY_RUN;
    filter.control.uplink_ifindex = 0;
    filter.control.sojourn_ns = 20 * MILLISECOND;
    filter.now += 5_000 * MILLISECOND;
    filter.tell();
    filter.reset();
    let mut fate = |after: u64, number: u32| {
        filter.now += after * MILLISECOND;
        let (packet, fates) = filter.fate_of(|filter| filter.arrive(&ethernet(&ack(number))));
        assert!(packet.is_some(), "everything passes");
        fates.concat()
    };
    assert_eq!(fate(0, 10_000), "passed first");
    assert_eq!(fate(10, 20_000), "would_hold redundant");
    assert_eq!(fate(9, 30_000), "would_hold redundant");
    // The carrier has left with all of them.
    assert_eq!(fate(1, 40_000), "passed no_carrier");
    assert_eq!(fate(19, 50_000), "would_hold redundant");
    // Two have passed; what would have been withheld is no use of the channel.
    let channel = filter.channel_now();
    assert_eq!(channel.active, 1);
    assert!(channel.rate.bytes_per_s > 0 && channel.rate.bytes_per_s < 1_400, "{}", channel.rate.bytes_per_s);
}

/// Paper 002 §4.1: the newest goes out in the place of the oldest, and those in between need not go out at all.
#[test]
fn per_connection_the_newest_takes_the_place_of_the_oldest() {
    let Some(mut filter) = Filter::for_test("per_connection_the_newest_takes_the_place_of_the_oldest") else {
        return;
    };
    let queued: Vec<_> = (1..=3)
        .map(|n| {
            // Filtering begins with the fourth.
            filter.control.delta = 3;
            filter.tell();
            filter.arrive(&ethernet(&ack(10_000 * n))).expect("it passes")
        })
        .collect();
    assert!(filter.arrive(&ethernet(&ack(50_000))).is_none());
    filter.control.filter = abi::PENDULUM_FILTER_PER_CONNECTION;
    filter.tell();
    let before = filter.programs.counts().expect("readable").held_bytes;
    assert_eq!(filter.depart(&queued[0]).expect("it leaves"), ethernet(&ack(50_000)).bytes);
    for stale in &queued[1..] {
        let (left, fates) = filter.fate_of(|filter| filter.depart(stale));
        assert_eq!((left, fates.concat().as_str()), (None, "held overtaken"));
    }
    assert_eq!(filter.programs.counts().expect("readable").held_bytes - before, 2 * 66);
    assert!(filter.arrive(&ethernet(&ack(60_000))).is_some());
}

/// What says more than a number leaves, however old its number is.
#[test]
fn per_connection_a_special_ack_is_not_overtaken() {
    let Some(mut filter) = Filter::for_test("per_connection_a_special_ack_is_not_overtaken") else { return };
    filter.control.filter = abi::PENDULUM_FILTER_PER_CONNECTION;
    filter.control.channel_bytes_per_s = 0;
    filter.tell();
    filter.control.delta = 1;
    let oldest = filter.arrive(&ethernet(&ack(10_000))).expect("it passes");
    // A connection that has sent nothing has less than its share.
    let queued = filter.arrive(&ethernet(&ack(20_000))).expect("it passes");
    filter.control.filter = abi::PENDULUM_FILTER_STATIC;
    filter.tell();
    assert!(filter.arrive(&ethernet(&ack(50_000))).is_none());
    filter.control.filter = abi::PENDULUM_FILTER_PER_CONNECTION;
    filter.tell();
    assert_eq!(filter.depart(&oldest).expect("it leaves"), ethernet(&ack(50_000)).bytes);
    let special = ack(15_000).flags(flag::ACK | flag::ECE);
    let special = filter.arrive(&ethernet(&special)).expect("it passes");
    let (left, fates) = filter.fate_of(|filter| filter.depart(&queued));
    assert_eq!((left, fates.concat().as_str()), (None, "held overtaken"));
    assert_eq!(filter.depart(&special).expect("it leaves"), special);
}

/// The ACK that passes because enough is withheld says all that is pending: it is the carrier from then on.
#[test]
fn the_carrier_s_part_goes_on_to_the_ack_behind_it() {
    let Some(mut filter) = Filter::for_test("the_carrier_s_part_goes_on_to_the_ack_behind_it") else {
        return;
    };
    filter.control.stretch = 2;
    filter.tell();
    let mut queue = vec![filter.arrive(&ethernet(&ack(10_000))).expect("it passes")];
    assert_eq!(filter.arrive(&ethernet(&ack(10_100))), None);
    assert_eq!(filter.arrive(&ethernet(&ack(10_200))), None);
    let (packet, fates) = filter.fate_of(|filter| filter.arrive(&ethernet(&ack(10_300))));
    assert_eq!(fates, ["passed stretch", "released superseded"]);
    queue.extend(packet);
    assert_eq!(filter.arrive(&ethernet(&ack(10_400))), None);
    let left: Vec<_> = queue.iter().map(|packet| filter.depart(packet).expect("it leaves")).collect();
    assert_eq!(left, [ethernet(&ack(10_000)).bytes, ethernet(&ack(10_400)).bytes]);
}

/// Of the channel's use only an average is known, and a queue of ACKs alone is use, too: as many as the static method asks for, or as one may stand for.
#[test]
fn many_queued_acks_are_use_of_the_channel() {
    let Some(mut filter) = Filter::for_test("many_queued_acks_are_use_of_the_channel") else { return };
    filter.control.filter = abi::PENDULUM_FILTER_DELAYED;
    for (delta, stretch) in [(9, 3), (3, 9)] {
        filter.reset();
        (filter.control.delta, filter.control.stretch) = (delta, stretch);
        filter.tell();
        for n in 0..3 {
            let passed = filter.arrive(&ethernet(&ack(10_000 + 100 * n)));
            passed.expect("the channel has room, as far as is known");
        }
        assert_eq!(filter.arrive(&ethernet(&ack(10_300))), None, "{delta}, {stretch}");
    }
}
