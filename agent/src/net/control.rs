//! Making and removing what a shaper consists of beside its qdisc: ifb devices and redirections.

use std::io;

use rtnetlink::sys::protocols::NETLINK_ROUTE;

use super::dump::dump;
use super::message::{Attributes, attribute, attributes, code, u32_at, words};
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
const ETH_P_ALL: u16 = 3;

/// `TCA_EGRESS_REDIR`.
const EGRESS_REDIRECT: u32 = 1;

/// `TC_H_ROOT`.
pub(crate) const ROOT: u32 = 0xffff_ffff;

/// A side of a device's clsact qdisc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// What the device receives.
    Ingress,
    /// What it sends.
    Egress,
}

impl Side {
    const fn parent(self) -> u32 {
        match self {
            Self::Ingress => 0xffff_fff2,
            Self::Egress => 0xffff_fff3,
        }
    }
}

/// Makes an ifb device.
pub(crate) fn add_ifb(name: &str) -> io::Result<()> {
    /// `IFLA_IFNAME`, `IFLA_LINKINFO`, `IFLA_INFO_KIND`.
    const NAME: u16 = 3;
    const INFO: u16 = 18;
    const INFO_KIND: u16 = 1;
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
    request(RTM_NEWLINK, Action::Change, &ifinfomsg(ifindex, 1), &alias)
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
}

/// All ifb devices of this network namespace.
pub(crate) fn list_ifbs() -> io::Result<Vec<Ifb>> {
    const RTM_GETLINK: u16 = 18;
    /// `struct ifinfomsg`; `IFLA_IFNAME`, `IFLA_LINKINFO`, `IFLA_INFO_KIND`, `IFLA_IFALIAS`.
    const IFINFOMSG: usize = 16;
    let text = |value: &[u8]| String::from_utf8_lossy(value.strip_suffix(&[0]).unwrap_or(value)).into_owned();
    let mut ifbs = Vec::new();
    for message in dump(NETLINK_ROUTE, RTM_GETLINK, &ifinfomsg(0, 0), RTM_NEWLINK)? {
        let tail = message.get(IFINFOMSG..).unwrap_or_default();
        let kind = attribute(tail, 18).and_then(|info| attribute(info, 1)).map(text);
        if kind.as_deref() == Some("ifb") {
            ifbs.push(Ifb {
                index: u32_at(&message, 4)?,
                name: attribute(tail, 3).map(text).unwrap_or_default(),
                alias: attribute(tail, 20).map(text).unwrap_or_default(),
            });
        }
    }
    Ok(ifbs)
}

/// Sends everything that comes by one side of a device to another device's egress, behind all filters of a lower
/// priority number.
pub(crate) fn add_redirection(ifindex: u32, side: Side, priority: u16, to: u32) -> io::Result<()> {
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
    Attributes::new().with_text(KIND, "mirred").with_nested(OPTIONS, &Attributes::new().with(2, &parms))
}

/// Removes the filters of one priority.
pub(crate) fn remove_filters(ifindex: u32, side: Side, priority: u16) -> io::Result<()> {
    let header = tcmsg(ifindex, 0, side.parent(), filter_info(priority));
    match request(RTM_DELTFILTER, Action::Change, &header, &Attributes::new()) {
        Err(error) if matches!(code(&error), Some(libc::ENOENT | libc::EINVAL)) => Ok(()),
        other => other,
    }
}

/// A filter that sends packets to another device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Redirection {
    /// Where it catches them.
    pub(crate) side: Side,
    /// Its priority.
    pub(crate) priority: u16,
    /// The other device's ifindex.
    pub(crate) to: u32,
}

/// Filters of a device by what they do: redirections, and how many there are in all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filters {
    /// Those that redirect.
    pub(crate) redirections: Vec<Redirection>,
    /// All, with those.
    pub(crate) count: usize,
}

/// Reads the filters of both sides of a device's clsact or ingress qdisc. Without one there are none.
///
/// # Errors
/// What the kernel says.
pub(crate) fn read_filters(ifindex: u32) -> io::Result<Filters> {
    let mut found = Filters::default();
    for side in [Side::Ingress, Side::Egress] {
        match found.read_side(ifindex, side) {
            // The kernel refuses the request if there is no such qdisc: then there is no filter either.
            Err(error) if matches!(code(&error), Some(libc::EINVAL | libc::ENOENT)) => {}
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
    let ingress = |redirection: &&Redirection| redirection.side == Side::Ingress;
    Ok(read_filters(ifindex)?.redirections.iter().find(ingress).map(|redirection| redirection.to))
}

impl Filters {
    fn read_side(&mut self, ifindex: u32, side: Side) -> io::Result<()> {
        let header = tcmsg(ifindex, 0, side.parent(), 0);
        for message in dump(NETLINK_ROUTE, RTM_GETTFILTER, &header, RTM_NEWTFILTER)? {
            let tail = message.get(TCMSG..).unwrap_or_default();
            let Some(options) = attribute(tail, TCA_OPTIONS) else { continue };
            // A hash table of u32, or the head of a priority: no filter.
            let kind = attribute(tail, TCA_KIND).unwrap_or_default();
            let Some(actions) = actions_of(kind, options) else { continue };
            self.count += 1;
            let priority = u32_at(&message, 16).map_or(0, |info| (info >> 16) as u16);
            self.redirections.extend(redirected_to(actions).map(|to| Redirection { side, priority, to }));
        }
        Ok(())
    }
}

/// The actions of a filter, by its kind; none if this is no filter but what holds filters.
fn actions_of<'a>(kind: &[u8], options: &'a [u8]) -> Option<&'a [u8]> {
    // TCA_U32_ACT, TCA_U32_SEL; TCA_MATCHALL_ACT, TCA_FLOWER_ACT, TCA_BPF_ACT, TCA_BASIC_ACT, TCA_FW_ACT.
    let actions = match kind.strip_suffix(&[0]).unwrap_or(kind) {
        b"u32" => {
            attribute(options, 5)?;
            7
        }
        b"matchall" => 2,
        b"flower" | b"basic" => 3,
        b"bpf" => 1,
        b"fw" => 4,
        _ => return Some(&[]),
    };
    if options.is_empty() { None } else { Some(attribute(options, actions).unwrap_or_default()) }
}

/// Where a list of actions sends packets.
fn redirected_to(actions: &[u8]) -> impl Iterator<Item = u32> {
    attributes(actions).filter_map(|(_, action)| {
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
        assert_eq!(redirected_to(list.bytes()).collect::<Vec<_>>(), [7]);
        let options = Attributes::new().with(5, &[0; 32]).with_nested(7, &list);
        let actions = actions_of(b"u32\0", options.bytes()).expect("a filter");
        assert_eq!(redirected_to(actions).collect::<Vec<_>>(), [7]);
        assert_eq!(actions_of(b"u32\0", &[]), None);
    }
}
