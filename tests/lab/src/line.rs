//! A wire with a length: every frame that enters one end leaves the other a fixed time later.
//!
//! The kernel's own means, netem, is missing on many machines, and as a qdisc it would stand beside the bottleneck's. This one
//! is a namespace between the two machines with a device towards each, and a thread for each direction that carries the frames. It holds as
//! many as there are, drops none, and keeps their order. What the thread is late by, the frame is late by: tens of microseconds on an
//! idle machine (it runs with real-time priority where the system allows).
//!
//! A line may also put another clock on the host at one of its ends ([`crate::clock`]), and be a bottleneck whose capacity changes
//! ([`crate::capacity`]): frames then wait in its buffer first, and are on their way from the moment on at which the trace let them go.
//!
//! While a device is down, frames are lost, as with a cable that is unplugged. A device that goes away ends the line: [`Line::check`]
//! then says why nothing passes any more.

mod clock;

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use self::clock::{ClockRewriter, Way};
use crate::capacity::{Bottleneck, LinkReading};
use crate::clock::Ticks;
use crate::kernel::packet::{PacketSocket, prefer_this_thread};

/// What a line does to the frames.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Treatment {
    /// How late they come out.
    pub(crate) delay: Duration,
    /// The clocks of the hosts at both ends, where they are not Linux'.
    pub(crate) clocks: [Option<Ticks>; 2],
}

/// A line that carries nothing any more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the line in {namespace} has ended, and nothing passes there any more: {reason}; take the lab down and start again"
)]
pub struct LineEnded {
    /// The namespace in the middle of the wire.
    pub namespace: String,
    /// Why.
    pub reason: String,
}

/// A running line. Dropping it ends its threads; frames under way are lost.
#[derive(Debug)]
pub(crate) struct Line {
    namespace: String,
    stopped: Arc<AtomicBool>,
    /// Why the first direction to end has ended.
    reason: Arc<OnceLock<String>>,
    threads: Vec<JoinHandle<()>>,
    /// By the end where frames come in.
    bottlenecks: [Option<Arc<Mutex<Paced>>>; 2],
}

/// A bottleneck, and when its trace began.
#[derive(Debug)]
struct Paced {
    began: Instant,
    bottleneck: Bottleneck,
}

/// Longest Ethernet frame of a device with an MTU of 1500, with room for tags.
const LONGEST_FRAME: usize = 2048;
/// How long a stop may go unnoticed.
const SLICE: Duration = Duration::from_millis(50);
/// So long is waited where the socket's buffer is full. The thread runs before those that empty it.
const TAKEN_IN: Duration = Duration::from_micros(200);

impl Line {
    /// Starts carrying frames between the two devices behind the sockets, each way. `namespace` is where they are, for messages. What
    /// comes in at an end passes the bottleneck of that end, if there is one; its trace begins now.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub(crate) fn start(
        namespace: &str,
        ends: [Arc<PacketSocket>; 2],
        treatment: Treatment,
        bottlenecks: [Option<Bottleneck>; 2],
    ) -> io::Result<Self> {
        let paced = |bottleneck| Paced { began: Instant::now(), bottleneck };
        let mut line = Self {
            namespace: namespace.into(),
            stopped: Arc::default(),
            reason: Arc::default(),
            threads: Vec::new(),
            bottlenecks: bottlenecks.map(|bottleneck| Some(Arc::new(Mutex::new(paced(bottleneck?))))),
        };
        let clocks = treatment.clocks.map(|clock| Some(Arc::new(Mutex::new(ClockRewriter::new(clock?)))));
        for from in [0, 1] {
            let way = OneWay {
                from: Arc::clone(&ends[from]),
                to: Arc::clone(&ends[1 - from]),
                delay: treatment.delay,
                bottleneck: line.bottlenecks[from].clone(),
                clocks: [(&clocks[from], Way::FromHost), (&clocks[1 - from], Way::ToHost)]
                    .into_iter()
                    .filter_map(|(clock, way)| Some((Arc::clone(clock.as_ref()?), way)))
                    .collect(),
            };
            let (stopped, reason) = (Arc::clone(&line.stopped), Arc::clone(&line.reason));
            let thread = thread::Builder::new().name("line".into()).spawn(move || {
                prefer_this_thread();
                if let Err(error) = way.carry(&stopped) {
                    // The other direction may have reported already.
                    let _ = reason.set(error.to_string());
                }
            })?;
            line.threads.push(thread);
        }
        Ok(line)
    }

    /// Says why, once a direction of it has ended.
    ///
    /// # Errors
    /// [`LineEnded`].
    pub(crate) fn check(&self) -> Result<(), LineEnded> {
        if !self.threads.iter().any(JoinHandle::is_finished) {
            return Ok(());
        }
        let reason = self.reason.get().map_or("its thread has panicked", String::as_str);
        Err(LineEnded { namespace: self.namespace.clone(), reason: reason.to_owned() })
    }

    /// What the bottleneck of an end has done; `None` if there is none.
    pub(crate) fn reading(&self, from: usize) -> Option<LinkReading> {
        let paced = lock(self.bottlenecks.get(from)?.as_ref()?);
        Some(paced.bottleneck.reading(paced.began.elapsed()))
    }

    /// Lets the traces of all bottlenecks begin again at one moment.
    pub(crate) fn restart(&self, began: Instant) {
        for paced in self.bottlenecks.iter().flatten() {
            let mut paced = lock(paced);
            paced.began = began;
            paced.bottleneck.restart();
        }
    }
}

