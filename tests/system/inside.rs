//! Work inside a namespace.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;

use crate::netns::Netns;

/// Calls `action` on a thread that stands inside the namespace. Sockets it opens stay there.
pub(crate) fn inside<T: Send>(netns: &Netns, action: impl FnOnce() -> T + Send) -> T {
    let file = File::open(format!("/run/netns/{}", netns.name)).unwrap();
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: moves only this thread, which ends with the scope.
            let result = unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) };
            assert_eq!(result, 0, "entering {}: {}", netns.name, io::Error::last_os_error());
            action()
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
