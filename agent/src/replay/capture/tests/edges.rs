//! Bounds: the largest that is a packet, the shortest that is a block, and one beyond.

use super::*;

fn count_or_reason(contents: &[u8]) -> Result<usize, String> {
    match read_any(contents) {
        (frames, Ok(())) => Ok(frames),
        (_, Err(error)) => match error.problem {
            CaptureProblem::Damaged(offset, reason) => Err(format!("{offset}: {reason}")),
            _ => panic!("{error}"),
        },
    }
}

#[test]
fn a_mebibyte_is_a_packet_and_a_byte_more_is_damage() {
    for order in ORDERS {
        for (length, expected) in [(1 << 20, Ok(1)), ((1 << 20) + 1, Err("24: a packet of 1048577 bytes"))] {
            let record = order.pcap_record(1, 0, &vec![7; length], length as u32);
            let found = count_or_reason(&[order.pcap_header(0xa1b2_c3d4, 1), record].concat());
            assert_eq!(found, expected.map_err(str::to_owned));
        }
        for (length, expected) in [(1 << 20, Ok(1)), ((1 << 20) + 1, Err("48: a packet of 1048577 bytes"))] {
            let packet = order.packet(0, 1, &vec![7; length], length as u32);
            let found = count_or_reason(&[order.section(), order.interface(1, &[]), packet].concat());
            assert_eq!(found, expected.map_err(str::to_owned));
        }
    }
}

/// <https://www.tcpdump.org/linktypes.html>: the numbers that mean one of ours, and no other.
#[test]
fn other_link_types_are_refused() {
    let known = [0, 1, 9, 12, 14, 50, 51, 101, 108, 113, 228, 229, 276];
    for number in 0..400 {
        let found = read(&ORDERS[0].pcap_header(0xa1b2_c3d4, number)).1;
        match found {
            Ok(_) => assert!(known.contains(&number), "{number}"),
            Err(error) => {
                assert!(matches!(error.problem, CaptureProblem::LinkType(link_type) if link_type == number));
                assert!(!known.contains(&number), "{number}");
            }
        }
    }
    for number in [12, 14, 228, 229] {
        assert_eq!(link_type(number), Some(LinkType::RawIp));
    }
    assert_eq!(link_type(108), Some(LinkType::Null));
}

#[test]
fn blocks_that_contradict_themselves_are_named() {
    let order = ORDERS[1];
    let begin = [order.section(), order.interface(1, &[])].concat();
    let with = |rest: Vec<u8>| count_or_reason(&[begin.clone(), rest].concat());
    let raw = |kind: u32, length: u32| [order.u32(kind), order.u32(length), vec![0; 64]].concat();
    // 28 bytes of section, 20 of device: what follows begins at byte 48.
    assert_eq!(begin.len(), 48);
    for length in [0, 8, 11, 13, 14, 15] {
        assert_eq!(with(raw(6, length)), Err(format!("48: a block of {length} bytes")));
    }
    assert_eq!(with(order.block(0x0bad, &[])), Ok(0), "the shortest block");
    assert_eq!(with(order.block(6, &[0; 16])), Err("48: a packet block without its header".to_owned()));
    assert_eq!(with(order.block(6, &[0; 20])), Ok(1), "a packet of which nothing was captured");
    let head = |captured: u32| [0, 0, 0, captured, captured].map(|value| order.u32(value)).concat();
    assert_eq!(with(order.block(6, &[head(4), vec![1; 4]].concat())), Ok(1));
    assert_eq!(
        with(order.block(6, &[head(5), vec![1; 4]].concat())),
        Err("48: a packet of 5 bytes".to_owned())
    );
    let endless = order.block(6, &[head(4), vec![1; (1 << 20) + 4]].concat());
    assert_eq!(with(endless), Err("48: a packet block with options without end".to_owned()));
    let longest = order.block(6, &[head(4), vec![1; 1 << 20]].concat());
    assert_eq!(with(longest), Ok(1));
    let short = order.block(1, &[0; 4]);
    assert_eq!(with(short), Err("48: a device description too short or one too many".to_owned()));
    let mut orderless = order.section();
    orderless[8] = 0;
    assert_eq!(with(orderless), Err("48: a section without byte order".to_owned()));
    assert_eq!(with(order.packet(1, 0, &FRAME, 21)), Err("48: a packet of the unknown device 1".to_owned()));
}

