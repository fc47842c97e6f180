//! Files made here byte by byte, in every flavour and with every damage.

mod edges;

use std::io::Write as _;

use proptest::prelude::*;
use tempfile::NamedTempFile;

use super::*;

/// Writes integers of one byte order.
#[derive(Clone, Copy)]
struct Order {
    big: bool,
}

const ORDERS: [Order; 2] = [Order { big: false }, Order { big: true }];

impl Order {
    fn u16(self, value: u16) -> Vec<u8> {
        if self.big { value.to_be_bytes().to_vec() } else { value.to_le_bytes().to_vec() }
    }

    fn u32(self, value: u32) -> Vec<u8> {
        if self.big { value.to_be_bytes().to_vec() } else { value.to_le_bytes().to_vec() }
    }

    fn pcap_header(self, magic: u32, link_type: u32) -> Vec<u8> {
        let version = [self.u16(2), self.u16(4)].concat();
        [self.u32(magic), version, vec![0; 8], self.u32(65535), self.u32(link_type)].concat()
    }

    fn pcap_record(self, seconds: u32, fraction: u32, frame: &[u8], original: u32) -> Vec<u8> {
        let captured = frame.len() as u32;
        [self.u32(seconds), self.u32(fraction), self.u32(captured), self.u32(original), frame.to_vec()]
            .concat()
    }

    fn block(self, kind: u32, body: &[u8]) -> Vec<u8> {
        let mut body = body.to_vec();
        body.resize(body.len().next_multiple_of(4), 0);
        let length = self.u32(body.len() as u32 + 12);
        [self.u32(kind), length.clone(), body, length].concat()
    }

    fn section(self) -> Vec<u8> {
        let body = [self.u32(0x1a2b_3c4d), self.u16(1), self.u16(0), vec![0xff; 8]].concat();
        self.block(0x0a0d_0d0a, &body)
    }

    fn interface(self, link_type: u16, options: &[(u16, &[u8])]) -> Vec<u8> {
        let mut body = [self.u16(link_type), self.u16(0), self.u32(0)].concat();
        for (code, value) in options {
            body.extend([self.u16(*code), self.u16(value.len() as u16)].concat());
            body.extend_from_slice(value);
            body.resize(body.len().next_multiple_of(4), 0);
        }
        self.block(1, &body)
    }

    fn packet(self, interface: u32, units: u64, frame: &[u8], original: u32) -> Vec<u8> {
        let (high, low) = ((units >> 32) as u32, units as u32);
        let head = [interface, high, low, frame.len() as u32, original].map(|value| self.u32(value)).concat();
        self.block(6, &[head, frame.to_vec()].concat())
    }
}

const FRAME: [u8; 21] = *b"a frame of 21 bytes !";

fn file(contents: &[u8]) -> NamedTempFile {
    let mut file = NamedTempFile::new().expect("temporary file");
    file.write_all(contents).expect("write");
    file
}

/// What a file holds: time, link type, captured bytes, original length of each frame; then notes or the error.
type CaptureContents = (Vec<(u64, LinkType, usize, u32)>, Result<CaptureNotes, CaptureError>);

fn read(contents: &[u8]) -> CaptureContents {
    let file = file(contents);
    let mut frames = Vec::new();
    let mut capture = match Capture::open(file.path()) {
        Ok(capture) => capture,
        Err(error) => return (frames, Err(error)),
    };
    loop {
        match capture.advance() {
            Ok(true) => {
                let record = capture.record().expect("advanced to it");
                assert!(record.bytes.len() > FRAME.len() || FRAME.starts_with(record.bytes));
                frames.push((record.time_ns, record.link_type, record.bytes.len(), record.original_len));
            }
            Ok(false) => return (frames, Ok(capture.notes.clone())),
            Err(error) => return (frames, Err(error)),
        }
    }
}

fn two_frames(order: Order) -> Vec<u8> {
    let header = order.pcap_header(0xa1b2_c3d4, 1);
    [header, order.pcap_record(7, 5, &FRAME, 21), order.pcap_record(8, 6, &FRAME[..4], 1500)].concat()
}

const TWO_FRAMES: [(u64, LinkType, usize, u32); 2] =
    [(7_000_005_000, LinkType::Ethernet, 21, 21), (8_000_006_000, LinkType::Ethernet, 4, 1500)];

