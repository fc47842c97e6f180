//! Netlink messages (RFC 3549, linux/netlink.h): netlink-packet-core's codec, and what it leaves out: the kernel's own words on why it
//! refuses (`NLMSGERR_ATTR_MSG`, extended ACKs since Linux 4.12).
//!
//! For traffic control, socket diagnostics and connection tracking, whose options have too many shapes for the typed netlink crates.

use std::io;

use rtnetlink::packet_core::{
    DefaultNla, Emitable as _, ErrorBuffer, NLM_F_CAPPED, NLMSG_ERROR, NetlinkBuffer, NlaBuffer, NlasIterator,
};
use rtnetlink::sys::{Socket, SocketAddr};
use thiserror::Error;

/// Of `struct nlmsghdr`.
const HEADER: usize = 16;
/// `NLMSGERR_ATTR_MSG`.
pub(super) const WORDS: u16 = 1;

/// The kernel refuses a request and says why.
#[derive(Debug, Error)]
#[error("{words} ({error})")]
struct Refused {
    words: String,
    // Not a source: it is part of the sentence.
    error: io::Error,
}

/// The kernel's error number; also of a refusal with words.
pub(crate) fn code(error: &io::Error) -> Option<i32> {
    let of_words = || error.get_ref()?.downcast_ref::<Refused>()?.error.raw_os_error();
    error.raw_os_error().or_else(of_words)
}

/// Attributes of a message, one after the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attributes {
    bytes: Vec<u8>,
}

impl Attributes {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Adds an attribute with this value. No value here comes near 64 KiB.
    pub(crate) fn with(mut self, kind: u16, value: &[u8]) -> Self {
        let attribute = DefaultNla::new(kind, value.to_vec());
        let end = self.bytes.len();
        self.bytes.resize(end + attribute.buffer_len(), 0);
        attribute.emit(&mut self.bytes[end..]);
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
        let at = self.bytes.len();
        let mut all = self.with(kind, &inner.bytes);
        NlaBuffer::new(&mut all.bytes[at..]).set_nested_flag();
        all
    }
}

/// The attributes in a message's tail: type and value. What is cut short ends them.
pub(crate) fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    NlasIterator::new(bytes).map_while(Result::ok).map(|attribute| {
        let (kind, length) = (attribute.kind(), usize::from(attribute.length()));
        (kind, &attribute.into_inner()[4..length])
    })
}

/// The value of the first attribute of a type.
pub(crate) fn attribute(bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(kind, _)| *kind == wanted).map(|(_, value)| value)
}

/// A message of this type: header, body, attributes.
pub(super) fn message(kind: u16, flags: u16, number: u32, body: &[u8], attributes: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; HEADER];
    bytes.extend(body);
    bytes.extend(attributes);
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let mut header = NetlinkBuffer::new(&mut bytes);
    header.set_length(length);
    header.set_message_type(kind);
    header.set_flags(flags);
    header.set_sequence_number(number);
    bytes
}

/// The messages of a datagram. What is cut short ends them.
fn messages(datagram: &[u8]) -> impl Iterator<Item = NetlinkBuffer<&[u8]>> {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        let message = NetlinkBuffer::new_checked(rest).ok()?;
        let length = usize::try_from(message.length()).ok()?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(message)
    })
}

/// The messages of an answer.
///
/// # Errors
/// There is none: nothing more would come of waiting for another.
pub(super) fn received(datagram: &[u8]) -> io::Result<impl Iterator<Item = NetlinkBuffer<&[u8]>>> {
    let mut messages = messages(datagram).peekable();
    if messages.peek().is_some() { Ok(messages) } else { Err(cut_short()) }
}

/// What a message says of a request: done (`Ok`), or why not. `None`: it says something else.
pub(super) fn outcome(message: &NetlinkBuffer<&[u8]>) -> Option<io::Result<()>> {
    if message.message_type() != NLMSG_ERROR {
        return None;
    }
    let Ok(answer) = ErrorBuffer::new_checked(message.payload()) else { return Some(Err(cut_short())) };
    Some(match answer.code() {
        None => Ok(()),
        Some(code) => Err(refusal(code.get(), message.flags(), answer.payload())),
    })
}

/// `answer_bytes`: the request that was refused, whole or its header only, and after it the kernel's words.
pub(super) fn refusal(code: i32, flags: u16, answer_bytes: &[u8]) -> io::Error {
    let behind = || {
        let request = match flags & NLM_F_CAPPED {
            0 => usize::try_from(NetlinkBuffer::new_checked(answer_bytes).ok()?.length())
                .ok()?
                .next_multiple_of(4),
            _ => HEADER,
        };
        answer_bytes.get(request..)
    };
    in_words(code, behind().unwrap_or_default())
}

/// `attributes`: the kernel's words are one of them, if it has any.
fn in_words(code: i32, attributes: &[u8]) -> io::Error {
    let error = io::Error::from_raw_os_error(code.saturating_neg());
    let words = || {
        let words = attribute(attributes, WORDS)?;
        let words = String::from_utf8_lossy(words.split(|&byte| byte == 0).next()?).into_owned();
        (!words.is_empty()).then(|| words.trim_end_matches('.').to_owned())
    };
    match words() {
        Some(words) => io::Error::new(error.kind(), Refused { words, error }),
        None => error,
    }
}

/// The last message of a dump: why the kernel broke it off, if it did. The reason's number, then attributes.
///
/// # Errors
/// The reason.
pub(super) fn ended(message: &NetlinkBuffer<&[u8]>) -> io::Result<()> {
    let Some((code, attributes)) = message.payload().split_first_chunk() else { return Ok(()) };
    match i32::from_ne_bytes(*code) {
        code @ ..0 => Err(in_words(code, attributes)),
        _ => Ok(()),
    }
}

