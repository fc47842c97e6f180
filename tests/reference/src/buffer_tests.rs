use super::*;
use proptest::prelude::*;

const RATE: f64 = 12_500.0;
const ACK: f64 = 40.0;
const WINDOW: Duration = Duration::from_millis(200);

fn buffer(policy: Policy, capacity: Option<usize>) -> ReverseBuffer {
    ReverseBuffer::new(policy, capacity, RATE, ACK)
}

fn ack(connection: u32, number: u64) -> Ack {
    Ack { connection, number }
}

fn drain(buffer: &mut ReverseBuffer) -> Vec<(u32, u64)> {
    std::iter::from_fn(|| buffer.depart(Duration::from_secs(1)))
        .map(|ack| (ack.connection, ack.number))
        .collect()
}

fn filled(policy: Policy, capacity: Option<usize>, acks: &[(u32, u64)]) -> ReverseBuffer {
    let mut buffer = buffer(policy, capacity);
    for (connection, number) in acks {
        buffer.arrive(ack(*connection, *number), Duration::ZERO);
    }
    buffer
}

#[test]
fn static_filtering_replaces_the_newest_in_its_place() {
    // 002 §2.3: "the most recently received ACK is erased and the new ACK is queued at its place".
    let mut queue = filled(Policy::threshold(2), None, &[(1, 1), (1, 2), (2, 7), (1, 3), (1, 4)]);
    assert_eq!(queue.counts().erased, 2);
    assert_eq!(drain(&mut queue), [(1, 1), (1, 4), (2, 7)]);
}

#[test]
fn an_ack_that_covers_nothing_new_stands_for_no_other() {
    let mut queue = filled(Policy::CLASSICAL, None, &[(1, 5), (1, 5), (1, 5), (1, 4)]);
    assert_eq!(drain(&mut queue), [(1, 5), (1, 5), (1, 5), (1, 4)]);
}

#[test]
fn delayed_filtering_waits_for_a_full_channel_and_then_keeps_one() {
    let mut queue = buffer(Policy::delayed(WINDOW), None);
    let mut now = Duration::ZERO;
    // Two ACKs arrive for each that leaves, at the channel's own rate.
    let mut longest_before = 0;
    let mut first_filtered = None;
    for round in 0..1_000_u64 {
        queue.arrive(ack(1, 2 * round + 1), now);
        queue.arrive(ack(1, 2 * round + 2), now);
        now += Duration::from_micros(3_200);
        queue.depart(now);
        if queue.counts().erased == 0 {
            longest_before = queue.len();
        } else {
            first_filtered.get_or_insert(now);
            assert!(queue.len() <= 1);
        }
    }
    assert!(longest_before > 30, "a burst of {longest_before} was let in before the channel was full");
    // ln(10) windows until an estimator that starts at 0 reads 90 %.
    let first = first_filtered.expect("the channel is full").as_secs_f64();
    assert!((0.4..0.55).contains(&first), "{first}");
}

#[test]
fn presence_serves_where_the_channels_rate_is_unknown() {
    let thresholds = Thresholds { utilisation: Utilisation::Presence, ..Thresholds::paper(WINDOW) };
    let policy = Policy { filter: Filter::Delayed(thresholds), ..Policy::delayed(WINDOW) };
    let mut queue = ReverseBuffer::new(policy, None, f64::NAN, ACK);
    let mut now = Duration::ZERO;
    for round in 0..1_000_u64 {
        queue.arrive(ack(1, 2 * round + 1), now);
        queue.arrive(ack(1, 2 * round + 2), now);
        now += Duration::from_micros(3_200);
        queue.depart(now);
    }
    assert!(queue.counts().erased > 0 && queue.len() <= 1);
}

