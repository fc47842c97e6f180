//! Where packets that come in through a device are sent on to: the ifb that shapes a downlink, usually.

use std::io;

use rtnetlink::sys::protocols::NETLINK_ROUTE;

use super::dump::{attribute, attributes, dump, u32_at};

const RTM_NEWTFILTER: u16 = 44;
const RTM_GETTFILTER: u16 = 46;
/// `struct tcmsg`, <linux/rtnetlink.h>.
const TCMSG: usize = 20;
/// The ingress side of clsact; the old ingress qdisc answers to it too.
const INGRESS: u32 = 0xffff_fff2;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_ACT_KIND: u16 = 1;
const TCA_ACT_OPTIONS: u16 = 2;
const TCA_MIRRED_PARMS: u16 = 2;
/// `struct tc_mirred`: five words that all actions have, then what to do and where.
const MIRRED_ACTION: usize = 20;
const MIRRED_IFINDEX: usize = 24;
const TCA_EGRESS_REDIR: u32 = 1;

/// The device to which a filter redirects what comes in through this one (`action mirred egress redirect dev ifb0`), by
/// ifindex. The first one if there are several.
///
/// # Errors
/// What the kernel says; a device without ingress filters is none.
pub fn ingress_redirect(ifindex: u32) -> io::Result<Option<u32>> {
    let mut request = [0; TCMSG];
    request[4..8].copy_from_slice(&ifindex.to_ne_bytes());
    request[12..16].copy_from_slice(&INGRESS.to_ne_bytes());
    // The kernel refuses the request if there is no such qdisc: then there is no filter either.
    let filters = match dump(NETLINK_ROUTE, RTM_GETTFILTER, &request, RTM_NEWTFILTER) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOENT)) => return Ok(None),
        filters => filters?,
    };
    Ok(filters.iter().filter_map(|filter| filter.get(TCMSG..)).find_map(redirect_of))
}

/// The attribute that holds a filter's actions differs from kind to kind (<linux/pkt_cls.h>).
fn actions_of(kind: &[u8]) -> Option<u16> {
    Some(match kind.strip_suffix(&[0]).unwrap_or(kind) {
        b"u32" => 7,
        b"bpf" => 1,
        b"matchall" => 2,
        b"flower" | b"basic" => 3,
        b"fw" => 4,
        _ => return None,
    })
}

fn redirect_of(filter: &[u8]) -> Option<u32> {
    let actions = actions_of(attribute(filter, TCA_KIND)?)?;
    let actions = attribute(attribute(filter, TCA_OPTIONS)?, actions)?;
    attributes(actions).find_map(|(_, action)| {
        let kind = attribute(action, TCA_ACT_KIND)?;
        let parms = attribute(attribute(action, TCA_ACT_OPTIONS)?, TCA_MIRRED_PARMS)?;
        let redirects = u32_at(parms, MIRRED_ACTION).ok()? == TCA_EGRESS_REDIR;
        (kind.starts_with(b"mirred") && redirects).then(|| u32_at(parms, MIRRED_IFINDEX).ok())?
    })
}
