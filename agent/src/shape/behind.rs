//! Does the queue stand here? With too high a rate, or without the line's overhead, it stands in the modem all the same.

use std::time::{Duration, Instant};

use pendulum_model::rate::Rate;

use crate::config::rates::in_words;

/// What is seen behind the shaper, on the way to the provider.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Behind {
    /// How long packets wait there; none while that cannot be told.
    pub delay: Option<Duration>,
    /// What passed the agent's programs within the last second, bytes.
    pub passed: f64,
    /// TCP payload that was sent within it, and that was acknowledged, bytes.
    pub payload: [f64; 2],
    /// Share of the uplink's bytes that did not pass the agent's programs, 0 to 1.
    pub unseen: Option<f64>,
}

/// So long a wait behind a shaper is no shaper's success: the finding `bufferbloat` begins there too.
const LATE: Duration = Duration::from_millis(100);
/// And this is none to speak of.
const EARLY: Duration = Duration::from_millis(50);
/// Less than so many seconds is a moment's burst.
const HOLDS: Duration = Duration::from_secs(5);
/// Below it drivers only count otherwise.
const UNSEEN: f64 = 0.1;

/// Watches whether packets wait behind the shaper.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// Since when what was seen speaks against the present state.
    since: Option<Instant>,
    /// Of what was seen since then.
    sums: Behind,
    why: Option<String>,
}

impl Watch {
    /// Why the shaper does not work, if it does not.
    pub(super) fn why(&self) -> Option<&str> {
        self.why.as_deref()
    }

    /// Takes in what is seen; `rate`: what is sent at, none while nothing is shaped. What has changed: why the shaper does not work,
    /// or, as the inner `None`, that it does again.
    pub(super) fn observe(
        &mut self,
        now: Instant,
        behind: &Behind,
        rate: Option<Rate>,
    ) -> Option<Option<&str>> {
        let Some(rate) = rate else {
            *self = Self::default();
            return None;
        };
        let hides = behind.unseen.is_some_and(|share| share > UNSEEN);
        let against = match (self.why.is_some(), behind.delay) {
            (false, delay) => hides || delay.is_some_and(|delay| delay >= LATE),
            // What cannot be told does not end it.
            (true, delay) => !hides && delay.is_some_and(|delay| delay < EARLY),
        };
        if !against {
            self.since = None;
            return None;
        }
        if self.since.is_none() {
            self.sums = Behind::default();
        } else {
            self.sums.passed += behind.passed;
            for (sum, more) in self.sums.payload.iter_mut().zip(behind.payload) {
                *sum += more;
            }
        }
        if now.duration_since(*self.since.get_or_insert(now)) < HOLDS {
            return None;
        }
        self.since = None;
        self.why =
            if self.why.is_some() { None } else { Some(reason(behind, carried(&self.sums, HOLDS), rate)) };
        Some(self.why.as_deref())
    }
}

/// What the line carried: what passed, less what was sent and not acknowledged. It stands in the buffer, or was dropped there.
fn carried(sums: &Behind, span: Duration) -> Option<Rate> {
    let [sent, acknowledged] = sums.payload;
    let share = (sent > 0.0).then(|| (acknowledged / sent).min(1.0))?;
    Rate::from_bytes_per_second(sums.passed * share / span.as_secs_f64())
}

fn reason(behind: &Behind, carried: Option<Rate>, rate: Rate) -> String {
    if let Some(share) = behind.unseen.filter(|share| *share > UNSEEN) {
        return format!(
            "{:.0} % of what the device sends does not pass the shaper: switch off hardware flow offload",
            share * 100.0
        );
    }
    let waits = behind.delay.unwrap_or_default().as_millis();
    // As much as was sent, or more: a recovery's ACKs came late, and what the line carried is not known.
    let remedy = match carried.filter(|carried| *carried < rate).map(in_words) {
        Some(carried) => format!("it carried {carried}: write that, less a few percent, as uplink-rate"),
        None => "write a lower uplink-rate".to_owned(),
    };
    format!(
        "packets wait {waits} ms behind it, though it sends at {}: the line carries less, or takes more for each packet; \
         {remedy}, or give the line's preset",
        in_words(rate)
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
        let (start, mut watch) = (Instant::now(), Watch::default());
        let rate = "1mbit".parse().ok();
        let mut told = Vec::new();
        for (second, behind) in seen.iter().enumerate() {
            let now = start + Duration::from_secs(second as u64);
            if let Some(why) = watch.observe(now, behind, rate) {
                told.push((second, why.is_some()));
            }
        }
        told
    }

    #[test]
    fn a_queue_that_stands_behind_is_told_and_so_is_its_end() {
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

    /// 216 kbit/s are sent, of which the line carries 194.
    #[test]
    fn the_reason_has_the_rate_that_would_do() {
        let (start, mut watch) = (Instant::now(), Watch::default());
        let rate = "216kbit".parse().ok();
        let seen = Behind { passed: 27_000.0, payload: [25_800.0, 25_800.0 * 194.0 / 216.0], ..behind(375) };
        let mut why = None;
        for second in 0..=5 {
            let now = start + Duration::from_secs(second);
            why = watch.observe(now, &seen, rate).flatten().map(str::to_owned);
        }
        let why = why.expect("five seconds");
        assert!(why.contains("375 ms") && why.contains("it carried 194 kbit/s"), "{why}");
        assert!(why.contains("216 kbit/s"), "{why}");
        // Without TCP's acknowledgements it is not known.
        assert_eq!(carried(&Behind { passed: 1e5, ..Behind::default() }, HOLDS), None);
        // Nor if a recovery's ACKs came late and make it as much as was sent.
        let all = rate.expect("a rate");
        assert!(reason(&behind(375), Some(all), all).contains("write a lower uplink-rate"));
        let hides = Behind { unseen: Some(0.4), ..behind(0) };
        let why = reason(&hides, None, "1mbit".parse().expect("a rate"));
        assert!(why.contains("40 %") && why.contains("offload"), "{why}");
    }

    #[test]
    fn without_shaping_there_is_nothing_to_watch() {
        let (now, mut watch) = (Instant::now(), Watch::default());
        let rate = "1mbit".parse().ok();
        for second in 0..=5 {
            watch.observe(now + Duration::from_secs(second), &behind(200), rate);
        }
        assert!(watch.why().is_some());
        assert_eq!(watch.observe(now, &behind(200), None), None);
        assert_eq!(watch.why(), None);
    }
}