#[test]
fn pcap_in_both_byte_orders_and_resolutions() {
    for order in ORDERS {
        let (frames, notes) = read(&two_frames(order));
        assert_eq!(frames, TWO_FRAMES);
        assert_eq!(notes.expect("sound"), CaptureNotes { frames: 2, ..CaptureNotes::default() });

        let header = order.pcap_header(0xa1b2_3c4d, 101);
        let (frames, _) = read(&[header, order.pcap_record(7, 5, &FRAME, 21)].concat());
        assert_eq!(frames, [(7_000_000_005, LinkType::RawIp, 21, 21)]);
    }
}

#[test]
fn pcap_of_the_modified_format() {
    let order = ORDERS[0];
    let mut record = order.pcap_record(7, 5, &FRAME, 21);
    record.splice(16..16, [9; 8]);
    let (frames, _) = read(&[order.pcap_header(0xa1b2_cd34, 1), record].concat());
    assert_eq!(frames, [(7_000_005_000, LinkType::Ethernet, 21, 21)]);
}

#[test]
fn link_types_by_their_numbers() {
    let order = ORDERS[0];
    for (number, expected) in [
        (0, LinkType::Null),
        (1, LinkType::Ethernet),
        (9, LinkType::Ppp),
        (50, LinkType::Ppp),
        (51, LinkType::PppEther),
        (101, LinkType::RawIp),
        (113, LinkType::LinuxSll),
        (276, LinkType::LinuxSll2),
        // With the length of a frame check sequence in the upper bits.
        (0x4400_0001, LinkType::Ethernet),
    ] {
        let (frames, _) =
            read(&[order.pcap_header(0xa1b2_c3d4, number), order.pcap_record(1, 0, &FRAME, 21)].concat());
        assert_eq!(frames[0].1, expected, "link type {number}");
    }
    let (_, error) = read(&order.pcap_header(0xa1b2_c3d4, 127));
    let message = error.expect_err("radiotap").to_string();
    assert!(message.contains("link type 127") && message.contains("Wi-Fi monitor"), "{message}");
}

#[test]
fn pcapng_in_both_byte_orders_resolutions_and_offsets() {
    for order in ORDERS {
        let contents = [
            order.section(),
            order.interface(1, &[]),
            order.interface(101, &[(2, b"wan0"), (9, &[9])]),
            order.interface(1, &[(9, &[0x80 | 10]), (0, &[]), (9, &[3])]),
            order.interface(
                1,
                &[(9, &[3]), (14, &if order.big { 100_u64.to_be_bytes() } else { 100_u64.to_le_bytes() })],
            ),
            order.packet(0, 7_000_005, &FRAME, 21),
            order.packet(1, 7_000_000_005, &FRAME[..3], 1500),
            order.packet(2, 1536, &FRAME, 21),
            order.packet(3, 7_005, &FRAME, 21),
        ]
        .concat();
        let (frames, notes) = read(&contents);
        assert_eq!(
            frames,
            [
                (7_000_005_000, LinkType::Ethernet, 21, 21),
                (7_000_000_005, LinkType::RawIp, 3, 1500),
                (1_500_000_000, LinkType::Ethernet, 21, 21),
                (107_005_000_000, LinkType::Ethernet, 21, 21),
            ]
        );
        assert_eq!(notes.expect("sound").frames, 4);
    }
}

#[test]
fn pcapng_sections_may_change_the_byte_order_and_forget_devices() {
    let contents: Vec<u8> = ORDERS
        .into_iter()
        .flat_map(|order| [order.section(), order.interface(1, &[]), order.packet(0, 1, &FRAME, 21)].concat())
        .collect();
    assert_eq!(read(&contents).0.len(), 2);
    let (frames, notes) = read(&[contents, ORDERS[0].section(), ORDERS[0].packet(0, 1, &FRAME, 21)].concat());
    let (_, reason) =
        notes.expect("packets come before it").damaged_at.expect("a device of the section before");
    assert_eq!((frames.len(), reason.as_str()), (2, "a packet of the unknown device 0"));
}

