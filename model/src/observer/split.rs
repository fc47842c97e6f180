//! What an answer's delay consists of: the delay without queues, the wait of its question, and its own.

use super::base::{Bases, Cleared, Split};
use super::entry_side::Question;
use super::exit_side::{Departure, ExitSide};
use super::rules::RULES;
use super::{Answer, Observer, PacketWait, Passing, Uplink};

impl Observer {
    /// The delay with what is known taken off.
    pub(super) fn clear(&self, packet: &Passing, answer: &Answer, waits: &Waits) -> Cleared {
        let on_link = |bytes: u32, rate: Option<f64>| rate.map_or(0.0, |rate| f64::from(bytes) / rate);
        let question_rate = match &self.up {
            Uplink::Hidden(entry_side) => entry_side.rate(),
            Uplink::Shown(exit_side) => exit_side.rate(),
            Uplink::Elsewhere => self.question_rate,
        };
        let delay_ns = answer.delay_ns as f64
            - answer.own_queue_ns as f64
            - waits.known_ns
            - on_link(answer.question_bytes, question_rate)
            - on_link(packet.bytes, self.down.rate());
        Self::cleared(packet, answer, delay_ns, waits)
    }

    pub(super) fn cleared(packet: &Passing, answer: &Answer, delay_ns: f64, waits: &Waits) -> Cleared {
        Cleared {
            end: answer.end,
            at_ns: packet.at_ns as f64,
            delay_ns,
            question_bytes: answer.question_bytes,
            answer_bytes: packet.bytes,
            most_ns: waits.most_ns,
            clear_ns: waits.clear_ns,
            known_ns: waits.unknown_ns,
        }
    }

    /// Both buffers lie between question and answer, and neither is seen.
    pub(super) fn split_hidden(
        &mut self,
        packet: &Passing,
        answer: &Answer,
        departure: &Departure,
        clock: Option<PacketWait>,
    ) -> Option<PacketWait> {
        let asked_ns = packet.at_ns.saturating_sub(answer.delay_ns);
        let at_ns = departure.left_ns;
        let is_quiet = self.down.count_since(asked_ns) <= RULES.few;
        let Uplink::Hidden(entry_side) = &mut self.up else { return clock };
        let expected_ns = entry_side.expected_ns(asked_ns);
        // The most that the uplink can have held, where it is certain that it was not full.
        let most_up_ns = match expected_ns {
            Some(expected) if entry_side.is_light(asked_ns, packet.at_ns, RULES.half, is_quiet) => expected,
            Some(_) => f64::INFINITY,
            None => entry_side.most_ns(asked_ns, answer.question_bytes, is_quiet),
        };
        let clear_ns = if expected_ns.is_some() { RULES.no_queue_ns } else { RULES.held_back_ns };
        let by_clock = clock.map(|wait| wait.ns).or_else(|| self.down.wait_by_clock_ns(at_ns));
        if let Some(down_ns) = by_clock {
            let waits = Waits { known_ns: down_ns, most_ns: most_up_ns, clear_ns, unknown_ns: expected_ns };
            let split = self.remote.split(&self.clear(packet, answer, &waits));
            // What hides in the clock's word may be all of it.
            let hidden_ns = clock.map_or(self.down.hidden_ns, |wait| wait.hidden_ns);
            if split.queue_ns <= RULES.no_queue_ns || split.queue_ns - hidden_ns >= RULES.no_queue_ns {
                self.measure_uplink(answer, &split, asked_ns, split.queue_ns, packet.at_ns as f64);
            }
            return clock;
        }
        let busy_ns = self.down.busy_since(asked_ns);
        let most_down_ns = departure.most_ns.min(busy_ns);
        let both_known = expected_ns.zip(self.down.wait_ns(at_ns)).map(|(up, down)| up + down);
        let waits =
            Waits { known_ns: 0.0, most_ns: most_up_ns + most_down_ns, clear_ns, unknown_ns: both_known };
        let split = self.remote.split(&self.clear(packet, answer, &waits));
        let queue_ns = split.queue_ns;
        let is_down_busy = most_down_ns > RULES.no_queue_ns && busy_ns > RULES.half * answer.delay_ns as f64;
        let up_ns = match expected_ns {
            _ if !is_down_busy => Some(queue_ns),
            Some(expected) => Some(expected.min(queue_ns)),
            None => None,
        };
        let up_ns = up_ns?;
        if !is_down_busy {
            self.measure_uplink(answer, &split, asked_ns, up_ns, packet.at_ns as f64);
        }
        let ns = (queue_ns - up_ns).clamp(0.0, most_down_ns);
        // How both share it is book-keeping only while both are busy.
        let uncertainty_ns =
            self.down.uncertainty_ns.max(if is_down_busy { RULES.within * queue_ns } else { 0.0 });
        Some(PacketWait { ns, uncertainty_ns, hidden_ns: 0.0, proven_ns: split.proven_ns })
    }

