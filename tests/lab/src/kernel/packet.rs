//! Packet sockets (packet(7)): whole frames of one device, in and out.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd, FromRawFd as _, OwnedFd};
use std::time::Duration;

use super::check;

/// A socket that receives every frame which arrives at a device, whomever it is for, and can send any.
#[derive(Debug)]
pub(crate) struct PacketSocket(File);

impl PacketSocket {
    /// Frames the kernel keeps while nobody reads, bytes: seconds of any link of the lab.
    const RECEIVE_BUFFER: libc::c_int = 16 << 20;

    /// Opens one on a device of the calling thread's namespace; it stays there. It never blocks.
    pub(crate) fn open(device: &str) -> io::Result<Self> {
        let name = CString::new(device)?;
        // SAFETY: a string that ends with zero and lives across the call.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        if index == 0 {
            return Err(io::Error::last_os_error());
        }
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: three integers. Protocol 0 receives nothing until bind names the device.
        let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
        check(fd)?;
        // SAFETY: the descriptor was just created by the kernel and belongs to nobody else.
        let socket = Self(File::from(unsafe { OwnedFd::from_raw_fd(fd) }));
        socket.option(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, Self::RECEIVE_BUFFER)?;
        // Else a frame that is sent here would come back as received.
        socket.option(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)?;
        socket.bind(index)?;
        Ok(socket)
    }

    fn option(&self, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
        let length = size_of::<libc::c_int>() as libc::socklen_t;
        // SAFETY: one integer of the given length that lives across the call.
        check(unsafe { libc::setsockopt(self.0.as_raw_fd(), level, name, (&raw const value).cast(), length) })
    }

    fn bind(&self, index: u32) -> io::Result<()> {
        let address = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
            sll_ifindex: index.cast_signed(),
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: one socket address of the given length that lives across the call.
        check(unsafe { libc::bind(self.0.as_raw_fd(), (&raw const address).cast(), length) })
    }

    /// Whether the device is still there. One that is only down is.
    pub(crate) fn has_device(&self) -> io::Result<bool> {
        // SAFETY: all-zero bytes are a valid sockaddr_ll.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        let mut length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: room for one socket address of the given length; both live across the call.
        check(unsafe { libc::getsockname(self.0.as_raw_fd(), (&raw mut address).cast(), &raw mut length) })?;
        // packet_notifier (net/packet/af_packet.c) sets −1 when the device is unregistered.
        Ok(address.sll_ifindex > 0)
    }

    /// The next frame, if one is there.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match (&self.0).read(buffer) {
            Ok(length) => Ok(Some(length)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sends a whole frame.
    pub(crate) fn send(&self, frame: &[u8]) -> io::Result<()> {
        (&self.0).write(frame).map(|_| ())
    }

    /// Waits for a frame, not longer than `timeout`, to the microsecond as far as the machine's load allows.
    pub(crate) fn wait(&self, timeout: Duration) -> io::Result<()> {
        let mut poll = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let timeout = libc::timespec {
            tv_sec: timeout.as_secs().try_into().unwrap_or(i32::MAX.into()),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        // SAFETY: one valid pollfd and one timespec that live across the call; no signal mask.
        check(unsafe { libc::ppoll(&raw mut poll, 1, &raw const timeout, std::ptr::null()) })
    }
}

/// Lets the calling thread run before all ordinary ones, and wake to the microsecond. Where the system refuses, timing is
/// merely worse.
pub(crate) fn prefer_this_thread() {
    // The kernel's own sched_param. musl has none of the functions around it.
    let priority: libc::c_int = 10;
    // SAFETY: integers, and one parameter block that lives across the call; 0 means the calling thread.
    unsafe {
        libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_FIFO, &raw const priority);
        libc::prctl(libc::PR_SET_TIMERSLACK, 1);
    }
}
