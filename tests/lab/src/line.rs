//! A wire with a length: every frame that enters one end leaves the other a fixed time later.
//!
//! The kernel's own means, netem, is missing on many machines, and as a qdisc it would stand beside the bottleneck's. This one
//! is a namespace between the two machines with a device towards each, and a thread for each direction that carries the frames. It holds as
//! many as there are, drops none, and keeps their order. What the thread is late by, the frame is late by: tens of microseconds on an
//! idle machine (it runs with real-time priority where the system allows).

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::kernel::packet::{PacketSocket, prefer_this_thread};

/// A running line. Dropping it ends its threads; frames under way are lost.
#[derive(Debug)]
pub(crate) struct Line {
    stopped: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// Longest Ethernet frame of a device with an MTU of 1500, with room for tags.
const LONGEST_FRAME: usize = 2048;
/// How long a stop may go unnoticed.
const SLICE: Duration = Duration::from_millis(50);

impl Line {
    /// Starts carrying frames between the two devices behind the sockets, `delay` late each way.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub(crate) fn start(ends: [Arc<PacketSocket>; 2], delay: Duration) -> io::Result<Self> {
        let mut line = Self { stopped: Arc::new(AtomicBool::new(false)), threads: Vec::new() };
        let [a, b] = ends;
        for (from, to) in [(Arc::clone(&a), Arc::clone(&b)), (b, a)] {
            let stopped = Arc::clone(&line.stopped);
            let thread = thread::Builder::new().name("line".into()).spawn(move || {
                prefer_this_thread();
                // A device that goes away ends the line: the lab is being taken down.
                let _ = carry(&from, &to, delay, &stopped);
            })?;
            line.threads.push(thread);
        }
        Ok(line)
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

fn carry(from: &PacketSocket, to: &PacketSocket, delay: Duration, stopped: &AtomicBool) -> io::Result<()> {
    let mut buffer = [0; LONGEST_FRAME];
    let mut under_way: VecDeque<(Instant, Box<[u8]>)> = VecDeque::new();
    while !stopped.load(Ordering::Relaxed) {
        while let Some(length) = from.receive(&mut buffer)? {
            under_way.push_back((Instant::now() + delay, buffer[..length].into()));
        }
        let now = Instant::now();
        while under_way.front().is_some_and(|(due, _)| *due <= now) {
            if let Some((_, frame)) = under_way.pop_front() {
                to.send(&frame)?;
            }
        }
        let due = under_way.front().map_or(SLICE, |(due, _)| due.saturating_duration_since(now));
        from.wait(due.min(SLICE))?;
    }
    Ok(())
}
