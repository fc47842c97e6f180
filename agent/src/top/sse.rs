//! Server-sent events: lines in, events out (WHATWG HTML, 9.2.6).

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerEvent {
    /// Field `event`.
    pub(super) name: String,
    /// Field `data`; its lines joined by line ends.
    pub(super) data: String,
}

/// Puts events together from parts that end anywhere.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// A line that is not complete yet.
    line: Vec<u8>,
    name: String,
    data: String,
    /// The last byte was a carriage return: a line feed after it belongs to the same line end.
    after_return: bool,
    /// This event is longer than [`Self::LONGEST`].
    too_long: bool,
}

impl Reader {
    /// An event above this is thrown away: none of an agent is that long.
    const LONGEST: usize = 4 << 20;

    /// The events that these bytes complete.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<ServerEvent> {
        let mut events = Vec::new();
        for &byte in bytes {
            match byte {
                b'\n' if self.after_return => {}
                b'\n' | b'\r' => events.extend(self.end_line()),
                _ if self.line.len() + self.data.len() < Self::LONGEST => self.line.push(byte),
                _ => self.too_long = true,
            }
            self.after_return = byte == b'\r';
        }
        events
    }

    fn end_line(&mut self) -> Option<ServerEvent> {
        let line = String::from_utf8_lossy(&self.line).into_owned();
        self.line.clear();
        if line.is_empty() {
            let (name, mut data) = (std::mem::take(&mut self.name), std::mem::take(&mut self.data));
            data.pop();
            let is_whole = !std::mem::take(&mut self.too_long);
            return (is_whole && !data.is_empty()).then_some(ServerEvent { name, data });
        }
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.name),
            "data" => {
                self.data.push_str(value);
                self.data.push('\n');
            }
            // Comments keep the connection alive; ids and retry times are not used.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(name: &str, data: &str) -> ServerEvent {
        ServerEvent { name: name.to_owned(), data: data.to_owned() }
    }

    #[test]
    fn events_come_out_however_the_bytes_are_cut() {
        let text = ": hello\n\nevent: tick\ndata: {\"a\":1}\n\nevent:state\r\ndata:x\r\ndata: y\r\n\r\nid: 3\n\ndata: bare\n\n";
        let wanted = [event("tick", "{\"a\":1}"), event("state", "x\ny"), event("", "bare")];
        for step in [1, 2, 3, 7, text.len()] {
            let mut reader = Reader::default();
            let events: Vec<ServerEvent> =
                text.as_bytes().chunks(step).flat_map(|part| reader.push(part)).collect();
            assert_eq!(events, wanted, "in steps of {step}");
        }
    }

    /// Whoever answers at that address cannot fill the memory, in one line or in many.
    #[test]
    fn an_endless_event_is_thrown_away_and_the_next_one_is_read() {
        for ends in [1, 1000] {
            let mut reader = Reader::default();
            let line = format!("data: {}\n", "x".repeat(Reader::LONGEST / ends + 1));
            for _ in 0..2 * ends {
                assert_eq!(reader.push(line.as_bytes()), []);
            }
            assert!(reader.data.len() + reader.line.len() <= Reader::LONGEST + 2 * ends);
            assert_eq!(reader.push(b"\n"), []);
            assert_eq!(reader.push(b"event: tick\ndata: 1\n\n"), [event("tick", "1")]);
        }
        // The longest one that is read.
        let text = "x".repeat(Reader::LONGEST - "data: ".len());
        let events = Reader::default().push(format!("data: {text}\n\n").as_bytes());
        assert_eq!(events, [event("", &text)]);
    }
}
