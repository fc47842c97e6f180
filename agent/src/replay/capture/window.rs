//! A sliding view of a stream: the bytes of one structure at a time, however the stream delivers them.

use std::io::{ErrorKind, Read};

use super::CaptureProblem;

/// Read from the stream at least this much at once.
const READ_SIZE: usize = 1 << 18;

pub(super) struct Window {
    input: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    /// First byte that was not taken yet.
    start: usize,
    /// End of what was read.
    end: usize,
    /// Offset of `start` in the stream.
    pub(super) offset: u64,
}

impl Window {
    pub(super) fn new(input: Box<dyn Read + Send>) -> Self {
        Self { input, buffer: vec![0; 2 * READ_SIZE], start: 0, end: 0, offset: 0 }
    }

    /// Have `bytes` bytes at hand; `false` if the stream ends before.
    fn fill(&mut self, bytes: usize) -> Result<bool, CaptureProblem> {
        while self.end - self.start < bytes {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
            if self.buffer.len() < bytes + READ_SIZE {
                self.buffer.resize(bytes + READ_SIZE, 0);
            }
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(0) => return Ok(false),
                Ok(more) => self.end += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // How the decompressors say that their input is cut off.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(false),
                Err(error) => {
                    return Err(CaptureProblem::Read(self.offset + (self.end - self.start) as u64, error));
                }
            }
        }
        Ok(true)
    }

    /// Whether the stream ends exactly here.
    pub(super) fn is_at_end(&mut self) -> Result<bool, CaptureProblem> {
        Ok(!self.fill(1)?)
    }

    /// The next bytes without taking them; `None` if the stream ends before.
    pub(super) fn peek<const N: usize>(&mut self) -> Result<Option<[u8; N]>, CaptureProblem> {
        Ok(if self.fill(N)? { self.buffer[self.start..].first_chunk().copied() } else { None })
    }

    /// Whether the bytes at hand begin like this.
    pub(super) fn starts_with(&self, bytes: &[u8]) -> bool {
        self.buffer[self.start..self.end].starts_with(bytes)
    }

    /// Take the next bytes.
    pub(super) fn take<const N: usize>(&mut self) -> Result<[u8; N], CaptureProblem> {
        let bytes = self.peek()?.ok_or_else(|| self.cut_off())?;
        self.step(N);
        Ok(bytes)
    }

    /// Take the next `bytes` bytes; [`Window::taken`] then shows them.
    pub(super) fn take_many(&mut self, bytes: usize) -> Result<(), CaptureProblem> {
        if !self.fill(bytes)? {
            return Err(self.cut_off());
        }
        self.step(bytes);
        Ok(())
    }

    /// `bytes` bytes that were taken, but for the last `after`. Valid until the next call that reads.
    pub(super) fn taken(&self, bytes: usize, after: usize) -> &[u8] {
        let end = self.start.saturating_sub(after);
        &self.buffer[end.saturating_sub(bytes)..end]
    }

    /// Step over bytes without holding them.
    pub(super) fn skip(&mut self, mut bytes: u64) -> Result<(), CaptureProblem> {
        while bytes > 0 {
            if !self.fill(1)? {
                return Err(self.cut_off());
            }
            let step = usize::try_from(bytes).unwrap_or(usize::MAX).min(self.end - self.start);
            self.step(step);
            bytes -= step as u64;
        }
        Ok(())
    }

    fn step(&mut self, bytes: usize) {
        self.start += bytes;
        self.offset += bytes as u64;
    }

    fn cut_off(&self) -> CaptureProblem {
        CaptureProblem::CutOff(self.offset + (self.end - self.start) as u64)
    }
}
