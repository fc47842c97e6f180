//! One netlink dump: request, every answer, attributes. For messages that have too many shapes (qdisc options), or that
//! the netlink crates do not know (socket diagnostics).

use std::io;

use rtnetlink::sys::{Socket, SocketAddr};

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_DUMP: u16 = 0x300;
const NLM_F_DUMP_INTR: u16 = 0x10;
const HEADER: usize = 16;
/// `NLA_TYPE_MASK`: without the flags "nested" and "network byte order".
const TYPE_MASK: u16 = 0x3fff;

/// Ask for a dump; the bodies of all answers of type `answer`. A dump that the kernel calls inconsistent, because
/// something changed meanwhile, is asked for again.
///
/// # Errors
/// What the kernel says.
pub(crate) fn dump(protocol: isize, request: u16, body: &[u8], answer: u16) -> io::Result<Vec<Vec<u8>>> {
    const ATTEMPTS: usize = 3;
    let mut answers = Vec::new();
    for _ in 0..ATTEMPTS {
        answers.clear();
        if dump_once(protocol, request, body, answer, &mut answers)? {
            break;
        }
    }
    Ok(answers)
}

fn dump_once(
    protocol: isize,
    request: u16,
    body: &[u8],
    answer: u16,
    answers: &mut Vec<Vec<u8>>,
) -> io::Result<bool> {
    let mut socket = Socket::new(protocol)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    let mut message = Vec::with_capacity(HEADER + body.len());
    message.extend(u32::try_from(HEADER + body.len()).unwrap_or(u32::MAX).to_ne_bytes());
    message.extend(request.to_ne_bytes());
    message.extend((NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    socket.send(&message, 0)?;
    let mut consistent = true;
    loop {
        let (datagram, _) = socket.recv_from_full()?;
        let mut rest = datagram.as_slice();
        while let Some((message, next)) = split(rest) {
            rest = next;
            consistent &= u16_at(message, 6)? & NLM_F_DUMP_INTR == 0;
            match u16_at(message, 4)? {
                NLMSG_DONE => return Ok(consistent),
                NLMSG_ERROR => {
                    let code = u32_at(message, HEADER)?.cast_signed();
                    return if code == 0 { Ok(consistent) } else { Err(io::Error::from_raw_os_error(-code)) };
                }
                kind if kind == answer => answers.push(message[HEADER..].to_vec()),
                _ => {}
            }
        }
    }
}

/// The first message of a datagram, and what follows it.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = usize::try_from(u32_at(bytes, 0).ok()?).ok()?;
    if length < HEADER {
        return None;
    }
    let message = bytes.get(..length)?;
    Some((message, bytes.get(length.next_multiple_of(4)..).unwrap_or_default()))
}

/// The attributes in a message's tail: type and value.
pub(super) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(bytes, 0).ok()?);
        let kind = u16_at(bytes, 2).ok()? & TYPE_MASK;
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// The value of the first attribute of a type.
pub(crate) fn attribute(bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(kind, _)| *kind == wanted).map(|(_, value)| value)
}

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> io::Result<[u8; N]> {
    let cut = || io::Error::new(io::ErrorKind::UnexpectedEof, "the kernel's netlink answer is cut short");
    bytes.get(at..at + N).and_then(|slice| slice.try_into().ok()).ok_or_else(cut)
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
    use super::*;

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
        assert!(split(&[0; 16]).is_none());
    }
}
