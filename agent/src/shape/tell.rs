//! What the kernel side is told to do.

use std::time::Duration;

use pendulum_model::rate::Rate;

use super::{Active, Measured, plan};
use crate::bpf::BpfError;
use crate::bpf::abi::{self, pendulum_shape_control};
use crate::config::{AckFilter, ShapeConfig, ShapeMode};

/// A connection without an ACK for so long gives its place in the table to another.
const IDLE: Duration = Duration::from_secs(10);
/// ACKs withheld for one carrier: Linux' own GRO merges up to 44 full segments into one ACK.
const STRETCH: u32 = 32;
/// A connection is left alone until it has had so many bytes acknowledged since it was met: four round trips of slow
/// start from ten segments (RFC 6928), whose window grows with each ACK.
const SPARED_BYTES: u32 = 64 * 1024;
/// Delayed filtering: paper 002 §3 begins at 90 %; it ends where the link has room again.
const UPPER_PERMILLE: u32 = 900;
const LOWER_PERMILLE: u32 = 700;

impl Active {
    /// Tells the ACK filter what holds now; not `filters`: to withhold nothing.
    pub(super) fn tell_kernel(
        &mut self,
        settings: &ShapeConfig,
        link: Option<Rate>,
        measured: &Measured,
        filters: bool,
    ) -> Result<(), BpfError> {
        let rate = match &self.shapings.up {
            Some(uplink) => uplink.cake().rate,
            None => link.and_then(|link| settings.uplink_rate(link)),
        };
        let Some(rate) = rate else {
            return self.programs.control(pendulum_shape_control::default());
        };
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.delta = plan::delta(settings, rate, measured);
        self.programs.control(pendulum_shape_control {
            channel_bytes_per_s: rate.bytes_per_second() as u64,
            window_ns: nanoseconds(plan::window(rate, measured)),
            carrier_ns: nanoseconds(plan::carrier_age(rate)),
            idle_ns: nanoseconds(IDLE),
            sojourn_ns: nanoseconds(plan::sojourn(rate, measured)),
            mode: match settings.mode {
                ShapeMode::Off => abi::PENDULUM_SHAPE_OFF,
                ShapeMode::DryRun => abi::PENDULUM_SHAPE_DRY_RUN,
                ShapeMode::Auto | ShapeMode::Enforce => abi::PENDULUM_SHAPE_ENFORCE,
            },
            filter: match if filters && self.shapes() { settings.ack_filter } else { AckFilter::Off } {
                AckFilter::Off => abi::PENDULUM_FILTER_OFF,
                AckFilter::Static => abi::PENDULUM_FILTER_STATIC,
                AckFilter::Delayed => abi::PENDULUM_FILTER_DELAYED,
                AckFilter::PerConnection => abi::PENDULUM_FILTER_PER_CONNECTION,
            },
            delta: self.delta,
            stretch: STRETCH,
            spared_bytes: SPARED_BYTES,
            upper_permille: UPPER_PERMILLE,
            lower_permille: LOWER_PERMILLE,
            uplink_ifindex: self.shapings.up.as_ref().map_or(0, |uplink| uplink.ifindex),
        })
    }
}
