//! Does the queue stand here? With too high a rate, or without the line's overhead, it stands in the modem all the same.

use std::time::{Duration, Instant};

use pendulum_model::constants::{HALF, LITTLE, MOMENT, RECENT};
use pendulum_model::rate::{self, Rate};
use pendulum_model::segment::{Direction, FULL_FRAME_BYTES, PerDirection};
use pendulum_model::thresholds::Thresholds;

use crate::config::rates::in_words;
use crate::net::control::ROOT;
use crate::net::qdisc::{self, INGRESS, Qdisc};
use crate::net::{COUNTED_OTHERWISE, DeviceBytes};

/// What is seen behind the shaper, on the way to the provider.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Behind {
    /// How long packets wait there; none while that is unknown.
    pub delay: Option<Duration>,
    /// What passed the agent's programs within the last second, bytes.
    pub passed: f64,
    /// TCP payload that was sent within it, and that was acknowledged, bytes.
    pub payload: [f64; 2],
}

/// What has passed the WAN device in one direction, and what has left the shaping device, in packets and bytes, since they were made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct DeviceCounts {
    wan: [u64; 2],
    shaper: [u64; 2],
    /// What waits behind the shaper (uplink), or in it.
    waiting: [u64; 2],
    /// Packets that filters and the shaper have dropped on the way there.
    drops: u64,
}

impl DeviceCounts {
    /// Of the directions that are shaped, by index of the shaping device and what has left it; none if the WAN device does not tell.
    pub(super) fn read(
        wan: u32,
        shapers: PerDirection<Option<(u32, [u64; 2])>>,
    ) -> PerDirection<Option<Self>> {
        let counted = DeviceBytes::read(wan).ok().flatten().zip(qdisc::list().ok());
        let Some((counted, listed)) = counted else { return PerDirection::default() };
        let find = |device: u32, parent: u32| {
            let one = listed.iter().find(|one| one.ifindex == device && one.qdisc.parent == parent);
            one.map(|one| &one.qdisc)
        };
        let waiting = |queue: Option<&Qdisc>| {
            queue.map_or([0; 2], |queue| [queue.backlog_packets, queue.backlog_bytes].map(u64::from))
        };
        let up = shapers.up.map(|(_, shaper)| Self {
            wan: [counted.sent_packets, counted.sent],
            shaper,
            waiting: waiting(find(wan, ROOT)),
            drops: 0,
        });
        let down = shapers.down.map(|(ifb, shaper)| {
            let (queue, filters) = (find(ifb, ROOT), find(wan, INGRESS));
            Self {
                wan: [counted.received_packets, counted.received],
                shaper,
                waiting: waiting(queue),
                drops: queue.into_iter().chain(filters).map(|one| u64::from(one.drops)).sum(),
            }
        });
        PerDirection { up, down }
    }

    /// Share of what has passed since then that did not come through the shaper; none if that was little. The smaller one of packets and bytes:
    /// super-packets are few, and headers of the line many.
    fn past(&self, before: &Self) -> Option<f64> {
        let drops = self.drops.checked_sub(before.drops)?;
        let share = |i: usize| {
            let passed = self.wan[i].checked_sub(before.wan[i]).filter(|passed| *passed >= LEAST[i])?;
            let waiting = before.waiting[i].max(self.waiting[i]);
            let came = self.shaper[i].checked_sub(before.shaper[i])? + waiting + drops * FRAME[i];
            Some(1.0 - (came as f64 / passed as f64).min(1.0))
        };
        Some(share(0)?.min(share(1)?))
    }
}

/// So long a wait behind a shaper is no shaper's success: the finding `bufferbloat` begins there too. Half of it is none to speak of.
fn late() -> Duration {
    Thresholds::default().bufferbloat_delay.0
}
/// What the line carried is reported of so many seconds. A recovery holds back the ACKs of a round trip, a second or more in a modem that is full:
/// what was acknowledged is known no better than that.
const KNOWN_AFTER: Duration = RECENT.saturating_mul(2);
/// Packets and bytes in a second: of less nothing can be said.
const LEAST: [u64; 2] = [10, LITTLE as u64];
/// So many seconds have to say it: in one of them somebody may have taken away what was made again since.
const AGREE: u8 = 2;

