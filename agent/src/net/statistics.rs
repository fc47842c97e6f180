//! A device's own counters by route netlink.

use std::io;

use rtnetlink::sys::protocols::NETLINK_ROUTE;

use super::dump::dump;
use super::message::{attribute, u32_at, u64_at};

const RTM_NEWSTATS: u16 = 92;
const RTM_GETSTATS: u16 = 94;
/// `struct if_stats_msg`, <linux/if_link.h>.
const HEADER: usize = 12;
const IFLA_STATS_LINK_64: u16 = 1;
/// `IFLA_STATS_FILTER_BIT(IFLA_STATS_LINK_64)`.
const ONLY_LINK_64: u32 = 1;

/// Of a smaller share of bytes or packets, drivers only count differently: some with the frame check sequence, four bytes of an ACK's 66.
pub const COUNTED_OTHERWISE: f64 = 0.1;

/// What a device says it has carried, link-layer bytes since it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceBytes {
    /// What came in.
    pub received: u64,
    /// What went out.
    pub sent: u64,
    /// The same in packets.
    pub received_packets: u64,
    /// And out.
    pub sent_packets: u64,
}

impl DeviceBytes {
    /// Reads them now; none if there is no such device.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn read(ifindex: u32) -> io::Result<Option<Self>> {
        let mut request = [0; HEADER];
        request[8..].copy_from_slice(&ONLY_LINK_64.to_ne_bytes());
        // A dump: asked for one device, kernels before 5.x answer without an end.
        for message in dump(NETLINK_ROUTE, RTM_GETSTATS, &request, RTM_NEWSTATS)? {
            if u32_at(&message, 4)? != ifindex {
                continue;
            }
            let Some(statistics) = attribute(message.get(HEADER..).unwrap_or_default(), IFLA_STATS_LINK_64)
            else {
                return Ok(None);
            };
            // struct rtnl_link_stats64: packets in and out, then bytes in and out.
            let figure = |at| u64_at(statistics, at);
            return Ok(Some(Self {
                received: figure(16)?,
                sent: figure(24)?,
                received_packets: figure(0)?,
                sent_packets: figure(8)?,
            }));
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_counts_what_it_carries() {
        let before = DeviceBytes::read(1).unwrap().expect("loopback has ifindex 1");
        let socket = std::net::UdpSocket::bind(("127.0.0.1", 0)).unwrap();
        socket.send_to(&[0; 1000], socket.local_addr().unwrap()).unwrap();
        let after = DeviceBytes::read(1).unwrap().unwrap();
        assert!(
            after.sent >= before.sent + 1000 && after.received >= before.received + 1000,
            "{before:?} {after:?}"
        );
        assert_eq!(DeviceBytes::read(u32::MAX).unwrap(), None);
    }
}
