//! One netlink request, and the kernel's answer: to do something, or about one thing.

use std::io;

use rtnetlink::packet_core::{NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST};
use rtnetlink::sys::Socket;
use rtnetlink::sys::protocols::NETLINK_ROUTE;

use super::message::{self, Attributes, message};

/// What may already be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Change or remove what is there.
    Change,
    /// Make it; it must not be there.
    Create,
    /// Make it, in the place of what is there.
    Replace,
}

impl Action {
    const fn flags(self) -> u16 {
        match self {
            Self::Change => 0,
            Self::Create => NLM_F_CREATE | NLM_F_EXCL,
            Self::Replace => NLM_F_CREATE | NLM_F_REPLACE,
        }
    }
}

/// Ask the kernel to do something, and wait until it has.
///
/// # Errors
/// What the kernel says, in its own words where it has some.
pub(crate) fn request(kind: u16, action: Action, header: &[u8], attributes: &Attributes) -> io::Result<()> {
    let socket = message::open(NETLINK_ROUTE)?;
    let flags = NLM_F_REQUEST | NLM_F_ACK | action.flags();
    socket.send(&message(kind, flags, 0, header, attributes.bytes()), 0)?;
    loop {
        let (answer, _) = socket.recv_from_full()?;
        if let Some(outcome) = message::received(&answer)?.find_map(|message| message::outcome(&message)) {
            return outcome;
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
        let socket = message::open(protocol)?;
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
        self.socket.send(&message(kind, NLM_F_REQUEST, self.asked, header, attributes.bytes()), 0)?;
        loop {
            let (answer, _) = self.socket.recv_from_full()?;
            let Some(answer) =
                message::received(&answer)?.find(|message| message.sequence_number() == self.asked)
            else {
                continue;
            };
            return match message::outcome(&answer) {
                None => Ok(answer.payload().to_vec()),
                Some(Ok(())) => Err(io::Error::other("the kernel says yes where it should say what")),
                Some(Err(error)) => Err(error),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::code;
    use super::*;

    /// NLM_F_REPLACE, NLM_F_EXCL and NLM_F_CREATE of linux/netlink.h are 0x100, 0x200 and 0x400.
    #[test]
    fn what_may_be_there_is_said_in_the_kernel_s_flags() {
        let flags = [Action::Change, Action::Create, Action::Replace].map(Action::flags);
        assert_eq!(flags, [0, 0x600, 0x500]);
    }

    /// A kind of qdisc that no kernel has: nothing is ever made, and the kernel says which word it does not know.
    #[test]
    fn the_kernel_says_why_it_refuses() {
        const RTM_NEWQDISC: u16 = 36;
        let lo = 1_i32;
        let header = [[0; 4], lo.to_ne_bytes(), [0; 4], u32::MAX.to_ne_bytes(), [0; 4]].concat();
        let unknown = Attributes::new().with_text(1, "no-such-kind");
        let error = request(RTM_NEWQDISC, Action::Create, &header, &unknown).unwrap_err();
        if code(&error) == Some(libc::EPERM) {
            println!("SKIPPED the_kernel_says_why_it_refuses: no CAP_NET_ADMIN here");
            return;
        }
        assert_eq!(code(&error), Some(libc::ENOENT));
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().starts_with("Specified qdisc kind is unknown ("), "{error}");
    }
}