/// Packets and bytes of a packet that was dropped, at most.
const FRAME: [u64; 2] = [1, FULL_FRAME_BYTES as u64];

/// Watches whether packets wait behind the shaper, or go past it.
#[derive(Debug, Default)]
pub(super) struct BehindWatch {
    late: Claim,
    past: PerDirection<Past>,
    waiting: Option<WaitingTime>,
    /// The line carried so much while packets waited.
    carried: Option<Rate>,
}

/// Why the shaper does not work: said and taken back once enough seconds in a row speak for that.
#[derive(Debug, Default)]
struct Claim {
    against: u8,
    why: Option<String>,
}

impl Claim {
    /// Takes in what a second says; whether that is another thing than before, for long enough.
    fn turns(&mut self, says: bool, enough: u8) -> bool {
        self.against = if says == self.why.is_some() { 0 } else { self.against + 1 };
        let turns = self.against >= enough;
        if turns {
            self.against = 0;
        }
        turns
    }
}

/// Whether packets pass that did not come through the shaper.
#[derive(Debug, Default)]
struct Past {
    before: Option<DeviceCounts>,
    claim: Claim,
}

impl Past {
    fn observe(&mut self, sent: Option<DeviceCounts>, why: impl Fn(f64) -> String) {
        let before = std::mem::replace(&mut self.before, sent);
        let Some(share) = sent.zip(before).and_then(|(sent, before)| sent.past(&before)) else { return };
        // One second without says that it is over.
        let enough = if self.claim.why.is_some() { 1 } else { AGREE };
        if self.claim.turns(share > COUNTED_OTHERWISE, enough) {
            self.claim.why = (share > COUNTED_OTHERWISE).then(|| why(share * 100.0));
        }
    }
}

/// Of the seconds in which packets have waited. A recovery, whose ACKs tell no delay, interrupts them no longer than [`MOMENT`].
#[derive(Debug)]
struct WaitingTime {
    since: Instant,
    /// When a delay was last known.
    seen: Instant,
    passed: f64,
    payload: [f64; 2],
}

impl WaitingTime {
    fn begin(now: Instant) -> Self {
        Self { since: now, seen: now, passed: 0.0, payload: [0.0; 2] }
    }

    fn add(&mut self, behind: &Behind) {
        self.passed += behind.passed;
        for (sum, more) in self.payload.iter_mut().zip(behind.payload) {
            *sum += more;
        }
    }

    /// What the line carried: what passed, less what was sent and not acknowledged. It stands in the buffer, or was dropped there. None
    /// without TCP, and where all of it came back: late ACKs of what was sent before.
    fn carried(&self, now: Instant) -> Option<Rate> {
        let [sent, acknowledged] = self.payload;
        // Without TCP it is not a number, which is not below one.
        let share = Some(acknowledged / sent).filter(|share| *share < 1.0)?;
        Rate::from_bytes_per_second(self.passed * share / now.duration_since(self.since).as_secs_f64())
    }
}

impl BehindWatch {
    /// Why the shaper does not work, if it does not.
    pub(super) fn why(&self) -> Option<&str> {
        let [up, down] = [&self.past.up, &self.past.down].map(|past| past.claim.why.as_deref());
        up.or(down).or(self.late.why.as_deref())
    }