    /// An answer tells how long its question waited in the hidden uplink's buffer. The smallest queue since an end was first heard may be in its base: of
    /// such ends one is asked, and none while an end answers whose base is proven. A full buffer silences those: meanwhile an end does whose whole base
    /// is short for the wait.
    fn measure_uplink(&mut self, answer: &Answer, split: &Split, asked_ns: u64, wait_ns: f64, now_ns: f64) {
        let Uplink::Hidden(entry_side) = &mut self.up else { return };
        let question = Question { at_ns: asked_ns, ahead_bytes: f64::from(answer.ahead_bytes) };
        let unproven = split.proven_ns.is_none().then_some(answer.end);
        let silent_ns = match self.asked_end {
            Some((asked, heard_ns)) if asked != answer.end => now_ns - heard_ns,
            _ => f64::INFINITY,
        };
        let is_asked = unproven.is_none() || silent_ns > RULES.long_ns;
        if is_asked {
            self.asked_end = Some((answer.end, now_ns));
        }
        if is_asked || silent_ns > RULES.second_ns && split.base_ns <= RULES.slight * wait_ns {
            self.proven_ns.up = split.proven_ns;
            entry_side.measure(question, wait_ns, now_ns);
        }
        entry_side.learn(question, wait_ns, unproven);
    }
}

/// What is known of the waits in a delay, nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waits {
    /// Known and not of interest: taken off.
    pub(super) known_ns: f64,
    /// The most that the rest can be.
    pub(super) most_ns: f64,
    /// If it can be no more than this, it counts as none.
    pub(super) clear_ns: f64,
    /// What it probably is, for an end that is new.
    pub(super) unknown_ns: Option<f64>,
}

impl Default for Waits {
    fn default() -> Self {
        Self { known_ns: 0.0, most_ns: f64::INFINITY, clear_ns: RULES.no_queue_ns, unknown_ns: None }
    }
}

/// One buffer lies between question and answer, the exit side's own: the clock's word if there is one, else the answer's.
pub(super) fn split_wait(
    exit_side: &ExitSide,
    bases: &mut Bases,
    packet: &Passing,
    answer: &Answer,
    cleared: Cleared,
    departure: &Departure,
    clock: Option<PacketWait>,
) -> Option<PacketWait> {
    // The question was on its way once it had left the gateway's own queue.
    let asked_ns =
        packet.at_ns.saturating_sub(answer.delay_ns).saturating_add(answer.own_queue_ns).min(packet.at_ns);
    let most_ns = departure.most_ns.min(exit_side.busy_since(asked_ns));
    if let Some(wait) = clock {
        bases.split(&Cleared {
            delay_ns: cleared.delay_ns - wait.ns,
            most_ns: most_ns.min(wait.hidden_ns),
            ..cleared
        });
        return clock;
    }
    // Others' packets show how long it waited, and not so exactly that its delay without queue could be learnt from it.
    if exit_side.is_clocked(departure) {
        return None;
    }
    let known_ns = exit_side.wait_ns(departure.left_ns);
    let split = bases.split(&Cleared { most_ns, known_ns, ..cleared });
    let ns = split.queue_ns.min(most_ns);
    Some(PacketWait {
        ns,
        uncertainty_ns: exit_side.uncertainty_ns,
        hidden_ns: 0.0,
        proven_ns: split.proven_ns,
    })
}