#[test]
fn pcapng_skips_what_is_not_understood_and_says_how_much() {
    let order = ORDERS[1];
    let contents = [
        order.section(),
        order.interface(127, &[]),
        order.interface(1, &[]),
        order.block(0x0bad, &[0; 100_000]),
        order.packet(0, 1, &FRAME, 21),
        order.block(3, &[order.u32(21), FRAME.to_vec()].concat()),
        order.packet(1, 1, &FRAME, 21),
    ]
    .concat();
    let (frames, notes) = read(&contents);
    assert_eq!(frames.len(), 1);
    let notes = notes.expect("sound");
    assert_eq!((notes.unusable, notes.unknown_link_type), (2, Some(127)));

    let radio_only = [order.section(), order.interface(127, &[]), order.packet(0, 1, &FRAME, 21)].concat();
    let refused = read(&radio_only).1.expect_err("no frame is read").problem;
    assert!(matches!(refused, CaptureProblem::LinkType(127)));
}

#[test]
fn pcapng_with_the_obsolete_packet_block() {
    let order = ORDERS[0];
    let head =
        [order.u16(0), order.u16(9), order.u32(0), order.u32(3), order.u32(21), order.u32(30)].concat();
    let contents =
        [order.section(), order.interface(1, &[]), order.block(2, &[head, FRAME.to_vec()].concat())].concat();
    assert_eq!(read(&contents).0, [(3_000, LinkType::Ethernet, 21, 30)]);
}

#[test]
fn compression_shows_by_the_first_bytes() {
    let plain = two_frames(ORDERS[0]);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&plain).expect("memory");
    let gzip = gzip.finish().expect("memory");
    let zstd = zstd::encode_all(&plain[..], 1).expect("memory");
    let seekable = [&[0x5e, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3][..], &zstd].concat();
    for compressed in [&gzip, &zstd, &seekable] {
        let (frames, notes) = read(compressed);
        assert_eq!(frames, TWO_FRAMES);
        assert_eq!(notes.expect("sound").cut_off_at, None);
    }
    for compressed in [&gzip, &zstd] {
        let (_, notes) = read(&compressed[..compressed.len() - 12]);
        assert!(notes.is_err() || notes.is_ok_and(|notes| notes.cut_off_at.is_some()));
    }
    let mut damaged = gzip;
    let middle = damaged.len() / 2;
    damaged[middle] ^= 0xff;
    assert!(read(&damaged).1.is_err());
}

/// Up to the damage a compressed file is used as one that was cut off.
#[test]
fn a_compressed_file_is_used_up_to_its_damage() {
    let order = ORDERS[0];
    // Bytes that do not repeat, so that damage does not hit the first packets.
    let mut seed = 1_u32;
    let mut noise = || {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 24) as u8
    };
    let mut record = |i| order.pcap_record(i, 0, &(0..1_000).map(|_| noise()).collect::<Vec<u8>>(), 1_000);
    let records: Vec<u8> = (0..2_000).flat_map(&mut record).collect();
    let plain = [order.pcap_header(0xa1b2_c3d4, 1), records].concat();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(&plain).expect("memory");
    let (gzip, zstd) = (gzip.finish().expect("memory"), zstd::encode_all(&plain[..], 1).expect("memory"));
    let damaged = |compressed: &[u8], at: usize| {
        let mut compressed = compressed.to_vec();
        compressed[at..at + 4].fill(0xff);
        let file = file(&compressed);
        let mut capture = Capture::open(file.path()).expect("its beginning is sound");
        let mut frames = 0;
        while capture.advance().expect("no error") {
            frames += 1;
        }
        assert!(!capture.advance().expect("no error"), "nothing behind it is read");
        (frames, capture.notes.damaged_at.clone().expect("it is noticed").1)
    };
    // The sum at the end of gzip's contents.
    let (frames, reason) = damaged(&gzip, gzip.len() - 8);
    assert!(frames == 2_000 && reason.starts_with("it cannot be decompressed ("), "{frames}: {reason}");
    // The header of zstd's last block.
    let last = zstd.len() - plain.len() % (128 << 10) - 3;
    let (frames, reason) = damaged(&zstd, last);
    assert!((1..2_000).contains(&frames), "{frames}");
    assert!(reason.starts_with("it cannot be decompressed ("), "{reason}");
}