    /// Takes in what a second shows; `rate`: what is sent at, none while nothing is shaped; `suspects`: who may keep packets from the shaper.
    /// What has changed: why the shaper does not work, or, as the inner `None`, that it does again. The rate that the line carried is added to
    /// [`Self::why`] once it is known.
    pub(super) fn observe(
        &mut self,
        now: Instant,
        behind: &Behind,
        sent: PerDirection<Option<DeviceCounts>>,
        rate: Option<Rate>,
        suspects: impl Fn(Direction) -> String,
    ) -> Option<Option<&str>> {
        let Some(rate) = rate else {
            *self = Self::default();
            return None;
        };
        let was = self.why().is_some();
        self.past.up.observe(sent.up, |percent| {
            let who = suspects(Direction::Up);
            format!("{percent:.0} % of what the device sends does not pass the shaper: look at {who}")
        });
        self.past.down.observe(sent.down, |percent| {
            let who = suspects(Direction::Down);
            format!("{percent:.0} % of what the device receives does not reach the shaper: look at {who}")
        });
        self.measure(now, behind, rate);
        let is_late = match self.late.why {
            None => behind.delay.is_some_and(|delay| delay >= late()),
            // What is unknown does not end it.
            Some(_) => behind.delay.is_none_or(|delay| delay >= late().mul_f64(HALF)),
        };
        if self.late.turns(is_late, MOMENT.as_secs() as u8 + 1) {
            self.late.why = is_late.then(|| reason(behind, self.carried, rate));
        }
        (self.why().is_some() != was).then(|| self.why())
    }

    /// Adds up what the line carries while packets wait.
    fn measure(&mut self, now: Instant, behind: &Behind, rate: Rate) {
        let late = if self.late.why.is_some() { late().mul_f64(HALF) } else { late() };
        let unknown_for = self.waiting.as_ref().map(|waiting| now.duration_since(waiting.seen));
        let waits = match behind.delay {
            Some(delay) => delay >= late,
            None => unknown_for.is_some_and(|unknown| unknown < MOMENT),
        };
        if self.past.up.claim.why.is_some() || !waits {
            (self.waiting, self.carried) = (None, None);
            return;
        }
        let Some(waiting) = &mut self.waiting else {
            // What is counted now was sent before.
            self.waiting = Some(WaitingTime::begin(now));
            return;
        };
        waiting.add(behind);
        if behind.delay.is_none() {
            return;
        }
        waiting.seen = now;
        if self.carried.is_some() || now.duration_since(waiting.since) < KNOWN_AFTER {
            return;
        }
        self.carried = waiting.carried(now).filter(|carried| *carried < rate);
        self.waiting = Some(WaitingTime::begin(now));
        if self.late.why.is_some() && self.carried.is_some() {
            self.late.why = Some(reason(behind, self.carried, rate));
        }
    }
}

