//! `BPF_PROG_TEST_RUN` with many repetitions, and an empty classifier to compare with.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

use anyhow::{Context as _, Result};

const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_PROG_TEST_RUN: libc::c_long = 10;
const BPF_PROG_TYPE_SCHED_CLS: u32 = 3;

/// `struct bpf_insn`: `r0 = -1; exit` — TCX_NEXT, and nothing else.
const EMPTY: [[u8; 8]; 2] = [[0xb7, 0, 0, 0, 0xff, 0xff, 0xff, 0xff], [0x95, 0, 0, 0, 0, 0, 0, 0]];

#[repr(C)]
#[derive(Default)]
struct LoadAttr {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    rest: [u64; 12],
}

#[repr(C)]
#[derive(Default)]
struct TestAttr {
    prog_fd: u32,
    retval: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    rest: [u64; 6],
}

fn bpf<T>(command: libc::c_long, attr: &mut T) -> io::Result<libc::c_long> {
    // SAFETY: `attr` is the start of a zero-filled bpf_attr for this command, of the size given; pointers in it
    // outlive the call.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attr), size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Load a classifier that does nothing.
pub(crate) fn empty_classifier() -> Result<OwnedFd> {
    let mut attr = LoadAttr {
        prog_type: BPF_PROG_TYPE_SCHED_CLS,
        insn_cnt: EMPTY.len() as u32,
        insns: EMPTY.as_ptr() as u64,
        license: c"GPL".as_ptr() as u64,
        ..LoadAttr::default()
    };
    let fd = bpf(BPF_PROG_LOAD, &mut attr).context("loading an empty classifier")?;
    // SAFETY: a new file descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(i32::try_from(fd)?) })
}

/// Nanoseconds for one run of a program on a packet, mean of `repeat` runs by the kernel's own clock.
pub(crate) fn nanoseconds(program: BorrowedFd<'_>, packet: &[u8], repeat: u32) -> Result<u32> {
    let mut attr = TestAttr {
        prog_fd: program.as_raw_fd().cast_unsigned(),
        data_size_in: u32::try_from(packet.len())?,
        data_in: packet.as_ptr() as u64,
        repeat,
        ..TestAttr::default()
    };
    bpf(BPF_PROG_TEST_RUN, &mut attr).context("running a program on a packet")?;
    Ok(attr.duration)
}