#[test]
fn a_file_that_ends_in_the_middle_gives_what_was_whole() {
    for contents in [
        two_frames(ORDERS[0]),
        [
            ORDERS[0].section(),
            ORDERS[0].interface(1, &[]),
            ORDERS[0].packet(0, 1, &FRAME, 21),
            ORDERS[0].packet(0, 1, &FRAME, 21),
        ]
        .concat(),
    ] {
        let last = if contents.starts_with(&[0x0a]) { 56 } else { 20 };
        for length in contents.len() - last + 1..contents.len() {
            let (frames, notes) = read(&contents[..length]);
            assert_eq!(frames.len(), 1, "cut at {length}");
            assert_eq!(notes.expect("not an error").cut_off_at, Some(length as u64));
        }
        let (frames, notes) = read(&contents[..contents.len() - last]);
        assert_eq!((frames.len(), notes.expect("sound").cut_off_at), (1, None));
    }
}

#[test]
fn refusals_name_the_file_the_reason_and_the_remedy() {
    let missing = Capture::open(Path::new("/nonexistent/wan.pcap")).err().expect("refused").to_string();
    assert!(missing.contains("/nonexistent/wan.pcap") && missing.contains("check the path"), "{missing}");
    let directory = Capture::open(Path::new("/tmp")).err().expect("refused").to_string();
    assert!(directory.contains("/tmp") && directory.contains("not a regular file"), "{directory}");
    let empty = read(b"").1.expect_err("nothing").to_string();
    assert!(empty.contains("is empty"), "{empty}");
    for (contents, remedy) in [
        (&b"\xfd7zXZ\0 and more"[..], "`xz -dc "),
        (b"BZh91AY", "`bzip2 -dc "),
        (b"\x04\x22\x4d\x18 and more", "`lz4 -dc "),
    ] {
        let message = read(contents).1.expect_err("not read").to_string();
        assert!(message.contains(remedy) && message.contains("| pendulum replay --wan -"), "{message}");
    }
    for contents in [&b"abc"[..], b"#!/bin/sh\necho this is no capture\n"] {
        let refused = read(contents).1.expect_err("no capture").problem;
        assert!(matches!(refused, CaptureProblem::NotACapture));
    }
    let cut_header = read(&two_frames(ORDERS[0])[..20]).1.expect_err("no header").to_string();
    assert!(cut_header.contains("at byte 20"), "{cut_header}");

    let order = ORDERS[0];
    let huge = [order.u32(1), order.u32(0), order.u32(u32::MAX), order.u32(u32::MAX)].concat();
    let absurd = || Some((81, "a packet of 4294967295 bytes".to_owned()));
    let (frames, notes) = read(&[two_frames(order), huge.clone()].concat());
    assert_eq!((frames.len(), notes.expect("two packets come before it").damaged_at), (2, absurd()));
    let message =
        read(&[order.pcap_header(0xa1b2_c3d4, 1), huge].concat()).1.expect_err("none before it").to_string();
    assert!(message.contains("at byte 24") && message.contains("4294967295"), "{message}");
}

proptest! {
    #[test]
    fn no_damage_makes_the_reader_panic_or_run_on(
        kind in 0_usize..3,
        damage in prop::collection::vec((0_usize..400, any::<u8>()), 1..6),
    ) {
        let order = ORDERS[kind % 2];
        let mut contents = if kind < 2 {
            [order.section(), order.interface(1, &[(9, &[9])]), order.packet(0, 1, &FRAME, 21), two_frames(order)]
                .concat()
        } else {
            two_frames(order)
        };
        for (at, byte) in damage {
            let length = contents.len();
            contents[at % length] = byte;
        }
        let (frames, _) = read_any(&contents);
        prop_assert!(frames <= contents.len() / 12);
    }
}

/// Like [`read`], for contents that may mean anything.
fn read_any(contents: &[u8]) -> (usize, Result<(), CaptureError>) {
    let file = file(contents);
    let mut frames = 0;
    let mut capture = match Capture::open(file.path()) {
        Ok(capture) => capture,
        Err(error) => return (0, Err(error)),
    };
    loop {
        match capture.advance() {
            Ok(true) => {
                frames += 1;
                let record = capture.record().expect("advanced to it");
                assert!(record.bytes.len() <= contents.len());
            }
            Ok(false) => return (frames, Ok(())),
            Err(error) => return (frames, Err(error)),
        }
    }
}
