//! Making and removing what a shaper consists of beside its qdisc: ifb devices and redirections.

use std::io;

use pendulum_model::named;
use rtnetlink::sys::protocols::NETLINK_ROUTE;

use super::dump::dump;
use super::message::{Attributes, attribute, attributes, code, u32_at, u64_at, words};
use super::request::{Action, request};

const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
const RTM_NEWTFILTER: u16 = 44;
const RTM_DELTFILTER: u16 = 45;
const RTM_GETTFILTER: u16 = 46;
/// `struct tcmsg`.
const TCMSG: usize = 20;
pub(super) const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
/// `TCA_ACT_COOKIE`.
const ACTION_COOKIE: u16 = 6;
const ETH_P_ALL: u16 = 3;

/// `IFLA_LINKINFO`, `IFLA_INFO_KIND`.
const INFO: u16 = 18;
const INFO_KIND: u16 = 1;
const IFF_UP: u32 = 1;

/// In our redirections (`TCA_ACT_COOKIE`): they are known by it also when the device is gone that they lead to.
const COOKIE: &[u8] = b"pendulum";
/// `TCA_EGRESS_REDIR`.
const EGRESS_REDIRECT: u32 = 1;

/// `TC_H_ROOT`.
pub(crate) const ROOT: u32 = 0xffff_ffff;

named! {
    /// A side of a device's clsact qdisc.
    pub(crate) enum ClsactSide {
        /// What the device receives.
        Ingress = "ingress",
        /// What it sends.
        Egress = "egress",
    }
}

impl ClsactSide {
    const fn parent(self) -> u32 {
        match self {
            Self::Ingress => 0xffff_fff2,
            Self::Egress => 0xffff_fff3,
        }
    }
}

/// Makes an ifb device.
pub(crate) fn add_ifb(name: &str) -> io::Result<()> {
    /// `IFLA_IFNAME`.
    const NAME: u16 = 3;
    let info = Attributes::new().with_text(INFO_KIND, "ifb");
    let attributes = Attributes::new().with_text(NAME, name).with_nested(INFO, &info);
    request(RTM_NEWLINK, Action::Create, &ifinfomsg(0, 0), &attributes)
}

/// Gives a device an alias and sets it up, without an IPv6 address of its own.
pub(crate) fn set_up(ifindex: u32, alias: &str) -> io::Result<()> {
    /// `IFLA_IFALIAS`, `IFLA_AF_SPEC`, `AF_INET6`, `IFLA_INET6_ADDR_GEN_MODE` = none.
    const ALIAS: u16 = 20;
    const AF_SPEC: u16 = 26;
    const AF_INET6: u16 = 10;
    const ADDR_GEN_MODE: u16 = 8;
    let ipv6 = Attributes::new().with(ADDR_GEN_MODE, &[1]);
    let spec = Attributes::new().with_nested(AF_INET6, &ipv6);
    // Without IPv6 in the kernel there is nothing to switch off.
    let _ = request(
        RTM_NEWLINK,
        Action::Change,
        &ifinfomsg(ifindex, 0),
        &Attributes::new().with_nested(AF_SPEC, &spec),
    );
    let alias = Attributes::new().with(ALIAS, alias.as_bytes());
    request(RTM_NEWLINK, Action::Change, &ifinfomsg(ifindex, IFF_UP), &alias)
}

/// Removes a device.
pub(crate) fn delete_device(ifindex: u32) -> io::Result<()> {
    request(RTM_DELLINK, Action::Change, &ifinfomsg(ifindex, 0), &Attributes::new())
}

/// `struct ifinfomsg`; `up`: `IFF_UP`, to be set.
fn ifinfomsg(ifindex: u32, up: u32) -> Vec<u8> {
    words(&[0, ifindex, up, up])
}

pub(super) fn tcmsg(ifindex: u32, handle: u32, parent: u32, info: u32) -> Vec<u8> {
    words(&[0, ifindex, handle, parent, info])
}

pub(super) fn kind(name: &str, options: &Attributes) -> Attributes {
    Attributes::new().with_text(TCA_KIND, name).with_nested(TCA_OPTIONS, options)
}

/// An ifb device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ifb {
    pub(crate) index: u32,
    pub(crate) name: String,
    pub(crate) alias: String,
    pub(crate) up: bool,
    /// Packets and bytes that have left it.
    pub(crate) sent: [u64; 2],
}

