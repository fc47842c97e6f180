//! Queueing disciplines by route netlink: which there are on a device, what stands in them, and the rate they shape to.

use std::io;

use pendulum_model::rate::{BufferSize, Rate};
use rtnetlink::sys::protocols::NETLINK_ROUTE;

use super::dump::dump;
use super::message::{attribute, u32_at, u64_at};

const RTM_NEWQDISC: u16 = 36;
const RTM_GETQDISC: u16 = 38;
const RTM_NEWTCLASS: u16 = 40;
const RTM_GETTCLASS: u16 = 42;
/// `struct tcmsg`, <linux/rtnetlink.h>.
const TCMSG: usize = 20;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_STATS2: u16 = 7;
const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;
/// `TC_H_ROOT`, `TC_H_INGRESS` (and clsact), <linux/pkt_sched.h>.
const ROOT: u32 = 0xffff_ffff;
pub(crate) const INGRESS: u32 = 0xffff_fff1;

/// One qdisc of a device.
#[derive(Clone, Debug, PartialEq)]
pub struct Qdisc {
    /// `major:minor` in one number.
    pub handle: u32,
    /// The class or qdisc above it.
    pub parent: u32,
    /// `tbf`, `fq_codel`, …
    pub kind: String,
    /// Bytes it has sent.
    pub sent_bytes: u64,
    /// Packets it has sent.
    pub sent_packets: u64,
    /// Bytes that wait in it and below it.
    pub backlog_bytes: u32,
    /// Packets that wait.
    pub backlog_packets: u32,
    /// Packets it has dropped.
    pub drops: u32,
    /// Bytes it may hold, if it is counted in bytes.
    pub limit_bytes: Option<u64>,
    /// Packets it may hold, if it is counted in packets.
    pub limit_packets: Option<u64>,
    /// The rate it shapes to; for htb that of its classes together.
    pub rate: Option<Rate>,
}

/// All qdiscs of one device, clsact and ingress left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QdiscTree {
    qdiscs: Vec<Qdisc>,
}

impl QdiscTree {
    /// Reads them now. A device without any (`noqueue`), or that is not there, has none.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn read(ifindex: u32) -> io::Result<Self> {
        Self::of(ifindex, &list()?)
    }

    /// Those of a device in a list.
    ///
    /// # Errors
    /// What the kernel says of the classes of htb.
    pub(crate) fn of(ifindex: u32, all: &[ListedQdisc]) -> io::Result<Self> {
        let is_queue =
            |listed: &&ListedQdisc| listed.qdisc.parent != INGRESS && listed.qdisc.kind != "noqueue";
        let own = all.iter().filter(|listed| listed.ifindex == ifindex);
        let mut qdiscs: Vec<Qdisc> = own.filter(is_queue).map(|listed| listed.qdisc.clone()).collect();
        for htb in qdiscs.iter_mut().filter(|qdisc| qdisc.kind == "htb") {
            htb.rate = htb_rate(ifindex, htb.handle)?;
        }
        Ok(Self { qdiscs })
    }

    /// The one that everything passes.
    pub fn root(&self) -> Option<&Qdisc> {
        self.qdiscs.iter().find(|qdisc| qdisc.parent == ROOT)
    }

    /// Whether any of them is of this kind.
    pub fn has(&self, kind: &str) -> bool {
        self.qdiscs.iter().any(|qdisc| qdisc.kind == kind)
    }

    /// Packets that wait in all of it.
    pub fn backlog(&self) -> u32 {
        self.root().map_or(0, |root| root.backlog_packets)
    }

    /// Bytes that may stand in all of it: of the leaf if there is one, which is what a shaper queues in. Of several leaves none
    /// tells.
    pub fn limit_bytes(&self) -> Option<u64> {
        let mut leaves = self.qdiscs.iter().filter(|qdisc| qdisc.parent != ROOT);
        let leaf = leaves.next();
        if leaves.next().is_some() {
            return None;
        }
        let root = self.root()?;
        leaf.and_then(|leaf| leaf.limit_bytes).or(root.limit_bytes)
    }

    /// What the drop-tail queue holds that everything waits in: the leaf's, else the root's.
    ///
    /// # Errors
    /// The kind of the queue if it is none, or if its size is not reported: `fq_codel`, `mq`, …; `noqueue` without any.
    pub fn drop_tail(&self) -> Result<BufferSize, &str> {
        let root = self.root().ok_or("noqueue")?;
        let mut leaves = self.qdiscs.iter().filter(|qdisc| qdisc.parent != ROOT);
        let queue = leaves.next().unwrap_or(root);
        if leaves.next().is_some() {
            return Err(&root.kind);
        }
        let size = match queue.kind.as_str() {
            // Its own queue is a bfifo of its limit (`tbf_change`).
            "bfifo" | "tbf" => queue.limit_bytes.map(BufferSize::Bytes),
            "pfifo" => queue.limit_packets.map(BufferSize::Packets),
            _ => None,
        };
        size.ok_or(&queue.kind)
    }

    /// The rate that everything is shaped to, and the kind that shapes.
    pub fn rate(&self) -> Option<(Rate, &str)> {
        let root = self.root()?;
        Some((root.rate?, &root.kind))
    }
}

