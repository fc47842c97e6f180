/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * The part of abi.h that the shaper needs: what the agent asks of bpf/shape/shape.bpf.c, and what that
 * counts. The rules of abi.h hold. docs/design/shaping.md tells what each means.
 */
#ifndef PENDULUM_SHAPE_ABI_H
#define PENDULUM_SHAPE_ABI_H

#include <linux/bpf.h>
#include <linux/types.h>

#include "abi/flow.h"

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
	PENDULUM_ACK_PASSED_FILTER_OFF = 0,     /* the filter is off */
	PENDULUM_ACK_PASSED_FIRST = 1,          /* first ACK of its connection for a while */
	PENDULUM_ACK_PASSED_NO_CARRIER = 2,     /* none of the connection is queued */
	PENDULUM_ACK_PASSED_STALE_CARRIER = 3,  /* the newest queued should have left long ago */
	PENDULUM_ACK_PASSED_UNSAFE_CARRIER = 4, /* the newest queued is one that must not be changed */
	PENDULUM_ACK_PASSED_DUPLICATE = 5,      /* acknowledges nothing new: dupACK, window update */
	PENDULUM_ACK_PASSED_TIMESTAMP = 6,      /* its timestamps are older, or there are none */
	PENDULUM_ACK_PASSED_SACK = 7,           /* its SACK blocks do not cover those of the queued one */
	PENDULUM_ACK_PASSED_FLAGS = 8,          /* flags beside ACK: PSH, and ECE or CWR of classic ECN */
	PENDULUM_ACK_PASSED_OPTIONS = 9,        /* options that are not known here: MPTCP, AO, MD5, … */
	PENDULUM_ACK_PASSED_DSCP = 10,          /* DSCP or ECN field of the IP header differ */
	PENDULUM_ACK_PASSED_ZERO_WINDOW = 11,   /* closes the window */
	PENDULUM_ACK_PASSED_LOCAL = 12,         /* of a socket of this machine */
	PENDULUM_ACK_PASSED_SLOW_START = 13,    /* the connection is young */
	PENDULUM_ACK_PASSED_STRETCH = 14,       /* enough withheld in a row */
	PENDULUM_ACK_PASSED_ACCECN = 15,        /* the sender could no longer tell the number of CE marks */
	PENDULUM_ACK_PASSED_BELOW_DELTA = 16,   /* fewer than delta queued */
	PENDULUM_ACK_PASSED_UNDER_USED = 17,    /* delayed: the channel has room */
	PENDULUM_ACK_PASSED_FAIR_SHARE = 18,    /* per-connection: within its share */
	PENDULUM_ACK_PASSED_TABLE_FULL = 19,    /* another connection has the place in the table */
	PENDULUM_ACK_PASSED_SEQUENCE = 20,      /* a probe, or its sequence number is not the queued one's */
	/* Withheld. */
	PENDULUM_ACK_HELD_REDUNDANT = 21,
	PENDULUM_ACK_HELD_OVERTAKEN = 22, /* it left the queue after its connection's newest had gone out in
					     an older one's place */
	PENDULUM_ACK_WOULD_HOLD_REDUNDANT = 23, /* dry run */
	/* A queued one left with the content of a withheld one. */
	PENDULUM_ACK_REWRITTEN_NEWEST = 24,
	/* A withheld one's content was not sent, because … */
	PENDULUM_ACK_RELEASED_SUPERSEDED = 25, /* a newer one was withheld after it, or is the carrier now */
	PENDULUM_ACK_RELEASED_CARRIER_LOST =
		26, /* its carrier did not leave the queue, or could not be changed */
	PENDULUM_ACK_FATES = 27,
};

/* Set by the agent at any time. */
struct pendulum_shape_control {
	__u64 channel_bytes_per_s; /* rate of the shaped uplink */
	__u64 window_ns;           /* of the rate measurement (TSW), paper 002 §3.1 */
	__u64 carrier_ns;          /* an ACK queued for longer is no carrier */
	__u64 idle_ns;             /* a connection that sent no ACK for so long is forgotten */
	__u64 sojourn_ns;          /* dry run: how long a packet stands in the queue; 0: nothing does */
	__u32 mode;                /* enum pendulum_shape_mode */
	__u32 filter;              /* enum pendulum_ack_filter */
	__u32 delta;               /* ACKs, at least 1 */
	__u32 stretch;             /* most ACKs withheld for one carrier */
	__u32 spared_bytes;        /* acknowledged since a connection was met: not filtered before */
	__u32 upper_permille;      /* utilisation at which delayed filtering begins */
	__u32 lower_permille;      /* … and ends */
	__u32 uplink_ifindex;      /* the shaping device; 0: none */
};
_Static_assert(sizeof(struct pendulum_shape_control) == 40 + 32, "abi: pendulum_shape_control");

/* What was done; one copy for each CPU. */
struct pendulum_shape_counts {
	__u64 acks[PENDULUM_ACK_FATES];
	__u64 held_bytes; /* link-layer bytes of what was withheld */
};
_Static_assert(sizeof(struct pendulum_shape_counts) == (27 + 1) * 8, "abi: pendulum_shape_counts");

