//! pcapng: blocks of many kinds, of which sections, devices and packets matter (draft-ietf-opsawg-pcapng).

use super::window::Window;
use super::{CaptureNotes, CaptureProblem, FoundRecord, LinkType, RECORD_MAX, link_type};

/// Type of the section header block: the same in both byte orders.
pub(super) const SECTION_HEADER: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

const INTERFACE: u32 = 1;
/// Obsolete, still written by old tools.
const PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;

const OPTION_TIME_RESOLUTION: u16 = 9;
const OPTION_TIME_OFFSET: u16 = 14;

/// Block type, length at both ends.
const BLOCK_MIN: u32 = 12;
/// Device blocks longer than this (their options are texts) are not read to their end.
const OPTIONS_MAX: usize = 1 << 16;
const INTERFACES_MAX: usize = 1 << 16;

/// What the blocks so far say about those to come.
#[derive(Default)]
pub(super) struct Section {
    big_endian: bool,
    interfaces: Vec<Interface>,
}

struct Interface {
    /// If it is not understood, its packets are skipped: then its number.
    link_type: Result<LinkType, u32>,
    resolution: Resolution,
    offset_s: i64,
}

/// Length of a unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resolution {
    /// So many nanoseconds.
    Nanoseconds(u64),
    /// So many of them are a second.
    PerSecond(u128),
}

impl Resolution {
    /// From the option `if_tsresol`: a negative power of 10, or of 2 if the highest bit is set.
    fn of(byte: u8) -> Option<Self> {
        let exponent = u32::from(byte & 0x7f);
        if byte & 0x80 == 0 && exponent <= 9 {
            Some(Self::Nanoseconds(10_u64.pow(9 - exponent)))
        } else {
            let base: u128 = if byte & 0x80 == 0 { 10 } else { 2 };
            // More than 2^64 units a second cannot be distinguished in a 64-bit time stamp.
            base.checked_pow(exponent).filter(|units| *units <= 1 << 64).map(Self::PerSecond)
        }
    }

    fn nanoseconds(self, units: u64) -> u64 {
        match self {
            Self::Nanoseconds(ns) => units.saturating_mul(ns),
            // Below 2^64 · 2^30: no overflow.
            Self::PerSecond(per_second) => {
                u64::try_from(u128::from(units) * 1_000_000_000 / per_second).unwrap_or(u64::MAX)
            }
        }
    }
}

impl Section {
    fn u16(&self, bytes: [u8; 2]) -> u16 {
        if self.big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }
    }

    fn u32(&self, bytes: [u8; 4]) -> u32 {
        if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }

    fn i64(&self, bytes: [u8; 8]) -> i64 {
        if self.big_endian { i64::from_be_bytes(bytes) } else { i64::from_le_bytes(bytes) }
    }
}

/// The next packet. `notes` take those without a time or a known link type.
pub(super) fn next(
    window: &mut Window,
    section: &mut Section,
    notes: &mut CaptureNotes,
) -> Result<Option<FoundRecord>, CaptureProblem> {
    loop {
        if window.is_at_end()? {
            return Ok(None);
        }
        let offset = window.offset;
        let [t0, t1, t2, t3, l0, l1, l2, l3] = window.take::<8>()?;
        if [t0, t1, t2, t3] == SECTION_HEADER {
            read_section(window, section, [l0, l1, l2, l3], offset)?;
            continue;
        }
        let kind = section.u32([t0, t1, t2, t3]);
        let length = block_length(section.u32([l0, l1, l2, l3]), offset)?;
        // Without the block's type and its two lengths.
        let body = u64::from(length - BLOCK_MIN);
        let found = match kind {
            INTERFACE => {
                read_interface(window, section, body, offset)?;
                None
            }
            ENHANCED_PACKET | PACKET => match read_packet(window, section, kind, body, offset)? {
                Ok(found) => Some(found),
                Err(link_type) => {
                    notes.unusable += 1;
                    notes.unknown_link_type = Some(link_type);
                    None
                }
            },
            other => {
                notes.unusable += u64::from(other == SIMPLE_PACKET);
                window.skip(body + 4)?;
                None
            }
        };
        if found.is_some() {
            return Ok(found);
        }
    }
}

fn damaged(offset: u64, reason: impl Into<String>) -> CaptureProblem {
    CaptureProblem::Damaged(offset, reason.into())
}

fn block_length(length: u32, offset: u64) -> Result<u32, CaptureProblem> {
    if length < BLOCK_MIN || !length.is_multiple_of(4) {
        return Err(damaged(offset, format!("a block of {length} bytes")));
    }
    Ok(length)
}

