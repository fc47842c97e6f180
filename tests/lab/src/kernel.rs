//! The few system calls that the standard library has no safe form of. All unsafe code of this crate is here.
#![expect(
    unsafe_code,
    reason = "setns, prctl, pidfd, packet and ping sockets and TIOCGWINSZ have no safe wrapper in the standard library"
)]

pub(crate) mod packet;

use std::fs::File;
use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

/// Makes `command` start inside the network namespace `netns` (if any), in a process group of its own, and die by SIGKILL
/// together with the thread that starts it.
///
/// Only the network namespace changes. `ip netns exec` would also remount /sys and hide bpffs and cgroupfs.
/// The own process group keeps a Ctrl-C at the terminal from killing children before the lab has taken their results.
pub(crate) fn confine(command: &mut Command, netns: Option<File>) {
    command.process_group(0);
    end_with_parent(command, libc::SIGKILL);
    let Some(netns) = netns else { return };
    // SAFETY: between fork and exec the closure makes only the async-signal-safe call setns, and touches no memory but the
    // captured file descriptor.
    unsafe {
        command.pre_exec(move || check(libc::setns(netns.as_raw_fd(), libc::CLONE_NEWNET)));
    }
}

/// Makes `command` end by `signal` when the thread that starts it does.
pub(crate) fn end_with_parent(command: &mut Command, signal: libc::c_int) {
    let parent = std::process::id();
    // SAFETY: between fork and exec the closure makes only the async-signal-safe calls prctl and getppid, and touches no memory
    // but the captured integers.
    unsafe {
        command.pre_exec(move || {
            check(libc::prctl(libc::PR_SET_PDEATHSIG, signal))?;
            // The parent may have died before prctl took effect; then no signal will ever come.
            if u32::try_from(libc::getppid()) != Ok(parent) {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
            Ok(())
        });
    }
}

/// Moves the calling thread, and nothing else, into a network namespace. It must not be a thread that goes on to serve others.
pub(crate) fn enter_netns(netns: &File) -> io::Result<()> {
    // SAFETY: setns takes two integers; the descriptor is open for the duration of the call.
    check(unsafe { libc::setns(netns.as_raw_fd(), libc::CLONE_NEWNET) })
}

/// A stable reference to one process: its number cannot be reused behind it.
#[derive(Debug)]
pub(crate) struct PidFd(OwnedFd);

impl PidFd {
    /// Fails with ESRCH if no such process exists.
    pub(crate) fn open(pid: u32) -> io::Result<Self> {
        // SAFETY: pidfd_open takes two integers and returns a new descriptor, which is owned from here on.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, libc::c_long::from(pid), 0) };
        match i32::try_from(fd) {
            // SAFETY: the descriptor was just created by the kernel and belongs to nobody else.
            Ok(fd) if fd >= 0 => Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) })),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Sends a signal to exactly this process.
    pub(crate) fn signal(&self, signal: i32) -> io::Result<()> {
        // SAFETY: integers and a null siginfo pointer, which the call allows.
        let result = unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                self.0.as_raw_fd(),
                signal,
                std::ptr::null::<libc::siginfo_t>(),
                0,
            )
        };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Waits until the process has ended; false if it still runs after `timeout`.
    pub(crate) fn wait_gone(&self, timeout: Duration) -> io::Result<bool> {
        let mut poll = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let millis = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: one valid pollfd that lives across the call.
        let ready = unsafe { libc::poll(&raw mut poll, 1, millis) };
        if ready < 0 { Err(io::Error::last_os_error()) } else { Ok(ready > 0) }
    }
}

/// Columns and rows of the terminal behind a descriptor; `None` if there is none, or it does not know.
pub(crate) fn terminal_size(terminal: &impl AsRawFd) -> Option<(usize, usize)> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: TIOCGWINSZ writes one winsize, which lives across the call.
    let result = unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCGWINSZ, &raw mut size) };
    (result == 0 && size.ws_col > 0 && size.ws_row > 0)
        .then(|| (usize::from(size.ws_col), usize::from(size.ws_row)))
}

/// Whether this process runs as root, which every namespace operation needs.
pub fn is_root() -> bool {
    // SAFETY: geteuid has no preconditions and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// A socket for echo requests and replies (`ping` sockets of icmp(7)), in the calling thread's namespace. What is sent and received begins with the
/// ICMP header; the kernel fills in identifier and checksum.
pub(crate) fn icmp_socket() -> io::Result<UdpSocket> {
    // SAFETY: three integers.
    let fd =
        unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, libc::IPPROTO_ICMP) };
    check(fd)?;
    // SAFETY: the descriptor was just created by the kernel and belongs to nobody else.
    Ok(UdpSocket::from(unsafe { OwnedFd::from_raw_fd(fd) }))
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