fn lock(paced: &Mutex<Paced>) -> std::sync::MutexGuard<'_, Paced> {
    paced.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Paced {
    /// Moves what has left by now, with the time at which it is at the other end, and says when the next one leaves.
    fn pass(
        &mut self,
        now: Instant,
        delay: Duration,
        under_way: &mut VecDeque<(Instant, Box<[u8]>)>,
    ) -> Option<Instant> {
        let since = now.saturating_duration_since(self.began);
        while let Some((at, frame)) = self.bottleneck.take(since) {
            under_way.push_back((self.began + at + delay, frame));
        }
        self.bottleneck.next_at().map(|at| self.began + at)
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A panic there has ended the thread, which is what is wanted.
            let _ = thread.join();
        }
    }
}

/// One direction of a line.
struct OneWay {
    from: Arc<PacketSocket>,
    to: Arc<PacketSocket>,
    delay: Duration,
    bottleneck: Option<Arc<Mutex<Paced>>>,
    clocks: Vec<(Arc<Mutex<ClockRewriter>>, Way)>,
}

impl OneWay {
    fn carry(&self, stopped: &AtomicBool) -> io::Result<()> {
        let mut buffer = [0; LONGEST_FRAME];
        let mut under_way: VecDeque<(Instant, Box<[u8]>)> = VecDeque::new();
        while !stopped.load(Ordering::Relaxed) {
            while let Some(length) = Self::lost(self.from.receive(&mut buffer))?.flatten() {
                let frame = &mut buffer[..length];
                for (clock, way) in &self.clocks {
                    clock.lock().unwrap_or_else(PoisonError::into_inner).rewrite(frame, *way);
                }
                let now = Instant::now();
                match &self.bottleneck {
                    None => under_way.push_back((now + self.delay, (&*frame).into())),
                    Some(paced) => {
                        let mut paced = lock(paced);
                        let since = now.saturating_duration_since(paced.began);
                        paced.bottleneck.offer(since, frame);
                    }
                }
            }
            let now = Instant::now();
            let next = self
                .bottleneck
                .as_deref()
                .and_then(|paced| lock(paced).pass(now, self.delay, &mut under_way));
            let mut soonest = Duration::ZERO;
            while let Some((_, frame)) = under_way.front().filter(|(due, _)| *due <= now) {
                match self.to.send(frame) {
                    // What was sent before has not been taken in yet.
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        soonest = TAKEN_IN;
                        break;
                    }
                    sent => _ = Self::lost(sent)?,
                }
                under_way.pop_front();
            }
            let due = under_way.front().map(|(due, _)| *due).into_iter().chain(next).min();
            let due = due.map_or(SLICE, |due| due.saturating_duration_since(now)).max(soonest);
            let waited = self.from.wait(due.min(SLICE));
            Self::lost(waited)?;
            // The kernel tells of a device that has gone as of one that is down, and then says nothing more.
            if under_way.is_empty() && !self.from.has_device()? {
                return Err(io::Error::other("the device of one of its ends was removed"));
            }
        }
        Ok(())
    }

    /// `None` for an error that costs a frame at most: a signal, a device that is down or has no room, a frame that is too long for it.
    fn lost<T>(result: io::Result<T>) -> io::Result<Option<T>> {
        // ENXIO: what a device that is just going down says, and one that has gone; of the latter `has_device` tells.
        const PASSING: [i32; 5] = [libc::EINTR, libc::ENETDOWN, libc::ENOBUFS, libc::EMSGSIZE, libc::ENXIO];
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.raw_os_error().is_some_and(|code| PASSING.contains(&code)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
