//! The history ring: the kernel's buckets of 10 ms, read from shared memory without system calls.

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use aya::maps::{Array, Map, MapData};
use aya::{Ebpf, Pod};
use pendulum_model::sample::{QueueSample, QueueSource};
use pendulum_model::segment::Direction;

use super::BpfError;
use super::abi::{self, pendulum_bucket, pendulum_queue, pendulum_queue_level, pendulum_queue_totals};
use super::map_error;

/// Length of a bucket.
pub const BUCKET: Duration = Duration::from_nanos(abi::PENDULUM_BUCKET_NS as u64);
const BUCKET_NS: u64 = abi::PENDULUM_BUCKET_NS as u64;
const RING: u64 = abi::PENDULUM_RING_BUCKETS as u64;

/// An event takes its time first and is written a moment later: only what is over for this long is read.
const SETTLE_NS: u64 = 1_000_000;
/// The oldest buckets of a full ring may be overwritten while they are read: they are given up at once.
const MARGIN: u64 = 8;

/// An ARRAY map with `BPF_F_MMAPABLE`, mapped for reading.
pub(super) struct Mapping<T> {
    start: NonNull<T>,
    length: usize,
    bytes: usize,
    _elements: PhantomData<T>,
}

// SAFETY: the memory is shared with the kernel, belongs to no thread, and is only ever read by value.
unsafe impl<T: Send> Send for Mapping<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Mapping<T> {}

impl<T: Pod> Mapping<T> {
    /// Map all `length` elements of an array map whose values are `T`.
    pub(super) fn new(map: BorrowedFd<'_>, length: usize) -> io::Result<Self> {
        // The kernel keeps elements 8 bytes apart or a multiple of it (`array_map_alloc`).
        if !size_of::<T>().is_multiple_of(8) {
            return Err(io::Error::other("the element's size is no multiple of 8"));
        }
        // SAFETY: a request for a name of the page size has no preconditions.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
        let bytes = (size_of::<T>() * length).next_multiple_of(page);
        // SAFETY: a new mapping at a place of the kernel's choice; it touches nothing that is there.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ, libc::MAP_SHARED, map.as_raw_fd(), 0)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mapped at address 0"))?;
        Ok(Self { start, length, bytes, _elements: PhantomData })
    }

    /// A copy of one element. The kernel may be writing it: see [`RingReader`] for how a torn copy is recognised.
    ///
    /// # Panics
    /// If `index` is beyond the map.
    pub(super) fn read(&self, index: usize) -> T {
        assert!(index < self.length, "element {index} of {}", self.length);
        // SAFETY: inside the mapping, aligned (elements start at a page and are multiples of 8), and any bit pattern is
        // a `Pod` value; volatile, because the kernel writes it meanwhile.
        unsafe { self.start.add(index).read_volatile() }
    }
}