/// The kind of the qdisc that classic filters of a device are attached to: `clsact`, or the old `ingress`.
pub(super) fn ingress_qdisc(ifindex: u32) -> io::Result<Option<String>> {
    Ok(ingress_kind(ifindex, list()?))
}

fn ingress_kind(ifindex: u32, all: Vec<ListedQdisc>) -> Option<String> {
    let found = all.into_iter().find(|listed| listed.ifindex == ifindex && listed.holds_filters())?;
    Some(found.qdisc.kind)
}

/// A qdisc and the device that it is on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ListedQdisc {
    pub(crate) ifindex: u32,
    pub(crate) qdisc: Qdisc,
    /// As the kernel tells them.
    pub(crate) options: Vec<u8>,
}

impl ListedQdisc {
    /// Whether it is what classic filters are attached to.
    pub(crate) fn holds_filters(&self) -> bool {
        self.qdisc.parent == INGRESS
    }
}

/// All qdiscs of this network namespace: older kernels answer for every device, whichever is asked for.
///
/// # Errors
/// What the kernel says.
pub(crate) fn list() -> io::Result<Vec<ListedQdisc>> {
    let mut all = Vec::new();
    for message in dump(NETLINK_ROUTE, RTM_GETQDISC, &tcmsg(0), RTM_NEWQDISC)? {
        let tail = message.get(TCMSG..).unwrap_or_default();
        let options = attribute(tail, TCA_OPTIONS).unwrap_or_default().to_vec();
        all.push(ListedQdisc { ifindex: u32_at(&message, 4)?, qdisc: parse(&message)?, options });
    }
    Ok(all)
}

fn tcmsg(ifindex: u32) -> [u8; TCMSG] {
    let mut message = [0; TCMSG];
    message[4..8].copy_from_slice(&ifindex.to_ne_bytes());
    message
}

fn parse(message: &[u8]) -> io::Result<Qdisc> {
    let tail = message.get(TCMSG..).unwrap_or_default();
    let kind = attribute(tail, TCA_KIND).unwrap_or_default();
    let kind = String::from_utf8_lossy(kind.strip_suffix(&[0]).unwrap_or(kind)).into_owned();
    let options = attribute(tail, TCA_OPTIONS).unwrap_or_default();
    let (limit_bytes, limit_packets, rate) = match kind.as_str() {
        "bfifo" => (u32_at(options, 0).ok().map(u64::from), None, None),
        "pfifo" => (None, u32_at(options, 0).ok().map(u64::from), None),
        "tbf" => tbf(options),
        // Its limit is one of memory, and its queue management acts long before.
        "cake" | "cake_mq" => (None, None, cake_rate(options)),
        "fq_codel" | "codel" | "fq" | "pie" => (None, first_limit(&kind, options), None),
        _ => (None, None, None),
    };
    let stats = attribute(tail, TCA_STATS2).unwrap_or_default();
    let basic = attribute(stats, TCA_STATS_BASIC).unwrap_or_default();
    let queue = attribute(stats, TCA_STATS_QUEUE).unwrap_or_default();
    let figure = |at| u32_at(queue, at).unwrap_or(0);
    Ok(Qdisc {
        handle: u32_at(message, 8)?,
        parent: u32_at(message, 12)?,
        kind,
        sent_bytes: u64_at(basic, 0).unwrap_or(0),
        sent_packets: u32_at(basic, 8).unwrap_or(0).into(),
        backlog_packets: figure(0),
        backlog_bytes: figure(4),
        drops: figure(8),
        limit_bytes,
        limit_packets,
        rate,
    })
}

/// `TCA_CAKE_BASE_RATE64` (bytes per second, 0: unlimited).
const CAKE_RATE: u16 = 2;

