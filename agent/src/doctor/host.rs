//! What does not depend on a device: permissions, the listen port, connection tracking.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::Check;
use crate::http::Listener;
use crate::net::{Conntrack, NoConntrack};
use crate::run::missing_capabilities;

/// An agent answers at once; whatever else has the port may never.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// `/readyz` of many links is far shorter, bytes.
const LONGEST_ANSWER: u64 = 64 * 1024;

pub(super) fn capabilities() -> Check {
    let missing = missing_capabilities();
    if missing.is_empty() {
        return Check::ok("capabilities", "CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN, or what includes them");
    }
    Check::missing(
        "capabilities",
        format!("this process lacks {}", missing.join(", ")),
        "run as root, or give the agent CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN; the other checks need them \
         too",
        "nothing can be measured",
    )
}

pub(super) async fn listen(address: SocketAddr) -> Check {
    match Listener::bind(address).await {
        Ok(_) => Check::ok("listen", format!("{address} is free")),
        Err(_) if is_agent(address).await => {
            Check::ok("listen", format!("a running agent listens on {address}"))
        }
        Err(error) => Check::degraded(
            "listen",
            error.to_string(),
            "choose another port with --listen; if an agent with TLS listens there, this is no problem",
            "a second agent cannot listen there",
        ),
    }
}

/// Whether an agent answers there: its `/readyz` is an object with `ready` and `links`. With a token configured, the refusal names
/// the realm `pendulum`. An agent with TLS is not recognised.
async fn is_agent(address: SocketAddr) -> bool {
    let ask = async {
        let mut stream = TcpStream::connect(reachable(address)).await?;
        stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await?;
        let mut answer = Vec::new();
        stream.take(LONGEST_ANSWER).read_to_end(&mut answer).await?;
        std::io::Result::Ok(String::from_utf8_lossy(&answer).into_owned())
    };
    let Ok(Ok(answer)) = tokio::time::timeout(ANSWER_WITHIN, ask).await else { return false };
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let ready = serde_json::from_str::<serde_json::Value>(body)
        .is_ok_and(|body| body["ready"].is_boolean() && body["links"].is_object());
    ready || answer.contains("realm=\"pendulum\"")
}

/// An address to connect to for one to listen on: "any address" is this machine's own.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Whether flows can be attributed to hosts where addresses are translated.
pub(super) fn conntrack() -> Check {
    let refused = match Conntrack::open() {
        Ok(conntrack) if conntrack.is_there() => {
            return Check::ok("conntrack", "connection tracking names the hosts behind translated addresses");
        }
        Ok(_) => {
            return Check::ok("conntrack", "nf_conntrack is not loaded: nothing translates addresses here");
        }
        Err(refused) => refused,
    };
    let remedy = match refused {
        NoConntrack::NotAllowed => "run as root, or give the agent CAP_NET_ADMIN",
        NoConntrack::NoModule => "modprobe nf_conntrack_netlink (OpenWrt: install kmod-nf-conntrack-netlink)",
    };
    Check::degraded(
        "conntrack",
        refused.reason(),
        remedy,
        "behind address translation all flows are listed with the gateway's own address, without their hosts",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::CheckStatus;
    use tokio::net::TcpListener;

    /// One that answers every request with these bytes.
    async fn server(answer: &'static str) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = [0; 512];
                let _ = stream.read(&mut request).await;
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        address
    }

    #[tokio::test]
    async fn a_running_agent_may_hold_the_port_and_nobody_else() {
        for (answer, is_agent) in [
            ("HTTP/1.1 503 Service Unavailable\r\n\r\n{\"ready\":false,\"links\":{}}", true),
            ("HTTP/1.1 401 Unauthorized\r\nwww-authenticate: Bearer realm=\"pendulum\"\r\n\r\n", true),
            ("HTTP/1.1 200 OK\r\n\r\nready\n", false),
            ("HTTP/1.1 200 OK\r\n\r\n{\"ready\":true}", false),
            ("", false),
        ] {
            let found = listen(server(answer).await).await;
            assert_eq!(found.status == CheckStatus::Ok, is_agent, "{answer}");
        }
        assert_eq!(reachable("0.0.0.0:9".parse().unwrap()), "127.0.0.1:9".parse().unwrap());
    }
}
