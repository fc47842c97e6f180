//! Both buffers of the link from what passes one point: levels, rates, and the round-trip time without queues.
//!
//! The point is the gateway's WAN device, live or in a capture. The downlink's buffer lies before it: packets come out of it there
//! ([`exit_side`]). The uplink's buffer may lie behind it, as in a modem: packets go into it there ([`entry_side`]); or before it, as where a
//! capture was taken behind the gateway's own queue ([`exit_side`] again); or it is read from a qdisc and not estimated at all.
//!
//! What an answer's delay consists of: `delay = base + w_u(question) + w_d(answer)` (000 Eq. 1). The sender's clock tells `w_d`
//! ([`clock`]); what is left over the base is `w_u`. Where no sender has a clock, book-keeping of the uplink tells `w_u` and the rest
//! is `w_d`.

mod base;
mod bound;
mod clock;
mod entry_side;
mod estimate;
mod exit_side;
mod known;
mod learner;
pub mod level;
mod point;
mod rules;
pub mod split;
mod standing;
#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::sample::{BaseRoundTrip, MeasuredRate};
use crate::segment::{Direction, PerDirection};

use crate::capacity::ServiceRate;
use base::{Bases, Cleared};
use entry_side::EntrySide;
use exit_side::ExitSide;
use known::KnownRate;
pub use point::{Answer, Passing, Trust, Vantage};
use rules::RULES;
use split::{Waits, split_wait};
pub use standing::Standing;

/// Who answers: an IP address (IPv4 mapped into IPv6), or any number that stands for one.
pub type End = [u8; 16];

/// How long one packet waited.
#[derive(Clone, Copy, Debug)]
struct PacketWait {
    ns: f64,
    uncertainty_ns: f64,
    /// A queue that may have stood there all the time, beside what the delay without queue may hide.
    hidden_ns: f64,
    proven_ns: Option<f64>,
}

impl PacketWait {
    /// Of what may hide in it so much is known from elsewhere.
    fn less_hidden(self, told_ns: f64) -> Self {
        Self { hidden_ns: (self.hidden_ns - told_ns).max(0.0), ..self }
    }
}

/// The uplink's buffer.
#[derive(Debug)]
enum Uplink {
    /// Behind the point.
    Hidden(Box<EntrySide>),
    /// Before the point.
    Shown(Box<ExitSide>),
    /// Read elsewhere.
    Elsewhere,
}

/// Both buffers.
#[derive(Debug)]
pub struct Observer {
    up: Uplink,
    down: Box<ExitSide>,
    /// Ends outside and at home.
    remote: Bases,
    home: Bases,
    /// When it was last certain that a direction's buffer was empty.
    proven_ns: PerDirection<Option<f64>>,
    /// The end outside that told last how long packets wait on the uplink, and when.
    asked_end: Option<(End, f64)>,
    /// Bytes per nanosecond of what a question spends on the uplink before it goes on; none if that is part of its known queue.
    question_rate: Option<f64>,
    /// How long answers may still come in before an interval is given out, nanoseconds.
    lag_ns: u64,
    settled_ns: u64,
    /// Bytes of the uplink in the last second.
    answers: u64,
    unproven_answers: u64,
    /// Mean level of the interval taken last, bytes.
    before: PerDirection<Option<f64>>,
}

impl Observer {
    /// An observer of a link of which nothing is known, from `start_ns` on. `lag`: how long an interval of a hidden uplink buffer waits for
    /// answers before it is given out.
    pub fn new(start_ns: u64, vantage: Vantage, lag: Duration) -> Self {
        let up = match vantage {
            Vantage::BeforeUplinkBuffer => Uplink::Hidden(Box::new(EntrySide::new(start_ns))),
            Vantage::BehindUplinkBuffer => Uplink::Shown(Box::new(ExitSide::new(start_ns, Direction::Up))),
            Vantage::OwnQueue | Vantage::Both => Uplink::Elsewhere,
        };
        Self {
            up,
            down: Box::new(ExitSide::new(start_ns, Direction::Down)),
            remote: Bases::default(),
            home: Bases::default(),
            proven_ns: PerDirection::default(),
            asked_end: None,
            question_rate: None,
            lag_ns: lag.as_nanos() as u64,
            settled_ns: start_ns,
            answers: 0,
            unproven_answers: 0,
            before: PerDirection::default(),
        }
    }

