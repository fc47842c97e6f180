//! What does not depend on a device: permissions, the listen port, connection tracking.

use std::net::SocketAddr;

use super::Rung;
use crate::http::Listener;
use crate::net::{Conntrack, NoConntrack};
use crate::run::missing_capabilities;

pub(super) fn capabilities() -> Rung {
    let missing = missing_capabilities();
    if missing.is_empty() {
        return Rung::ok("capabilities", "CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN, or what includes them");
    }
    Rung::missing(
        "capabilities",
        format!("this process lacks {}", missing.join(", ")),
        "run as root, or give the agent CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN; without them the other rungs cannot be \
         told either",
        "nothing can be measured",
    )
}

pub(super) async fn listen(address: SocketAddr) -> Rung {
    match Listener::bind(address).await {
        Ok(_) => Rung::ok("listen", format!("{address} is free")),
        Err(error) => Rung::degraded(
            "listen",
            error.to_string(),
            "if the agent is running already, all is well; else choose another port with --listen",
            "a second agent cannot listen there",
        ),
    }
}

/// Whether flows can be told their hosts where addresses are translated.
pub(super) fn conntrack() -> Rung {
    let refused = match Conntrack::open() {
        Ok(conntrack) if conntrack.is_there() => {
            return Rung::ok("conntrack", "connection tracking tells the hosts behind translated addresses");
        }
        Ok(_) => {
            return Rung::ok("conntrack", "nf_conntrack is not loaded: nothing translates addresses here");
        }
        Err(refused) => refused,
    };
    let remedy = match refused {
        NoConntrack::NotAllowed => "run as root, or give the agent CAP_NET_ADMIN",
        NoConntrack::NoModule => "modprobe nf_conntrack_netlink (OpenWrt: install kmod-nf-conntrack-netlink)",
    };
    Rung::degraded(
        "conntrack",
        refused.reason(),
        remedy,
        "behind address translation all flows are listed with the gateway's own address, without their hosts",
    )
}
