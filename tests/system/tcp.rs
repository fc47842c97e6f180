//! TCP connections of the tests' own, whose sockets can be asked for the truth.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::inside::inside;
use crate::netns::Netns;
use crate::rig::wait_until;

/// Sets the congestion control of one socket; the system's default is another on every machine.
pub(crate) fn set_congestion_control(stream: &TcpStream, name: &str) {
    // SAFETY: the name lives across the call and is of the size given.
    let result = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            name.as_ptr().cast(),
            name.len() as libc::socklen_t,
        )
    };
    assert_eq!(result, 0, "congestion control {name}: {}", std::io::Error::last_os_error());
}

/// Limits the window that connections to this listener offer. The kernel doubles the number and keeps half of it for
/// its own overhead (socket(7), SO_RCVBUF).
pub(crate) fn set_receive_buffer(listener: &TcpListener, bytes: u32) {
    // SAFETY: an int that lives across the call, with its size.
    let result = unsafe {
        libc::setsockopt(
            listener.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVBUF,
            (&raw const bytes).cast(),
            size_of_val(&bytes) as libc::socklen_t,
        )
    };
    assert_eq!(result, 0, "SO_RCVBUF: {}", std::io::Error::last_os_error());
}

/// What `ss -ti` prints, without a process for each look.
pub(crate) fn info(stream: &TcpStream) -> libc::tcp_info {
    // SAFETY: plain integers, for which zero is a value.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut size = size_of_val(&info) as libc::socklen_t;
    // SAFETY: buffer and size are live and belong together.
    let result = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut size,
        )
    };
    assert_eq!(result, 0, "TCP_INFO: {}", std::io::Error::last_os_error());
    info
}

/// A connection over which one end sends and the other reads.
pub(crate) struct Transfer {
    pub(crate) sending: TcpStream,
    receiver: JoinHandle<u64>,
    received: Arc<AtomicU64>,
}

impl Transfer {
    /// Over a connection whose two ends are at hand.
    pub(crate) fn over(sending: TcpStream, mut reading: TcpStream) -> Self {
        set_congestion_control(&sending, "cubic");
        let received = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&received);
        let receiver = std::thread::spawn(move || {
            let mut buffer = vec![0; 1 << 16];
            loop {
                match reading.read(&mut buffer).unwrap() {
                    0 => return count.load(Ordering::Relaxed),
                    bytes => count.fetch_add(bytes as u64, Ordering::Relaxed),
                };
            }
        });
        Self { sending, receiver, received }
    }

    /// From one namespace to an address in another.
    pub(crate) fn between(from: &Netns, to: &Netns, address: &str) -> Self {
        let listener = inside(to, || TcpListener::bind(address)).unwrap();
        let sending = inside(from, || TcpStream::connect(address)).unwrap();
        let (reading, _) = listener.accept().unwrap();
        Self::over(sending, reading)
    }

    /// Sends so many bytes more and waits until the other end has acknowledged all.
    pub(crate) fn send(&self, bytes: u64) {
        let chunk = vec![0x55; 1 << 16];
        let mut left = bytes;
        while left > 0 {
            let length = left.min(chunk.len() as u64);
            (&self.sending).write_all(&chunk[..length as usize]).unwrap();
            left -= length;
        }
        wait_until("all is acknowledged", || self.is_acknowledged());
    }

    fn is_acknowledged(&self) -> bool {
        let mut unacknowledged: libc::c_int = 0;
        // SAFETY: TIOCOUTQ (SIOCOUTQ) writes one int, which lives across the call.
        let result =
            unsafe { libc::ioctl(self.sending.as_raw_fd(), libc::TIOCOUTQ, &raw mut unacknowledged) };
        assert_eq!(result, 0, "SIOCOUTQ: {}", std::io::Error::last_os_error());
        unacknowledged == 0
    }

    /// Ends the connection; gives what has arrived in all.
    pub(crate) fn finish(self) -> u64 {
        self.sending.shutdown(Shutdown::Write).unwrap();
        self.receiver.join().unwrap()
    }
}

/// A transfer that goes on by itself, some 20 MB/s, until it is ended.
pub(crate) struct Background {
    stop: Arc<AtomicBool>,
    received: Arc<AtomicU64>,
    thread: JoinHandle<(u64, u64)>,
}

impl Background {
    pub(crate) fn start(transfer: Transfer) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = Arc::clone(&stop);
        let received = Arc::clone(&transfer.received);
        let thread = std::thread::spawn(move || {
            let chunk = vec![0x55; 40_000];
            let mut sent = 0;
            while !stopping.load(Ordering::Relaxed) {
                (&transfer.sending).write_all(&chunk).unwrap();
                sent += chunk.len() as u64;
                std::thread::sleep(Duration::from_millis(2));
            }
            (sent, transfer.finish())
        });
        Self { stop, received, thread }
    }

    /// Waits until payload arrives that has not arrived yet.
    pub(crate) fn assert_flows(&self) {
        let before = self.received.load(Ordering::Relaxed);
        // More than what may stand in socket buffers.
        wait_until("the transfer goes on", || self.received.load(Ordering::Relaxed) > before + 1_000_000);
    }

    /// Ends it; gives the bytes sent and the bytes received.
    pub(crate) fn finish(self) -> (u64, u64) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}
