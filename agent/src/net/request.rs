//! One netlink request: message, attributes, the kernel's answer. For traffic control, whose options have too many shapes
//! for the netlink crates, and for questions about one thing.

use std::io;

use rtnetlink::sys::protocols::NETLINK_ROUTE;
use rtnetlink::sys::{Socket, SocketAddr};

use super::dump::{u16_at, u32_at};

const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const HEADER: usize = 16;
/// `NLA_F_NESTED`.
const NESTED: u16 = 0x8000;

/// What may already be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Change or remove what is there.
    Change,
    /// Make it; it must not be there.
    Create,
}

impl Action {
    const fn flags(self) -> u16 {
        /// `NLM_F_EXCL`, `NLM_F_CREATE`.
        const EXCLUSIVE: u16 = 0x200;
        const CREATE: u16 = 0x400;
        match self {
            Self::Change => 0,
            Self::Create => CREATE | EXCLUSIVE,
        }
    }
}

/// A netlink message's attributes, one after the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attributes {
    bytes: Vec<u8>,
}

impl Attributes {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    #[cfg(test)]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Adds an attribute with this value.
    pub(crate) fn with(mut self, kind: u16, value: &[u8]) -> Self {
        // No value here comes near 64 KiB.
        let length = u16::try_from(value.len() + 4).unwrap_or(u16::MAX);
        self.bytes.extend(length.to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend(value);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        self
    }

    /// Adds a text, which the kernel wants to end with a zero.
    pub(crate) fn with_text(self, kind: u16, text: &str) -> Self {
        let value: Vec<u8> = text.bytes().chain([0]).collect();
        self.with(kind, &value)
    }

    /// Adds a number.
    pub(crate) fn with_u32(self, kind: u16, value: u32) -> Self {
        self.with(kind, &value.to_ne_bytes())
    }

    /// Adds attributes as the value of one.
    pub(crate) fn with_nested(self, kind: u16, inner: &Self) -> Self {
        self.with(kind | NESTED, &inner.bytes)
    }
}

/// Numbers one after the other, as a structure of `__u32` lies in memory.
pub(crate) fn words(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_ne_bytes()).collect()
}

/// Ask the kernel to do something, and wait until it has.
///
/// # Errors
/// What the kernel says.
pub(crate) fn request(kind: u16, action: Action, header: &[u8], attributes: &Attributes) -> io::Result<()> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    let flags = NLM_F_REQUEST | NLM_F_ACK | action.flags();
    socket.send(&message(kind, flags, 0, header, attributes), 0)?;
    loop {
        let (answer, _) = socket.recv_from_full()?;
        if u16_at(&answer, 4)? == NLMSG_ERROR {
            let code = u32_at(&answer, HEADER)?.cast_signed();
            return if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(-code)) };
        }
    }
}

/// A socket for questions about one thing, each of which has one answer.
#[derive(Debug)]
pub(super) struct Questions {
    socket: Socket,
    asked: u32,
}

impl Questions {
    /// # Errors
    /// The kernel does not know the protocol, or the sandbox does not allow it.
    pub(super) fn open(protocol: isize) -> io::Result<Self> {
        let mut socket = Socket::new(protocol)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        // The kernel answers before the question's system call returns: who would wait now would wait for ever.
        socket.set_non_blocking(true)?;
        Ok(Self { socket, asked: 0 })
    }

    /// The body of the answer.
    ///
    /// # Errors
    /// What the kernel says.
    pub(super) fn ask(&mut self, kind: u16, header: &[u8], attributes: &Attributes) -> io::Result<Vec<u8>> {
        self.asked = self.asked.wrapping_add(1);
        self.socket.send(&message(kind, NLM_F_REQUEST, self.asked, header, attributes), 0)?;
        loop {
            let (answer, _) = self.socket.recv_from_full()?;
            if u32_at(&answer, 8)? != self.asked {
                continue;
            }
            if u16_at(&answer, 4)? != NLMSG_ERROR {
                return Ok(answer.get(HEADER..).unwrap_or_default().to_vec());
            }
            let code = u32_at(&answer, HEADER)?.cast_signed();
            let nothing = || io::Error::other("the kernel says yes where it should say what");
            return Err(if code == 0 { nothing() } else { io::Error::from_raw_os_error(-code) });
        }
    }
}

fn message(kind: u16, flags: u16, number: u32, header: &[u8], attributes: &Attributes) -> Vec<u8> {
    let length = HEADER + header.len() + attributes.bytes.len();
    let mut message = Vec::with_capacity(length);
    message.extend(u32::try_from(length).unwrap_or(u32::MAX).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    message.extend(number.to_ne_bytes());
    message.extend([0; 4]);
    message.extend(header);
    message.extend(&attributes.bytes);
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_padded_and_nested() {
        let inner = Attributes::new().with_text(1, "ifb");
        let bytes = Attributes::new().with(2, &[9]).with_nested(18, &inner).bytes;
        assert_eq!(bytes[..8], [5, 0, 2, 0, 9, 0, 0, 0]);
        assert_eq!(bytes[8..], [12, 0, 18, 0x80, 8, 0, 1, 0, b'i', b'f', b'b', 0]);
    }
}
