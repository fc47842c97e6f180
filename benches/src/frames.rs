//! Conversations of two crafted segments at a time, put on both ends of the pair.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use anyhow::{Result, ensure};
use serde::Serialize;

use crate::craft::{self, LinkLayer};
use crate::namespaces::{Pair, REMOTE_DEVICE, WAN, inside};

/// Payload of each data segment.
const PAYLOAD: u32 = 1_000;

/// Who sends the data of a conversation; the other end acknowledges it.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Sender {
    /// The gateway's side.
    Home,
    /// The remote end.
    Remote,
}

impl Sender {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Home => "home",
            Self::Remote => "remote",
        }
    }
}

/// Many connections between the gateway's side and the remote end.
pub(crate) struct Conversations {
    up: PacketSocket,
    down: PacketSocket,
}

impl Conversations {
    pub(crate) fn open(pair: &Pair) -> Result<Self> {
        let up = PacketSocket::open(&pair.gateway, WAN)?;
        Ok(Self { up, down: PacketSocket::open(&pair.remote, REMOTE_DEVICE)? })
    }

    /// Segment number `round` of connection `n` and its ACK, with timestamps as in Linux: a flood of segments would only fill the nursery.
    pub(crate) fn exchange(&self, sender: Sender, n: u32, round: u32) -> Result<()> {
        let (data, ack) = match sender {
            Sender::Home => (craft::up(), craft::down()),
            Sender::Remote => (craft::down(), craft::up()),
        };
        // Ports of their own for each sender: the other direction never carried data.
        let port = (n as u16).wrapping_add(if sender == Sender::Home { 10_000 } else { 30_000 });
        let seq = round.wrapping_mul(PAYLOAD).wrapping_add(1);
        let data = data.home_port(port).seq(seq).ack(1).ts(round, round).payload(PAYLOAD as usize);
        let ack = ack.home_port(port).seq(1).ack(seq.wrapping_add(PAYLOAD)).ts(round, round);
        let frames = [data, ack].map(|segment| segment.build(LinkLayer::Ethernet).bytes);
        let [first, second] = match sender {
            Sender::Home => [&self.up, &self.down],
            Sender::Remote => [&self.down, &self.up],
        };
        first.send(&frames[0])?;
        second.send(&frames[1])
    }
}

/// Sends frames out of a device.
struct PacketSocket {
    socket: OwnedFd,
    address: libc::sockaddr_ll,
}

impl PacketSocket {
    fn open(namespace: &str, device: &str) -> Result<Self> {
        inside(namespace, || {
            let name = CString::new(device)?;
            // SAFETY: a NUL-terminated name.
            let ifindex = unsafe { libc::if_nametoindex(name.as_ptr()) };
            // SAFETY: makes a descriptor; its value is checked.
            let socket = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0) };
            ensure!(
                socket >= 0 && ifindex > 0,
                "a packet socket on {device}: {}",
                io::Error::last_os_error()
            );
            // SAFETY: a new descriptor that nobody else owns.
            let socket = unsafe { OwnedFd::from_raw_fd(socket) };
            // SAFETY: plain integers, for which zero is a value.
            let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
            address.sll_family = libc::AF_PACKET as u16;
            address.sll_ifindex = ifindex.cast_signed();
            Ok(Self { socket, address })
        })
    }

    fn send(&self, frame: &[u8]) -> Result<()> {
        // SAFETY: buffer and address are live and of the sizes given.
        let sent = unsafe {
            libc::sendto(
                self.socket.as_raw_fd(),
                frame.as_ptr().cast(),
                frame.len(),
                0,
                (&raw const self.address).cast(),
                size_of::<libc::sockaddr_ll>() as u32,
            )
        };
        ensure!(sent >= 0, "sending a frame: {}", io::Error::last_os_error());
        Ok(())
    }
}