/// A new section: its byte order holds from its own length on, and its devices are its own.
fn read_section(
    window: &mut Window,
    section: &mut Section,
    length: [u8; 4],
    offset: u64,
) -> Result<(), CaptureProblem> {
    let magic = window.take::<4>()?;
    section.big_endian = match (u32::from_be_bytes(magic), u32::from_le_bytes(magic)) {
        (BYTE_ORDER_MAGIC, _) => true,
        (_, BYTE_ORDER_MAGIC) => false,
        _ => return Err(damaged(offset, "a section without byte order")),
    };
    section.interfaces.clear();
    let length = block_length(section.u32(length), offset)?;
    let rest = length.checked_sub(12).ok_or_else(|| damaged(offset, "a short section"))?;
    window.skip(u64::from(rest))
}

fn read_interface(
    window: &mut Window,
    section: &mut Section,
    body: u64,
    offset: u64,
) -> Result<(), CaptureProblem> {
    if body < 8 || section.interfaces.len() >= INTERFACES_MAX {
        return Err(damaged(offset, "a device description too short or one too many"));
    }
    let [type_0, type_1, ..] = window.take::<8>()?;
    let number = u32::from(section.u16([type_0, type_1]));
    let mut interface = Interface {
        link_type: link_type(number).ok_or(number),
        // What the format prescribes where nothing is said.
        resolution: Resolution::Nanoseconds(1000),
        offset_s: 0,
    };
    let options = usize::try_from(body - 8).unwrap_or(usize::MAX).min(OPTIONS_MAX);
    window.take_many(options)?;
    read_interface_options(section, window.taken(options, 0), &mut interface);
    window.skip(body - 8 - options as u64 + 4)?;
    section.interfaces.push(interface);
    Ok(())
}

fn read_interface_options(section: &Section, mut options: &[u8], interface: &mut Interface) {
    while let Some((&[c0, c1, l0, l1], rest)) = options.split_first_chunk() {
        let length = usize::from(section.u16([l0, l1]));
        let Some(value) = rest.get(..length) else { return };
        match (section.u16([c0, c1]), value) {
            (0, _) => return,
            (OPTION_TIME_RESOLUTION, &[byte]) => {
                if let Some(resolution) = Resolution::of(byte) {
                    interface.resolution = resolution;
                }
            }
            (OPTION_TIME_OFFSET, value) => {
                interface.offset_s = value.first_chunk().map_or(0, |bytes| section.i64(*bytes));
            }
            _ => {}
        }
        options = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
}

/// An (enhanced) packet block: device, time, lengths, the frame, options. Inner error: its link type, if not understood.
fn read_packet(
    window: &mut Window,
    section: &Section,
    kind: u32,
    body: u64,
    offset: u64,
) -> Result<Result<FoundRecord, u32>, CaptureProblem> {
    if body < 20 {
        return Err(damaged(offset, "a packet block without its header"));
    }
    #[rustfmt::skip]
    let [i0, i1, i2, i3, h0, h1, h2, h3, t0, t1, t2, t3, c0, c1, c2, c3, o0, o1, o2, o3] =
        window.take::<20>()?;
    let captured = section.u32([c0, c1, c2, c3]);
    if captured > RECORD_MAX || u64::from(captured) > body - 20 {
        return Err(damaged(offset, format!("a packet of {captured} bytes")));
    }
    // The obsolete block has the device in 16 bits and a drop count in the others.
    let index = if kind == PACKET { u32::from(section.u16([i0, i1])) } else { section.u32([i0, i1, i2, i3]) };
    let Some(interface) = section.interfaces.get(index as usize) else {
        return Err(damaged(offset, format!("a packet of the unknown device {index}")));
    };
    // Padding, options and the second length are taken with the frame, which must stay in the window.
    let after = body - 20 - u64::from(captured) + 4;
    let after = usize::try_from(after).unwrap_or(usize::MAX);
    if after > RECORD_MAX as usize {
        return Err(damaged(offset, "a packet block with options without end"));
    }
    window.take_many(captured as usize + after)?;
    let units = u64::from(section.u32([h0, h1, h2, h3])) << 32 | u64::from(section.u32([t0, t1, t2, t3]));
    let time_ns = interface.resolution.nanoseconds(units);
    Ok(interface.link_type.map(|link_type| FoundRecord {
        time_ns: time_ns.saturating_add_signed(interface.offset_s.saturating_mul(1_000_000_000)),
        link_type,
        captured: captured as usize,
        after,
        original_len: section.u32([o0, o1, o2, o3]),
    }))
}