fn cake_rate(options: &[u8]) -> Option<Rate> {
    rate(u64_at(attribute(options, CAKE_RATE)?, 0).ok()?)
}

fn attribute_u32(options: &[u8], kind: u16) -> Option<u64> {
    u32_at(attribute(options, kind)?, 0).ok().map(u64::from)
}

/// `TCA_FQ_CODEL_LIMIT`, `TCA_CODEL_LIMIT`, `TCA_PIE_LIMIT` are attribute 2, `TCA_FQ_PLIMIT` is 1.
fn first_limit(kind: &str, options: &[u8]) -> Option<u64> {
    attribute_u32(options, if kind == "fq" { 1 } else { 2 })
}

/// `TCA_TBF_PARMS`: `struct tc_tbf_qopt`; `TCA_TBF_RATE64`.
fn tbf(options: &[u8]) -> (Option<u64>, Option<u64>, Option<Rate>) {
    let parms = attribute(options, 1).unwrap_or_default();
    // rate, peakrate (12 bytes each), limit, …
    let limit = u32_at(parms, 24).ok().map(u64::from);
    let long = attribute(options, 4).and_then(|value| u64_at(value, 0).ok());
    (limit, None, long.or_else(|| spec_rate(parms, 0)).and_then(rate))
}

/// `struct tc_ratespec` at an offset: its last member, bytes per second.
fn spec_rate(bytes: &[u8], at: usize) -> Option<u64> {
    u32_at(bytes, at + 8).ok().map(u64::from)
}

fn rate(bytes_per_second: u64) -> Option<Rate> {
    Rate::from_bits_per_second(bytes_per_second.checked_mul(8)?)
}

/// The ceilings of htb's topmost classes, added up: each may send that much, and nothing limits them together.
fn htb_rate(ifindex: u32, handle: u32) -> io::Result<Option<Rate>> {
    let mut sum = 0u64;
    for message in dump(NETLINK_ROUTE, RTM_GETTCLASS, &tcmsg(ifindex), RTM_NEWTCLASS)? {
        let tail = message.get(TCMSG..).unwrap_or_default();
        let (class, parent) = (u32_at(&message, 8)?, u32_at(&message, 12)?);
        if parent == ROOT && class >> 16 == handle >> 16 {
            let options = attribute(tail, TCA_OPTIONS).unwrap_or_default();
            sum = sum.saturating_add(htb_ceiling(options).unwrap_or(0));
        }
    }
    Ok(rate(sum))
}

/// `TCA_HTB_CEIL64`, else the second ratespec of `TCA_HTB_PARMS`.
fn htb_ceiling(options: &[u8]) -> Option<u64> {
    let long = attribute(options, 7).and_then(|value| u64_at(value, 0).ok());
    long.or_else(|| spec_rate(attribute(options, 1)?, 12))
}

#[cfg(test)]
mod tests {
    use super::super::message::Attributes;
    use super::*;

    fn qdisc(parent: u32, kind: &str, bytes: Option<u64>, packets: Option<u64>) -> Qdisc {
        Qdisc {
            handle: 0,
            parent,
            kind: kind.to_owned(),
            sent_bytes: 0,
            sent_packets: 0,
            backlog_bytes: 0,
            backlog_packets: 0,
            drops: 0,
            limit_bytes: bytes,
            limit_packets: packets,
            rate: None,
        }
    }

    #[test]
    fn a_drop_tail_queue_is_the_leaf_s_or_the_root_s_and_nothing_else() {
        let tbf = qdisc(ROOT, "tbf", Some(30_000), None);
        let htb = qdisc(ROOT, "htb", None, None);
        let codel = qdisc(0x1_0001, "fq_codel", None, Some(10_240));
        let pfifo = qdisc(0x1_0001, "pfifo", None, Some(20));
        let bfifo = qdisc(0x1_0001, "bfifo", Some(9_000), None);
        for (qdiscs, expected) in [
            (vec![], Err("noqueue")),
            (vec![tbf.clone()], Ok(BufferSize::Bytes(30_000))),
            (vec![tbf.clone(), bfifo.clone()], Ok(BufferSize::Bytes(9_000))),
            // The limit of tbf says nothing of what its leaf lets stand.
            (vec![tbf, codel.clone()], Err("fq_codel")),
            (vec![htb.clone(), pfifo.clone()], Ok(BufferSize::Packets(20))),
            // A class's own pfifo is not listed.
            (vec![htb.clone()], Err("htb")),
            (vec![htb, pfifo, bfifo], Err("htb")),
            (vec![qdisc(ROOT, "fq_codel", None, Some(10_240))], Err("fq_codel")),
            (vec![qdisc(ROOT, "cake", None, None)], Err("cake")),
        ] {
            let tree = QdiscTree { qdiscs };
            assert_eq!(tree.drop_tail(), expected, "{tree:?}");
        }
    }

