//! The clocks behind the hosts' TCP timestamps (RFC 7323).
//!
//! Linux ticks once a millisecond. Others have ticks of 4 or 10 ms, clocks that are fast or slow, or no timestamps. A host without is given
//! so by sysctl; every other clock than Linux' is put on by a line in the host's wire that rewrites the timestamps of both directions.

use std::fmt;
use std::str::FromStr;

use crate::netns::{Host, NetnsError};
use crate::topology::Role;

/// What a host's TCP timestamps look like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostClock {
    /// As Linux has them: 1 ms.
    #[default]
    Linux,
    /// The host offers and accepts none.
    None,
    /// Another tick or rate.
    Ticks(Ticks),
}

/// A clock that is not Linux'.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticks {
    /// Milliseconds of one tick, 1 to [`Ticks::LONGEST_MS`].
    pub tick_ms: u32,
    /// How much it is fast (or, negative, slow), parts per million, at most [`Ticks::MOST_PPM`].
    pub skew_ppm: i32,
}

impl Ticks {
    /// RFC 7323 §5.4 allows ticks from 1 ms to 1 s.
    pub const LONGEST_MS: u32 = 1000;
    /// One part in a hundred; crystals keep within 100 ppm.
    pub const MOST_PPM: i32 = 10_000;

    /// Ticks for one millisecond of Linux, as numerator and denominator.
    pub(crate) fn fraction(self) -> (i64, i64) {
        const MILLION: i64 = 1_000_000;
        (MILLION + i64::from(self.skew_ppm), MILLION * i64::from(self.tick_ms))
    }
}

/// No such clock.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no clock: write linux, none, a tick such as 10ms (1 to {longest} ms), or a tick with a skew such as 1ms+200ppm or 10ms-50ppm (at most {most})",
    longest = Ticks::LONGEST_MS,
    most = Ticks::MOST_PPM
)]
pub struct NoClock(String);

impl FromStr for HostClock {
    type Err = NoClock;

    fn from_str(text: &str) -> Result<Self, NoClock> {
        let ticks = || {
            let (tick, skew) = text.split_once("ms")?;
            let skew_ppm = if skew.is_empty() { 0 } else { skew.strip_suffix("ppm")?.parse().ok()? };
            // The sign is what separates the two, so it must be there.
            let signed = skew.is_empty() || skew.starts_with(['+', '-']);
            let ticks = Ticks { tick_ms: tick.parse().ok()?, skew_ppm };
            let fits = (1..=Ticks::LONGEST_MS).contains(&ticks.tick_ms)
                && (-Ticks::MOST_PPM..=Ticks::MOST_PPM).contains(&skew_ppm);
            (fits && signed).then_some(Self::Ticks(ticks))
        };
        match text {
            "linux" => Ok(Self::Linux),
            "none" => Ok(Self::None),
            _ => ticks().ok_or_else(|| NoClock(text.to_owned())),
        }
    }
}

impl fmt::Display for HostClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Linux => f.write_str("linux"),
            Self::None => f.write_str("none"),
            Self::Ticks(Ticks { tick_ms, skew_ppm: 0 }) => write!(f, "{tick_ms}ms"),
            Self::Ticks(Ticks { tick_ms, skew_ppm }) => write!(f, "{tick_ms}ms{skew_ppm:+}ppm"),
        }
    }
}

/// The clocks of all TCP endpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostClocks {
    /// Of the internet end of downloads.
    pub d1: HostClock,
    /// Of the internet end of uploads.
    pub u1: HostClock,
    /// Of the home end of downloads.
    pub d2: HostClock,
    /// Of the home end of uploads.
    pub u2: HostClock,
}

impl HostClocks {
    /// Linux' clock everywhere.
    pub const LINUX: Self =
        Self { d1: HostClock::Linux, u1: HostClock::Linux, d2: HostClock::Linux, u2: HostClock::Linux };

    /// A machine's clock.
    pub const fn of(&self, role: Role) -> HostClock {
        match role {
            Role::D1 => self.d1,
            Role::U1 => self.u1,
            Role::D2 => self.d2,
            Role::U2 => self.u2,
            Role::R1 | Role::Gateway | Role::Modem | Role::Switch => HostClock::Linux,
        }
    }

    /// The clock that a machine's wire must put on, if any.
    pub(crate) fn ticks(&self, role: Role) -> Option<Ticks> {
        match self.of(role) {
            HostClock::Ticks(ticks) => Some(ticks),
            HostClock::Linux | HostClock::None => None,
        }
    }

    /// Tells a machine to do without timestamps, if it should.
    pub(crate) fn configure(&self, role: Role, host: &Host) -> Result<(), NetnsError> {
        if self.of(role) == HostClock::None {
            host.set_sysctl("net.ipv4.tcp_timestamps", "0")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_reads_as_it_is_written() {
        for text in ["linux", "none", "10ms", "1ms+200ppm", "4ms-50ppm"] {
            assert_eq!(text.parse::<HostClock>().unwrap().to_string(), text);
        }
        for text in ["", "10", "0ms", "1001ms", "1ms200ppm", "1ms+200", "1ms+10001ppm", "ms"] {
            assert!(text.parse::<HostClock>().unwrap_err().to_string().contains("10ms"), "{text}");
        }
    }

    #[test]
    fn a_coarse_clock_ticks_a_tenth_as_often() {
        assert_eq!(Ticks { tick_ms: 10, skew_ppm: 0 }.fraction(), (1_000_000, 10_000_000));
        assert_eq!(Ticks { tick_ms: 1, skew_ppm: -50 }.fraction(), (999_950, 1_000_000));
    }
}
