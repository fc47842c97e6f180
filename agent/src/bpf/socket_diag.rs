//! TCP sockets of this network namespace by socket diagnostics: what `ss -ti` shows.

use std::io;

use rtnetlink::sys::protocols::NETLINK_SOCK_DIAG;

use super::abi::{pendulum_flow_key, pendulum_socket};
use super::history::monotonic_ns;
use crate::net::dump::dump;
use crate::net::message::{attribute, u16_at, u32_at};

/// <linux/sock_diag.h>, <linux/inet_diag.h>.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const INET_DIAG_INFO: u16 = 2;
/// `struct inet_diag_msg`.
const DIAG_MSG: usize = 72;
/// `1 << TCP_ESTABLISHED`, FIN_WAIT1, FIN_WAIT2, CLOSE_WAIT, LAST_ACK, CLOSING: all that may still send.
const STATES: u32 = 1 << 1 | 1 << 4 | 1 << 5 | 1 << 8 | 1 << 9 | 1 << 11;

/// Every connected TCP socket, its own end as home.
///
/// # Errors
/// What the kernel says.
pub fn read_sockets() -> io::Result<Vec<(pendulum_flow_key, pendulum_socket)>> {
    let mut found = Vec::new();
    let now_ns = monotonic_ns();
    for family in [libc::AF_INET, libc::AF_INET6] {
        // struct inet_diag_req_v2: family, protocol, wanted attributes, padding, states, and a socket id of zeros.
        let mut request = [0; 56];
        request[0] = u8::try_from(family).unwrap_or_default();
        request[1] = u8::try_from(libc::IPPROTO_TCP).unwrap_or_default();
        request[2] = 1 << (INET_DIAG_INFO - 1);
        request[4..8].copy_from_slice(&STATES.to_ne_bytes());
        for message in dump(NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY, &request, SOCK_DIAG_BY_FAMILY)? {
            found.extend(parse(&message, family, now_ns)?);
        }
    }
    Ok(found)
}

fn parse(
    message: &[u8],
    family: i32,
    now_ns: u64,
) -> io::Result<Option<(pendulum_flow_key, pendulum_socket)>> {
    let tail = message.get(DIAG_MSG..).unwrap_or_default();
    let Some(info) = attribute(tail, INET_DIAG_INFO) else { return Ok(None) };
    let address = |at: usize| -> io::Result<[u32; 4]> {
        if family == libc::AF_INET {
            return Ok([0, 0, 0xffff_u32.to_be(), u32_at(message, at)?]);
        }
        Ok([
            u32_at(message, at)?,
            u32_at(message, at + 4)?,
            u32_at(message, at + 8)?,
            u32_at(message, at + 12)?,
        ])
    };
    // struct inet_diag_sockid begins at 4: ports (network order), source, destination.
    let key = pendulum_flow_key {
        home_port: u16_at(message, 4)?,
        remote_port: u16_at(message, 6)?,
        home_addr: address(8)?,
        remote_addr: address(24)?,
    };
    // struct tcp_info, <linux/tcp.h>.
    let figure = |at| u32_at(info, at);
    let socket = pendulum_socket {
        // tcpi_last_ack_recv: milliseconds ago
        at_ns: now_ns.saturating_sub(u64::from(figure(56)?) * 1_000_000),
        ca_state: info.get(1).copied().unwrap_or_default(),
        mss: figure(16)?,
        // tcpi_unacked − tcpi_sacked − tcpi_lost + tcpi_retrans
        in_flight: figure(24)?.wrapping_sub(figure(28)?).wrapping_sub(figure(32)?).wrapping_add(figure(36)?),
        srtt_us: figure(68)?,
        snd_ssthresh: figure(76)?,
        snd_cwnd: figure(80)?,
        retransmitted: figure(100)?,
        ..pendulum_socket::default()
    };
    Ok(Some((key, socket)))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn own_connection_is_among_them() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(b"some bytes").unwrap();
        server.read_exact(&mut [0; 10]).unwrap();
        let sockets = read_sockets().unwrap();
        let home = client.local_addr().unwrap();
        let (key, socket) = sockets.iter().find(|(key, _)| key.home() == home).unwrap();
        assert_eq!(key.remote(), client.peer_addr().unwrap());
        assert!(socket.snd_cwnd > 0 && socket.mss > 0, "{socket:?}");
        assert!(
            monotonic_ns() - socket.at_ns < 60_000_000_000,
            "its bytes were just acknowledged: {socket:?}"
        );
    }
}
