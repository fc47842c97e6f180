//! `BPF_PROG_TEST_RUN` with many repetitions, and empty programs to compare with.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

use anyhow::{Context as _, Result, ensure};
use aya::Btf;
use aya_obj::btf::BtfKind;

const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_PROG_TEST_RUN: libc::c_long = 10;
const BPF_RAW_TRACEPOINT_OPEN: libc::c_long = 17;
const BPF_LINK_CREATE: libc::c_long = 28;
const BPF_PROG_TYPE_SCHED_CLS: u32 = 3;
const BPF_PROG_TYPE_TRACING: u32 = 26;
const BPF_TRACE_RAW_TP: u32 = 23;

/// `struct bpf_insn`: `r0 = -1; exit` — TCX_NEXT, and nothing else.
const EMPTY: [[u8; 8]; 2] = [[0xb7, 0, 0, 0, 0xff, 0xff, 0xff, 0xff], [0x95, 0, 0, 0, 0, 0, 0, 0]];
/// `r0 = 0; exit`.
const EMPTY_TRACING: [[u8; 8]; 2] = [[0xb7, 0, 0, 0, 0, 0, 0, 0], [0x95, 0, 0, 0, 0, 0, 0, 0]];

/// The part of `union bpf_attr` for `BPF_PROG_LOAD`, as far as it is needed.
#[repr(C)]
#[derive(Default)]
struct LoadAttr {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log: [u64; 2],
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; 16],
    prog_ifindex: u32,
    expected_attach_type: u32,
    btf: [u64; 4],
    line_info_cnt: u32,
    attach_btf_id: u32,
    rest: u64,
}

#[repr(C)]
#[derive(Default)]
struct TracepointAttr {
    name: u64,
    prog_fd: u32,
    pad: u32,
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
    context_size_in: u32,
    context_size_out: u32,
    context_in: u64,
    rest: [u64; 4],
}

/// The part of `union bpf_attr` for `BPF_LINK_CREATE`.
#[repr(C)]
#[derive(Default)]
struct LinkAttr {
    prog_fd: u32,
    target_ifindex: u32,
    attach_type: u32,
    flags: u32,
    rest: [u64; 4],
}