/// A channel that is idle half of the time is not full, whatever the time from one departure to the next arrival.
#[test]
fn presence_does_not_count_an_empty_queue() {
    let thresholds = Thresholds { utilisation: Utilisation::Presence, ..Thresholds::paper(WINDOW) };
    let policy = Policy { filter: Filter::Delayed(thresholds), ..Policy::delayed(WINDOW) };
    let mut queue = ReverseBuffer::new(policy, None, f64::NAN, ACK);
    for round in 0..1_000_u64 {
        let now = Duration::from_millis(10 * round);
        queue.arrive(ack(1, 2 * round + 1), now);
        queue.arrive(ack(1, 2 * round + 2), now + Duration::from_millis(1));
        queue.depart(now + Duration::from_millis(3));
        queue.depart(now + Duration::from_millis(5));
    }
    assert_eq!((queue.counts().erased, queue.len()), (0, 0));
}

#[test]
fn a_connection_above_its_share_is_filtered_and_the_other_is_not() {
    let mut queue = buffer(Policy::per_connection(WINDOW, Service::Fifo), None);
    let mut now = Duration::ZERO;
    for round in 1..=1_000 {
        queue.arrive(ack(1, round), now);
        now += Duration::from_micros(3_200);
        queue.depart(now);
    }
    // Alone, its share is the whole channel. A second connection halves it.
    assert_eq!(queue.counts().erased, 0);
    for (connection, number) in [(2, 1), (1, 2_001), (2, 2), (1, 2_002), (2, 3), (1, 2_003)] {
        queue.arrive(ack(connection, number), now);
    }
    assert_eq!(queue.active_connections(), 2);
    assert_eq!(queue.counts().erased, 2);
    // 002 §4.1: "the new ACK is queued at the place of the oldest ACK".
    assert_eq!(drain(&mut queue), [(2, 1), (1, 2_003), (2, 2), (2, 3)]);
}

#[test]
fn a_quiet_connection_is_forgotten() {
    let mut queue = buffer(Policy::per_connection(WINDOW, Service::Fifo), None);
    queue.arrive(ack(1, 1), Duration::ZERO);
    queue.depart(Duration::ZERO);
    queue.arrive(ack(2, 1), Duration::from_millis(10));
    assert_eq!(queue.active_connections(), 2);
    queue.depart(Duration::from_millis(10));
    queue.arrive(ack(3, 1), Duration::from_secs(60));
    assert_eq!(queue.active_connections(), 1);
}

#[test]
fn round_robin_serves_each_in_turn() {
    let policy = Policy { service: Service::RoundRobin, ..Policy::NONE };
    let mut queue = filled(policy, None, &[(1, 1), (1, 2), (1, 3), (2, 7), (5, 9), (2, 8)]);
    assert_eq!(drain(&mut queue), [(1, 1), (2, 7), (5, 9), (1, 2), (2, 8), (1, 3)]);
}

#[test]
fn a_full_buffer_drops_whom_the_policy_names() {
    let arrivals = [(1, 1), (2, 7), (2, 8), (3, 4)];
    let drop_with = |drop| {
        let mut queue = filled(Policy { drop, ..Policy::NONE }, Some(3), &arrivals);
        assert_eq!(queue.counts().dropped, 1);
        drain(&mut queue)
    };
    assert_eq!(drop_with(Drop::Tail), [(1, 1), (2, 7), (2, 8)]);
    assert_eq!(drop_with(Drop::LongestQueue), [(1, 1), (2, 8), (3, 4)]);
}

#[test]
fn the_highest_rate_pays_for_room() {
    let mut queue = buffer(Policy::per_connection(Duration::from_secs(10), Service::Fifo), Some(2));
    for number in 1..=5 {
        queue.arrive(ack(2, number), Duration::from_millis(number));
        queue.depart(Duration::from_millis(number));
    }
    let now = Duration::from_millis(6);
    for (connection, number) in [(1, 1), (2, 6), (3, 1)] {
        queue.arrive(ack(connection, number), now);
    }
    assert_eq!(queue.counts().dropped, 1);
    assert_eq!(drain(&mut queue), [(1, 1), (3, 1)]);
}

/// What may happen to a buffer.
#[derive(Clone, Debug)]
enum Step {
    Arrive { connection: u32, advance: u64 },
    Depart,
}

