use super::*;
use crate::sample::Composition;
use crate::segment::PerDirection;

const RTT: Duration = Duration::from_millis(100);

/// Slots of 100 ms from `from` to `to` seconds, of which the first `above` of each ten have a queue of 200 ms.
fn add(history: &mut History, from: u64, to: u64, above: u64) {
    for slot in from * 10 + 1..=to * 10 {
        let mut totals = Totals { seconds: 0.1, ..Totals::default() };
        totals.delay.up.add(if (slot - 1) % 10 < above { 0.2 } else { 0.0 }, 0.1, 0.1);
        totals.composition = PerDirection {
            up: Composition { ack: 90, udp: 10, ..Composition::default() },
            down: Composition::default(),
        };
        history.push(Duration::from_millis(100 * slot), &totals);
    }
}

fn consider(bloat: &mut Bloat, history: &History, second: u64) -> Option<BufferbloatNews> {
    let now = Duration::from_secs(second);
    bloat.consider(history, &Thresholds::default(), Direction::Up, now, RTT, false)
}

/// It takes the evidence time of 5 s, nine tenths of it above the threshold.
#[test]
fn begins_after_the_evidence_time() {
    let (mut bloat, mut history) = (Bloat::default(), History::default());
    add(&mut history, 0, 4, 10);
    assert_eq!(consider(&mut bloat, &history, 4), None);
    add(&mut history, 4, 5, 10);
    let Some(BufferbloatNews::Begins(since_s, reason, figures)) = consider(&mut bloat, &history, 5) else {
        panic!("5 s of 200 ms");
    };
    let found = bloat.get().expect("it stands").clone();
    assert_eq!((since_s, found.since_s), (0.0, 0.0));
    assert_eq!(found.cause, Some(Cause { kind: "ack".into(), share: 0.9 }));
    assert!((found.delay_s - 0.2).abs() < 1e-9);
    assert!(reason.starts_with("all traffic into the uplink waits 200 ms"), "{reason}");
    assert!(
        reason.contains("90 % of the traffic in the uplink's buffer is TCP ACKs; thin the ACKs"),
        "{reason}"
    );
    let named: Vec<_> = figures.iter().map(|figure| (&*figure.name, figure.threshold)).collect();
    assert_eq!(named[..2], [("uplink_delay_s", Some(0.1)), ("uplink_delayed_share", Some(0.9))]);
    assert_eq!(named.len(), 6);
    // Nothing new.
    assert_eq!((consider(&mut bloat, &history, 5), bloat.get()), (None, Some(&found)));
    assert_eq!(consider(&mut Bloat::default(), &History::default(), 5), None);
}

/// What helps the line does not help a queue beyond it.
#[test]
fn while_the_place_is_unknown_the_help_is_to_find_it() {
    let (mut bloat, mut history) = (Bloat::default(), History::default());
    add(&mut history, 0, 5, 10);
    let mut help = |may_be_beyond| {
        let now = Duration::from_secs(5);
        let news = bloat.consider(&history, &Thresholds::default(), Direction::Up, now, RTT, may_be_beyond);
        (news, bloat.get().expect("it stands").help.clone())
    };
    let (news, told) = help(true);
    assert!(told.starts_with("it may wait beyond the line"), "{told}");
    assert!(matches!(news, Some(BufferbloatNews::Begins(_, reason, _)) if reason.ends_with(&*told)));
    let (news, told) = help(false);
    assert!(news.is_none() && told.starts_with("thin the ACKs"), "{told}");
}

#[test]
fn a_queue_that_drains_once_a_second_does_not_stand() {
    for (above, begins) in [(8, false), (9, true)] {
        let (mut bloat, mut history) = (Bloat::default(), History::default());
        add(&mut history, 0, 20, above);
        assert_eq!(consider(&mut bloat, &history, 20).is_some(), begins, "{above}");
    }
}

/// It ends when less than 30 % of the last ten seconds are above: 7.1 s after the queue went.
#[test]
fn ends_once_it_was_gone_for_long() {
    let (mut bloat, mut history) = (Bloat::default(), History::default());
    add(&mut history, 0, 20, 10);
    assert!(consider(&mut bloat, &history, 20).is_some());
    add(&mut history, 20, 27, 0);
    assert_eq!(consider(&mut bloat, &history, 27), None);
    // The figures are those of the time when it stood.
    assert!(bloat.get().is_some_and(|found| (found.delay_s - 0.2).abs() < 1e-9));
    add(&mut history, 27, 28, 0);
    let Some(BufferbloatNews::Ends(reason, figures)) = consider(&mut bloat, &history, 28) else {
        panic!("drained")
    };
    assert_eq!(reason, "the uplink's buffer drains again");
    assert!((figures[0].value - 0.2).abs() < 1e-9 && figures[0].threshold == Some(0.3));
    assert_eq!(bloat.get(), None);
}

#[test]
fn the_remedy_fits_the_direction() {
    assert!(help(Direction::Down, Some(Kind::Udp)).contains("ifb"));
    assert!(help(Direction::Up, None).starts_with("shape the uplink"));
}
