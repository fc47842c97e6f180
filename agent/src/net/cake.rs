//! CAKE as a device's root qdisc (sch_cake, linux/pkt_sched.h): made, changed without a gap, and read back.

use std::io;

use pendulum_model::rate::Rate;

use super::control::{ROOT, kind, tcmsg};
use super::message::{Attributes, code};
use super::request::{Action, request};
use crate::config::{CakeOptions, Framing};

const RTM_NEWQDISC: u16 = 36;

/// `TCA_CAKE_*`.
mod attribute {
    pub(super) const BASE_RATE64: u16 = 2;
    pub(super) const DIFFSERV_MODE: u16 = 3;
    pub(super) const ATM: u16 = 4;
    pub(super) const FLOW_MODE: u16 = 5;
    pub(super) const OVERHEAD: u16 = 6;
    pub(super) const RTT: u16 = 7;
    pub(super) const TARGET: u16 = 8;
    pub(super) const MEMORY: u16 = 10;
    pub(super) const NAT: u16 = 11;
    pub(super) const RAW: u16 = 12;
    pub(super) const WASH: u16 = 13;
    pub(super) const MPU: u16 = 14;
    pub(super) const INGRESS: u16 = 15;
    pub(super) const ACK_FILTER: u16 = 16;
    pub(super) const SPLIT_GSO: u16 = 17;
    pub(super) const FWMARK: u16 = 18;
}

/// A CAKE qdisc in all its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cake {
    /// What it sends at; none: as fast as the device takes it.
    pub(crate) rate: Option<Rate>,
    /// How bytes are counted.
    pub(crate) framing: Framing,
    /// How the queue is shared out; isolation is that of the uplink.
    pub(crate) options: CakeOptions,
    /// Whether its own ACK filter thins what stands in it.
    pub(crate) ack_filter: bool,
    /// Whether packets come from the link: then what is dropped counts as carried, and source and destination are the other way round.
    pub(crate) ingress: bool,
}

impl Cake {
    /// Makes it the root qdisc of a device.
    ///
    /// # Errors
    /// What the kernel says; [`io::ErrorKind::NotFound`] if it has no sch_cake.
    pub(crate) fn replace(&self, ifindex: u32, handle: u32) -> io::Result<()> {
        self.put(ifindex, handle, Action::Replace)
    }

    /// Changes the one that [`Self::replace`] has made. What stands in it stays.
    ///
    /// # Errors
    /// What the kernel says.
    pub(crate) fn change(&self, ifindex: u32, handle: u32) -> io::Result<()> {
        self.put(ifindex, handle, Action::Change)
    }

    fn put(&self, ifindex: u32, handle: u32, action: Action) -> io::Result<()> {
        let send = |nat| {
            let header = tcmsg(ifindex, handle, ROOT, 0);
            request(RTM_NEWQDISC, action, &header, &kind("cake", &self.attributes(nat)))
        };
        match self.options.nat {
            Some(nat) => send(Some(nat)),
            // A kernel without connection tracking refuses only the attribute for it, with any value.
            None => match send(Some(true)) {
                Err(error) if code(&error) == Some(libc::EOPNOTSUPP) => send(None),
                other => other,
            },
        }
    }

    /// Whether a CAKE qdisc with these options, as the kernel tells them, is this one.
    pub(crate) fn is(&self, options: &[u8]) -> bool {
        // Where the configuration does not name it, the kernel decides about NAT. It shows `raw` as the absence of an overhead.
        let wanted = self.attributes(self.options.nat);
        let raw = super::message::attribute(options, attribute::RAW).is_some();
        raw == self.framing.overhead.is_none()
            && super::message::attributes(wanted.bytes())
                .filter(|(kind, _)| *kind != attribute::RAW)
                .all(|(kind, value)| super::message::attribute(options, kind) == Some(value))
    }

    /// The options that it is made with.
    #[cfg(test)]
    pub(crate) fn options(&self) -> Vec<u8> {
        self.attributes(Some(self.options.nat.unwrap_or(true))).bytes().to_vec()
    }

    /// All settings, so that nothing of an earlier one stays.
    fn attributes(&self, nat: Option<bool>) -> Attributes {
        let Self { framing, options, .. } = self;
        let isolation = if self.ingress { options.isolation.mirrored() } else { options.isolation };
        let [rtt, target] = options.times.unwrap_or([100_000, 5_000]);
        let mut all = Attributes::new();
        if let Some(nat) = nat {
            all = all.with_u32(attribute::NAT, nat.into());
        }
        all = all
            .with(attribute::BASE_RATE64, &self.rate.map_or(0, bytes_per_second).to_ne_bytes())
            .with_u32(attribute::DIFFSERV_MODE, options.priorities as u32)
            .with_u32(attribute::FLOW_MODE, isolation as u32)
            .with_u32(attribute::ATM, framing.layer as u32)
            .with_u32(attribute::OVERHEAD, i32::from(framing.overhead.unwrap_or(0)).cast_unsigned())
            .with_u32(attribute::MPU, framing.mpu.into())
            .with_u32(attribute::RTT, rtt)
            .with_u32(attribute::TARGET, target)
            .with_u32(attribute::MEMORY, options.memory_bytes)
            .with_u32(attribute::WASH, options.wash.into())
            .with_u32(attribute::INGRESS, self.ingress.into())
            .with_u32(attribute::ACK_FILTER, self.ack_filter.into())
            .with_u32(attribute::SPLIT_GSO, options.split_gso.into())
            .with_u32(attribute::FWMARK, options.fwmark);
        // Any overhead, also none, has the kernel count IP bytes; this takes that back.
        if framing.overhead.is_none() { all.with_u32(attribute::RAW, 0) } else { all }
    }
}

/// As the kernel keeps a rate.
fn bytes_per_second(rate: Rate) -> u64 {
    (rate.bits_per_second() / 8).max(1)
}

/// Takes the rate from a CAKE qdisc, and nothing besides: what stands in it leaves as fast as the device takes it.
///
/// # Errors
/// What the kernel says.
pub(crate) fn unlimit(ifindex: u32, handle: u32) -> io::Result<()> {
    let options = Attributes::new().with(attribute::BASE_RATE64, &0_u64.to_ne_bytes());
    request(RTM_NEWQDISC, Action::Change, &tcmsg(ifindex, handle, ROOT, 0), &kind("cake", &options))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_shows_is_what_was_asked_for() {
        let cake = |nat| {
            let options = CakeOptions { nat, ..CakeOptions::default() };
            Cake { rate: None, framing: Framing::default(), options, ack_filter: false, ingress: false }
        };
        for nat in [None, Some(false), Some(true)] {
            assert!(cake(nat).is(&cake(nat).options()), "{nat:?}");
        }
        assert!(cake(None).is(&cake(Some(false)).options()), "the kernel decides");
        assert!(!cake(Some(false)).is(&cake(Some(true)).options()));
        let others = [Cake { ingress: true, ..cake(None) }, Cake { ack_filter: true, ..cake(None) }];
        assert!(others.iter().all(|other| !cake(None).is(&other.options())));
    }
}