/// Time stamps in every kind of unit, all of the same moment: 5 s and a half.
#[test]
fn units_of_time_by_their_exponent() {
    for order in ORDERS {
        let offset = |seconds: i64| if order.big { seconds.to_be_bytes() } else { seconds.to_le_bytes() };
        let (back, on) = (offset(-2), offset(3));
        for (options, units) in [
            (vec![], 5_500_000),
            (vec![(9, &[6_u8][..])], 5_500_000),
            (vec![(9, &[1][..])], 55),
            (vec![(9, &[9][..])], 5_500_000_000),
            (vec![(9, &[12][..])], 5_500_000_000_000),
            (vec![(9, &[0x80 | 1][..])], 11),
            (vec![(9, &[0x80 | 40][..])], 11 << 39),
            // Nobody counts that fast: as if it said nothing.
            (vec![(9, &[0x80 | 127][..])], 5_500_000),
            (vec![(2, &b"wan0!"[..]), (14, &back[..])], 7_500_000),
            (vec![(14, &on[..]), (9, &[1][..])], 25),
            // What stands behind the end of the list is no option.
            (vec![(0, &[][..]), (9, &[0][..])], 5_500_000),
        ] {
            let contents =
                [order.section(), order.interface(1, &options), order.packet(0, units, &FRAME, 21)].concat();
            let (frames, _) = read(&contents);
            assert_eq!(frames, [(5_500_000_000, LinkType::Ethernet, 21, 21)], "{options:?}");
        }
        // Before the epoch there is no time: it stays at its beginning.
        let contents =
            [order.section(), order.interface(1, &[(14, &offset(-9))]), order.packet(0, 1, &FRAME, 21)];
        assert_eq!(read(&contents.concat()).0[0].0, 0);
    }
}

/// Frames larger than what is read at once come out as they were written, whatever stands between them.
#[test]
fn large_frames_keep_their_bytes() {
    let order = ORDERS[0];
    let frame =
        |seed: usize, length: usize| (0..length).map(|i| (i * 31 + seed * 7) as u8).collect::<Vec<_>>();
    let sizes = [700_000, 3, 262_144, 0, 900_001, 524_288, 1];
    let plain = |seed: usize, size: usize| order.pcap_record(seed as u32, 0, &frame(seed, size), size as u32);
    let pcap: Vec<u8> = sizes.iter().enumerate().flat_map(|(seed, &size)| plain(seed, size)).collect();
    let blocks = |seed: usize, size: usize| {
        let skipped = order.block(0x0bad, &vec![0xee; 2_000_000 + 4 * seed]);
        [skipped, order.packet(0, seed as u64 * 1_000_000, &frame(seed, size), size as u32)].concat()
    };
    let pcapng: Vec<u8> = sizes.iter().enumerate().flat_map(|(seed, &size)| blocks(seed, size)).collect();
    for contents in [
        [order.pcap_header(0xa1b2_c3d4, 1), pcap].concat(),
        [order.section(), order.interface(1, &[]), pcapng].concat(),
    ] {
        let file = file(&contents);
        let mut capture = Capture::open(file.path()).expect("a capture");
        assert_eq!((capture.file_bytes, &*capture.path), (contents.len() as u64, file.path()));
        for (seed, &size) in sizes.iter().enumerate() {
            assert!(capture.advance().expect("sound"));
            let record = capture.record().expect("advanced to it");
            assert_eq!(record.time_ns, seed as u64 * 1_000_000_000);
            assert!(record.bytes == frame(seed, size), "frame {seed}");
            assert_eq!(capture.notes.frames, seed as u64 + 1);
        }
        assert!(!capture.advance().expect("sound"));
        assert!(capture.record().is_none());
        assert_eq!(capture.read_bytes(), contents.len() as u64);
    }
}
