//! Other people's BPF programs: they count packets and let them pass.
//!
//! Written as instructions and loaded by bpf(2) itself, so that nothing of the agent's way to the kernel is in them.

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use crate::inside::inside;
use crate::netns::Netns;

const BPF_MAP_CREATE: libc::c_long = 0;
const BPF_MAP_LOOKUP_ELEM: libc::c_long = 1;
const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_LINK_CREATE: libc::c_long = 28;

const BPF_MAP_TYPE_ARRAY: u32 = 2;
const BPF_PROG_TYPE_SCHED_CLS: u32 = 3;
const BPF_PROG_TYPE_XDP: u32 = 6;
const BPF_PSEUDO_MAP_VALUE: u8 = 2;
const BPF_F_BEFORE: u32 = 1 << 3;

const TCX_NEXT: i32 = -1;
const XDP_PASS: i32 = 2;

/// Where the program hangs, `enum bpf_attach_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hook {
    TcxIngress = 46,
    TcxEgress = 47,
    Xdp = 37,
}

/// What it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    All,
    /// Packets with at most so many bytes in the linear part of the skb (TCX only).
    LinearUpTo(i32),
}

/// A program that is attached to a device, in front of those that were there; dropping it takes it down.
pub(crate) struct Counter {
    map: OwnedFd,
    _program: OwnedFd,
    _link: OwnedFd,
}

#[repr(C)]
#[derive(Default)]
struct Attr {
    words: [u32; 4],
    longs: [u64; 14],
}

fn bpf(command: libc::c_long, attr: &mut Attr) -> io::Result<i32> {
    // SAFETY: `attr` is a zero-filled bpf_attr for this command; pointers in it outlive the call.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attr), size_of::<Attr>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}

fn create(command: libc::c_long, mut attr: Attr) -> io::Result<OwnedFd> {
    let fd = bpf(command, &mut attr)?;
    // SAFETY: a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// `struct bpf_insn`.
fn instruction(code: u8, registers: u8, offset: i16, immediate: i32) -> [u8; 8] {
    let (o, i) = (offset.to_le_bytes(), immediate.to_le_bytes());
    [code, registers, o[0], o[1], i[0], i[1], i[2], i[3]]
}

fn program(map: &OwnedFd, count: Count, verdict: i32) -> Vec<[u8; 8]> {
    let mut code = Vec::new();
    if let Count::LinearUpTo(bytes) = count {
        code.extend([
            instruction(0x61, 0x12, 76, 0),    // r2 = ctx->data
            instruction(0x61, 0x13, 80, 0),    // r3 = ctx->data_end
            instruction(0x1f, 0x23, 0, 0),     // r3 -= r2
            instruction(0x25, 0x03, 4, bytes), // if r3 > bytes, do not count
        ]);
    }
    code.extend([
        instruction(0x18, 0x01 | BPF_PSEUDO_MAP_VALUE << 4, 0, map.as_raw_fd()), // r1 = &map[0]
        instruction(0, 0, 0, 0),
        instruction(0xb7, 0x02, 0, 1), // r2 = 1
        instruction(0xdb, 0x21, 0, 0), // atomic *r1 += r2
        instruction(0xb7, 0x00, 0, verdict),
        instruction(0x95, 0, 0, 0), // exit
    ]);
    code
}

impl Counter {
    /// Hangs a counter on a device, in front of the programs that are there. None, with a word about it, where the kernel has no
    /// TCX (before 6.6).
    pub(crate) fn attach(netns: &Netns, device: &str, hook: Hook, count: Count) -> Option<Self> {
        Self::attach_then(netns, device, hook, count, TCX_NEXT)
    }

    /// The same, with this verdict.
    pub(crate) fn attach_then(
        netns: &Netns,
        device: &str,
        hook: Hook,
        count: Count,
        verdict: i32,
    ) -> Option<Self> {
        let map =
            create(BPF_MAP_CREATE, Attr { words: [BPF_MAP_TYPE_ARRAY, 4, 8, 1], ..Attr::default() }).unwrap();
        let (kind, verdict) = match hook {
            Hook::Xdp => (BPF_PROG_TYPE_XDP, XDP_PASS),
            Hook::TcxIngress | Hook::TcxEgress => (BPF_PROG_TYPE_SCHED_CLS, verdict),
        };
        let code = program(&map, count, verdict);
        let mut load = Attr::default();
        load.words[..2].copy_from_slice(&[kind, code.len() as u32]);
        // Instructions, licence; the name stands behind log and version.
        load.words[2..].copy_from_slice(&split(code.as_ptr() as u64));
        load.longs[0] = c"GPL".as_ptr() as u64;
        load.longs[4] = u64::from_le_bytes(*b"foreign\0");
        let program = create(BPF_PROG_LOAD, load).unwrap();

        let ifindex = u32::try_from(netns.index(device)).unwrap();
        let flags = if hook == Hook::Xdp { 0 } else { BPF_F_BEFORE };
        let words = [program.as_raw_fd().cast_unsigned(), ifindex, hook as u32, flags];
        let link = inside(netns, || create(BPF_LINK_CREATE, Attr { words, ..Attr::default() }));
        match link {
            Ok(link) => Some(Self { map, _program: program, _link: link }),
            Err(error) if hook != Hook::Xdp && error.raw_os_error() == Some(libc::EINVAL) => {
                eprintln!("no second program beside the agent's: this kernel has no TCX");
                None
            }
            Err(error) => panic!("{hook:?} on {device}: {error}"),
        }
    }

    /// Packets counted so far.
    pub(crate) fn packets(&self) -> u64 {
        let (key, mut value) = (0_u32, 0_u64);
        let mut attr = Attr::default();
        attr.words[0] = self.map.as_raw_fd().cast_unsigned();
        attr.words[2..].copy_from_slice(&split((&raw const key) as u64));
        attr.longs[0] = (&raw mut value) as u64;
        bpf(BPF_MAP_LOOKUP_ELEM, &mut attr).unwrap();
        value
    }
}

/// A 64-bit field as two of the words, little end first as all machines here have it.
fn split(long: u64) -> [u32; 2] {
    [long as u32, (long >> 32) as u32]
}
