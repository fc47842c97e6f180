//! Capture files as a stream of frames: pcap and pcapng, plain or compressed, in bounded memory.
//!
//! The reader is our own because a measurement needs three things of it: the offset of whatever is wrong, the decoder's
//! own error when the compression is damaged, and no allocation for each packet.

pub(crate) mod input;
mod pcap;
mod pcapng;
#[cfg(test)]
mod tests;
mod window;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::packet::{Frame, LinkType};
use window::Window;

/// A record longer than this is no packet but a damaged length: the largest super-packet has 512 KiB.
const RECORD_MAX: u32 = 1 << 20;

/// Compressions that are recognised and not read: the first bytes and the program.
const FOREIGN_COMPRESSIONS: [(&[u8], &str); 3] =
    [(b"\xfd7zXZ\0", "xz"), (b"BZh", "bzip2"), (b"\x04\x22\x4d\x18", "lz4")];

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Skippable zstd frames, which seekable archives begin with, differ in the low four bits.
const ZSTD_SKIPPABLE: [u8; 3] = [0x2a, 0x4d, 0x18];

/// Why a capture could not be read.
#[derive(Debug, thiserror::Error)]
#[error("{}", problem.words(path))]
pub struct CaptureError {
    path: PathBuf,
    /// What is wrong.
    pub problem: CaptureProblem,
}

/// What can be wrong with a capture.
#[derive(Debug)]
pub enum CaptureProblem {
    /// It cannot be opened.
    Open(io::Error),
    /// Reading or decompressing failed at this byte of its (decompressed) contents.
    Read(u64, io::Error),
    /// It has no contents.
    Empty,
    /// It is compressed by this program, which we do not replace.
    Compressed(&'static str),
    /// It begins with something else.
    NotACapture,
    /// Its frames begin with a header that is not understood: its number in the registry of tcpdump.org.
    LinkType(u32),
    /// Its packets are written in no order of time.
    Disorder(Disorder),
    /// It ends at this byte of its contents, inside a structure.
    CutOff(u64),
    /// At this byte of its contents a structure contradicts itself, and how.
    Damaged(u64, String),
}

/// A capture is not in the order of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disorder {
    /// How often the clock goes back for long.
    pub steps: usize,
    /// Packets that stand alone.
    pub strays: u64,
}

impl CaptureProblem {
    pub(super) fn of(self, path: &Path) -> CaptureError {
        CaptureError { path: path.to_owned(), problem: self }
    }

    fn words(&self, path: &Path) -> String {
        let shown = path.display();
        let damaged = |offset: &u64, reason: &str| {
            format!(
                "capture {shown} is damaged at byte {offset} of its contents, before its first packet: {reason}; copy the file \
                 again"
            )
        };
        match self {
            Self::Open(error) => {
                format!("cannot open capture {shown}: {error}; check the path and its permissions")
            }
            Self::Read(offset, error) => format!(
                "cannot read capture {shown} at byte {offset} of its contents: {error}; copy the file again, or test it with \
                 `gzip -t` or `zstd -t`"
            ),
            Self::Empty => format!(
                "capture {shown} is empty: not one byte was written to it; let tcpdump write each packet at once (-U), and stop \
                 it with Ctrl-C"
            ),
            Self::Compressed(program) => format!(
                "capture {shown} is compressed by {program}, which is not read here; {}",
                unpack(path, program)
            ),
            Self::NotACapture => format!(
                "{shown} is no capture: it begins with neither a pcap nor a pcapng header, plain or compressed by gzip or zstd; \
                 `file` names its kind, `editcap -F pcap` converts other capture formats"
            ),
            Self::LinkType(number) => format!(
                "capture {shown} has link type {number}, {}: capture on the WAN or LAN device itself (Ethernet, PPP, raw IP, \
                 Linux cooked and BSD loopback are read)",
                refusal(*number)
            ),
            Self::Disorder(Disorder { steps, strays }) => format!(
                "capture {shown} is not in the order of time: its clock goes back {steps} times for long, and {strays} packets \
                 stand alone; sort it: `reordercap {shown} SORTED`"
            ),
            Self::CutOff(offset) => damaged(offset, "it ends inside the file header"),
            Self::Damaged(offset, reason) => damaged(offset, reason),
        }
    }
}

/// One frame of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Time in nanoseconds since 1970.
    pub time_ns: u64,
    /// What the frame begins with.
    pub link_type: LinkType,
    /// The bytes that were captured.
    pub bytes: &'a [u8],
    /// Length of the frame on the link.
    pub original_len: u32,
}

impl<'a> Record<'a> {
    /// The record as the parser takes it.
    pub fn frame(&self) -> Frame<'a> {
        Frame {
            link_type: self.link_type,
            bytes: self.bytes,
            original_len: self.original_len,
            gso_segments: 0,
            gso_size: 0,
        }
    }
}

