//! Whose connections those are that are shown: the host behind a translated address, and whether it is home's or this
//! machine's own.
//!
//! Asked only for what somebody wants to see, in a thread of its own: never by what measures.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tracing::debug;

use crate::net::{Conntrack, Original, Reached, Routes};

/// Answers kept at most: as many as flows can be listed at once.
const KEPT: usize = 10_000;
/// A connection's translation never changes; a connection is known by its ends and when it began.
const KNOWN_FOR: Duration = Duration::from_secs(600);
/// What is not known may be soon.
const UNKNOWN_FOR: Duration = Duration::from_secs(5);
/// Routes change, devices are renamed.
const ROUTE_FOR: Duration = Duration::from_secs(10);
/// A module may be loaded, and is not looked for at each request.
const REFUSED_FOR: Duration = Duration::from_secs(30);
/// A reader waits for so long. The kernel answers in microseconds, but for the moment in which it loads a module.
const PATIENCE: Duration = Duration::from_secs(1);

/// A connection as it is seen on the WAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct WanConnection {
    pub(crate) home: SocketAddr,
    pub(crate) remote: SocketAddr,
    /// When it was first seen, in the kernel's nanoseconds: the ends may be another connection's later.
    pub(crate) began_ns: u64,
    /// Whether it has not ended: only then must the kernel still know it.
    pub(crate) is_open: bool,
}

/// What is known of a connection's home end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Home {
    /// Its own address, where another one is seen on the WAN.
    pub(crate) translated_from: Option<IpAddr>,
    /// Where it is; `None` if that is not known.
    pub(crate) reached: Option<Reached>,
}

/// What is known of the home ends of some connections.
#[derive(Clone, Debug, Default)]
pub(crate) struct Homes {
    /// In the order of the question; empty if they could not be asked for.
    pub(crate) homes: Vec<Home>,
    /// Why connection tracking could not be asked.
    pub(crate) missing: Option<String>,
}

/// Asks the kernel, and remembers what it said.
#[derive(Clone, Debug)]
pub(crate) struct HomeLookup {
    memory: Arc<Mutex<Memory>>,
    /// One question at a time.
    turn: Arc<Semaphore>,
}

impl Default for HomeLookup {
    fn default() -> Self {
        Self { memory: Arc::default(), turn: Arc::new(Semaphore::new(1)) }
    }
}

impl HomeLookup {
    /// The home ends of these connections.
    pub(crate) async fn homes(&self, connections: Vec<WanConnection>) -> Homes {
        if connections.is_empty() {
            return Homes::default();
        }
        let asked = async {
            let turn = Arc::clone(&self.turn).acquire_owned().await.ok()?;
            let memory = Arc::clone(&self.memory);
            let ask = move || {
                let _turn = turn;
                let mut memory = memory.lock().unwrap_or_else(PoisonError::into_inner);
                memory.homes(&connections, Instant::now())
            };
            tokio::task::spawn_blocking(ask).await.ok()
        };
        tokio::time::timeout(PATIENCE, asked).await.ok().flatten().unwrap_or_else(|| Homes {
            homes: Vec::new(),
            missing: Some(format!(
                "connection tracking did not answer within {} s; ask again",
                PATIENCE.as_secs()
            )),
        })
    }
}

#[derive(Debug, Default)]
struct Memory {
    conntrack: Option<Conntrack>,
    refused: Option<(Instant, String)>,
    routes: Option<Routes>,
    /// By ends and beginning: the home end's own address.
    originals: AnswerCache<(SocketAddr, SocketAddr, u64), Option<IpAddr>>,
    reached: AnswerCache<IpAddr, Option<Reached>>,
}

impl Memory {
    fn homes(&mut self, connections: &[WanConnection], now: Instant) -> Homes {
        self.open(now);
        if self.routes.is_none() {
            self.routes = Routes::open().map_err(|error| debug!("no route netlink: {error}")).ok();
        }
        let homes = connections.iter().map(|connection| self.home(connection, now)).collect();
        Homes { homes, missing: self.refused.as_ref().map(|(_, reason)| reason.clone()) }
    }

