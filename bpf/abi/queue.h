/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/* The part of abi.h that speaks of queues, and what all parts share: direction, bounds of time histograms. */
#ifndef PENDULUM_QUEUE_ABI_H
#define PENDULUM_QUEUE_ABI_H

#include <linux/types.h>

/* Direction of travel through the bottleneck link, seen from the gateway. */
enum pendulum_direction {
	PENDULUM_UP = 0,   /* leaves through the WAN device: TC egress */
	PENDULUM_DOWN = 1, /* enters through the WAN device: TC or XDP ingress */
	PENDULUM_DIRECTIONS = 2,
};

/*
 * Upper bounds of the histograms of times (RTT, time in the queue) in microseconds. A time belongs to the
 * first bound that is not below it; one more slot takes what is above the last. They are those of two
 * histograms in one list, so that each of the two is a sum of slots: of Prometheus' classic one (1, 2 and 5
 * times a power of ten, 0.5 ms to 10 s), and of its native one of schema 1 (powers of the square root of two
 * seconds, 2^-13 to 2^4, rounded down).
 */
#define PENDULUM_TIME_BOUNDS_US                                                                              \
	{122,     172,     244,     345,      488,      500,     690,     976,     1000,    1381,            \
	 1953,    2000,    2762,    3906,     5000,     5524,    7812,    10000,   11048,   15625,           \
	 20000,   22097,   31250,   44194,    50000,    62500,   88388,   100000,  125000,  176776,          \
	 200000,  250000,  353553,  500000,   707106,   1000000, 1414213, 2000000, 2828427, 4000000,         \
	 5000000, 5656854, 8000000, 10000000, 11313708, 16000000}
#define PENDULUM_TIME_BOUNDS 46
#define PENDULUM_TIME_SLOTS  47

/* Packets that left the queue of the uplink, for each class, by the time they came. A power of two. */
#define PENDULUM_DEPARTURES 8192

/*
 * Local queues, docs/design/queues.md. A queue is the root qdisc of the device that was registered for a
 * direction: the WAN device for PENDULUM_UP, a shaping ifb for PENDULUM_DOWN.
 */

/* What stands in a queue. Data is everything that is no pure ACK. */
enum pendulum_queue_class {
	PENDULUM_QUEUE_DATA = 0,
	PENDULUM_QUEUE_ACK = 1,
	PENDULUM_QUEUE_CLASSES = 2,
};

/* Why a packet was dropped. */
enum pendulum_drop {
	PENDULUM_DROP_OVERLIMIT = 0,  /* the buffer was full */
	PENDULUM_DROP_AQM = 1,        /* by active queue management */
	PENDULUM_DROP_ACK_FILTER = 2, /* cake replaced an older ACK by a newer one */
	PENDULUM_DROP_OTHER = 3,      /* queue flushed, device down, driver */
	PENDULUM_DROPS = 4,
};

/* How our own account of a queue went wrong, and was set right from the qdisc's. */
enum pendulum_queue_event {
	PENDULUM_QUEUE_DRIFT = 0,    /* the qdisc had done something between two events that no event told */
	PENDULUM_QUEUE_UNMARKED = 1, /* a packet without class and time left the queue: counted as data */
	PENDULUM_QUEUE_REQUEUED = 2, /* a packet came back from the driver and left a second time */
	PENDULUM_QUEUE_ADOPTED = 3,  /* another qdisc was met than before */
	PENDULUM_QUEUE_LONG_CHAIN = 4, /* more packets in one dequeue than are looked at */
	/* an ACK was dropped inside, and ACKs of several seconds were queued: which second it came in is not
	   known */
	PENDULUM_QUEUE_UNKNOWN_ACK = 5,
	PENDULUM_QUEUE_EVENTS = 6,
};

/* Bits of pendulum_queue.flags. */
enum pendulum_queue_flag {
	PENDULUM_QUEUE_EXACT = 1 << 0,        /* the qdisc keeps one level for the whole queue */
	PENDULUM_QUEUE_DROPS_INSIDE = 1 << 1, /* at its limit it drops packets that stood in it */
	PENDULUM_QUEUE_AQM = 1 << 2,          /* it drops packets for their age */
	PENDULUM_QUEUE_CAKE = 1 << 3,
};

/* The history ring: buckets of one length in a ring for each direction. */
#define PENDULUM_BUCKET_NS    10000000
#define PENDULUM_RING_BUCKETS 512

/* The device that is registered for a direction. The agent writes it with the addresses zero; the first event
 * fills them in, so that later ones are recognised by two comparisons. */
struct pendulum_queue_device {
	__u64 qdisc; /* kernel addresses of its root qdisc and of itself */
	__u64 device;
	__u32 ifindex; /* 0: none */
	__u32 netns;   /* inode number of the network namespace */
	__u32 flags;   /* enum pendulum_queue_flag, of the qdiscs below the root */
	__u32 pad;
};
_Static_assert(sizeof(struct pendulum_queue_device) == 32, "abi: pendulum_queue_device");