    /// What is known of the rates otherwise, bytes per second. `question_rate`: of the uplink, if a question's own time on it is not
    /// part of what [`Answer::own_queue_ns`] tells.
    pub fn set_rates(&mut self, rates: PerDirection<Option<f64>>, question_rate: Option<f64>) {
        for direction in Direction::ALL {
            if let Some(known) = self.known_rate(direction) {
                known.tell(usable(rates[direction]));
            }
        }
        self.question_rate = usable(question_rate);
    }

    /// Rates, bytes per second, to begin with: they hold until something better is measured.
    pub fn set_first_rates(&mut self, rates: PerDirection<Option<f64>>) {
        for direction in Direction::ALL {
            if let Some(known) = self.known_rate(direction) {
                known.begin_with(usable(rates[direction]));
            }
        }
    }

    fn known_rate(&mut self, direction: Direction) -> Option<&mut KnownRate> {
        match (direction, &mut self.up) {
            (Direction::Down, _) => Some(&mut self.down.known),
            (Direction::Up, Uplink::Hidden(entry_side)) => Some(&mut entry_side.known),
            (Direction::Up, Uplink::Shown(exit_side)) => Some(&mut exit_side.known),
            (Direction::Up, Uplink::Elsewhere) => None,
        }
    }

    /// How long packets wait in the downlink's buffer at `now_ns`, seconds, if a sender's clock tells.
    pub fn downlink_wait_by_clock(&self, now_ns: u64) -> Option<f64> {
        self.down.wait_by_clock_ns(now_ns as f64).map(|ns| ns / 1e9)
    }

    /// A packet passes the point of observation: [`Self::leave`] or [`Self::arrive`].
    pub fn pass(&mut self, direction: Direction, packet: &Passing, answer: Option<&Answer>) {
        match direction {
            Direction::Up => self.leave(packet, answer),
            Direction::Down => self.arrive(packet, answer),
        }
    }

    /// A packet of the uplink passes; `answer` if it answers one from outside. Packets come in the order of time.
    pub fn leave(&mut self, packet: &Passing, answer: Option<&Answer>) {
        // Nothing of the link lies between home and here: a question has arrived, its answer is about to leave.
        let home = answer
            .map(|answer| (answer, Self::cleared(packet, answer, answer.delay_ns as f64, &Waits::default())));
        match &mut self.up {
            Uplink::Hidden(entry_side) => {
                entry_side.enter(packet.at_ns, packet.bytes, packet.repeated_bytes);
                if let Some((_, cleared)) = home {
                    self.home.split(&Cleared { most_ns: 0.0, ..cleared });
                }
            }
            Uplink::Shown(exit_side) => {
                let departure = exit_side.depart(packet);
                let most_ns = self.home.most_ns(answer);
                let mut wait = exit_side.read_clock(packet, &departure, most_ns);
                if let Some((answer, cleared)) = home {
                    wait = split_wait(exit_side, &mut self.home, packet, answer, cleared, &departure, wait);
                }
                self.proven_ns.up = wait.map_or(self.proven_ns.up, |wait| wait.proven_ns);
                let hiding_ns = self.home.hiding_ns();
                exit_side.place(packet, &departure, wait.map(|wait| wait.less_hidden(hiding_ns)));
            }
            Uplink::Elsewhere => {
                if let Some((_, cleared)) = home {
                    self.home.split(&Cleared { most_ns: 0.0, ..cleared });
                }
            }
        }
    }

    /// A packet of the downlink passes; `answer` if it answers one of ours.
    pub fn arrive(&mut self, packet: &Passing, answer: Option<&Answer>) {
        let departure = self.down.depart(packet);
        let most_ns = self.remote.most_ns(answer);
        let mut wait = self.down.read_clock(packet, &departure, most_ns);
        if let Some(answer) = answer {
            self.answers += 1;
            wait = match self.up {
                Uplink::Hidden(_) => self.split_hidden(packet, answer, &departure, wait),
                Uplink::Shown(_) | Uplink::Elsewhere => {
                    let cleared = self.clear(packet, answer, &Waits::default());
                    split_wait(&self.down, &mut self.remote, packet, answer, cleared, &departure, wait)
                }
            };
            self.unproven_answers += u64::from(wait.is_some_and(|wait| wait.proven_ns.is_none()));
        }
        self.proven_ns.down = wait.map_or(self.proven_ns.down, |wait| wait.proven_ns);
        let hiding_ns = self.remote.hiding_ns();
        self.down.place(packet, &departure, wait.map(|wait| wait.less_hidden(hiding_ns)));
    }