    #[test]
    fn bytes_may_stand_in_the_leaf_or_the_root_and_of_several_leaves_none_tells() {
        let tbf = qdisc(ROOT, "tbf", Some(30_000), None);
        let leaf = qdisc(0x1_0001, "bfifo", Some(9_000), None);
        let other = qdisc(0x1_0002, "bfifo", Some(8_000), None);
        for (qdiscs, expected) in [
            (vec![], None),
            (vec![tbf.clone()], Some(30_000)),
            (vec![tbf.clone(), leaf.clone()], Some(9_000)),
            (vec![tbf.clone(), qdisc(0x1_0001, "pfifo", None, Some(20))], Some(30_000)),
            (vec![tbf, leaf, other], None),
        ] {
            assert_eq!(QdiscTree { qdiscs }.limit_bytes(), expected);
        }
    }

    fn listed(ifindex: u32, parent: u32, kind: &str) -> ListedQdisc {
        ListedQdisc { ifindex, qdisc: qdisc(parent, kind, None, None), options: Vec::new() }
    }

    #[test]
    fn a_device_has_its_own_queues_without_those_that_hold_nothing() {
        let all = [
            listed(6, ROOT, "fq"),
            listed(7, ROOT, "mq"),
            listed(7, 0x1_0001, "noqueue"),
            listed(7, INGRESS, "clsact"),
            listed(7, 0x1_0002, "pfifo"),
        ];
        let mut tree = QdiscTree::of(7, &all).unwrap();
        assert_eq!(tree.qdiscs, [qdisc(ROOT, "mq", None, None), qdisc(0x1_0002, "pfifo", None, None)]);
        assert_eq!(["mq", "pfifo", "fq"].map(|kind| tree.has(kind)), [true, true, false]);
        tree.qdiscs[0].backlog_packets = 9;
        tree.qdiscs[1].backlog_packets = 5;
        assert_eq!(tree.backlog(), 9);
        assert_eq!(QdiscTree::default().backlog(), 0);
    }

    #[test]
    fn filters_are_held_by_the_device_s_own_clsact_or_ingress() {
        let all = || vec![listed(6, INGRESS, "clsact"), listed(7, ROOT, "fq"), listed(7, INGRESS, "ingress")];
        assert_eq!(ingress_kind(7, all()).as_deref(), Some("ingress"));
        assert_eq!(ingress_kind(6, all()).as_deref(), Some("clsact"));
        assert_eq!(ingress_kind(8, all()), None);
    }

    /// The same number has another meaning in each: attribute 2 of fq is the limit of one flow.
    #[test]
    fn the_limit_is_that_of_the_whole_queue() {
        for (kind, limit) in [("fq", 10_000), ("fq_codel", 100), ("pie", 100)] {
            let options = Attributes::new().with_u32(1, 10_000).with_u32(2, 100);
            let all = Attributes::new().with_text(TCA_KIND, kind).with_nested(TCA_OPTIONS, &options);
            let mut message = [[0; 4], 7_u32.to_ne_bytes(), [0; 4], ROOT.to_ne_bytes(), [0; 4]].concat();
            message.extend(all.bytes());
            assert_eq!(parse(&message).unwrap().limit_packets, Some(limit), "{kind}");
        }
    }

    /// Linux 7.0: one cake for all queues of the card, with the options of cake.
    #[test]
    fn a_cake_of_many_queues_shapes_as_cake_does() {
        let options = Attributes::new().with(CAKE_RATE, &1_250_000_u64.to_ne_bytes());
        let all = Attributes::new().with_text(TCA_KIND, "cake_mq").with_nested(TCA_OPTIONS, &options);
        let mut message = [[0; 4], 7_u32.to_ne_bytes(), [0; 4], ROOT.to_ne_bytes(), [0; 4]].concat();
        message.extend(all.bytes());
        let tree = QdiscTree { qdiscs: vec![parse(&message).unwrap()] };
        let rate = Rate::from_bits_per_second(10_000_000).unwrap();
        assert_eq!(tree.rate(), Some((rate, "cake_mq")));
    }
}
