//! Other shapers on the device: named and left alone, or, with `take-over`, put out of use for as long as ours works.
//!
//! A cake at the device's root is given no limit and gets its rate back at the end; packets that another filter redirects as they come
//! in are taken before it. Nothing of theirs is removed. The rate is noted in the alias of our device, so that the next start gives it
//! back if this process is killed.

use std::io;

use pendulum_model::rate::Rate;
use tracing::{info, warn};

use super::FILTER_PRIORITY;
use super::ShapeError;
use crate::config::ShapeConfig;
use crate::net::QdiscTree;
use crate::net::cake;
use crate::net::control::{Filters, Redirection, Side};

const CAKE_NOTE: &str = "cake=";

/// What is to be put out of use, and what was.
#[derive(Debug, Default)]
pub(super) struct Takeover {
    wan: u32,
    /// A cake at the root: handle and rate.
    cake: Option<(u32, Rate)>,
    /// Of our filter for what comes in: before the other's.
    ingress_priority: Option<u16>,
    done: bool,
}

impl Takeover {
    /// What has to be put out of use for this shaper to work; nothing is done yet.
    ///
    /// # Errors
    /// It may not be, or cannot.
    pub(super) fn plan(
        wan: u32,
        device: &str,
        tree: &QdiscTree,
        filters: &Filters,
        shape: &ShapeConfig,
        rate: Rate,
    ) -> Result<Self, ShapeError> {
        let refused = |reason: String, remedy: &'static str| ShapeError::InTheWay { reason, remedy };
        let mut found = Self { wan, ..Self::default() };
        match (tree.root(), tree.rate()) {
            (Some(root), Some((other, "cake"))) => {
                if !shape.take_over {
                    return Err(refused(
                        format!("a cake on {device} shapes to {other} already"),
                        "set take-over = true to put it out of use while this agent shapes, or remove it (`tc qdisc del \
                         dev DEV root`; SQM scripts have a stop command)",
                    ));
                }
                found.cake = Some((root.handle, other));
            }
            (_, Some((other, kind))) if other < rate => {
                return Err(refused(
                    format!(
                        "the qdisc of {device} ({kind}) shapes to {other}, which is less than the {rate} of ours"
                    ),
                    "remove that shaper (`tc qdisc show` tells; SQM scripts have a stop command), or correct uplink-rate",
                ));
            }
            _ => {}
        }
        let on = |side| filters.redirections.iter().filter(move |filter| filter.side == side);
        if let Some(filter) = on(Side::Egress).next() {
            return Err(refused(
                format!("a filter redirects what {device} sends to the device with number {}", filter.to),
                "stop what made it (`tc filter show dev DEV egress` tells)",
            ));
        }
        if let Some(filter) =
            on(Side::Ingress).min_by_key(|filter| filter.priority).filter(|_| shape.downlink)
        {
            found.ingress_priority = Some(before(filter, shape.take_over).ok_or_else(|| {
                refused(
                    format!(
                        "a filter redirects what {device} receives to the device with number {}",
                        filter.to
                    ),
                    "set take-over = true, stop that shaper (SQM does so), or set downlink = false",
                )
            })?);
        }
        Ok(found)
    }

    /// Puts it out of use.
    ///
    /// # Errors
    /// What the kernel says.
    pub(super) fn carry_out(&mut self) -> io::Result<()> {
        if let Some((handle, rate)) = self.cake {
            cake::set_rate(self.wan, handle, None)?;
            self.done = true;
            info!(ifindex = self.wan, "the device's own cake shapes no longer; {rate} at the end again");
        }
        Ok(())
    }

    /// The rate of a cake that is put out of use: what the link has, as far as its owner knew.
    pub(super) fn rate(&self) -> Option<Rate> {
        self.cake.map(|(_, rate)| rate)
    }

    /// The priority of our redirecting filter.
    pub(super) fn priority(&self, side: Side) -> u16 {
        match side {
            Side::Ingress => self.ingress_priority.unwrap_or(FILTER_PRIORITY),
            Side::Egress => FILTER_PRIORITY,
        }
    }