/* An ACK with more SACK blocks than these passes as it came; beside timestamps TCP has room for no more. */
#define PENDULUM_SACK_BLOCKS 3

/* What a TCP header holds from the acknowledgement number on, without checksum and urgent pointer, in words:
 * the number; header length, flags and window; options. */
#define PENDULUM_ACK_WORDS 12

/* Bits of pendulum_ack_state.flags. */
enum pendulum_ack_flag {
	PENDULUM_ACK_QUEUED = 1 << 0,  /* newest_print stands in the queue, as far as is known */
	PENDULUM_ACK_PLAIN = 1 << 1,   /* … and may be rewritten */
	PENDULUM_ACK_PENDING = 1 << 2, /* a withheld one waits for carrier_print to leave */
	PENDULUM_ACK_DOOMED = 1 << 3,  /* those before left_ack have been overtaken */
	PENDULUM_ACK_UNSAFE = 1 << 4,  /* one that is not plain may stand in the queue */
	PENDULUM_ACK_ACCECN = 1 << 5,  /* AE, CWR and ECE are a counter (RFC 9768) */
	PENDULUM_ACK_LEFT = 1 << 6,    /* left_counters is valid */
	PENDULUM_ACK_GAP = 1 << 7,     /* the one that left last had no counters */
	/* The next behind carrier_print must stay as it is: it may be a duplicate of what is pending */
	PENDULUM_ACK_REPEATED = 1 << 8,
};

/* The byte counters of AccECN, in the order that is used here; bits of a set of them are 1 << index. */
enum pendulum_ecn_counter {
	PENDULUM_ECN_ECT0 = 0,
	PENDULUM_ECN_CE = 1,
	PENDULUM_ECN_ECT1 = 2,
	PENDULUM_ECN_COUNTERS = 3,
};

/* What an ACK reports to the sender of data; host byte order. */
struct pendulum_ack_feedback {
	__u32 ack;
	__u32 tsval;
	__u32 tsecr;
	__u32 sack[2 * PENDULUM_SACK_BLOCKS]; /* left, right, left, …; 0 beyond sack_blocks */
	__u32 counters[PENDULUM_ECN_COUNTERS];
	__u8 timestamps;  /* not 0: it has them */
	__u8 sack_blocks; /* 0: no SACK, or one that cannot be merged with another */
	__u8 ace;         /* AE, CWR, ECE */
	__u8 counted;     /* which counters it has, a set */
};

/* A rate by time-sliding window (TSW), paper 002 §3.1. */
struct pendulum_sliding_rate {
	__u64 bytes_per_s;
	__u64 at_ns; /* newest packet */
};

/* The ACKs of one connection on their way through the queue. */
struct pendulum_ack_state {
	struct bpf_spin_lock lock;
	__u32 flags;                       /* enum pendulum_ack_flag */
	__u64 last_ns;                     /* newest ACK; 0: the place is free */
	__u64 queued_ns;                   /* when the newest of the queue came */
	__u64 data_ns;                     /* newest segment of the connection with payload */
	struct pendulum_sliding_rate rate; /* of ACKs that left */
	struct pendulum_flow_key flow;
	__u32 first_ack;
	__u32 newest_print;  /* fingerprint of the newest in the queue */
	__u32 carrier_print; /* of the one that pending is for */
	__u32 queued;        /* ACKs in the queue; no more than these */
	__u32 withheld;      /* for the present carrier */
	__u32 seq;           /* that the next ACK is to have, and that a plain one in the queue has */
	__u32 left_ack;      /* newest number that has left */
	__u32 left_counters[PENDULUM_ECN_COUNTERS]; /* of the newest that has left with counters */
	struct pendulum_ack_feedback newest;        /* that came */
	struct pendulum_ack_feedback pending;       /* what the carrier is to leave with … */
	__u32 pending_words[PENDULUM_ACK_WORDS];    /* … and in network byte order */
	__u8 tos;                                   /* of the newest in the queue */
	__u8 left_ace;                              /* of the newest that has left */
	__u8 segments; /* that the newest in the queue will acknowledge at most, pending content included */
	__u8 steady;   /* the counters of which alone the sender has seen change, a set of one; 0: unknown */
};
_Static_assert(sizeof(struct pendulum_ack_state) == 8 + 40 + 36 + 7 * 4 + 12 + 52 + 52 + 48 + 4,
	       "abi: pendulum_ack_state");

/* Connections that are followed at once. A power of two, below 65536. */
#define PENDULUM_ACK_FLOWS 4096

/* The uplink's use, as its packets leave; paper 002 §3.1, §4.1. */
struct pendulum_channel {
	__u32 filtering; /* delayed: utilisation has passed the upper threshold, and not yet the lower */
	__u32 pad;
	struct pendulum_sliding_rate rate;
	__u32 active; /* connections with ACKs in this epoch */
	__u32 active_before;
};
_Static_assert(sizeof(struct pendulum_channel) == 32, "abi: pendulum_channel");

#endif
