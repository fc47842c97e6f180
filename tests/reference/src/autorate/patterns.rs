//! Capacities by seed, with the statistics of kinds of links. Each pattern is bytes per second of slots of [`SLOT`].
//!
//! The figures are orders of magnitude of what is published of such links, not fits of one trace; a shaper that needs their exact values
//! is fitted, not good.

use super::tcp::Congestion;
use super::world::WorldConnection;

/// Of a pattern, seconds.
pub const SLOT: f64 = 0.005;

/// Kinds of links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Always the same.
    Constant,
    /// Halves at 20 s, doubles at 40 s.
    Steps,
    /// The logarithm of the rate wanders by 0.6 within two seconds, slots differ by a quarter, and now and then there is nothing for half a second.
    Lte,
    /// Faster and steadier, but blocked to a tenth for 0.2 to 1 s each ten seconds or so.
    FiveG,
    /// Another level each 15 s, with an outage of 50 to 500 ms at every second change; the buffer drops at the head.
    Starlink,
    /// Grants in groups each 2 to 6 ms; neighbours take up to a third, changing over seconds.
    Docsis,
    /// Transmissions in groups each 2 to 12 ms; the modulation changes each half second to three seconds between a third and the whole.
    Wifi,
}

/// All kinds.
pub const KINDS: [Kind; 7] =
    [Kind::Constant, Kind::Steps, Kind::Lte, Kind::FiveG, Kind::Starlink, Kind::Docsis, Kind::Wifi];

impl Kind {
    /// In tables and pictures.
    pub fn name(self) -> &'static str {
        match self {
            Self::Constant => "constant",
            Self::Steps => "steps",
            Self::Lte => "LTE",
            Self::FiveG => "5G",
            Self::Starlink => "Starlink",
            Self::Docsis => "DOCSIS",
            Self::Wifi => "Wi-Fi",
        }
    }

    /// Whether its buffer drops the oldest packet.
    pub fn drops_at_head(self) -> bool {
        matches!(self, Self::Starlink)
    }

    /// Mean rate of a seed, bytes per second.
    pub fn mean(self, seed: u64) -> f64 {
        let scale = [0.5, 1.0, 2.0][(seed % 3) as usize];
        scale
            * match self {
                Self::Constant | Self::Steps => 600e3,
                Self::Lte => 800e3,
                Self::FiveG => 2.0e6,
                Self::Starlink => 1.2e6,
                Self::Docsis => 1.0e6,
                Self::Wifi => 1.5e6,
            }
    }

    /// Bytes per second of each slot.
    pub fn slots(self, seed: u64, seconds: f64) -> Vec<f64> {
        let mean = self.mean(seed);
        let mut chance = Chance::new(seed.wrapping_mul(8).wrapping_add(self as u64));
        // Pings look ahead.
        let count = ((seconds + 6.0) / SLOT) as usize;
        let time = |slot: usize| slot as f64 * SLOT;
        match self {
            Self::Constant => vec![mean; count],
            Self::Steps => (0..count)
                .map(|slot| if (20.0..40.0).contains(&time(slot)) { mean / 2.0 } else { mean })
                .collect(),
            Self::Lte => {
                let (mut level, mut out, mut fading) = (0.0, 0.0, 0.0);
                (0..count)
                    .map(|slot| {
                        level += 0.6 * (2.0 * SLOT / 2.0).sqrt() * chance.normal() - SLOT / 2.0 * level;
                        out -= SLOT;
                        if slot % 4 == 0 {
                            fading = 0.25 * chance.normal();
                            if out <= 0.0 && chance.unit() < 0.000_6 {
                                out = 0.3 + 0.2 * chance.normal().abs();
                            }
                        }
                        if out > 0.0 { 0.0 } else { mean * (level - 0.18 + fading).exp() }
                    })
                    .collect()
            }
            Self::FiveG => {
                let (mut level, mut blocked) = (0.0, 0.0);
                (0..count)
                    .map(|_| {
                        level += 0.3 * (2.0 * SLOT).sqrt() * chance.normal() - SLOT * level;
                        blocked -= SLOT;
                        if blocked <= 0.0 && chance.unit() < SLOT / 10.0 {
                            blocked = 0.2 + 0.8 * chance.unit();
                        }
                        let share = if blocked > 0.0 { 0.1 } else { 1.0 };
                        share * mean * (level - 0.045).exp()
                    })
                    .collect()
            }
            Self::Starlink => {
                let first = 15.0 * chance.unit();
                let (mut level, mut out, mut part) = (1.0, 0.0, usize::MAX);
                (0..count)
                    .map(|slot| {
                        let now = ((time(slot) + first) / 15.0) as usize;
                        out -= SLOT;
                        if now != part {
                            part = now;
                            level = 0.4 + 1.2 * chance.unit();
                            if chance.unit() < 0.5 {
                                out = 0.05 + 0.45 * chance.unit();
                            }
                        }
                        if out > 0.0 { 0.0 } else { mean * level * (1.0 + 0.1 * chance.normal()).max(0.1) }
                    })
                    .collect()
            }
            Self::Docsis => grouped(&mut chance, count, (2.0, 6.0), |chance, level| {
                *level = (*level + 0.02 * chance.normal()).clamp(0.67, 1.0);
                mean * *level
            }),
            Self::Wifi => {
                let mut left = 0.0;
                grouped(&mut chance, count, (2.0, 12.0), move |chance, level| {
                    left -= 0.007;
                    if left <= 0.0 {
                        left = 0.5 + 2.5 * chance.unit();
                        *level = 0.33 + 0.67 * chance.unit();
                    }
                    mean * *level
                })
            }
        }
    }
}

/// Capacity that comes in groups, so many milliseconds apart, each with what `rate` gives for that time.
fn grouped(
    chance: &mut Chance,
    count: usize,
    (least, most): (f64, f64),
    mut rate: impl FnMut(&mut Chance, &mut f64) -> f64,
) -> Vec<f64> {
    let mut slots = vec![0.0; count];
    let (mut at, mut level) = (0.0, 0.85);
    while at < count as f64 * SLOT {
        let gap = (least + (most - least) * chance.unit()) / 1e3;
        at += gap;
        let bytes = rate(chance, &mut level) * gap;
        if let Some(slot) = slots.get_mut((at / SLOT) as usize) {
            *slot += bytes / SLOT;
        }
    }
    slots
}

/// The connections of a case: two long ones, and a burst of half a second's bytes each four seconds, to three hosts.
pub fn crowd(seed: u64, mean: f64, seconds: f64) -> Vec<WorldConnection> {
    let congestion = if seed.is_multiple_of(2) { Congestion::Cubic } else { Congestion::Reno };
    let long = (0..2).map(|host| WorldConnection::long(congestion, host));
    let packets = Some((0.5 * mean / super::world::PACKET) as usize);
    let bursts = (0..(seconds / 4.0) as usize).map(|number| WorldConnection {
        from: number as f64 * 4.0,
        packets,
        ..WorldConnection::long(congestion, number % 3)
    });
    long.chain(bursts).collect()
}

/// Random numbers by seed.
#[derive(Debug)]
pub struct Chance(fastrand::Rng);

impl Chance {
    /// Of a seed.
    pub fn new(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    /// 0 to 1.
    pub fn unit(&mut self) -> f64 {
        self.0.f64()
    }

    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.0.f64()).sum::<f64>() - 6.0
    }
}
