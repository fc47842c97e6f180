//! The classic format: a file header, then records (`pcap-savefile(5)`).

use super::window::Window;
use super::{CaptureProblem, FoundRecord, LinkType, RECORD_MAX, link_type};

/// Byte order, resolution and record layout, all given by the magic number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flavour {
    big_endian: bool,
    /// Nanoseconds in one unit of a record's fraction of a second.
    fraction_ns: u64,
    /// Bytes between a record's header and its frame: the "modified" format of some old systems has 8.
    record_extra: u64,
}

impl Flavour {
    pub(super) fn of(magic: [u8; 4]) -> Option<Self> {
        let (big_endian, magic) = match magic {
            [0xa1, ..] => (true, u32::from_be_bytes(magic)),
            _ => (false, u32::from_le_bytes(magic)),
        };
        let (fraction_ns, record_extra) = match magic {
            0xa1b2_c3d4 => (1000, 0),
            0xa1b2_3c4d => (1, 0),
            0xa1b2_cd34 => (1000, 8),
            _ => return None,
        };
        Some(Self { big_endian, fraction_ns, record_extra })
    }

    fn u32(self, bytes: [u8; 4]) -> u32 {
        if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }
}

pub(super) struct FileHeader {
    flavour: Flavour,
    link_type: LinkType,
}

impl FileHeader {
    pub(super) fn read(window: &mut Window, flavour: Flavour) -> Result<Self, CaptureProblem> {
        let header = window.take::<24>()?;
        let [.., a, b, c, d] = header;
        // The upper half may hold the length of a frame check sequence.
        let number = flavour.u32([a, b, c, d]) & 0xffff;
        let link_type = link_type(number).ok_or(CaptureProblem::LinkType(number))?;
        Ok(Self { flavour, link_type })
    }
}

pub(super) fn next(window: &mut Window, header: &FileHeader) -> Result<Option<FoundRecord>, CaptureProblem> {
    if window.is_at_end()? {
        return Ok(None);
    }
    let offset = window.offset;
    let [s0, s1, s2, s3, f0, f1, f2, f3, c0, c1, c2, c3, o0, o1, o2, o3] = window.take::<16>()?;
    let u32 = |bytes| header.flavour.u32(bytes);
    let (seconds, fraction) = (u32([s0, s1, s2, s3]), u32([f0, f1, f2, f3]));
    let captured = u32([c0, c1, c2, c3]);
    if captured > RECORD_MAX {
        return Err(CaptureProblem::Damaged(offset, format!("a packet of {captured} bytes")));
    }
    window.skip(header.flavour.record_extra)?;
    window.take_many(captured as usize)?;
    Ok(Some(FoundRecord {
        time_ns: u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * header.flavour.fraction_ns,
        link_type: header.link_type,
        captured: captured as usize,
        after: 0,
        original_len: u32([o0, o1, o2, o3]),
    }))
}