/// What a capture holds besides its frames, as far as it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaptureNotes {
    /// The file ends in the middle of a record, at this byte of its contents.
    pub cut_off_at: Option<u64>,
    /// At this byte of its contents a structure contradicts itself, and why. Nothing behind it is read.
    pub damaged_at: Option<(u64, String)>,
    /// Frames that carry no time, or come from a device whose link type is not understood.
    pub unusable: u64,
    /// One of those link types.
    pub unknown_link_type: Option<u32>,
    /// Frames so far.
    pub frames: u64,
    /// Of them, those that were passed over because they are out of the order of time.
    pub out_of_order: u64,
    /// Of them, those that were passed over because the same packet came before.
    pub copies: u64,
}

enum FileFormat {
    Pcap(pcap::FileHeader),
    Pcapng(pcapng::Section),
}

/// An open capture.
pub struct Capture {
    /// The file.
    pub path: PathBuf,
    window: Window,
    format: FileFormat,
    /// What else there was, as far as it was read.
    pub notes: CaptureNotes,
    is_compressed: bool,
    /// Size of the file in bytes, compressed as it is.
    pub file_bytes: u64,
    read_bytes: Arc<AtomicU64>,
    current: Option<FoundRecord>,
    correction: Option<Box<Correct>>,
}

/// Why a frame is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Its time does not fit those of its neighbours.
    OutOfOrder,
    /// The same packet was there just before.
    Copy,
}

/// Is told how far a pass over a capture is: which pass, bytes read, bytes of the file.
pub type Progress<'a> = dyn Fn(&'static str, u64, u64) + 'a;

