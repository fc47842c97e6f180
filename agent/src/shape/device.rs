//! One direction's shaper in the kernel: an ifb with cake, and the filter that sends packets there.
//!
//! ```text
//! WAN egress  ─ redirect ─► pdl-up… ─ cake ─► WAN egress, second pass ─► its own qdisc
//! WAN ingress ─ redirect ─► pdl-dn… ─ cake ─► up the stack
//! ```

use std::io;
use std::time::{Duration, Instant};

use pendulum_model::segment::Direction;
use tracing::warn;

use super::ShapeError;
use super::takeover::Takeover;
use crate::net::QdiscTree;
use crate::net::cake::Cake;
use crate::net::clsact;
use crate::net::control::{self, Ifb, Side};

/// An unusual number: packets may carry a priority of the user's, which chooses a class where its major is the qdisc's.
const HANDLE: u32 = 0x7e0d_0000;
/// In front of the name of the device that is shaped; a shaper that is put out of use follows.
const ALIAS: &str = "pendulum shaper of ";
/// A queue without limit leaves within this time, or is given up.
const DRAIN: Duration = Duration::from_millis(800);

/// The hook of the WAN device that its packets pass.
const fn side(direction: Direction) -> Side {
    match direction {
        Direction::Up => Side::Egress,
        Direction::Down => Side::Ingress,
    }
}

/// What it means if its queue cannot be changed.
pub(super) const fn keeps(direction: Direction) -> &'static str {
    match direction {
        Direction::Up => "the uplink's shaper keeps its rate",
        Direction::Down => "the downlink's shaper keeps its rate",
    }
}

fn device_name(direction: Direction, wan: u32) -> String {
    match direction {
        Direction::Up => format!("pdl-up{wan}"),
        Direction::Down => format!("pdl-dn{wan}"),
    }
}

/// A shaping device.
#[derive(Debug)]
pub(super) struct Shaping {
    direction: Direction,
    wan: u32,
    pub(super) ifindex: u32,
    cake: Cake,
    priority: u16,
    redirects: bool,
}

