//! The throughput ratio `r = X_d/X_u` of one download and one upload that share a link.
//!
//! Three predictions of the same figure, each with the formula it used and how far it can be trusted:
//!
//! * [`paper::predict`]: paper 000, Eq. 6–11, exactly as printed there, with the cap by the TCP buffers;
//! * [`refined::predict`]: windows that are consistent with Eq. 2–5 in both cases of the pendulum;
//! * [`packets::predict`]: the empirical rules for buffers counted in packets (000 §4.1, 001 §4).
//!
//! [`cases`] holds Eq. 4 and 5, which the detector uses as well.

pub mod cases;

pub mod packets;
pub mod paper;
pub mod refined;

mod setting;

use serde::Serialize;
use thiserror::Error;

use crate::segment::{Direction, PerDirection};

pub(crate) use setting::FAST_RETRANSMIT_SEGMENTS;
pub use setting::{ACK_RATIO, SEGMENT_BYTES, Setting, SettingError};

named! {
    /// How far a prediction can be trusted.
    pub enum Confidence {
        /// Outside what the formula covers: an order of magnitude at best.
        Low = "low",
        /// Errs by a factor of about 1.4 (root mean square) and at worst 2.5 where it was checked.
        Moderate = "moderate",
        /// None of the formula's known gaps applies. Still a model: expect a factor of about 1.2 to 1.5.
        High = "high",
    }
}

/// Why a prediction is less than certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Caveat {
    /// The paper leaves out the data that stands as ACKs in the other buffer; with `B_u` too large for `r = k`,
    /// the measured ratio is above its formula.
    AcksStandUpstream,
    /// A buffer below the bandwidth-delay product leaves the link idle after each loss.
    BufferBelowBandwidthDelay,
    /// A buffer of few segments: losses end in timeouts and the two RTTs differ.
    FewSegments,
    /// Two combinations of capped and uncapped windows satisfy Eq. 6; which one a link settles in depends on its past.
    TwoSolutions,
    /// Buffers counted in packets have no closed form.
    PacketCounted,
}

/// A predicted operating point, averaged over many loss cycles.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// `r = X_d/X_u`.
    pub ratio: f64,
    /// Mean congestion windows, bytes.
    pub window: PerDirection<f64>,
    /// Throughput on the wire, bytes per second, data segments only.
    pub throughput: PerDirection<f64>,
    /// How far to trust the figures.
    pub confidence: Confidence,
    /// Why not further.
    pub caveats: Vec<Caveat>,
}

/// Why there is no prediction.
#[derive(Clone, Copy, Debug, Error, PartialEq)]
pub enum RatioError {
    /// The ACKs of the other direction leave no room for data (000 §4.1: the connection starves).
    #[error(
        "the {} buffer of {buffer:.0} bytes is filled by the ACKs of the other direction ({acks:.0} bytes) and leaves \
         no room for data; make it larger or the opposite buffer smaller",
        direction.name()
    )]
    NoRoomForData {
        /// The starved direction.
        direction: Direction,
        /// Its buffer, bytes.
        buffer: f64,
        /// The ACKs that stand in it, bytes.
        acks: f64,
    },
    /// No buffer gives the wanted ratio.
    #[error(
        "no buffer gives a ratio of {wanted}; it must be a positive number, such as the capacity ratio C_d/C_u"
    )]
    UnreachableRatio {
        /// The ratio asked for.
        wanted: f64,
    },
}