/// All ifb devices of this network namespace.
pub(crate) fn list_ifbs() -> io::Result<Vec<Ifb>> {
    const RTM_GETLINK: u16 = 18;
    /// `struct ifinfomsg`; `IFLA_IFNAME`, `IFLA_IFALIAS`, `IFLA_STATS64`.
    const IFINFOMSG: usize = 16;
    let text = |value: &[u8]| String::from_utf8_lossy(value.strip_suffix(&[0]).unwrap_or(value)).into_owned();
    // Only those, or where there are very many devices this takes long; older kernels list all the same.
    let only = Attributes::new().with_nested(INFO, &Attributes::new().with_text(INFO_KIND, "ifb"));
    let asked = [ifinfomsg(0, 0).as_slice(), only.bytes()].concat();
    let mut ifbs = Vec::new();
    for message in dump(NETLINK_ROUTE, RTM_GETLINK, &asked, RTM_NEWLINK)? {
        let tail = message.get(IFINFOMSG..).unwrap_or_default();
        let kind = attribute(tail, INFO).and_then(|info| attribute(info, INFO_KIND)).map(text);
        if kind.as_deref() == Some("ifb") {
            let counted = attribute(tail, 23).unwrap_or_default();
            ifbs.push(Ifb {
                index: u32_at(&message, 4)?,
                name: attribute(tail, 3).map(text).unwrap_or_default(),
                alias: attribute(tail, 20).map(text).unwrap_or_default(),
                up: u32_at(&message, 8)? & IFF_UP != 0,
                sent: [8, 24].map(|at| u64_at(counted, at).unwrap_or(0)),
            });
        }
    }
    Ok(ifbs)
}

/// Sends everything that comes by one side of a device to another device's egress, behind all filters of a lower
/// priority number.
pub(crate) fn add_redirection(ifindex: u32, side: ClsactSide, priority: u16, to: u32) -> io::Result<()> {
    /// `TCA_U32_SEL`: terminal, one key that matches everything; `TCA_U32_ACT`.
    const SELECTOR: u16 = 5;
    const ACTION: u16 = 7;
    const TERMINAL: u8 = 1;
    let mut selector = vec![TERMINAL, 0, 1, 0];
    selector.resize(16 + 16, 0);
    let options = Attributes::new()
        .with(SELECTOR, &selector)
        .with_nested(ACTION, &Attributes::new().with_nested(1, &mirred_redirect(to)));
    let header = tcmsg(ifindex, 0, side.parent(), filter_info(priority));
    request(RTM_NEWTFILTER, Action::Create, &header, &kind("u32", &options))
}

fn filter_info(priority: u16) -> u32 {
    u32::from(priority) << 16 | u32::from(ETH_P_ALL.to_be())
}

/// `struct tc_mirred` in its attributes.
fn mirred_redirect(to: u32) -> Attributes {
    /// `TCA_ACT_KIND`, `TCA_ACT_OPTIONS`, `TCA_MIRRED_PARMS`, `TC_ACT_STOLEN`, `TCA_EGRESS_REDIR`.
    const KIND: u16 = 1;
    const OPTIONS: u16 = 2;
    const STOLEN: u32 = 4;
    let parms = words(&[0, 0, STOLEN, 0, 0, EGRESS_REDIRECT, to]);
    let options = Attributes::new().with(2, &parms);
    Attributes::new().with_text(KIND, "mirred").with_nested(OPTIONS, &options).with(ACTION_COOKIE, COOKIE)
}

/// Removes one filter, or `with_list` all of its priority and protocol. One that is gone is removed.
pub(crate) fn remove_filter(filter: &Filter, with_list: bool) -> io::Result<()> {
    let handle = if with_list { 0 } else { filter.handle };
    let header = tcmsg(filter.device, handle, filter.side.parent(), filter.info);
    let kind = Attributes::new().with_text(TCA_KIND, &filter.kind);
    match request(RTM_DELTFILTER, Action::Change, &header, &kind) {
        Err(error) if matches!(code(&error), Some(libc::ENOENT | libc::EINVAL | libc::ENODEV)) => Ok(()),
        other => other,
    }
}

/// A filter on one side of a device's clsact or ingress qdisc.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Filter {
    /// The device, by ifindex.
    pub(crate) device: u32,
    /// Where it catches packets.
    pub(crate) side: ClsactSide,
    /// Priority and protocol, as the kernel keeps them.
    pub(crate) info: u32,
    /// Its own number.
    pub(crate) handle: u32,
    /// `u32`, `bpf`, `flower`, …
    pub(crate) kind: String,
    /// The program's name, if it is one of BPF.
    pub(crate) program: Option<String>,
    /// The device to which it sends packets, by ifindex; 0 if that is gone.
    pub(crate) to: Option<u32>,
    /// Whether a shaper of this program has made it.
    pub(crate) is_ours: bool,
}