fn steps() -> impl Strategy<Value = Vec<(Step, u64)>> {
    let arrive = (0_u32..4, 0_u64..3).prop_map(|(connection, advance)| Step::Arrive { connection, advance });
    let step = prop_oneof![3 => arrive, 1 => Just(Step::Depart)];
    prop::collection::vec((step, 0_u64..20_000), 1..300)
}

fn policies() -> impl Strategy<Value = Policy> {
    let filters = prop_oneof![
        Just(Filter::None),
        (1_usize..6).prop_map(|delta| Filter::Static { delta }),
        Just(Policy::delayed(WINDOW).filter),
        Just(Policy::per_connection(WINDOW, Service::Fifo).filter),
    ];
    let services = prop_oneof![Just(Service::Fifo), Just(Service::RoundRobin)];
    let drops = prop_oneof![Just(Drop::Tail), Just(Drop::LongestQueue), Just(Drop::HighestRate)];
    (filters, services, drops).prop_map(|(filter, service, drop)| Policy { filter, service, drop })
}

/// Runs the steps and drains; returns all departures, and the last number each connection sent.
fn play(queue: &mut ReverseBuffer, steps: &[(Step, u64)]) -> (Vec<Ack>, BTreeMap<u32, u64>) {
    let (mut now, mut sent, mut out) = (Duration::ZERO, BTreeMap::new(), Vec::new());
    for (step, gap) in steps {
        now += Duration::from_micros(*gap);
        match step {
            Step::Arrive { connection, advance } => {
                let number = sent.entry(*connection).or_insert(1_u64);
                *number += advance;
                queue.arrive(ack(*connection, *number), now);
            }
            Step::Depart => out.extend(queue.depart(now)),
        }
    }
    while let Some(last) = queue.depart(now) {
        out.push(last);
    }
    (out, sent)
}

proptest! {
    #[test]
    fn the_newest_ack_always_gets_through_and_none_goes_backwards(policy in policies(), steps in steps()) {
        let mut queue = buffer(policy, None);
        let (out, sent) = play(&mut queue, &steps);
        let mut known: BTreeMap<u32, u64> = BTreeMap::new();
        for ack in out {
            let last = known.insert(ack.connection, ack.number).unwrap_or(0);
            prop_assert!(last <= ack.number, "{ack:?} after {last}");
        }
        prop_assert_eq!(known, sent);
    }

    #[test]
    fn every_ack_is_accounted_for(policy in policies(), capacity in prop::option::of(1_usize..8), steps in steps()) {
        let mut queue = buffer(policy, capacity);
        let mut now = Duration::ZERO;
        let mut number = 0;
        for (step, gap) in &steps {
            now += Duration::from_micros(*gap);
            match step {
                Step::Arrive { connection, advance } => {
                    number += advance;
                    queue.arrive(ack(*connection, number), now);
                }
                Step::Depart => {
                    queue.depart(now);
                }
            }
            let Counts { arrived, departed, erased, dropped } = queue.counts();
            prop_assert_eq!(arrived, departed + erased + dropped + queue.len() as u64);
            prop_assert!(capacity.is_none_or(|capacity| queue.len() <= capacity));
        }
    }

    #[test]
    fn repeated_acks_are_never_merged(copies in 1_usize..20, policy in policies()) {
        let mut queue = buffer(policy, None);
        for _ in 0..copies {
            queue.arrive(ack(1, 9), Duration::ZERO);
        }
        prop_assert_eq!(drain(&mut queue).len(), copies);
    }

    #[test]
    fn static_filtering_never_queues_more_than_delta_advancing_acks(delta in 1_usize..10, count in 1_u64..100) {
        let mut queue = buffer(Policy::threshold(delta), None);
        for number in 1..=count {
            queue.arrive(ack(1, number), Duration::ZERO);
            prop_assert!(queue.len() <= delta);
        }
        prop_assert_eq!(drain(&mut queue).last().copied(), Some((1, count)));
    }
}
