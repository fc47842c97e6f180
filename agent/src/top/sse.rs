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
}

impl Reader {
    /// A line above this is thrown away: no event of an agent is that long.
    const LONGEST_LINE: usize = 4 << 20;

    /// The events that these bytes complete.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<ServerEvent> {
        let mut events = Vec::new();
        for &byte in bytes {
            match byte {
                b'\n' if self.after_return => {}
                b'\n' | b'\r' => events.extend(self.end_line()),
                _ if self.line.len() < Self::LONGEST_LINE => self.line.push(byte),
                _ => {}
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
            return (!data.is_empty()).then_some(ServerEvent { name, data });
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
}
