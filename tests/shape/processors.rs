//! An ACK that comes on one processor leaves on another: since Linux 6.19 packets are enqueued on the processor that holds the qdisc's
//! lock, whoever sent them, and they have always been dequeued on any.

use crate::craft::LinkLayer;
use crate::decisions::{ack, ethernet};
use crate::kernel::Filter;
use crate::rig::skipped;

/// The processors that this thread may run on.
fn processors() -> Vec<usize> {
    // SAFETY: all zero is a set, which the kernel fills.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        assert_eq!(libc::sched_getaffinity(0, size_of_val(&set), &raw mut set), 0);
        set
    };
    // SAFETY: reads a bit of it.
    (0..libc::CPU_SETSIZE as usize).filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &set) }).collect()
}

/// This thread only.
fn run_on(cpu: usize) {
    // SAFETY: all zero is a set; the kernel reads it.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set)
    };
    assert_eq!(set, 0, "processor {cpu}");
}

#[test]
fn the_queue_may_be_left_on_another_processor() {
    const TEST: &str = "the_queue_may_be_left_on_another_processor";
    let [one, two, ..] = processors()[..] else { return skipped(TEST, "one processor only") };
    let Some(mut filter) = Filter::for_test_on(TEST, LinkLayer::Ethernet) else { return };
    for (came, then, left) in [(one, two, one), (two, one, one), (one, one, two)] {
        filter.reset();
        run_on(came);
        let carrier = filter.arrive(&ethernet(&ack(10_000))).expect("it passes");
        run_on(then);
        let newest = ethernet(&ack(20_000));
        assert!(filter.arrive(&newest).is_none(), "it is withheld");
        run_on(left);
        let (packet, fates) = filter.fate_of(|filter| filter.depart(&carrier));
        assert_eq!(fates, ["rewritten newest"], "{came}, {then}, {left}");
        assert_eq!(packet.expect("it leaves"), newest.bytes);
    }
}
