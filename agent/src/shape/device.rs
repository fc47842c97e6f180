//! One direction's shaper in the kernel: an ifb with htb, and the filter that sends packets there.
//!
//! ```text
//! WAN egress ─ redirect ─► ifb ─ htb ─┬ express ─┬ lane    prio 0, fifo  ┐
//!                                     │          ├ sparse  prio 0, tbf   ┼─► WAN egress, second pass ─► its own qdisc
//!                                     │          └ turn    prio 1, fifo  │
//!                                     └───────────── data  prio 2, tbf   ┘
//! ```
//!
//! Lane and sparse class take turns, byte for byte (DRR). Were the lane first here too, the ACKs of many short connections
//! would keep their SYNs and requests waiting until timers run out.
//!
//! With `merge-sack` the ACKs of connections past slow start go into the turn class: when it has sent one for each connection, its
//! ceiling holds, and the next data goes. What comes meanwhile is merged. A connection moves there from the lane and never back,
//! and the lane goes first: its ACKs stay in order.
//!
//! All classes have a token guaranteed rate: inside its guarantee a class sends without asking its parent, and with
//! large guarantees no ACK would ever wait and meet another.

use std::io;
use std::time::{Duration, Instant};

use pendulum_model::rate::Rate;
use tracing::warn;

use super::ShapeError;
use super::plan::Line;
use crate::net::QdiscTree;
use crate::net::clsact;
use crate::net::control::{self, HtbClass, Side};

/// An unusual number: packets may carry a priority of the user's, which must not name one of our classes. The minors
/// are multiples of 16, so that a qdisc elsewhere takes them for best effort (`prio2band`, TC_PRIO_MAX).
const HTB: u32 = 0x7e0d_0000;
const PARENT: u32 = HTB | 0x01;
const EXPRESS: u32 = HTB | 0x02;
const LANE: u32 = HTB | 0x10;
const DATA: u32 = HTB | 0x20;
const SPARSE: u32 = HTB | 0x30;
const TURN: u32 = HTB | 0x40;
const LANE_LEAF: u32 = 0x7e10_0000;
const DATA_LEAF: u32 = 0x7e20_0000;
const SPARSE_LEAF: u32 = 0x7e30_0000;
const TURN_LEAF: u32 = 0x7e40_0000;
/// `skb->priority` of an ACK.
pub(super) const LANE_PRIORITY: u32 = LANE;
/// Of what a short connection sends.
pub(super) const SPARSE_PRIORITY: u32 = SPARSE;
/// Of an ACK that takes turns with the data.
pub(super) const TURN_PRIORITY: u32 = TURN;
/// Of the redirecting filter: behind what the user has.
const FILTER_PRIORITY: u16 = 60_000;
const GUARANTEE: u64 = 1_000;
/// A byte per second, the least that htb takes: at most one packet in a minute (htb's longest memory) goes before what
/// stands in the sparse class.
const DATA_GUARANTEE: u64 = 8;
/// The data leaf lets everything pass that its class asks for.
const LEAF_RATE: u64 = 100_000_000_000;
const ALIAS: &str = "pendulum shaper of ";
/// A full buffer leaves in this time, or is given up.
const DRAIN: Duration = Duration::from_millis(800);

/// What is shaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Uplink,
    Downlink,
}

impl Way {
    const fn side(self) -> Side {
        match self {
            Self::Uplink => Side::Egress,
            Self::Downlink => Side::Ingress,
        }
    }

    fn device_name(self, wan: u32) -> String {
        match self {
            Self::Uplink => format!("pdl-up{wan}"),
            Self::Downlink => format!("pdl-dn{wan}"),
        }
    }
}

/// A shaping device.
#[derive(Debug)]
pub(super) struct Shaping {
    way: Way,
    wan: u32,
    pub(super) ifindex: u32,
    line: Line,
    redirects: bool,
}

impl Shaping {
    /// Makes device and qdiscs; nothing is sent there yet. On failure nothing is left.
    pub(super) fn build(way: Way, wan: u32, wan_name: &str, line: Line) -> Result<Self, ShapeError> {
        let name = way.device_name(wan);
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
        let shaping = Self { way, wan, ifindex, line, redirects: false };
        let built = control::add_htb(ifindex, HTB, DATA & 0xffff)
            .and_then(|()| shaping.put_classes())
            .and_then(|()| shaping.put_leaves())
            .and_then(|()| control::set_up(ifindex, &format!("{ALIAS}{wan_name}")));
        match built {
            Ok(()) => Ok(shaping),
            Err(source) => {
                let _ = control::delete_device(ifindex);
                Err(failed("set up htb on")(source))
            }
        }
    }

    /// Changes rate and sizes while packets pass.
    pub(super) fn change(&mut self, line: Line) -> io::Result<()> {
        self.line = line;
        self.put_classes()?;
        self.put_leaves()
    }

    /// Changes what ACKs in turns may send, if it is something else.
    pub(super) fn change_turn(&mut self, line: Line) -> io::Result<()> {
        if (line.turn, line.turn_burst) == (self.line.turn, self.line.turn_burst) {
            return Ok(());
        }
        self.line = line;
        self.put_turn_class()
    }

    pub(super) fn line(&self) -> &Line {
        &self.line
    }

