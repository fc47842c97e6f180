//! Two-way TCP over two queues, packet by packet.
//!
//! Downloads and uploads share a link with one drop-tail buffer, or cake, before each direction. Senders and receivers are Linux': New Reno or CUBIC with SACK,
//! RACK, tail loss probes, proportional rate reduction, an initial window of ten segments, and delayed acknowledgements with Linux' 40 ms and quick
//! acknowledgements. Every constant is the kernel's, or of the link, but one: [`HOST_JITTER_S`] was chosen by measured links.
//!
//! A run is the same for the same seed. The seed chooses when flows start, where the hosts' jiffies begin, and what jitter adds to each frame's way.

mod agreement;
mod buffer;
mod cake;
mod clock;
mod congestion;
mod engine;
mod handshake;
mod packet;
mod queue;
mod receiver;
mod record;
mod round_trip;
mod sender;
#[cfg(test)]
mod tests;
mod watch;

use crate::rate::BufferSize;
use crate::segment::{Direction, PerDirection};

pub use agreement::{AGREED_FACTOR, BUSY_JITTER_S, HOST_JITTER_S, agree, ratio_range};
pub use congestion::CongestionControl;
pub use packet::{ACK_FRAME_BYTES, Ack, Content, DATA_FRAME_BYTES, Data, Greeting, PAYLOAD_BYTES, Packet};
pub use watch::Watch;

/// What a flow has to send.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FlowLoad {
    /// As much as its window takes.
    Bulk,
    /// What an application hands over at this rate, bytes of payload per second. Its window grows although it is not used: that of Linux would
    /// not (RFC 7661).
    Application(f64),
    /// No TCP: frames of [`DATA_FRAME_BYTES`] at this rate, bytes of frames per second, whatever becomes of them.
    Datagrams(f64),
}

/// A transfer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flow {
    /// Which way its data goes.
    pub direction: Direction,
    /// What its sender uses.
    pub congestion_control: CongestionControl,
    /// Whether its sender spreads its segments over the round trip: Linux does so under the `fq` queueing discipline.
    pub paced: bool,
    /// Whether its receiver delays acknowledgements.
    pub delayed_acks: bool,
    /// From a buffer to the receiver and from there to the other buffer, without queues, seconds.
    pub receiver_round_trip_s: f64,
    /// From a buffer to the sender and from there to the other buffer, seconds.
    pub sender_round_trip_s: f64,
    /// When it starts, seconds.
    pub start_s: f64,
    /// From when on it sends nothing new, seconds; infinite: it never ends.
    pub stop_s: f64,
    /// What it has to send.
    pub load: FlowLoad,
    /// Segments that the smaller of the two socket buffers holds; `None`: as many as the window wants.
    pub most_segments: Option<u32>,
    /// Its end at home, any number. Only cake takes notice.
    pub home_host: u32,
}

impl Flow {
    /// Bulk data from the begin on and without an end, not paced, its ACKs delayed, between hosts right at the buffers.
    pub fn bulk(direction: Direction, congestion_control: CongestionControl) -> Self {
        Self {
            direction,
            congestion_control,
            paced: false,
            delayed_acks: true,
            receiver_round_trip_s: 0.0,
            sender_round_trip_s: 0.0,
            start_s: 0.0,
            stop_s: f64::INFINITY,
            load: FlowLoad::Bulk,
            most_segments: None,
            home_host: 0,
        }
    }
}

/// A link and what uses it.
#[derive(Clone, Debug, PartialEq)]
pub struct SimulatedLink {
    /// Capacities, bytes of frames per second.
    pub rate: PerDirection<f64>,
    /// What the buffers hold.
    pub buffer: PerDirection<BufferSize>,
    /// Cake in the place of the uplink's buffer, as the shaper of its rate: a frame leaves it at once if that lets it. The uplink's buffer and burst then do not count.
    pub cake: bool,
    /// Bytes that pass at once after a pause (a token bucket's burst); zero: a wire.
    pub burst: PerDirection<f64>,
    /// The flows.
    pub flows: Vec<Flow>,
}

/// How long to run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Run {
    /// From when on it is measured, seconds.
    pub from_s: f64,
    /// When it ends, seconds.
    pub until_s: f64,
    /// Flows start up to so much later than they say, seconds.
    pub start_spread_s: f64,
    /// Hosts take up to so much time for a frame, seconds.
    pub jitter_s: f64,
}

/// What a frame would wait that came at any time, seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Wait {
    /// Mean over time.
    pub mean_s: f64,
    /// 95th percentile over time.
    pub p95_s: f64,
}

/// What happened.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Payload that arrived, each segment once, bit/s.
    pub goodput_bps: PerDirection<f64>,
    /// Frames on the link, bit/s.
    pub sent_bps: PerDirection<f64>,
    /// Of each queue: the time of all bytes that wait there. In a drop-tail buffer that is what a frame waits; with cake it is, in the mean,
    /// what the transfers' own frames wait (Little's law), each byte counted alike.
    pub wait: PerDirection<Wait>,
    /// Of both together: what queues add to a round trip.
    pub wait_both: Wait,
    /// Of each queue, for a frame of a flow that has nothing else there. In a drop-tail buffer the same.
    pub sparse_wait: PerDirection<Wait>,
    /// Of both together.
    pub sparse_wait_both: Wait,
    /// Frames that the link has carried in all.
    pub frames: u64,
    /// Frames dropped in all.
    pub dropped: PerDirection<u64>,
}

impl Outcome {
    /// Download over upload; `None` if nothing was uploaded.
    pub fn ratio(&self) -> Option<f64> {
        (self.goodput_bps.up > 0.0).then(|| self.goodput_bps.down / self.goodput_bps.up)
    }
}

/// Simulates a link.
pub fn simulate(link: &SimulatedLink, run: &Run, seed: u64) -> Outcome {
    watch(link, run, seed, &mut ())
}

/// Simulates a link while somebody looks on.
pub fn watch<W: Watch>(link: &SimulatedLink, run: &Run, seed: u64, watch: &mut W) -> Outcome {
    engine::Engine::new(link, run, seed, watch).run((run.until_s * 1e9) as u64)
}