impl<T> Drop for Mapping<T> {
    fn drop(&mut self) {
        // SAFETY: exactly what was mapped, and no reference into it exists.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// A mapping of one of an object's maps.
pub(super) fn mapping<T: aya::Pod>(object: &Ebpf, name: &'static str) -> Result<Mapping<T>, BpfError> {
    let missing = BpfError::Missing { what: "map", name };
    let Some(map) = object.map(name) else { return Err(missing) };
    let Map::Array(data) = map else { return Err(missing) };
    let array: Array<&MapData, T> = map.try_into().map_err(|e| map_error("read", name, e))?;
    let length = array.len();
    Mapping::new(data.fd().as_fd(), length as usize).map_err(|source| BpfError::Map {
        action: "map into memory",
        map: name,
        source,
    })
}

/// One queue over one bucket's time.
#[derive(Clone, Copy, Debug)]
pub struct QueueInterval {
    /// The bucket's number: its time on the monotonic clock, in [`BUCKET`]s.
    pub number: u64,
    /// Lowest level.
    pub min_bytes: u32,
    /// Highest level.
    pub max_bytes: u32,
    /// Highest level.
    pub max_packets: u32,
    /// Time-weighted mean level.
    pub mean_bytes: f64,
    /// Of it, pure ACKs.
    pub mean_ack_bytes: f64,
    /// Time-weighted mean level.
    pub mean_packets: f64,
    /// What came, left and was dropped in it.
    pub events: pendulum_queue_totals,
    /// Longest time in the queue of those that left in it, by class, microseconds.
    pub sojourn_max_us: [u32; 2],
}

impl QueueInterval {
    /// Its end on the monotonic clock.
    pub fn end(&self) -> Duration {
        Duration::from_nanos((self.number + 1) * BUCKET_NS)
    }

    /// The detector's view of it.
    pub fn queue(&self) -> QueueSample {
        QueueSample {
            source: QueueSource::Tracepoint,
            min_bytes: self.min_bytes.into(),
            mean_bytes: self.mean_bytes,
            max_bytes: self.max_bytes.into(),
            uncertainty_bytes: 0.0,
        }
    }

    /// Nothing happened: the level stayed.
    fn quiet(number: u64, level: pendulum_queue_level) -> Self {
        Self {
            number,
            min_bytes: level.bytes,
            max_bytes: level.bytes,
            max_packets: level.packets,
            mean_bytes: level.bytes.into(),
            mean_ack_bytes: level.ack_bytes.into(),
            mean_packets: level.packets.into(),
            events: pendulum_queue_totals::default(),
            sojourn_max_us: [0; 2],
        }
    }
}

/// Reads one direction's ring in order, each bucket once.
pub struct RingReader {
    ring: Arc<Mapping<pendulum_bucket>>,
    /// Where the newest bucket stands until the next one begins.
    queues: Arc<Mapping<pendulum_queue>>,
    direction: Direction,
    first: usize,
    /// The next bucket to read.
    next: u64,
    level: pendulum_queue_level,
    totals: pendulum_queue_totals,
    /// Buckets that were overwritten or torn before they were read.
    lost: u64,
}

impl RingReader {
    pub(super) fn new(
        ring: Arc<Mapping<pendulum_bucket>>,
        queues: Arc<Mapping<pendulum_queue>>,
        direction: Direction,
    ) -> Self {
        let state = queues.read(direction as usize);
        Self {
            ring,
            queues,
            direction,
            first: direction as usize * RING as usize,
            next: monotonic_ns() / BUCKET_NS,
            level: state.level,
            totals: state.totals,
            lost: 0,
        }
    }

    /// All buckets that are over and were not read yet, oldest first: one interval each, without gaps. No system call.
    pub fn read(&mut self, mut visit: impl FnMut(QueueInterval)) {
        let open = monotonic_ns().saturating_sub(SETTLE_NS) / BUCKET_NS;
        let oldest = open.saturating_sub(RING - MARGIN);
        if self.next < oldest {
            self.lost += oldest - self.next;
            self.next = oldest;
        }
        while self.next < open {
            let number = self.next;
            self.next += 1;
            let interval = match self.bucket(number) {
                Some(bucket) => self.apply(number, &bucket),
                None => QueueInterval::quiet(number, self.level),
            };
            visit(interval);
        }
    }

    /// Buckets that were not read in time.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// The level that an interval without events repeats.
    pub fn level(&self) -> pendulum_queue_level {
        self.level
    }

    /// The qdisc itself said that this much stands in it while nothing was going on. A level that disagrees is set
    /// right: the qdisc was flushed or replaced, which no tracepoint tells. Answers whether it disagreed.
    pub fn repair(&mut self, bytes: u32, packets: u32) -> bool {
        let drifted = (self.level.bytes, self.level.packets) != (bytes, packets);
        if drifted {
            self.level = pendulum_queue_level {
                bytes,
                packets,
                ack_bytes: self.level.ack_bytes.min(bytes),
                ack_packets: self.level.ack_packets.min(packets),
            };
        }
        drifted
    }

    /// The bucket, if it had events. One that is overwritten meanwhile is counted as lost.
    fn bucket(&mut self, number: u64) -> Option<pendulum_bucket> {
        // The newest one still stands beside the queue's state. It is written to the ring before the state turns to the
        // next: if that happens while it is read, it is found there.
        let queue = self.direction as usize;
        let state = self.queues.read(queue);
        if state.bucket == number {
            fence(Ordering::Acquire);
            if self.queues.read(queue).bucket == number {
                return Some(state.into());
            }
        }
        let index = self.first + (number % RING) as usize;
        let bucket = self.ring.read(index);
        fence(Ordering::Acquire);
        let after = self.ring.read(index).number;
        if bucket.number == number && after == number {
            return Some(bucket);
        }
        // An older number: it had no event. 0 or a newer one: it is being overwritten, after a whole turn of the ring.
        if bucket.number > number || after > number || (bucket.number == 0) != (after == 0) {
            self.lost += 1;
        }
        None
    }

    fn apply(&mut self, number: u64, bucket: &pendulum_bucket) -> QueueInterval {
        let rest = ((number + 1) * BUCKET_NS).saturating_sub(bucket.last_ns);
        let mean =
            |integral: u64, last: u32| (integral as f64 + f64::from(last) * rest as f64) / BUCKET_NS as f64;
        let events = bucket.totals.since(&self.totals);
        self.totals = bucket.totals;
        self.level = bucket.last;
        QueueInterval {
            number,
            min_bytes: bucket.min_bytes,
            max_bytes: bucket.max_bytes,
            max_packets: bucket.max_packets,
            mean_bytes: mean(bucket.bytes_ns, bucket.last.bytes),
            mean_ack_bytes: mean(bucket.ack_bytes_ns, bucket.last.ack_bytes),
            mean_packets: mean(bucket.packets_ns, bucket.last.packets),
            events,
            sojourn_max_us: bucket.sojourn_max_us,
        }
    }
}

/// The bucket that is still open in a queue's state.
impl From<pendulum_queue> for pendulum_bucket {
    fn from(state: pendulum_queue) -> Self {
        Self {
            number: state.bucket,
            last_ns: state.last_ns,
            bytes_ns: state.bytes_ns,
            ack_bytes_ns: state.ack_bytes_ns,
            packets_ns: state.packets_ns,
            totals: state.totals,
            last: state.level,
            min_bytes: state.min_bytes,
            max_bytes: state.max_bytes,
            min_packets: state.min_packets,
            max_packets: state.max_packets,
            sojourn_max_us: state.sojourn_max_us,
        }
    }
}

/// The clock of `bpf_ktime_get_ns`, from the vDSO.
pub(crate) fn monotonic() -> Duration {
    Duration::from_nanos(monotonic_ns())
}

/// The same in nanoseconds.
pub(crate) fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec; CLOCK_MONOTONIC is always there.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}