    /// For the alias of our device.
    pub(super) fn note(&self, side: Side) -> String {
        match self.cake.filter(|_| side == Side::Egress) {
            Some((handle, rate)) => format!(" {CAKE_NOTE}{handle:x}:{}", rate.bits_per_second()),
            None => String::new(),
        }
    }
}

impl Drop for Takeover {
    fn drop(&mut self) {
        if let Some((handle, rate)) = self.cake.filter(|_| self.done)
            && let Err(error) = cake::set_rate(self.wan, handle, Some(rate))
        {
            warn!(ifindex = self.wan, "the device's own cake does not get its rate of {rate} back: {error}");
        }
    }
}

/// A priority before this filter, if it may be passed by. 1 is the first.
fn before(filter: &Redirection, may: bool) -> Option<u16> {
    filter.priority.checked_sub(1).filter(|priority| may && *priority > 0)
}

/// Gives back what the alias of a device says was put out of use. Answers what was done.
pub(super) fn restore_noted(wan: u32, device: &str, note: &str) -> io::Result<Option<String>> {
    let Some((handle, rate)) = noted(note) else { return Ok(None) };
    let root = QdiscTree::read(wan)?.root().cloned();
    // Somebody has put another qdisc there, or has given it a rate.
    if root.is_none_or(|root| root.kind != "cake" || root.handle != handle || root.rate.is_some()) {
        return Ok(None);
    }
    cake::set_rate(wan, handle, Some(rate))?;
    Ok(Some(format!("limit of {device}'s own cake, which has its {rate} again")))
}

fn noted(note: &str) -> Option<(u32, Rate)> {
    let (handle, rate) = note.strip_prefix(CAKE_NOTE)?.split_once(':')?;
    Some((u32::from_str_radix(handle, 16).ok()?, Rate::from_bits_per_second(rate.parse().ok()?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(filters: &[Redirection], downlink: bool, take_over: bool) -> Result<Takeover, String> {
        let filters = Filters { redirections: filters.to_vec(), count: filters.len() };
        let shape = ShapeConfig { downlink, take_over, ..ShapeConfig::default() };
        let rate = "1mbit".parse().expect("a rate");
        Takeover::plan(0, "ppp0", &QdiscTree::default(), &filters, &shape, rate).map_err(|e| e.to_string())
    }

    #[test]
    fn redirections_are_left_alone() {
        let on = |side, priority| Redirection { side, priority, to: 7 };
        assert!(plan(&[], true, false).is_ok());
        let egress = plan(&[on(Side::Egress, 9)], false, true).expect_err("two redirections");
        assert!(egress.contains("ppp0 sends to the device with number 7"), "{egress}");
        assert!(plan(&[on(Side::Ingress, 9)], false, false).is_ok(), "the downlink is not touched");
        let ingress = plan(&[on(Side::Ingress, 9)], true, false).expect_err("two redirections");
        assert!(ingress.contains("receives") && ingress.contains("take-over = true"), "{ingress}");
    }

    #[test]
    fn a_redirection_taken_over_comes_second() {
        let on = |priority| Redirection { side: Side::Ingress, priority, to: 7 };
        let found = plan(&[on(12), on(10)], true, true).expect("it may");
        assert_eq!((found.priority(Side::Ingress), found.priority(Side::Egress)), (9, FILTER_PRIORITY));
        assert!(plan(&[on(1)], true, true).is_err(), "nothing comes before the first");
    }

    #[test]
    fn what_is_noted_is_read_again() {
        let rate = "20mbit".parse().expect("a rate");
        let taken = Takeover { cake: Some((0x8001_0000, rate)), ..Takeover::default() };
        assert_eq!(noted(taken.note(Side::Egress).trim_start()), Some((0x8001_0000, rate)));
        assert_eq!((taken.note(Side::Ingress), noted(""), noted("cake=1:0")), (String::new(), None, None));
    }
}