    /// Nothing more has passed before `now_ns`.
    pub fn settle(&mut self, now_ns: u64) {
        self.settled_ns = self.settled_ns.max(now_ns);
        // It lies between here and the nearest end: in the middle, for want of better knowledge.
        self.down.away_ns = self.remote.nearest.map_or(0.0, |ns| ns / 4.0);
        self.down.settle(now_ns);
        if let Uplink::Shown(exit_side) = &mut self.up {
            exit_side.settle(now_ns);
        }
    }

    /// Nothing comes any more: everything up to `now_ns` is known.
    pub fn finish(&mut self, now_ns: u64) {
        self.down.finish(now_ns);
        if let Uplink::Shown(exit_side) = &mut self.up {
            exit_side.finish(now_ns);
        }
        self.settled_ns = self.settled_ns.max(now_ns.saturating_add(self.lag_ns));
    }

    /// Begins anew at `start_ns`, after a silence in which everything drained. Delays without queue, clocks and rates stay known; what was
    /// not taken of the levels is gone.
    pub fn restart(&mut self, start_ns: u64) {
        self.settled_ns = start_ns;
        self.down.restart(start_ns);
        match &mut self.up {
            Uplink::Hidden(entry_side) => entry_side.restart(start_ns),
            Uplink::Shown(exit_side) => exit_side.restart(start_ns),
            Uplink::Elsewhere => {}
        }
    }

    /// Whether this observer knows anything of a direction's buffer.
    pub fn covers(&self, direction: Direction) -> bool {
        direction == Direction::Down || !matches!(self.up, Uplink::Elsewhere)
    }

    fn any_rate(&self, direction: Direction) -> Option<f64> {
        match (direction, &self.up) {
            (Direction::Down, _) => self.down.rate(),
            (Direction::Up, Uplink::Hidden(entry_side)) => entry_side.rate(),
            (Direction::Up, Uplink::Shown(exit_side)) => exit_side.rate(),
            (Direction::Up, Uplink::Elsewhere) => self.question_rate,
        }
    }

    /// A direction's rate as measured while its buffer held a queue.
    pub fn rate(&self, direction: Direction) -> Option<MeasuredRate> {
        let of_service = |service: &ServiceRate| Some((service.rate()?, service.newest_ns()));
        let (rate, newest_ns) = match (direction, &self.up) {
            (Direction::Down, _) => self.down.measured(of_service)?,
            (Direction::Up, Uplink::Hidden(entry_side)) => {
                let learner = &entry_side.learner;
                (
                    entry_side.measured_rate(ServiceRate::rate).filter(|_| learner.is_sure())?,
                    learner.newest_ns(),
                )
            }
            (Direction::Up, Uplink::Shown(exit_side)) => exit_side.measured(of_service)?,
            (Direction::Up, Uplink::Elsewhere) => return None,
        };
        Some(MeasuredRate {
            bytes_per_second: rate * 1e9,
            measured_at: Duration::from_nanos(newest_ns.max(0.0) as u64),
        })
    }

    /// The round-trip time without queues, from end to end.
    pub fn base_round_trip(&self) -> Option<BaseRoundTrip> {
        let (remote_ns, is_proven) = self.remote.newest?;
        let home_ns = self.home.newest.map_or(0.0, |(ns, _)| ns.max(0.0));
        Some(BaseRoundTrip { seconds: (remote_ns.max(0.0) + home_ns) / 1e9, is_proven })
    }

    /// What a direction's estimate rests on. An idle link has an empty buffer, whatever else is known.
    pub fn trust(&self, direction: Direction, now_ns: u64) -> Trust {
        if direction == Direction::Down && self.down.is_idle(now_ns as f64) {
            return Trust::Confirmed;
        }
        match self.proven_ns[direction] {
            Some(at) if now_ns as f64 - at > RULES.stale_ns => Trust::Stale,
            Some(_) => Trust::Confirmed,
            None => Trust::NeverEmpty,
        }
    }

    /// Answers from outside so far, and those whose delay without queue was never proven.
    pub fn answers(&self) -> (u64, u64) {
        (self.answers, self.unproven_answers)
    }
}

/// Bytes per nanosecond of a rate in bytes per second, if it is one.
fn usable(rate: Option<f64>) -> Option<f64> {
    rate.filter(|rate| rate.is_finite() && *rate >= 1.0).map(|rate| rate / 1e9)
}
