//! The running kernel.

use aya::util::KernelVersion;

/// Whether the running kernel is this one or a newer one.
pub(crate) fn is_at_least((major, minor, patch): (u8, u8, u16)) -> bool {
    KernelVersion::current().is_ok_and(|kernel| kernel >= KernelVersion::new(major, minor, patch))
}