impl Shaping {
    /// Makes device and qdisc; nothing is sent there yet. On failure nothing is left.
    pub(super) fn build(
        direction: Direction,
        wan: u32,
        wan_name: &str,
        cake: Cake,
        takeover: &Takeover,
    ) -> Result<Self, ShapeError> {
        let name = device_name(direction, wan);
        let failed = |step: &'static str| {
            let name = name.clone();
            move |source| ShapeError::Kernel { step, device: name, source }
        };
        control::add_ifb(&name).map_err(failed("make the device"))?;
        let found = control::list_ifbs().map_err(failed("find the device"))?;
        let ifindex = found
            .into_iter()
            .find(|ifb| ifb.name == name)
            .map(|ifb| ifb.index)
            .ok_or_else(|| failed("find the device")(io::Error::from(io::ErrorKind::NotFound)))?;
        // From here on it is removed by being dropped.
        let shaping = Self {
            direction,
            wan,
            ifindex,
            cake,
            priority: takeover.priority(side(direction)),
            redirects: false,
        };
        cake.add(ifindex, HANDLE).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => ShapeError::NoCake,
            _ => failed("set up cake on")(source),
        })?;
        let alias = format!("{ALIAS}{wan_name}{}", takeover.note(side(direction)));
        control::set_up(ifindex, &alias).map_err(failed("set up the device"))?;
        Ok(shaping)
    }

    /// Changes rate and options while packets pass. A change that fails is not remembered as done.
    pub(super) fn change(&mut self, cake: Cake) -> io::Result<()> {
        cake.change(self.ifindex, HANDLE)?;
        self.cake = cake;
        Ok(())
    }

    /// What it is at present.
    pub(super) fn cake(&self) -> &Cake {
        &self.cake
    }

    /// Sends packets here, or no longer.
    pub(super) fn redirect(&mut self, on: bool) -> io::Result<()> {
        if on == self.redirects {
            return Ok(());
        }
        if on {
            // It had no limit while the last packets left.
            self.cake.change(self.ifindex, HANDLE)?;
            control::add_redirection(self.wan, side(self.direction), self.priority, self.ifindex)?;
        } else {
            control::remove_filters(self.wan, side(self.direction), self.priority)?;
        }
        self.redirects = on;
        Ok(())
    }

    /// Sends what stands here at once, and waits for that, for a bounded time: in order, and with it go the numbers that ACKs carry.
    pub(super) async fn drain(&self) {
        if let Err(error) = (Cake { rate: None, ..self.cake }).change(self.ifindex, HANDLE) {
            warn!(ifindex = self.ifindex, "what stands in the shaper leaves at its rate: {error}");
        }
        let end = Instant::now() + DRAIN;
        while QdiscTree::read(self.ifindex).is_ok_and(|tree| tree.backlog() > 0) && Instant::now() < end {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for Shaping {
    fn drop(&mut self) {
        // The WAN device may be gone, and its filters with it.
        let _ = self.redirect(false);
        if let Err(error) = control::delete_device(self.ifindex) {
            warn!(
                ifindex = self.ifindex,
                "a shaping device cannot be removed: {error}; the next start tries again"
            );
        }
    }
}

/// The device for which an ifb of ours was made, and what it says about a shaper that was put out of use.
fn shaped_by(ifb: &Ifb) -> Option<(&str, &str)> {
    let text = ifb.alias.strip_prefix(ALIAS)?;
    // No device's name contains a blank.
    Some(text.split_once(' ').unwrap_or((text, "")))
}

/// Removes what earlier runs left for a device: filters that redirect to a shaper of ours, the shapers, and a clsact
/// qdisc that is empty then. Answers what was removed. Where something cannot be listed, nothing is touched.
pub(super) fn remove_leftovers(wan: u32, wan_name: &str) -> io::Result<Vec<String>> {
    let is_ours = |ifb: &Ifb| match shaped_by(ifb) {
        Some((device, _)) => device == wan_name,
        // Killed before it could be given its alias.
        None => {
            ifb.alias.is_empty()
                && Direction::ALL.into_iter().any(|direction| device_name(direction, wan) == ifb.name)
        }
    };
    let ours: Vec<Ifb> = control::list_ifbs()?.into_iter().filter(is_ours).collect();
    if ours.is_empty() {
        return Ok(Vec::new());
    }
    let filters = control::read_filters(wan)?;
    let mut removed = Vec::new();
    for ifb in ours {
        for filter in filters.redirections.iter().filter(|filter| filter.to == ifb.index) {
            control::remove_filters(wan, filter.side, filter.priority)?;
            removed.push(format!("redirection of {wan_name} to {}", ifb.name));
        }
        if let Some((_, note)) = shaped_by(&ifb) {
            removed.extend(super::takeover::restore_noted(wan, wan_name, note)?);
        }
        control::delete_device(ifb.index)?;
        removed.push(format!("device {}", ifb.name));
    }
    // The crashed run had added the qdisc, or had found it empty; in both cases nobody misses it.
    if control::read_filters(wan)?.count == 0 && clsact::remove(wan).is_ok() {
        removed.push(format!("clsact qdisc of {wan_name}"));
    }
    Ok(removed)
}

/// Removes shapers of devices that are not there any more.
pub(super) fn remove_orphans(is_there: impl Fn(&str) -> bool) -> io::Result<Vec<String>> {
    let mut removed = Vec::new();
    for ifb in control::list_ifbs()? {
        if shaped_by(&ifb).is_some_and(|(wan, _)| !is_there(wan)) {
            control::delete_device(ifb.index)?;
            removed.push(format!("device {}", ifb.name));
        }
    }
    Ok(removed)
}

/// The WAN devices for which shapers of ours stand.
pub(super) fn shaped_devices() -> io::Result<Vec<String>> {
    let ifbs = control::list_ifbs()?;
    let mut names: Vec<String> = ifbs.iter().filter_map(|ifb| Some(shaped_by(ifb)?.0.to_owned())).collect();
    names.sort();
    names.dedup();
    Ok(names)
}
