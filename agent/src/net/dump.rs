//! One netlink dump: request, and every answer.

use std::io;

use rtnetlink::packet_core::{NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NLMSG_DONE};

use super::message::{self, message};

/// Ask for a dump; the bodies of all answers of type `answer`. A dump that the kernel calls inconsistent, because
/// something changed meanwhile, is asked for again.
///
/// # Errors
/// What the kernel says; or the list changed each time that it was read.
pub(crate) fn dump(protocol: isize, request: u16, body: &[u8], answer: u16) -> io::Result<Vec<Vec<u8>>> {
    consistent(|| {
        let socket = message::open(protocol)?;
        socket.send(&message(request, NLM_F_REQUEST | NLM_F_DUMP, 0, body, &[]), 0)?;
        Answers::all(answer, || socket.recv_from_full().map(|(datagram, _)| datagram))
    })
}

/// The first answer that nothing changed under.
fn consistent(mut ask: impl FnMut() -> io::Result<Answers>) -> io::Result<Vec<Vec<u8>>> {
    const ATTEMPTS: usize = 3;
    for _ in 0..ATTEMPTS {
        let answers = ask()?;
        if !answers.interrupted {
            return Ok(answers.bodies);
        }
    }
    Err(io::Error::new(
        io::ErrorKind::ResourceBusy,
        format!("the kernel's list changed each of the {ATTEMPTS} times that it was read"),
    ))
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
    /// Receives until the kernel says that this was all.
    fn all(wanted: u16, mut receive: impl FnMut() -> io::Result<Vec<u8>>) -> io::Result<Self> {
        let mut answers = Self::default();
        while !answers.complete {
            answers.take(&receive()?, wanted)?;
        }
        Ok(answers)
    }

    fn take(&mut self, datagram: &[u8], wanted: u16) -> io::Result<()> {
        for message in message::received(datagram)? {
            self.interrupted |= message.flags() & NLM_F_DUMP_INTR != 0;
            if message.message_type() == NLMSG_DONE {
                self.complete = true;
                return message::ended(&message);
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

#[cfg(test)]
mod tests {
    use rtnetlink::packet_core::NLM_F_ACK_TLVS;

    use super::super::message::Attributes;
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

    #[test]
    fn why_a_dump_was_broken_off_is_reported_in_the_kernel_s_words() {
        let words = Attributes::new().with_text(message::WORDS, "Unknown qdisc.");
        let code = (-libc::EOPNOTSUPP).to_ne_bytes();
        let broken_off = message(NLMSG_DONE, NLM_F_ACK_TLVS, 1, &code, words.bytes());
        let error = answers(&[broken_off]).unwrap_err();
        assert_eq!(
            (message::code(&error), error.to_string().contains("Unknown qdisc")),
            (Some(libc::EOPNOTSUPP), true)
        );
    }

    #[test]
    fn what_holds_no_message_ends_the_dump() {
        for nothing in [vec![], vec![0; 3]] {
            let error = Answers::all(WANTED, || Ok(nothing.clone())).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        }
    }

    /// Read again, from the beginning, until nothing changes meanwhile; not for ever.
    #[test]
    fn a_list_that_changed_is_read_again() {
        let body = |number: usize| vec![u8::try_from(number).unwrap(); 4];
        for changes in 0..4 {
            let mut asked = 0;
            let found = consistent(|| {
                asked += 1;
                Ok(Answers { bodies: vec![body(asked)], complete: true, interrupted: asked <= changes })
            });
            match found {
                Ok(bodies) => assert_eq!((bodies, asked), (vec![body(changes + 1)], changes + 1)),
                Err(error) => {
                    assert_eq!((changes, asked, error.kind()), (3, 3, io::ErrorKind::ResourceBusy));
                }
            }
        }
    }
}
