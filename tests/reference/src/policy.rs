//! What a reverse buffer does with ACKs: filter, order of service, and whom it drops when it is full (002 §2.3, §3, §4).

use std::time::Duration;

/// When older ACKs of a connection are erased for a newer one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Filter {
    /// Never: `δ = ∞`.
    None,
    /// Static filtering (002 §2.3): once `delta` ACKs of a connection stand in the buffer, a newer one takes the place of the
    /// newest. `delta = 1` is the classical filter.
    Static {
        /// `δ`, at least 1.
        delta: usize,
    },
    /// Delayed filtering of all connections as one flow (002 §3): `δ = ∞` until the channel's utilisation passes `upper`, then
    /// all older ACKs of the connection go, until it falls below `lower`.
    Delayed(Thresholds),
    /// Delayed filtering of each connection (002 §4.1): while its rate exceeds the channel's rate over the number of active
    /// connections, a new ACK erases all of its older ones and takes the place of the oldest.
    PerConnection {
        /// Time window of each connection's estimator.
        window: Duration,
        /// Share of its fair rate, 0 to 1, above which a connection is filtered. With 1, as the paper's sentence reads, nothing would be
        /// filtered where round robin gives each connection exactly its fair rate.
        upper: f64,
        /// A connection with nothing in the buffer and a rate below this share of the channel is forgotten.
        forget_below: f64,
    },
}

/// Utilisation at which delayed filtering starts (002 §3).
const UPPER: f64 = 0.9;

/// When delayed filtering starts and stops.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// Time window of the estimator, of the order of the round-trip time.
    pub window: Duration,
    /// Utilisation, 0 to 1, at which filtering starts: 0.9 in the paper.
    pub upper: f64,
    /// Utilisation at which it stops. The paper gives no value.
    pub lower: f64,
    /// What utilisation is.
    pub utilisation: Utilisation,
}

/// How the utilisation of the slow channel is measured (002 §3, §3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Utilisation {
    /// The rate of departing ACKs over the channel's known rate.
    Rate,
    /// The share of time in which ACKs are present, for a channel of unknown rate.
    Presence,
}

/// In which order ACKs leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// In the order of their places, whosever they are.
    Fifo,
    /// One of each connection in turn.
    RoundRobin,
}

/// Which ACK is lost when one more has to be queued in a full buffer (002 §4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drop {
    /// The arriving one.
    Tail,
    /// The oldest of the connection with the most ACKs in the buffer; ties go against the lower connection number.
    LongestQueue,
    /// The oldest of the connection with the highest rate among those that have ACKs in the buffer.
    HighestRate,
}

/// A reverse buffer's rules.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Policy {
    /// When ACKs are erased.
    pub filter: Filter,
    /// Order of service.
    pub service: Service,
    /// What goes when the buffer is full.
    pub drop: Drop,
}

impl Thresholds {
    /// The paper's: 90 % of a known channel rate. Stops at 70 %; the paper's second threshold has no number.
    pub const fn paper(window: Duration) -> Self {
        Self { window, upper: UPPER, lower: 0.7, utilisation: Utilisation::Rate }
    }
}

impl Policy {
    /// No filtering, drop tail.
    pub const NONE: Self = Self { filter: Filter::None, service: Service::Fifo, drop: Drop::Tail };

    /// One ACK of each connection at a time, drop tail.
    pub const CLASSICAL: Self = Self::threshold(1);

    /// Static filtering with a threshold, drop tail.
    pub const fn threshold(delta: usize) -> Self {
        Self { filter: Filter::Static { delta }, service: Service::Fifo, drop: Drop::Tail }
    }

    /// Delayed filtering of all connections as one flow. A full buffer drops from the longest queue while ACKs are not
    /// filtered, and the arriving one while they are (002 §4.2).
    pub const fn delayed(window: Duration) -> Self {
        let filter = Filter::Delayed(Thresholds::paper(window));
        Self { filter, service: Service::Fifo, drop: Drop::LongestQueue }
    }

    /// Delayed filtering of each connection. A full buffer drops from the connection with the highest rate.
    pub const fn per_connection(window: Duration, service: Service) -> Self {
        // A hundredth of the channel: well below the share of the twentieth connection of Fig. 11.
        let filter = Filter::PerConnection { window, upper: UPPER, forget_below: 0.01 };
        Self { filter, service, drop: Drop::HighestRate }
    }
}
