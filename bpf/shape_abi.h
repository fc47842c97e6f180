/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * The part of abi.h that the shaper needs: what the agent asks of bpf/shape.bpf.c, and what that counts. The
 * rules of abi.h hold. docs/shaping.md tells what each means.
 */
#ifndef PENDULUM_SHAPE_ABI_H
#define PENDULUM_SHAPE_ABI_H

#include <linux/bpf.h>
#include <linux/types.h>

/* How far shaping goes. */
enum pendulum_shape_mode {
	PENDULUM_SHAPE_OFF = 0,
	PENDULUM_SHAPE_DRY_RUN = 1, /* count what would be withheld, change nothing */
	PENDULUM_SHAPE_ENFORCE = 2,
};

/* When an ACK may be withheld; paper 002. */
enum pendulum_ack_filter {
	PENDULUM_FILTER_OFF = 0,
	PENDULUM_FILTER_STATIC = 1,         /* §2: once delta ACKs of the connection are queued */
	PENDULUM_FILTER_DELAYED = 2,        /* §3: once the channel is used up */
	PENDULUM_FILTER_PER_CONNECTION = 3, /* §4: once the connection has more than its fair share */
};

/* What became of a pure ACK, and why. The values are the order of pendulum_shape_counts.acks. */
enum pendulum_ack_fate {
	/* Passed on as it came, because … */
	PENDULUM_ACK_PASSED_OFF = 0,         /* the filter is off */
	PENDULUM_ACK_PASSED_FIRST = 1,       /* first ACK of its connection for a while */
	PENDULUM_ACK_PASSED_NO_CARRIER = 2,  /* none of the connection is queued */
	PENDULUM_ACK_PASSED_UNCONFIRMED = 3, /* the newest queued was not seen to enter the queue */
	PENDULUM_ACK_PASSED_STALE = 4,       /* the newest queued should have left long ago */
	PENDULUM_ACK_PASSED_CARRIER = 5,     /* the newest queued is one that must not be changed */
	PENDULUM_ACK_PASSED_DUPLICATE = 6,   /* acknowledges nothing new: dupACK, window update */
	PENDULUM_ACK_PASSED_TIMESTAMP = 7,   /* its timestamps are older */
	PENDULUM_ACK_PASSED_SACK = 8,
	PENDULUM_ACK_PASSED_FLAGS = 9,       /* flags beside ACK: PSH, ECE, CWR, AE, … */
	PENDULUM_ACK_PASSED_OPTIONS = 10,    /* options beside timestamps: MPTCP, AccECN, AO, MD5, … */
	PENDULUM_ACK_PASSED_LAYOUT = 11,     /* options or DSCP differ from the queued one's */
	PENDULUM_ACK_PASSED_WINDOW = 12,     /* closes the window */
	PENDULUM_ACK_PASSED_LOCAL = 13,      /* of a socket of this machine */
	PENDULUM_ACK_PASSED_SLOW_START = 14, /* the connection is young */
	PENDULUM_ACK_PASSED_DELTA = 15,      /* fewer than delta queued */
	PENDULUM_ACK_PASSED_UNDER_USED = 16, /* delayed: the channel has room */
	PENDULUM_ACK_PASSED_FAIR = 17,       /* per-connection: within its share */
	PENDULUM_ACK_PASSED_STRETCH = 18,    /* enough withheld in a row */
	PENDULUM_ACK_PASSED_TABLE = 19,      /* another connection has the place in the table */
	PENDULUM_ACK_PASSED_OVERFLOW = 20,   /* the full lane has dropped a carrier with numbers to give */
	/* Withheld. */
	PENDULUM_ACK_HELD = 21,
	PENDULUM_ACK_HELD_OVERTAKEN = 22, /* it left the queue after its connection's newest had gone out in
					     an older one's place */
	PENDULUM_ACK_WOULD_HOLD = 23,     /* dry run */
	/* A queued one left with the numbers of a withheld one. */
	PENDULUM_ACK_REWRITTEN = 24,
	/* A withheld one's numbers were not sent, because … */
	PENDULUM_ACK_RELEASED_SUPERSEDED = 25, /* a newer one was withheld after it */
	PENDULUM_ACK_RELEASED_LOST = 26,       /* its carrier did not leave the queue: dropped behind us */
	PENDULUM_ACK_FATES = 27,
};

/* Set by the agent at any time. */
struct pendulum_shape_control {
	__u64 channel_bytes_per_s; /* rate of the shaped uplink */
	__u64 window_ns;           /* of the rate measurement (TSW), paper 002 §3.1 */
	__u64 carrier_ns;          /* an ACK queued for longer is no carrier */
	__u64 idle_ns;             /* a connection that sent no ACK for so long is forgotten */
	__u64 sparse_idle_ns;      /* a connection that sent nothing for so long begins anew */
	__u32 mode;                /* enum pendulum_shape_mode */
	__u32 filter;              /* enum pendulum_ack_filter */
	__u32 delta;               /* ACKs, at least 1 */
	__u32 stretch;             /* most ACKs withheld for one carrier */
	__u32 spared_bytes;        /* acknowledged since a connection was met: not filtered before */
	__u32 upper_permille;      /* utilisation at which delayed filtering begins */
	__u32 lower_permille;      /* … and ends */
	__u32 uplink_ifindex;      /* the shaping device; 0: none */
	__u32 queue_ifindex;   /* the device whose queue ACKs enter: the same, or the WAN device in dry run */
	__u32 netns;           /* inode number of the network namespace of both */
	__u32 lane_priority;   /* class of the ACK lane as skb->priority; 0: no lane */
	__u32 merge_sack;      /* not 0: an ACK may be withheld whose SACK blocks cover its carrier's */
	__u32 sparse_priority; /* class of connections that have sent little; 0: none */
	__u32 sparse_bytes;    /* so much is little */
	__u32 turn_priority;   /* class of ACKs of connections beyond slow start; 0: none */
	__u32 pad;
};
_Static_assert(sizeof(struct pendulum_shape_control) == 40 + 64, "abi: pendulum_shape_control");

