//! What a user feels: a small datagram there and back, whose two ends read one clock, so that each direction's share of the round trip is known.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pendulum_model::segment::PerDirection;

use crate::experiment::ExperimentError;
use crate::kernel::packet::prefer_this_thread;
use crate::lab::Lab;
use crate::netns::Host;
use crate::topology::{IpVersion, Role};

const INTERVAL: Duration = Duration::from_millis(50);
/// As ping's.
const BYTES: usize = 64;
const SLICE: Duration = Duration::from_millis(20);

/// When one ping was where, since the traces began.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Echo {
    /// Sent at home.
    pub(super) sent: Duration,
    /// Turned round on the internet.
    pub(super) turned: Option<Duration>,
    /// Back at home.
    pub(super) back: Option<Duration>,
}

impl Echo {
    /// When it entered a direction and how long it took; `None` if it did not arrive there or did not come out.
    pub(super) fn passage(&self) -> PerDirection<Option<(Duration, Duration)>> {
        let between = |from: Option<Duration>, to: Option<Duration>| Some((from?, to?.saturating_sub(from?)));
        PerDirection { up: between(Some(self.sent), self.turned), down: between(self.turned, self.back) }
    }
}

/// A ping that runs. Dropping it ends it.
pub(super) struct Ping {
    shared: Arc<PingState>,
    threads: Vec<JoinHandle<()>>,
}

struct PingState {
    began: Instant,
    stopped: AtomicBool,
    echoes: Mutex<Vec<Echo>>,
}

impl PingState {
    fn note(&self, number: u64, note: impl FnOnce(&mut Echo, Duration)) {
        let now = self.began.elapsed();
        let mut echoes = self.echoes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(echo) = usize::try_from(number).ok().and_then(|number| echoes.get_mut(number)) {
            note(echo, now);
        }
    }

    fn goes_on(&self) -> bool {
        !self.stopped.load(Ordering::Relaxed)
    }
}

impl Ping {
    /// Starts one from U2 to D1. `began` is when the traces did.
    pub(super) fn start(lab: &Lab, began: Instant) -> Result<Self, ExperimentError> {
        let any = SocketAddr::from(([0, 0, 0, 0], 0));
        let address = Role::D1.address(IpVersion::V4).unwrap_or(IpAddr::from([0, 0, 0, 0]));
        let at = SocketAddr::new(address, lab.next_port());
        let bind = |host: &Host, at: SocketAddr| -> Result<UdpSocket, ExperimentError> {
            let socket = host.inside(|| UdpSocket::bind(at))?.map_err(failed)?;
            socket.set_read_timeout(Some(SLICE)).map_err(failed)?;
            Ok(socket)
        };
        let mirror = bind(&lab.host(Role::D1), at)?;
        let home = bind(&lab.host(Role::U2), any)?;
        home.connect(at).map_err(failed)?;
        let sender = home.try_clone().map_err(failed)?;
        let shared = Arc::new(PingState { began, stopped: AtomicBool::new(false), echoes: Mutex::default() });
        let mut ping = Self { shared: Arc::clone(&shared), threads: Vec::new() };
        ping.spawn(move |shared| turn(shared, &mirror))?;
        ping.spawn(move |shared| receive(shared, &home))?;
        ping.spawn(move |shared| send(shared, &sender))?;
        Ok(ping)
    }

    fn spawn(&mut self, work: impl FnOnce(&PingState) + Send + 'static) -> Result<(), ExperimentError> {
        let shared = Arc::clone(&self.shared);
        let thread = thread::Builder::new().name("ping".into()).spawn(move || {
            prefer_this_thread();
            work(&shared);
        });
        self.threads.push(thread.map_err(failed)?);
        Ok(())
    }

    /// What it saw so far.
    pub(super) fn echoes(&self) -> Vec<Echo> {
        self.shared.echoes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Ping {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A panic there has ended it, which is what is wanted.
            let _ = thread.join();
        }
    }
}

fn failed(source: io::Error) -> ExperimentError {
    ExperimentError::Probe { source }
}

fn number_in(datagram: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(datagram.get(..8)?.try_into().ok()?))
}

fn send(shared: &PingState, socket: &UdpSocket) {
    let mut next = Instant::now();
    for number in 0_u64.. {
        thread::sleep(next.saturating_duration_since(Instant::now()));
        if !shared.goes_on() {
            break;
        }
        let mut datagram = [0; BYTES];
        datagram[..8].copy_from_slice(&number.to_be_bytes());
        let echo = Echo { sent: shared.began.elapsed(), ..Echo::default() };
        shared.echoes.lock().unwrap_or_else(PoisonError::into_inner).push(echo);
        // What cannot be sent is lost, and seen as that.
        let _ = socket.send(&datagram);
        next += INTERVAL;
    }
}

fn turn(shared: &PingState, socket: &UdpSocket) {
    let mut datagram = [0; BYTES];
    while shared.goes_on() {
        let Ok((length, from)) = socket.recv_from(&mut datagram) else { continue };
        if let Some(number) = number_in(&datagram[..length]) {
            shared.note(number, |echo, now| echo.turned = Some(now));
            let _ = socket.send_to(&datagram[..length], from);
        }
    }
}

fn receive(shared: &PingState, socket: &UdpSocket) {
    let mut datagram = [0; BYTES];
    while shared.goes_on() {
        let Ok(length) = socket.recv(&mut datagram) else { continue };
        if let Some(number) = number_in(&datagram[..length]) {
            shared.note(number, |echo, now| echo.back = Some(now));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_direction_has_its_part_of_the_way() {
        let ms = Duration::from_millis;
        let echo = Echo { sent: ms(100), turned: Some(ms(130)), back: None };
        assert_eq!(echo.passage(), PerDirection { up: Some((ms(100), ms(30))), down: None });
        let echo = Echo { back: Some(ms(180)), ..echo };
        assert_eq!(echo.passage().down, Some((ms(130), ms(50))));
        assert_eq!(Echo::default().passage(), PerDirection::default());
    }
}