/* Bytes are the qdisc's own (qdisc_pkt_len: link-layer bytes, every segment of a super-packet with its
 * headers); a super-packet is one packet. */
struct pendulum_queue_level {
	__u32 bytes;
	__u32 packets;
	__u32 ack_bytes; /* of those */
	__u32 ack_packets;
};
_Static_assert(sizeof(struct pendulum_queue_level) == 16, "abi: pendulum_queue_level");

/* Totals since the device was registered; index: enum pendulum_queue_class. Packets that came and left are
 * counted as the qdisc counts what it has sent: every segment of a super-packet. */
struct pendulum_queue_totals {
	__u64 enqueued_bytes[PENDULUM_QUEUE_CLASSES];
	__u64 enqueued_packets[PENDULUM_QUEUE_CLASSES];
	__u64 dequeued_bytes[PENDULUM_QUEUE_CLASSES];
	__u64 dequeued_packets[PENDULUM_QUEUE_CLASSES];
	__u64 dropped_bytes[PENDULUM_QUEUE_CLASSES];
	__u64 dropped_packets[PENDULUM_QUEUE_CLASSES];
	__u64 sojourn_sum_us[PENDULUM_QUEUE_CLASSES];
	__u64 sojourn_packets[PENDULUM_QUEUE_CLASSES];
};
_Static_assert(sizeof(struct pendulum_queue_totals) == 128, "abi: pendulum_queue_totals");

/*
 * A queue as it stands, and the bucket of its newest event while that is open (struct pendulum_bucket has
 * what each field means). Written under the qdisc's lock, but for the drops (atomic). Enqueue and dequeue
 * often run on different CPUs: what each event writes lies in the first four cache lines.
 */
struct pendulum_queue {
	__u64 qdisc; /* kernel addresses: which qdisc this is */
	__u64 ops;
	__u64 sent_bytes; /* the qdisc's own count, at the newest event */
	__u64 sent_packets;
	__u64 last_ns; /* newest enqueue or dequeue, monotonic */
	__u64 bucket;  /* number of the bucket of that time; 0: none yet */
	struct pendulum_queue_level level;

	__u64 bytes_ns;
	__u64 ack_bytes_ns;
	__u64 packets_ns;
	__u32 min_bytes;
	__u32 max_bytes;
	__u32 min_packets;
	__u32 max_packets;
	__u32 sojourn_max_us[PENDULUM_QUEUE_CLASSES];
	__u32 inside_ack_packets; /* ACKs dropped inside that the level still counts */
	__u32 inside_ack_bytes;
	__u32 flags;   /* enum pendulum_queue_flag */
	__u32 jiffies; /* of the newest event, low word */

	struct pendulum_queue_totals totals;
	__u64 drops[PENDULUM_DROPS];         /* packets */
	__u64 events[PENDULUM_QUEUE_EVENTS]; /* times */
	__u32 ack_oldest;                    /* the first second whose ACKs may be in the queue (queue.h) */
	__u32 pad0;
	__u64 pad[5];
};
_Static_assert(sizeof(struct pendulum_queue) == 6 * 64, "abi: pendulum_queue");

/*
 * One bucket of the ring. It speaks for [number · PENDULUM_BUCKET_NS, (number + 1) · PENDULUM_BUCKET_NS) of
 * the monotonic clock, as far as `last_ns`; from there to its end `last` holds, and a bucket that is not
 * there had no event. `totals` are those after its last event, so that nothing is lost with a bucket that was
 * not read. A bucket is written when the first event after it comes; until then it stands in struct
 * pendulum_queue.
 */
struct pendulum_bucket {
	__u64 number;   /* 0: never used, or being opened */
	__u64 last_ns;  /* newest event */
	__u64 bytes_ns; /* integral of the level over time */
	__u64 ack_bytes_ns;
	__u64 packets_ns;
	struct pendulum_queue_totals totals;
	struct pendulum_queue_level last;
	__u32 min_bytes;
	__u32 max_bytes;
	__u32 min_packets;
	__u32 max_packets;
	__u32 sojourn_max_us[PENDULUM_QUEUE_CLASSES];
};
_Static_assert(sizeof(struct pendulum_bucket) == 40 + 128 + 16 + 24, "abi: pendulum_bucket");

/* Time spent in the queue, of one class; one copy for each CPU. Bounds: PENDULUM_TIME_BOUNDS_US. */
struct pendulum_sojourn {
	__u64 sum_us;
	__u64 slots[PENDULUM_TIME_SLOTS];
};
_Static_assert(sizeof(struct pendulum_sojourn) == (1 + PENDULUM_TIME_SLOTS) * 8, "abi: pendulum_sojourn");

/*
 * A packet's passage through the queue of the uplink, kept by class and by the time it came (low bits of the
 * mark's time): one word, so that it is never read half-written.
 */
struct pendulum_departure {
	__u64 passage; /* 31…0 when it left, ticks of 4.096 µs; 63…32 its mark (mark.h); 0: none yet */
};
_Static_assert(sizeof(struct pendulum_departure) == 8, "abi: pendulum_departure");

#endif