    fn put_classes(&self) -> io::Result<()> {
        let Line { rate, lane, sparse, express, burst, .. } = self.line;
        let class = |classid, parent, rate, ceiling, priority| {
            control::put_class(self.ifindex, &HtbClass { classid, parent, rate, ceiling, burst, priority })
        };
        class(PARENT, HTB, rate, rate, 0)?;
        class(EXPRESS, PARENT, self.token(GUARANTEE), express, 0)?;
        class(LANE, EXPRESS, self.token(GUARANTEE), lane, 0)?;
        class(SPARSE, EXPRESS, self.token(GUARANTEE), sparse, 0)?;
        self.put_turn_class()?;
        class(DATA, PARENT, self.token(DATA_GUARANTEE), rate, 2)
    }

    fn put_turn_class(&self) -> io::Result<()> {
        let (rate, Line { turn: ceiling, turn_burst: burst, .. }) = (self.token(GUARANTEE), self.line);
        let class = HtbClass { classid: TURN, parent: EXPRESS, rate, ceiling, burst, priority: 1 };
        control::put_class(self.ifindex, &class)
    }

    fn token(&self, bits_per_second: u64) -> Rate {
        let rate = self.line.rate;
        Rate::from_bits_per_second(bits_per_second).map_or(rate, |token| token.min(rate))
    }

    fn put_leaves(&self) -> io::Result<()> {
        let Line { data_bytes, lane_packets, sparse_bytes, .. } = self.line;
        // What a newer ACK says stands for the older ones: a lane that overflows must not lose the newest.
        control::put_head_drop_fifo(self.ifindex, LANE_LEAF, LANE, lane_packets)?;
        control::put_head_drop_fifo(self.ifindex, TURN_LEAF, TURN, lane_packets)?;
        self.put_data_leaf(SPARSE_LEAF, SPARSE, sparse_bytes)?;
        self.put_data_leaf(DATA_LEAF, DATA, data_bytes)
    }

    fn put_data_leaf(&self, handle: u32, parent: u32, bytes: u32) -> io::Result<()> {
        let rate = Rate::from_bits_per_second(LEAF_RATE).unwrap_or(self.line.rate);
        match control::put_splitting_fifo(self.ifindex, handle, parent, bytes, self.line.whole_packet, rate) {
            // A kernel without tbf: super-packets then wait as one.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                control::put_bfifo(self.ifindex, handle, parent, bytes)
            }
            other => other,
        }
    }

    /// Sends packets here, or no longer.
    pub(super) fn redirect(&mut self, on: bool) -> io::Result<()> {
        if on == self.redirects {
            return Ok(());
        }
        if on {
            control::add_redirection(self.wan, self.way.side(), FILTER_PRIORITY, self.ifindex)?;
        } else {
            control::remove_filters(self.wan, self.way.side(), FILTER_PRIORITY)?;
        }
        self.redirects = on;
        Ok(())
    }

    /// Waits until what stands here has left, for a bounded time.
    pub(super) fn drain(&self) {
        let end = Instant::now() + DRAIN;
        while Instant::now() < end {
            let root = QdiscTree::read(self.ifindex).ok().and_then(|tree| tree.root().cloned());
            if root.is_none_or(|root| root.backlog_packets == 0) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
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

/// Removes what earlier runs left for a device: filters that redirect to a shaper of ours, the shapers, and a clsact
/// qdisc that is empty then. Answers what was removed.
pub(super) fn remove_leftovers(wan: u32, wan_name: &str) -> io::Result<Vec<String>> {
    let alias = format!("{ALIAS}{wan_name}");
    let ours: Vec<_> = control::list_ifbs()?
        .into_iter()
        .filter(|ifb| {
            ifb.alias == alias
                // Killed before it could be given its alias.
                || ifb.alias.is_empty()
                    && [Way::Uplink, Way::Downlink].iter().any(|way| way.device_name(wan) == ifb.name)
        })
        .collect();
    let mut removed = Vec::new();
    for ifb in ours {
        for filter in control::read_filters(wan).redirections.iter().filter(|filter| filter.to == ifb.index) {
            control::remove_filters(wan, filter.side, filter.priority)?;
            removed.push(format!("redirection of {wan_name} to {}", ifb.name));
        }
        control::delete_device(ifb.index)?;
        removed.push(format!("device {}", ifb.name));
    }
    // The crashed run had added the qdisc, or had found it empty; in both cases nobody misses it.
    if !removed.is_empty() && control::read_filters(wan).count == 0 && clsact::remove(wan).is_ok() {
        removed.push(format!("clsact qdisc of {wan_name}"));
    }
    Ok(removed)
}

/// Removes shapers of devices that are not there any more.
pub(super) fn remove_orphans(is_there: impl Fn(&str) -> bool) -> io::Result<Vec<String>> {
    let mut removed = Vec::new();
    for ifb in control::list_ifbs()? {
        if ifb.alias.strip_prefix(ALIAS).is_some_and(|wan| !is_there(wan)) {
            control::delete_device(ifb.index)?;
            removed.push(format!("device {}", ifb.name));
        }
    }
    Ok(removed)
}

/// The WAN devices for which shapers of ours stand.
pub(super) fn shaped_devices() -> io::Result<Vec<String>> {
    let mut names: Vec<String> = control::list_ifbs()?
        .into_iter()
        .filter_map(|ifb| Some(ifb.alias.strip_prefix(ALIAS)?.to_owned()))
        .collect();
    names.sort();
    names.dedup();
    Ok(names)
}