    fn open(&mut self, now: Instant) {
        let waits = self.refused.as_ref().is_some_and(|(at, _)| now.duration_since(*at) < REFUSED_FOR);
        // Without connection tracking there is nothing to be asked, but it may come.
        if waits || self.conntrack.as_ref().is_some_and(Conntrack::is_there) {
            return;
        }
        (self.conntrack, self.refused) = match Conntrack::open() {
            Ok(conntrack) => (Some(conntrack), None),
            Err(reason) => (None, Some((now, reason.to_string()))),
        };
    }

    fn home(&mut self, connection: &WanConnection, now: Instant) -> Home {
        let Some(original) = self.original(connection, now) else {
            // An address of another machine is that machine, translated or not; one of our own may be anybody's.
            let seen = self.reached(connection.home.ip(), now);
            return Home { reached: seen.filter(|reached| *reached != Reached::Own), ..Home::default() };
        };
        Home {
            translated_from: (original != connection.home.ip()).then_some(original),
            reached: self.reached(original, now),
        }
    }

    fn original(&mut self, connection: &WanConnection, now: Instant) -> Option<IpAddr> {
        let WanConnection { home, remote, began_ns, is_open } = *connection;
        let key = (home, remote, began_ns);
        if let Some(known) = self.originals.get(&key, now) {
            return known;
        }
        let original = match self.conntrack.as_mut()?.original(home, remote) {
            Ok(Original::Known(end)) => Some(end.ip()),
            Ok(Original::NothingTracked) if is_open => Some(home.ip()),
            Ok(Original::NothingTracked | Original::NotTracked) => None,
            Err(error) => {
                debug!("connection tracking does not answer: {error}");
                // The next request opens it anew, and says what is wrong.
                self.conntrack = None;
                return None;
            }
        };
        let lifetime = if original.is_some() { KNOWN_FOR } else { UNKNOWN_FOR };
        self.originals.put(key, original, now, lifetime);
        original
    }

    fn reached(&mut self, address: IpAddr, now: Instant) -> Option<Reached> {
        if let Some(known) = self.reached.get(&address, now) {
            return known;
        }
        let reached = self.routes.as_mut()?.to(address);
        self.reached.put(address, reached.clone(), now, ROUTE_FOR);
        reached
    }
}

/// Answers with the moment up to which they hold. Bounded: when it is full, what is old goes, and then all.
#[derive(Debug)]
struct AnswerCache<K, V> {
    answers: HashMap<K, (Instant, V)>,
}

impl<K, V> Default for AnswerCache<K, V> {
    fn default() -> Self {
        Self { answers: HashMap::new() }
    }
}

impl<K: Eq + Hash, V: Clone> AnswerCache<K, V> {
    fn get(&self, key: &K, now: Instant) -> Option<V> {
        self.answers.get(key).filter(|(until, _)| now < *until).map(|(_, value)| value.clone())
    }

    fn put(&mut self, key: K, value: V, now: Instant, lifetime: Duration) {
        if self.answers.len() >= KEPT {
            self.answers.retain(|_, (until, _)| now < *until);
            if self.answers.len() >= KEPT {
                self.answers.clear();
            }
        }
        self.answers.insert(key, (now + lifetime, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_bounded_in_number_and_age() {
        let start = Instant::now();
        let mut kept = AnswerCache::default();
        kept.put(0, 'a', start, KNOWN_FOR);
        assert_eq!(kept.get(&0, start + KNOWN_FOR - Duration::from_millis(1)), Some('a'));
        assert_eq!(kept.get(&0, start + KNOWN_FOR), None);
        for key in 0..3 * KEPT {
            kept.put(key, 'b', start + Duration::from_millis(key as u64), KNOWN_FOR);
            assert!(kept.answers.len() <= KEPT);
        }
        assert_eq!(kept.get(&(3 * KEPT - 1), start + KNOWN_FOR), Some('b'));
    }

    #[test]
    fn old_answers_go_first() {
        let start = Instant::now();
        let mut kept = AnswerCache::default();
        for key in 0..KEPT {
            kept.put(key, (), start, if key == 7 { KNOWN_FOR } else { UNKNOWN_FOR });
        }
        kept.put(KEPT, (), start + UNKNOWN_FOR, UNKNOWN_FOR);
        assert_eq!(kept.answers.len(), 2);
        assert_eq!(kept.get(&7, start + UNKNOWN_FOR), Some(()));
    }
}