/* What was done; one copy for each CPU. */
struct pendulum_shape_counts {
	__u64 acks[PENDULUM_ACK_FATES];
	__u64 lane_packets;   /* sent into the ACK lane */
	__u64 held_bytes;     /* link-layer bytes of what was withheld */
	__u64 sparse_packets; /* sent into the class of connections that have sent little */
};
_Static_assert(sizeof(struct pendulum_shape_counts) == (27 + 3) * 8, "abi: pendulum_shape_counts");

/* A flow's identity as in abi.h, which includes this header. */
struct pendulum_ack_flow {
	__u32 home_addr[4];
	__u32 remote_addr[4];
	__u32 ports; /* home in the low half; network byte order */
};
_Static_assert(sizeof(struct pendulum_ack_flow) == 36, "abi: pendulum_ack_flow");

/* An ACK with more SACK blocks than these passes as it came; beside timestamps TCP has room for no more. */
#define PENDULUM_SACK_BLOCKS 3

/* Bits of pendulum_ack_state.flags. */
enum pendulum_ack_flag {
	PENDULUM_ACK_PLAIN = 1 << 0,   /* the newest queued may be rewritten */
	PENDULUM_ACK_PENDING = 1 << 1, /* a withheld one waits for pending_serial to leave */
	PENDULUM_ACK_DOOMED = 1 << 2,  /* those up to doomed_serial have been overtaken */
	PENDULUM_ACK_UNSAFE = 1 << 3,  /* unsafe_serial is valid */
	PENDULUM_ACK_SETTLED = 1 << 4, /* it is beyond slow start */
};

/*
 * The ACKs of one connection on their way through the queue. Each that enters gets the next serial number.
 */
struct pendulum_ack_state {
	struct bpf_spin_lock lock;
	__u32 generation; /* changes when another connection takes the place */
	__u64 last_ns;    /* newest ACK */
	__u64 queued_ns;  /* when last_serial was given */
	__u64 rate;       /* bytes per second of ACKs that left (TSW) */
	__u64 rate_ns;
	__u64 epoch; /* in which it was counted as active */
	struct pendulum_ack_flow flow;
	__u32 last_serial;     /* newest on its way into the queue */
	__u32 enqueued_serial; /* newest seen to enter it; written without the lock */
	__u32 left_serial;     /* newest that has left it */
	__u32 dropped_serial;  /* newest seen to be dropped in it; written without the lock */
	__u32 pending_serial;
	__u32 doomed_serial;
	__u32 unsafe_serial; /* newest in the queue that must not be changed */
	__u32 first_ack;
	__u32 withheld; /* for the present carrier */
	__u32 ack;      /* newest that came, as are the two below; host byte order */
	__u32 tsval;
	__u32 tsecr;
	__u32 pending_ack; /* what pending_serial is to leave with */
	__u32 pending_tsval;
	__u32 pending_tsecr;
	__u16 pending_window;
	__u8 layout; /* of last_serial: TCP header length in words */
	__u8 tos;
	__u32 flags;                          /* enum pendulum_ack_flag */
	__u32 sack[2 * PENDULUM_SACK_BLOCKS]; /* of the newest that came: left, right, left, …; 0 beyond */
	__u32 pending_sack[2 * PENDULUM_SACK_BLOCKS];
	__u8 sack_blocks;    /* of last_serial */
	__u8 newest_blocks;  /* in sack */
	__u8 pending_blocks; /* in pending_sack */
	__u8 pad[5];
};
_Static_assert(sizeof(struct pendulum_ack_state) == 8 + 40 + 36 + 15 * 4 + 8 + 12 * 4 + 4 + 4,
	       "abi: pendulum_ack_state");

/* Connections that are followed at once. A power of two, below 65536. */
#define PENDULUM_ACK_FLOWS 4096

/* The uplink's use, as its packets leave; paper 002 §3.1, §4.1. */
struct pendulum_channel {
	struct bpf_spin_lock lock;
	__u32 filtering; /* delayed: utilisation has passed the upper threshold, and not yet the lower */
	__u64 rate;      /* bytes per second */
	__u64 rate_ns;
	__u64 epoch;  /* seconds */
	__u32 active; /* connections with ACKs in this epoch */
	__u32 active_before;
	__u64 overflow_ns; /* when the full lane last dropped such a carrier; written without the lock */
};
_Static_assert(sizeof(struct pendulum_channel) == 48, "abi: pendulum_channel");

#endif
