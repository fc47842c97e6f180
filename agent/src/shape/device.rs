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
use crate::net::control::{self, Side};

/// An unusual number: packets may carry a priority of the user's, which chooses a class where its major is the qdisc's.
const HANDLE: u32 = 0x7e0d_0000;
/// In front of the name of the device that is shaped; a shaper that is put out of use follows.
pub(super) const ALIAS: &str = "pendulum shaper of ";
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

pub(super) fn device_name(direction: Direction, wan: u32) -> String {
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
