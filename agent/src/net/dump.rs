//! One netlink dump: request, and every answer.

use std::io;

use rtnetlink::packet_core::{
    ErrorBuffer, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NLMSG_DONE, NetlinkBuffer,
};

use super::message::{self, message};

/// Ask for a dump; the bodies of all answers of type `answer`. A dump that the kernel calls inconsistent, because
/// something changed meanwhile, is asked for again.
///
/// # Errors
/// What the kernel says.
pub(crate) fn dump(protocol: isize, request: u16, body: &[u8], answer: u16) -> io::Result<Vec<Vec<u8>>> {
    const ATTEMPTS: usize = 3;
    let mut answers = Answers::default();
    for _ in 0..ATTEMPTS {
        answers = Answers::default();
        let socket = message::open(protocol)?;
        socket.send(&message(request, NLM_F_REQUEST | NLM_F_DUMP, 0, body, &[]), 0)?;
        while !answers.complete {
            let (datagram, _) = socket.recv_from_full()?;
            answers.take(&datagram, answer)?;
        }
        if !answers.interrupted {
            break;
        }
    }
    Ok(answers.bodies)
}

/// What has come of a dump.
#[derive(Debug, Default)]
struct Answers {
    bodies: Vec<Vec<u8>>,
    complete: bool,
    /// Something changed while the kernel listed it.
    interrupted: bool,
}

impl Answers {
    fn take(&mut self, datagram: &[u8], wanted: u16) -> io::Result<()> {
        for message in message::messages(datagram) {
            self.interrupted |= message.flags() & NLM_F_DUMP_INTR != 0;
            if message.message_type() == NLMSG_DONE {
                self.complete = true;
                return ended(&message);
            }
            if let Some(outcome) = message::outcome(&message) {
                self.complete = true;
                return outcome;
            }
            if message.message_type() == wanted {
                self.bodies.push(message.payload().to_vec());
            }
        }
        Ok(())
    }
}

/// The kernel may break a dump off: the last message then has the reason.
fn ended(message: &NetlinkBuffer<&[u8]>) -> io::Result<()> {
    let reason = ErrorBuffer::new_checked(message.payload()).ok();
    match reason.and_then(|reason| reason.code()).filter(|code| code.get() < 0) {
        Some(code) => Err(io::Error::from_raw_os_error(-code.get())),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANTED: u16 = 36;

    fn answers(datagrams: &[Vec<u8>]) -> io::Result<Answers> {
        let mut answers = Answers::default();
        datagrams.iter().try_for_each(|datagram| answers.take(datagram, WANTED))?;
        Ok(answers)
    }

    #[test]
    fn the_wanted_messages_are_kept_until_the_last_one() {
        let datagram = [
            message(WANTED, 2, 1, &[1, 2, 3], &[]),
            // Padding to the next message.
            vec![0],
            message(WANTED + 1, 2, 1, &[9], &[]),
            vec![0; 3],
            message(WANTED, 2, 1, &[4; 4], &[]),
        ]
        .concat();
        let found = answers(std::slice::from_ref(&datagram)).unwrap();
        assert_eq!((found.bodies, found.complete), (vec![vec![1, 2, 3], vec![4; 4]], false));
        let found = answers(&[datagram, message(NLMSG_DONE, 2, 1, &[0; 4], &[])]).unwrap();
        assert!(found.complete && !found.interrupted);
    }

    #[test]
    fn what_changed_meanwhile_is_known_and_what_was_broken_off_is_an_error() {
        let found = answers(&[message(WANTED, NLM_F_DUMP_INTR, 1, &[1], &[])]).unwrap();
        assert!(found.interrupted);
        let broken_off = message(NLMSG_DONE, 2, 1, &(-libc::ENOMEM).to_ne_bytes(), &[]);
        assert_eq!(answers(&[broken_off]).unwrap_err().raw_os_error(), Some(libc::ENOMEM));
    }
}