fn reason(behind: &Behind, carried: Option<Rate>, shaped_to: Rate) -> String {
    let waits = behind.delay.unwrap_or_default().as_millis();
    let measured = |carried: Rate| rate::in_words(carried.bits_per_second() as f64);
    let remedy = match carried.map(measured) {
        Some(carried) => format!("it carried {carried}: write that, less a few percent, as uplink-rate"),
        None => "write a lower uplink-rate".to_owned(),
    };
    format!(
        "packets wait {waits} ms behind it, though it sends at {}: the line carries less, or adds more to each packet; \
         {remedy}, or give the line's preset",
        in_words(shaped_to)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn behind(milliseconds: u64) -> Behind {
        Behind { delay: Some(Duration::from_millis(milliseconds)), ..Behind::default() }
    }

    /// Each second one of these delays; what changed in which second.
    fn run(seen: &[Behind]) -> Vec<(usize, bool)> {
        let (start, mut watch) = (Instant::now(), BehindWatch::default());
        let rate = "1mbit".parse().ok();
        let mut reported = Vec::new();
        for (second, behind) in seen.iter().enumerate() {
            let now = start + Duration::from_secs(second as u64);
            if let Some(why) = watch.observe(now, behind, PerDirection::default(), rate, |_| String::new()) {
                reported.push((second, why.is_some()));
            }
        }
        reported
    }

    #[test]
    fn a_queue_that_stands_behind_is_reported_and_so_is_its_end() {
        let mut seen = vec![behind(100); 10];
        seen.extend(vec![behind(60); 10]);
        seen.extend(vec![Behind::default(); 10]);
        seen.extend(vec![behind(49); 10]);
        assert_eq!(run(&seen), [(5, true), (35, false)]);
    }

    #[test]
    fn bursts_and_silence_say_nothing() {
        assert_eq!(run(&[vec![behind(500); 5], vec![behind(99)]].concat().repeat(5)), []);
        assert_eq!(run(&[Behind::default(); 20]), []);
    }

    /// What [`BehindWatch::why`] says after each of these seconds, at 216 kbit/s.
    fn reasons(seen: impl IntoIterator<Item = Behind>) -> Vec<Option<String>> {
        let (start, mut watch) = (Instant::now(), BehindWatch::default());
        let rate = "216kbit".parse().ok();
        let each = |(second, behind): (u64, Behind)| {
            let now = start + Duration::from_secs(second);
            watch.observe(now, &behind, PerDirection::default(), rate, |_| String::new());
            watch.why().map(str::to_owned)
        };
        (0..).zip(seen).map(each).collect()
    }

    /// A second of 216 kbit/s, of whose payload this share is acknowledged.
    fn second(acknowledged: f64) -> Behind {
        Behind { passed: 27_000.0, payload: [25_800.0, 25_800.0 * acknowledged], ..behind(375) }
    }

    /// Of 216 kbit/s the line carries 194.
    #[test]
    fn the_reason_has_the_rate_that_would_do_once_it_is_known() {
        let reported = reasons(std::iter::repeat_n(second(194.0 / 216.0), 22));
        assert_eq!(reported[4], None);
        let early = reported[5].as_deref().expect("five seconds");
        assert!(early.contains("375 ms") && early.contains("216 kbit/s"), "{early}");
        assert!(early.contains("write a lower uplink-rate"), "{early}");
        assert_eq!(reported[19], reported[5]);
        let late = reported[20].as_deref().expect("twenty seconds");
        assert!(late.contains("it carried 194 kbit/s"), "{late}");
        assert_eq!(reported[21], reported[20]);
    }

    /// In a recovery no ACK comes, and no delay is known; then all come at once.
    #[test]
    fn a_recovery_does_not_begin_it_anew() {
        let share = 194.0 / 216.0;
        let held = [Behind { delay: None, ..second(0.0) }, second(2.0 * share)];
        let seen =
            std::iter::repeat_n(second(share), 6).chain([second(share); 3].into_iter().chain(held).cycle());
        let reported = reasons(seen.take(22));
        let why = reported[20].as_deref().expect("twenty seconds");
        assert!(why.contains("it carried 194 kbit/s"), "{why}");
        // But five seconds without a delay do: nobody knows whether anything waited.
        let unknown = std::iter::repeat_n(Behind { delay: None, ..second(0.2) }, 5);
        let reported = reasons(
            std::iter::repeat_n(second(share), 18)
                .chain(unknown)
                .chain(std::iter::repeat_n(second(share), 19)),
        );
        assert_eq!(reported[41], reported[17]);
    }

    /// A recovery holds the ACKs of 1.2 s back, and they come at the worst moment: 20 s know the rate within 6 %, five would not.
    #[test]
    fn a_recovery_moves_it_little() {
        let share = 194.0 / 216.0;
        let held = std::iter::once(second(share + 1.2 * share)).chain(std::iter::repeat_n(second(share), 19));
        let reported = reasons(std::iter::once(second(share)).chain(held));
        let why = reported[20].as_deref().expect("twenty seconds");
        assert!(why.contains("it carried 206 kbit/s"), "{why}");
    }

    #[test]
    fn without_acknowledgements_or_with_all_of_them_no_rate_is_reported() {
        for seen in [Behind { passed: 27_000.0, ..behind(375) }, second(1.0), second(1.1)] {
            let reported = reasons(std::iter::repeat_n(seen, 60));
            assert!(
                reported[59].as_deref().is_some_and(|why| why.contains("write a lower uplink-rate")),
                "{reported:?}"
            );
        }
    }

    /// Each second so many packets of 1,000 bytes leave the device, of which so many came through the shaper; what is reported.
    fn past(seconds: &[[u64; 2]]) -> Vec<Option<String>> {
        let (mut watch, rate) = (BehindWatch::default(), "1mbit".parse().ok());
        let mut sent = DeviceCounts { wan: [0; 2], shaper: [0; 2], waiting: [0; 2], drops: 0 };
        let mut each = |[left, came]: &[u64; 2]| {
            sent.wan = [sent.wan[0] + left, sent.wan[1] + left * 1_000];
            sent.shaper = [sent.shaper[0] + came, sent.shaper[1] + came * 1_000];
            let sent = PerDirection { down: None, up: Some(sent) };
            let suspects = |_| "the program other (id 7)".to_owned();
            watch.observe(Instant::now(), &Behind::default(), sent, rate, suspects);
            watch.why().map(str::to_owned)
        };
        seconds.iter().map(&mut each).collect()
    }

    #[test]
    fn what_leaves_past_the_shaper_is_reported_with_who_may_be_the_cause() {
        // The first look has nothing to compare with; one second may be the one in which it began.
        let reported = past(&[[100, 100], [100, 60], [100, 60], [3, 0], [100, 95], [100, 100]]);
        let why = reported[2].as_deref().expect("two seconds");
        assert!(why.starts_with("40 %") && why.ends_with("the program other (id 7)"), "{why}");
        assert_eq!(
            reported.iter().map(Option::is_some).collect::<Vec<_>>(),
            [false, false, true, true, false, false]
        );
        assert!(
            past(&[[100, 100], [100, 60], [100, 100], [100, 60], [100, 100]]).iter().all(Option::is_none)
        );
    }

    #[test]
    fn what_waited_behind_and_what_is_counted_otherwise_did_not_pass_by() {
        let before = DeviceCounts { wan: [0; 2], shaper: [0; 2], waiting: [50, 50_000], drops: 1 };
        let past = |wan, shaper, drops| DeviceCounts { wan, shaper, waiting: [0; 2], drops }.past(&before);
        let left = |wan, shaper| past(wan, shaper, 1);
        assert_eq!(left([100, 100_000], [50, 50_000]), Some(0.0));
        // A tunnel counts its own headers; super-packets are counted once they are taken apart.
        assert_eq!(left([100, 300_000], [50, 50_000]), Some(0.0));
        assert_eq!(left([9_000, 100_000], [50, 50_000]), Some(0.0));
        assert_eq!(left([200, 200_000], [50, 50_000]), Some(0.5));
        assert_eq!(left([9, 9_000], [0, 0]), None);
        // A user's filter, or cake itself.
        assert_eq!(past([200, 200_000], [50, 50_000], 101), Some(0.0));
    }

    /// Packets that a program of others hands on before the downlink's queue.
    #[test]
    fn what_is_received_past_the_shaper_is_reported() {
        let (mut watch, rate) = (BehindWatch::default(), "1mbit".parse().ok());
        let mut reported = Vec::new();
        for second in 0..4 {
            let counted = [100 * second, 100_000 * second];
            let sent = DeviceCounts { wan: counted, shaper: [0; 2], waiting: [0; 2], drops: 0 };
            let sent = PerDirection { up: Some(DeviceCounts { shaper: counted, ..sent }), down: Some(sent) };
            watch.observe(Instant::now(), &Behind::default(), sent, rate, |x| format!("{x:?}"));
            reported.push(watch.why().map(str::to_owned));
        }
        let why = reported[2].as_deref().expect("two seconds");
        assert_eq!(why, "100 % of what the device receives does not reach the shaper: look at Down");
        assert_eq!(reported[1], None);
    }

    #[test]
    fn without_shaping_there_is_nothing_to_watch() {
        let (now, mut watch) = (Instant::now(), BehindWatch::default());
        let rate = "1mbit".parse().ok();
        for second in 0..=5 {
            let now = now + Duration::from_secs(second);
            watch.observe(now, &behind(200), PerDirection::default(), rate, |_| String::new());
        }
        assert!(watch.why().is_some());
        let suspects = |_| String::new();
        assert_eq!(watch.observe(now, &behind(200), PerDirection::default(), None, suspects), None);
        assert_eq!(watch.why(), None);
    }
}