impl Filter {
    /// Which filters come before it: those with a lower one.
    pub(crate) fn priority(&self) -> u16 {
        (self.info >> 16) as u16
    }

    /// Whether an agent has made it: a redirection, or a program where the kernel has no TCX.
    pub(crate) fn is_of_this_program(&self) -> bool {
        self.is_ours || self.program.as_deref().is_some_and(|name| name.starts_with("pendulum_"))
    }
}

/// Reads the filters of both sides of a device's clsact or ingress qdisc. Without one there are none.
///
/// # Errors
/// What the kernel says.
pub(crate) fn read_filters(ifindex: u32) -> io::Result<Vec<Filter>> {
    let mut found = Vec::new();
    for side in [ClsactSide::Ingress, ClsactSide::Egress] {
        match read_side(ifindex, side, &mut found) {
            // The kernel refuses the request if there is no such qdisc, or device: then there is no filter either.
            Err(error) if matches!(code(&error), Some(libc::EINVAL | libc::ENOENT | libc::ENODEV)) => {}
            other => other?,
        }
    }
    Ok(found)
}

/// The device to which a filter redirects what comes in through this one (`action mirred egress redirect dev ifb0`), by
/// ifindex. The first one if there are several.
///
/// # Errors
/// What the kernel says; a device without ingress filters is none.
pub fn ingress_redirect(ifindex: u32) -> io::Result<Option<u32>> {
    let ingress = |filter: Filter| filter.to.filter(|_| filter.side == ClsactSide::Ingress);
    Ok(read_filters(ifindex)?.into_iter().find_map(ingress).filter(|to| *to != 0))
}

fn read_side(ifindex: u32, side: ClsactSide, found: &mut Vec<Filter>) -> io::Result<()> {
    let header = tcmsg(ifindex, 0, side.parent(), 0);
    for message in dump(NETLINK_ROUTE, RTM_GETTFILTER, &header, RTM_NEWTFILTER)? {
        let tail = message.get(TCMSG..).unwrap_or_default();
        let Some(options) = attribute(tail, TCA_OPTIONS) else { continue };
        let text =
            |value: &[u8]| String::from_utf8_lossy(value.strip_suffix(&[0]).unwrap_or(value)).into_owned();
        let kind = attribute(tail, TCA_KIND).map(text).unwrap_or_default();
        // A hash table of u32, or the head of a priority: no filter.
        let Some(actions) = actions_of(&kind, options) else { continue };
        found.push(Filter {
            device: ifindex,
            side,
            info: u32_at(&message, 16)?,
            handle: u32_at(&message, 8)?,
            // TCA_BPF_NAME.
            program: attribute(options, 7).filter(|_| kind == "bpf").map(text),
            kind,
            to: redirected_to(actions),
            is_ours: attributes(actions).any(|(_, action)| attribute(action, ACTION_COOKIE) == Some(COOKIE)),
        });
    }
    Ok(())
}

/// The actions of a filter, by its kind; none if this is no filter but what holds filters.
fn actions_of<'a>(kind: &str, options: &'a [u8]) -> Option<&'a [u8]> {
    // TCA_U32_ACT, TCA_U32_SEL; TCA_MATCHALL_ACT, TCA_FLOWER_ACT, TCA_BPF_ACT, TCA_BASIC_ACT, TCA_FW_ACT.
    let actions = match kind {
        "u32" => {
            attribute(options, 5)?;
            7
        }
        "matchall" => 2,
        "flower" | "basic" => 3,
        "bpf" => 1,
        "fw" => 4,
        _ => return Some(&[]),
    };
    if options.is_empty() { None } else { Some(attribute(options, actions).unwrap_or_default()) }
}

/// Where a list of actions sends packets.
fn redirected_to(actions: &[u8]) -> Option<u32> {
    attributes(actions).find_map(|(_, action)| {
        let is_mirred = attribute(action, 1)?.starts_with(b"mirred");
        // struct tc_mirred: five words that all actions have, then what to do (TCA_EGRESS_REDIR) and where.
        let parms = attribute(attribute(action, 2)?, 2)?;
        let redirects = u32_at(parms, 20).ok()? == EGRESS_REDIRECT;
        if is_mirred && redirects { u32_at(parms, 24).ok() } else { None }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirection_is_found_again() {
        let list = Attributes::new().with_nested(1, &mirred_redirect(7));
        assert_eq!(redirected_to(list.bytes()), Some(7));
        let options = Attributes::new().with(5, &[0; 32]).with_nested(7, &list);
        let actions = actions_of("u32", options.bytes()).expect("a filter");
        assert_eq!(redirected_to(actions), Some(7));
        assert_eq!(actions_of("u32", &[]), None);
    }
}