fn cut_short() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the kernel's netlink answer is cut short")
}

/// A socket to the kernel, which tells its reasons in words where it can.
///
/// # Errors
/// The kernel does not know the protocol, or the sandbox does not allow it.
pub(super) fn open(protocol: isize) -> io::Result<Socket> {
    let mut socket = Socket::new(protocol)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    // Without them there are no words, that is all.
    let _ = socket.set_ext_ack(true);
    let _ = socket.set_cap_ack(true);
    Ok(socket)
}

/// Numbers one after the other, as a structure of `__u32` lies in memory.
pub(crate) fn words(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_ne_bytes()).collect()
}

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> io::Result<[u8; N]> {
    bytes.get(at..at + N).and_then(|slice| slice.try_into().ok()).ok_or_else(cut_short)
}

/// A number of two bytes in the machine's order.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> io::Result<u16> {
    array_at(bytes, at).map(u16::from_ne_bytes)
}

/// A number of four bytes in the machine's order.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> io::Result<u32> {
    array_at(bytes, at).map(u32::from_ne_bytes)
}

/// A number of eight bytes in the machine's order.
pub(super) fn u64_at(bytes: &[u8], at: usize) -> io::Result<u64> {
    array_at(bytes, at).map(u64::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rtnetlink::packet_core::NLM_F_ACK_TLVS;

    use super::*;

    #[test]
    fn attributes_are_padded_and_nested() {
        let inner = Attributes::new().with_text(1, "ifb");
        let bytes = Attributes::new().with(2, &[9]).with_nested(18, &inner).bytes;
        assert_eq!(bytes[..8], [5, 0, 2, 0, 9, 0, 0, 0]);
        assert_eq!(bytes[8..], [12, 0, 18, 0x80, 8, 0, 1, 0, b'i', b'f', b'b', 0]);
    }

    #[test]
    fn attributes_are_taken_apart() {
        // Type 1 with 3 bytes (padded), type 2 nested (flag 0x8000) and empty, then half an attribute.
        let bytes = [7, 0, 1, 0, b'a', b'b', b'c', 0, 4, 0, 2, 0x80, 9, 0];
        let found: Vec<_> = attributes(&bytes).collect();
        assert_eq!(found, [(1, b"abc".as_slice()), (2, &[])]);
        assert_eq!(attribute(&bytes, 2), Some([].as_slice()));
        assert_eq!(attribute(&bytes, 3), None);
    }

    #[test]
    fn a_length_of_nothing_ends_the_walk() {
        assert_eq!(attributes(&[0, 0, 1, 0, 0, 0, 0, 0]).count(), 0);
        assert_eq!(messages(&[0; 16]).count(), 0);
    }

    /// `struct nlmsgerr` with the words behind the request, or behind its header where the kernel cuts it.
    fn refused(code: i32, capped: bool, words: Option<&str>) -> Vec<u8> {
        let request = message(36, 5, 1, &[7; 20], Attributes::new().with_text(1, "cake").bytes());
        let answer_bytes = if capped { &request[..HEADER] } else { &request[..] };
        let mut flags = if capped { NLM_F_CAPPED } else { 0 };
        let mut tail = Attributes::new();
        if let Some(words) = words {
            flags |= NLM_F_ACK_TLVS;
            // Beside the words: NLMSGERR_ATTR_OFFS.
            tail = tail.with_u32(2, 36).with_text(WORDS, words);
        }
        let body: Vec<u8> = code.to_ne_bytes().iter().chain(answer_bytes).copied().collect();
        message(NLMSG_ERROR, flags, 1, &body, tail.bytes())
    }

    fn outcome_of(datagram: &[u8]) -> Option<io::Result<()>> {
        outcome(&messages(datagram).next().expect("a message"))
    }

    #[test]
    fn the_kernel_s_words_are_reported_and_its_number_is_kept() {
        for capped in [true, false] {
            let datagram = refused(-libc::ENOENT, capped, Some("Specified qdisc kind is unknown."));
            let error = outcome_of(&datagram).expect("an answer").expect_err("a refusal");
            assert_eq!(
                error.to_string(),
                "Specified qdisc kind is unknown (No such file or directory (os error 2))"
            );
            assert_eq!((code(&error), error.kind()), (Some(libc::ENOENT), io::ErrorKind::NotFound));
            let error =
                outcome_of(&refused(-libc::EPERM, capped, None)).expect("an answer").expect_err("a refusal");
            assert_eq!((code(&error), error.raw_os_error()), (Some(libc::EPERM), Some(libc::EPERM)));
        }
        assert!(outcome_of(&refused(0, true, None)).expect("an answer").is_ok());
        assert!(outcome_of(&message(20, 0, 1, &[0; 8], &[])).is_none(), "no answer to a request");
    }

    proptest! {
        /// A message that is cut anywhere is an error or says less; nothing is read beyond its end.
        #[test]
        fn what_is_cut_short_is_no_success(at in 0_usize..200, capped: bool) {
            let datagram = refused(-libc::EINVAL, capped, Some("words"));
            let cut = &datagram[..at.min(datagram.len())];
            match messages(cut).next() {
                None => prop_assert!(cut.len() < datagram.len()),
                Some(message) => prop_assert!(outcome(&message).is_some_and(|outcome| outcome.is_err())),
            }
        }

        /// Any bytes are read to their end and no further.
        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            for message in messages(&bytes) {
                let _ = outcome(&message);
                let values: usize = attributes(message.payload()).map(|(_, value)| value.len()).sum();
                prop_assert!(values <= bytes.len());
            }
        }
    }
}
