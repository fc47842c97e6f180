//! The two-way link of paper 000, Fig. 2, as the formulas need it.

use thiserror::Error;

use crate::segment::{Direction, PerDirection};

/// `ρ`, the size of an ACK with timestamps over that of a full data segment (000 §3.1: about 1/30).
pub const ACK_RATIO: f64 = 1.0 / 30.0;

/// A full-size data segment on the wire, bytes.
pub const SEGMENT_BYTES: f64 = 1500.0;

/// Fewer outstanding segments than this do not make three duplicate ACKs: a loss ends in a timeout (RFC 5681 §3.2).
pub(crate) const FAST_RETRANSMIT_SEGMENTS: f64 = 4.0;

/// Capacities, byte-counted buffers, propagation time and TCP options. Always valid: see [`Setting::new`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    pub(super) capacity: PerDirection<f64>,
    pub(super) buffer: PerDirection<f64>,
    pub(super) propagation: f64,
    pub(super) tcp_buffer: f64,
    pub(super) delayed_acks: bool,
    pub(super) ack_ratio: f64,
}

/// A value that no link can have.
#[derive(Clone, Copy, Debug, Error, PartialEq)]
#[error("{what} is {value}; it must be {remedy}")]
pub struct SettingError {
    what: &'static str,
    value: f64,
    remedy: &'static str,
}

impl Setting {
    /// Capacities in bytes per second (> 0), buffers in bytes (≥ 0), `T_p` one way in seconds (≥ 0).
    ///
    /// Until set otherwise: unlimited TCP buffers, delayed ACKs, `ρ` = [`ACK_RATIO`].
    ///
    /// # Errors
    /// If a value is out of range or not finite.
    pub fn new(
        capacity: PerDirection<f64>,
        buffer: PerDirection<f64>,
        propagation: f64,
    ) -> Result<Self, SettingError> {
        // The upper bounds are far above any link and keep every product finite.
        let positive = "a positive number of bytes per second, at most 1e15";
        check("the downlink capacity", capacity.down, 1e-3..=1e15, positive)?;
        check("the uplink capacity", capacity.up, 1e-3..=1e15, positive)?;
        let bytes = "a number of bytes from 0 to 1e15";
        check("the downlink buffer", buffer.down, 0.0..=1e15, bytes)?;
        check("the uplink buffer", buffer.up, 0.0..=1e15, bytes)?;
        check("the propagation time", propagation, 0.0..=1e6, "a number of seconds from 0 to 1e6")?;
        Ok(Self {
            capacity,
            buffer,
            propagation,
            tcp_buffer: f64::INFINITY,
            delayed_acks: true,
            ack_ratio: ACK_RATIO,
        })
    }

    /// With `B_TCP`, the smaller of the two TCP socket buffers in bytes; not a number or not positive: unlimited.
    #[must_use]
    pub fn with_tcp_buffer(self, bytes: f64) -> Self {
        Self { tcp_buffer: if bytes > 0.0 { bytes } else { f64::INFINITY }, ..self }
    }

    /// With one ACK for two segments (the default), or one for each.
    #[must_use]
    pub fn with_delayed_acks(self, delayed: bool) -> Self {
        Self { delayed_acks: delayed, ..self }
    }

    /// With other buffers, bytes; a value that is not a number or negative counts as 0.
    #[must_use]
    pub fn with_buffer(self, direction: Direction, bytes: f64) -> Self {
        let mut changed = self;
        changed.buffer[direction] = bytes.clamp(0.0, 1e15).max(0.0);
        changed
    }

    /// `k = C_d/C_u`.
    pub fn k(&self) -> f64 {
        self.capacity.down / self.capacity.up
    }

    /// `P_x = 2·C_x·T_p`, the data in flight on the link itself, bytes.
    pub fn in_flight(&self, direction: Direction) -> f64 {
        2.0 * self.capacity[direction] * self.propagation
    }

    /// `B_x + P_x`: what a window can grow to, bytes.
    pub fn room(&self, direction: Direction) -> f64 {
        self.buffer[direction] + self.in_flight(direction)
    }

    /// `a'`: bytes of ACKs for each byte of data, `ρ/2` with delayed ACKs and `ρ` without (000 Eq. 7–10).
    pub fn ack_bytes_per_data_byte(&self) -> f64 {
        if self.delayed_acks { self.ack_ratio / 2.0 } else { self.ack_ratio }
    }

    /// `γ = (B_d + P_d)/(B_u + P_u)` (000 §3.1). Infinite if the uplink holds nothing.
    pub fn gamma(&self) -> f64 {
        self.room(Direction::Down) / self.room(Direction::Up)
    }
}

fn check(
    what: &'static str,
    value: f64,
    range: std::ops::RangeInclusive<f64>,
    remedy: &'static str,
) -> Result<(), SettingError> {
    if range.contains(&value) { Ok(()) } else { Err(SettingError { what, value, remedy }) }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::rate::Rate;

    /// A setting from `tc` rates, buffers in bytes and `T_p` in milliseconds.
    pub(crate) fn link(
        down: &str,
        up: &str,
        buffer_down: f64,
        buffer_up: f64,
        propagation_ms: f64,
    ) -> Setting {
        let rate = |text: &str| text.parse::<Rate>().expect(text).bytes_per_second();
        Setting::new(
            PerDirection { up: rate(up), down: rate(down) },
            PerDirection { up: buffer_up, down: buffer_down },
            propagation_ms / 1e3,
        )
        .expect("a valid link")
    }

    #[test]
    fn derived_quantities_of_the_papers_link() {
        // 000 §4: 2.4 Mb/s and 196 kb/s, T_p = 20 ms. C_d = 300,000 B/s, C_u = 24,500 B/s.
        let setting = link("2400kbit", "196kbit", 30_000.0, 9_000.0, 20.0);
        // k = 2400/196 = 12.2449
        assert!((setting.k() - 12.244_898).abs() < 1e-6);
        // P_d = 2 · 300,000 · 0.02 = 12,000; P_u = 2 · 24,500 · 0.02 = 980
        assert!((setting.in_flight(Direction::Down) - 12_000.0).abs() < 1e-9);
        assert!((setting.in_flight(Direction::Up) - 980.0).abs() < 1e-9);
        // γ = 42,000/9,980
        assert!((setting.gamma() - 42_000.0 / 9_980.0).abs() < 1e-12);
        // a' = 1/60 with delayed ACKs, 1/30 without.
        assert!((setting.ack_bytes_per_data_byte() - 1.0 / 60.0).abs() < 1e-12);
        assert!((setting.with_delayed_acks(false).ack_bytes_per_data_byte() - 1.0 / 30.0).abs() < 1e-12);
    }

    #[test]
    fn refuses_impossible_links() {
        let capacity = PerDirection { up: 1.0, down: 1.0 };
        let buffer = PerDirection { up: 1.0, down: 1.0 };
        for (capacity, buffer, propagation, name) in [
            (PerDirection { up: 0.0, ..capacity }, buffer, 0.0, "uplink capacity"),
            (PerDirection { down: f64::NAN, ..capacity }, buffer, 0.0, "downlink capacity"),
            (capacity, PerDirection { up: -1.0, ..buffer }, 0.0, "uplink buffer"),
            (capacity, PerDirection { down: f64::INFINITY, ..buffer }, 0.0, "downlink buffer"),
            (capacity, buffer, -0.1, "propagation"),
        ] {
            let error = Setting::new(capacity, buffer, propagation).expect_err(name).to_string();
            assert!(error.contains(name), "{error}");
        }
    }
}