fn bpf<T>(command: libc::c_long, attr: &mut T) -> io::Result<libc::c_long> {
    // SAFETY: `attr` is the start of a zero-filled bpf_attr for this command, of the size given; pointers in it
    // outlive the call.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attr), size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn load(code: &[[u8; 8]; 2], attr: LoadAttr) -> io::Result<OwnedFd> {
    let mut attr = LoadAttr {
        insn_cnt: code.len() as u32,
        insns: code.as_ptr() as u64,
        license: c"GPL".as_ptr() as u64,
        ..attr
    };
    let fd = bpf(BPF_PROG_LOAD, &mut attr)?;
    // SAFETY: a new file descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Load a classifier that does nothing; `name`: in the kernel's list of programs.
pub(crate) fn empty_classifier(name: &str) -> Result<OwnedFd> {
    let attr =
        LoadAttr { prog_type: BPF_PROG_TYPE_SCHED_CLS, prog_name: short_name(name), ..LoadAttr::default() };
    load(&EMPTY, attr).context("loading an empty classifier")
}

/// The side of a device that a classifier is attached to, as `enum bpf_attach_type` has it.
#[derive(Clone, Copy)]
pub(crate) enum TcxSide {
    Ingress = 46,
    Egress = 47,
}

/// Number of a device of this thread's namespace.
pub(crate) fn index_of(device: &str) -> Result<u32> {
    let name = CString::new(device)?;
    // SAFETY: a NUL-terminated name.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    ensure!(index != 0, "there is no device {device} in this namespace");
    Ok(index)
}

/// Attach a classifier by TCX in front of what is there, for as long as the result lives. `device` is of this thread's namespace.
pub(crate) fn attach_tcx(program: BorrowedFd<'_>, device: &str, side: TcxSide) -> Result<OwnedFd> {
    let mut attr = LinkAttr {
        prog_fd: program.as_raw_fd().cast_unsigned(),
        target_ifindex: index_of(device)?,
        attach_type: side as u32,
        ..LinkAttr::default()
    };
    let link = bpf(BPF_LINK_CREATE, &mut attr)
        .with_context(|| format!("attaching a classifier to {device} (TCX, Linux 6.6)"))?;
    // SAFETY: a new file descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(link as i32) })
}

/// A name as the kernel keeps it.
fn short_name(name: &str) -> [u8; 16] {
    let mut kept = [0; 16];
    let length = name.len().min(15);
    kept[..length].copy_from_slice(&name.as_bytes()[..length]);
    kept
}

/// A program that does nothing, at a tracepoint as long as it lives. `name`: in the kernel's list of programs.
pub(crate) struct EmptyTracing {
    _program: OwnedFd,
    _link: OwnedFd,
}

impl EmptyTracing {
    pub(crate) fn attach(name: &str, tracepoint: &str) -> Result<Self> {
        let btf = Btf::from_sys_fs().context("reading the kernel's BTF")?;
        let typedef = format!("btf_trace_{tracepoint}");
        let program = load(
            &EMPTY_TRACING,
            LoadAttr {
                prog_type: BPF_PROG_TYPE_TRACING,
                expected_attach_type: BPF_TRACE_RAW_TP,
                attach_btf_id: btf.id_by_type_name_kind(&typedef, BtfKind::Typedef)?,
                prog_name: short_name(name),
                ..LoadAttr::default()
            },
        )
        .with_context(|| format!("loading an empty program for {tracepoint}"))?;
        let mut attr =
            TracepointAttr { prog_fd: program.as_raw_fd().cast_unsigned(), ..TracepointAttr::default() };
        let link = bpf(BPF_RAW_TRACEPOINT_OPEN, &mut attr)
            .with_context(|| format!("attaching an empty program to {tracepoint}"))?;
        // SAFETY: a new file descriptor that nobody else owns.
        let link = unsafe { OwnedFd::from_raw_fd(link as i32) };
        Ok(Self { _program: program, _link: link })
    }
}

/// The clock of a guest advances by this for each instruction (`-icount shift=1`, tests/vm/qemu.py).
const NS_PER_INSTRUCTION: u32 = 2;

/// In an emulated guest: costs are instructions there, which are the same on any machine, and know of no cache.
pub(crate) fn is_emulated() -> bool {
    std::env::var_os("PENDULUM_IN_VM").is_some()
}

/// What costs are counted in.
pub(crate) fn unit() -> &'static str {
    if is_emulated() { "instructions" } else { "ns" }
}

/// What one run of a program on a packet costs, in units of [`unit()`]: mean of `repeat` runs by the kernel's own clock.
pub(crate) fn cost(program: BorrowedFd<'_>, packet: &[u8], repeat: u32) -> Result<u32> {
    cost_in(program, packet, &[], repeat)
}

/// The same, of a packet with this `struct __sk_buff`.
pub(crate) fn cost_in(program: BorrowedFd<'_>, packet: &[u8], context: &[u8], repeat: u32) -> Result<u32> {
    let mut attr = TestAttr {
        prog_fd: program.as_raw_fd().cast_unsigned(),
        data_size_in: u32::try_from(packet.len())?,
        data_in: packet.as_ptr() as u64,
        repeat,
        context_size_in: u32::try_from(context.len())?,
        context_in: if context.is_empty() { 0 } else { context.as_ptr() as u64 },
        ..TestAttr::default()
    };
    bpf(BPF_PROG_TEST_RUN, &mut attr).context("running a program on a packet")?;
    Ok(if is_emulated() { attr.duration / NS_PER_INSTRUCTION } else { attr.duration })
}