/// Dates the frame of this number as it passed; why it is to be left out, if it is.
pub(super) type Correct = dyn FnMut(u64, &mut Record<'_>) -> Option<Fault> + Send;

impl Capture {
    /// Open a capture and read its header. `-` is standard input.
    ///
    /// # Errors
    /// If the file cannot be opened or read, or is no capture that we understand.
    pub fn open(path: &Path) -> Result<Self, CaptureError> {
        let open_error = |error| CaptureProblem::Open(error).of(path);
        let file = input::open(path).map_err(open_error)?;
        let metadata = file.metadata().map_err(open_error)?;
        let read_bytes = Arc::new(AtomicU64::new(0));
        let counted = CountingReader { file, read_bytes: Arc::clone(&read_bytes) };
        let (input, is_compressed) = decompress(counted).map_err(open_error)?;
        let mut window = Window::new(input);
        let format = read_header(&mut window).map_err(|problem| problem.of(path))?;
        Ok(Self {
            path: path.to_owned(),
            window,
            format,
            notes: CaptureNotes::default(),
            is_compressed,
            file_bytes: metadata.len(),
            read_bytes,
            current: None,
            correction: None,
        })
    }

    /// With its frames corrected from here on.
    pub(super) fn corrected(self, correction: Box<Correct>) -> Self {
        Self { correction: Some(correction), ..self }
    }

    /// Go to the next frame; `false` at the end of the file, be it in the middle of a record ([`CaptureNotes::cut_off_at`]) or where it is
    /// damaged ([`CaptureNotes::damaged_at`]).
    ///
    /// # Errors
    /// If the file cannot be read on, or is damaged before its first packet.
    pub fn advance(&mut self) -> Result<bool, CaptureError> {
        while self.read()? {
            if self.correct() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Corrects the time of the present frame; `false` if it is to be passed over.
    fn correct(&mut self) -> bool {
        let Some(mut correction) = self.correction.take() else { return true };
        let Some(mut record) = self.record() else { return true };
        let fault = correction(self.notes.frames - 1, &mut record);
        let time_ns = record.time_ns;
        self.current = self.current.take().map(|found| FoundRecord { time_ns, ..found });
        self.correction = Some(correction);
        self.notes.out_of_order += u64::from(fault == Some(Fault::OutOfOrder));
        self.notes.copies += u64::from(fault == Some(Fault::Copy));
        fault.is_none()
    }

    /// Reads the next frame.
    fn read(&mut self) -> Result<bool, CaptureError> {
        self.current = None;
        if self.notes.damaged_at.is_some() {
            return Ok(false);
        }
        let has_frames = self.notes.frames > 0;
        let found = match &mut self.format {
            FileFormat::Pcap(header) => pcap::next(&mut self.window, header),
            FileFormat::Pcapng(section) => pcapng::next(&mut self.window, section, &mut self.notes),
        };
        self.current = match found {
            Ok(found) => found,
            Err(CaptureProblem::CutOff(offset)) => {
                self.notes.cut_off_at = Some(offset);
                None
            }
            Err(CaptureProblem::Damaged(offset, reason)) if has_frames => {
                self.notes.damaged_at = Some((offset, reason));
                None
            }
            Err(CaptureProblem::Read(offset, error)) if has_frames && self.is_compressed => {
                self.notes.damaged_at = Some((offset, format!("it cannot be decompressed ({error})")));
                None
            }
            Err(problem) => return Err(problem.of(&self.path)),
        };
        match self.notes.unknown_link_type {
            _ if self.current.is_some() => self.notes.frames += 1,
            // A capture of devices that are not understood is an error, not an empty capture.
            Some(link_type) if !has_frames => return Err(CaptureProblem::LinkType(link_type).of(&self.path)),
            _ => {}
        }
        Ok(self.current.is_some())
    }

    /// The frame that [`Capture::advance`] went to.
    pub fn record(&self) -> Option<Record<'_>> {
        self.current.as_ref().map(|found| Record {
            time_ns: found.time_ns,
            link_type: found.link_type,
            bytes: self.window.taken(found.captured, found.after),
            original_len: found.original_len,
        })
    }

    /// Bytes of the file read so far.
    pub fn read_bytes(&self) -> u64 {
        self.read_bytes.load(Ordering::Relaxed)
    }
}

/// A record whose bytes have just been taken from the window.
struct FoundRecord {
    time_ns: u64,
    link_type: LinkType,
    captured: usize,
    /// Bytes of the record behind the frame, taken as well.
    after: usize,
    original_len: u32,
}

fn read_header(window: &mut Window) -> Result<FileFormat, CaptureProblem> {
    if window.is_at_end()? {
        return Err(CaptureProblem::Empty);
    }
    let foreign = FOREIGN_COMPRESSIONS.into_iter().find(|(magic, _)| window.starts_with(magic));
    if let Some((_, program)) = foreign {
        return Err(CaptureProblem::Compressed(program));
    }
    let Some(magic) = window.peek::<4>()? else { return Err(CaptureProblem::NotACapture) };
    if let Some(flavour) = pcap::Flavour::of(magic) {
        pcap::FileHeader::read(window, flavour).map(FileFormat::Pcap)
    } else if magic == pcapng::SECTION_HEADER {
        Ok(FileFormat::Pcapng(pcapng::Section::default()))
    } else {
        Err(CaptureProblem::NotACapture)
    }
}

/// Names of link types, <https://www.tcpdump.org/linktypes.html>.
fn link_type(number: u32) -> Option<LinkType> {
    match number {
        0 | 108 => Some(LinkType::Null),
        1 => Some(LinkType::Ethernet),
        9 | 50 => Some(LinkType::Ppp),
        51 => Some(LinkType::PppEther),
        12 | 14 | 101 | 228 | 229 => Some(LinkType::RawIp),
        113 => Some(LinkType::LinuxSll),
        276 => Some(LinkType::LinuxSll2),
        _ => None,
    }
}

/// Why frames of another link type are not read.
const fn refusal(link_type: u32) -> &'static str {
    match link_type {
        105 | 119 | 127 | 163 | 192 => {
            "frames of a Wi-Fi monitor, which are encrypted, repeated in the air and not those of the link"
        }
        _ => "which is not understood",
    }
}

/// How to read what `program` has compressed.
fn unpack(path: &Path, program: &str) -> String {
    match path == Path::new(input::STDIN) {
        true => format!("unpack it on its way: `… | {program} -dc | pendulum replay --wan -`"),
        false => {
            format!("unpack it on its way: `{program} -dc {} | pendulum replay --wan -`", path.display())
        }
    }
}

struct CountingReader {
    file: File,
    read_bytes: Arc<AtomicU64>,
}

impl Read for CountingReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.file.read(buffer)?;
        self.read_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(bytes)
    }
}

/// The contents behind whatever compression the first bytes show, and whether there is one.
fn decompress(file: CountingReader) -> io::Result<(Box<dyn Read + Send>, bool)> {
    let mut file = BufReader::with_capacity(1 << 18, file);
    let start = file.fill_buf()?;
    let is_skippable = start.len() >= 4 && start[0] & 0xf0 == 0x50 && start[1..4] == ZSTD_SKIPPABLE;
    if start.starts_with(&GZIP_MAGIC) {
        Ok((Box::new(flate2::bufread::MultiGzDecoder::new(file)), true))
    } else if start.starts_with(&ZSTD_MAGIC) || is_skippable {
        Ok((unpacked_zstd(file)?, true))
    } else {
        Ok((Box::new(file), false))
    }
}

#[cfg(feature = "zstd")]
fn unpacked_zstd(file: BufReader<CountingReader>) -> io::Result<Box<dyn Read + Send>> {
    Ok(Box::new(zstd::Decoder::with_buffer(file)?))
}

#[cfg(not(feature = "zstd"))]
fn unpacked_zstd(_: BufReader<CountingReader>) -> io::Result<Box<dyn Read + Send>> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "this build of pendulum has no zstd: unpack it with `zstd -d`",
    ))
}
