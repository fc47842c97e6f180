//! Reading a whole hash map with few system calls (`BPF_MAP_LOOKUP_BATCH`, Linux 5.6): aya 0.14 has only
//! two calls for each entry, which at 10,000 flows takes longer than a sampling tick.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, BorrowedFd};

use aya::Pod;

/// `enum bpf_cmd` of <linux/bpf.h>.
const BPF_MAP_LOOKUP_BATCH: libc::c_long = 24;

/// The `batch` member of `union bpf_attr`.
#[repr(C)]
struct BatchAttr {
    in_batch: u64,
    out_batch: u64,
    keys: u64,
    values: u64,
    count: u32,
    map_fd: u32,
    elem_flags: u64,
    flags: u64,
}

/// Entries asked for at a time. More than a hash bucket ever holds, so that `ENOSPC` needs no special case below it.
const CHUNK: usize = 512;

/// Every entry of a hash map, `expected` of them. Entries that come or go meanwhile may be missing; none comes twice.
///
/// # Errors
/// What the kernel says; `EINVAL` before Linux 5.6.
pub(super) fn entries<K: Pod, V: Pod>(map: BorrowedFd<'_>, expected: usize) -> io::Result<Vec<(K, V)>> {
    let mut found = Vec::with_capacity(expected);
    let mut chunk = CHUNK;
    let mut keys: Vec<MaybeUninit<K>> = Vec::new();
    let mut values: Vec<MaybeUninit<V>> = Vec::new();
    // The kernel's place in the map between calls: a bucket number, but never larger than a key.
    let mut place = MaybeUninit::<K>::zeroed();
    let mut next = MaybeUninit::<K>::zeroed();
    let mut first = true;

    loop {
        keys.resize_with(chunk, MaybeUninit::uninit);
        values.resize_with(chunk, MaybeUninit::uninit);
        let mut attr = BatchAttr {
            in_batch: if first { 0 } else { place.as_mut_ptr() as u64 },
            out_batch: next.as_mut_ptr() as u64,
            keys: keys.as_mut_ptr() as u64,
            values: values.as_mut_ptr() as u64,
            count: u32::try_from(chunk).unwrap_or(u32::MAX),
            map_fd: map.as_raw_fd().cast_unsigned(),
            elem_flags: 0,
            flags: 0,
        };
        // SAFETY: `attr` is a valid bpf_attr for this command; all pointers lead to live buffers of `count` elements
        // (places: one key each), and the kernel writes no more than that.
        let result = unsafe {
            libc::syscall(libc::SYS_bpf, BPF_MAP_LOOKUP_BATCH, &raw mut attr, size_of::<BatchAttr>())
        };
        let error = (result < 0).then(io::Error::last_os_error);
        match error.as_ref().map(|e| (e, e.raw_os_error())) {
            // The end of the map: the last entries are in the buffers.
            None | Some((_, Some(libc::ENOENT))) => {}
            Some((_, Some(libc::ENOSPC))) => {
                chunk *= 2;
                continue;
            }
            Some((_, Some(libc::EINTR))) => continue,
            Some(_) => return Err(error.unwrap_or_else(io::Error::last_os_error)),
        }
        let count = usize::try_from(attr.count).unwrap_or(0).min(chunk);
        for (key, value) in keys[..count].iter().zip(&values[..count]) {
            // SAFETY: the kernel filled the first `count` elements; both types are `Pod`.
            found.push(unsafe { (key.assume_init_read(), value.assume_init_read()) });
        }
        if error.is_some() {
            return Ok(found);
        }
        place = next;
        next = MaybeUninit::zeroed();
        first = false;
    }
}
