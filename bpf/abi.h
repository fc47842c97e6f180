/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * Everything the kernel side and the agent both know: structures, enumerations and limits.
 *
 * This header is the one contract between bpf/ (C) and agent/ (Rust). The Rust side is generated from it
 * at build time by bindgen, so nothing here is written twice. Rules for what may stand here:
 *
 *  - fixed-width types only, widest first, padding explicit and zeroed, the unit in the name;
 *  - no pointers, no bit fields, no enum-typed members (an enum's size is the compiler's choice);
 *  - every structure ends with a _Static_assert on its size.
 *
 * What each field means, and how it is derived from packets, is documented in docs/design/measurement.md.
 */
#ifndef PENDULUM_ABI_H
#define PENDULUM_ABI_H

#include <linux/bpf.h>
#include <linux/types.h>

#include "abi/flow.h"
#include "abi/queue.h"
#include "abi/shape.h"

/* What a segment is. Exactly one class for each; see docs/design/measurement.md for the rules and their
 * order. */
enum pendulum_class {
	PENDULUM_CLASS_DATA = 0,
	PENDULUM_CLASS_ACK = 1,
	PENDULUM_CLASS_DUP_ACK = 2,
	PENDULUM_CLASS_SACK = 3,
	PENDULUM_CLASS_WINDOW_UPDATE = 4,
	PENDULUM_CLASS_KEEP_ALIVE = 5,
	PENDULUM_CLASS_ZERO_WINDOW_PROBE = 6,
	PENDULUM_CLASS_SYN = 7,
	PENDULUM_CLASS_FIN = 8,
	PENDULUM_CLASS_RST = 9,
	PENDULUM_CLASS_OTHER = 10,   /* TCP, but none of the above */
	PENDULUM_CLASS_NON_TCP = 11, /* no TCP header found */
	PENDULUM_CLASSES = 12,
};

/* Properties a segment of any class may carry besides its class. */
enum pendulum_mark {
	PENDULUM_MARK_CE = 0,   /* IP ECN codepoint "congestion experienced", RFC 3168 */
	PENDULUM_MARK_ECE = 1,  /* TCP ECE flag */
	PENDULUM_MARK_CWR = 2,  /* TCP CWR flag */
	PENDULUM_MARK_SACK = 3, /* at least one SACK block, RFC 2018 */
	PENDULUM_MARKS = 4,
};

/*
 * Events that are counted by reason. The first group is measurements lost: the packet passed, but we could
 * not make (all of) our measurement from it. The second group is the life of flow table entries.
 */
enum pendulum_stat {
	PENDULUM_LOST_LINK_HEADER = 0, /* frame ends inside the Ethernet, VLAN or PPPoE header */
	PENDULUM_LOST_VLAN_DEPTH = 1,  /* more than two VLAN tags */
	PENDULUM_LOST_IP_HEADER = 2,   /* frame ends inside the IP header, or its length fields contradict */
	PENDULUM_LOST_IPV6_EXTENSIONS = 3, /* more extension headers than we walk */
	PENDULUM_LOST_FRAGMENT = 4,        /* a later fragment: it carries no TCP header */
	PENDULUM_LOST_TCP_HEADER = 5,      /* packet ends inside the TCP header, or its data offset is < 5 */
	PENDULUM_LOST_TCP_OPTIONS =
		6,              /* malformed option list: the segment counts, its options are ignored */
	PENDULUM_LOST_PULL = 7, /* headers lie outside the linear part and could not be pulled in */
	PENDULUM_LOST_FLOW_INSERT = 8, /* the flow table refused a new entry */
	PENDULUM_LOST_ACK_OF_UNSEEN =
		9, /* an ACK for data that never passed us: some of the flow is invisible */
	PENDULUM_LOST_SEQUENCE_JUMP = 10, /* sequence or ACK number more than 2^30 away: tracking restarted */
	PENDULUM_LOST_REQUEST_DISPLACED =
		11, /* another request took the place of one that awaited its reply */
	PENDULUM_LOST_REASONS = 12,

	PENDULUM_FLOW_NURSED = 12,    /* first packet of a flow: entered the nursery */
	PENDULUM_FLOW_PROMOTED = 13,  /* seen both ways: entered the flow table */
	PENDULUM_FLOW_RESTARTED = 14, /* a SYN of a new connection on a tuple still in the table */
	PENDULUM_STATS = 15,
};

/* Bits of pendulum_half.flags. */
enum pendulum_half_flag {
	PENDULUM_HALF_SEQ = 1 << 0,     /* seq_next is valid */
	PENDULUM_HALF_ACK = 1 << 1,     /* ack_highest is valid */
	PENDULUM_HALF_SYN = 1 << 2,     /* its SYN was seen: isn, wscale, mss are valid */
	PENDULUM_HALF_FIN = 1 << 3,     /* has sent FIN */
	PENDULUM_HALF_RST = 1 << 4,     /* has sent RST */
	PENDULUM_HALF_TS = 1 << 5,      /* sends timestamps (RFC 7323) */
	PENDULUM_HALF_SACK_OK = 1 << 6, /* SYN offered SACK */
	PENDULUM_HALF_WSCALE = 1 << 7,  /* SYN carried the window scale option */
	PENDULUM_HALF_MPTCP = 1 << 8,   /* option 30 seen */
	PENDULUM_HALF_ACCECN = 1 << 9,  /* option 172 or 174 seen */
	PENDULUM_HALF_HOLE = 1 << 10,   /* hole_* describe a gap in the sequence space */
	PENDULUM_HALF_WINDOW = 1 << 11, /* window_raw is valid */
	PENDULUM_HALF_TSECR = 1 << 12,  /* tsecr_newest is valid */
};

/* ACK burst lengths 1…63 are counted one by one, longer ones together in the last slot. Slot 0 is unused. */
#define PENDULUM_BURST_SLOTS 65

/* Segments in flight whose RTT is being timed, for each half of a flow. A power of two. */
#define PENDULUM_PROBES 8

/* Segments sent outwards whose answer is awaited, for each flow (turnaround.h). A power of two. */
#define PENDULUM_QUESTIONS 16

/* Requests of protocols other than TCP whose reply is awaited (requests.h). A power of two. */
#define PENDULUM_REQUESTS 1024

/* Slots of time in which the newest reply from home is kept: 1.07 s. A power of two. */
#define PENDULUM_HOME_REPLIES 1024

/* What passes the WAN device is kept by time, in slots of 2^20 ns (1.05 ms). A power of two. */
#define PENDULUM_SLOT_SHIFT 20
#define PENDULUM_SLOTS      4096

/* What is no TCP is counted by protocol and port, in so many places for each direction. A power of two. */
#define PENDULUM_PORTS 256

/* Link layer of the WAN device. */
enum pendulum_link_layer {
	PENDULUM_LINK_ETHERNET = 0,
	PENDULUM_LINK_RAW_IP = 1, /* ppp, tun, wireguard: the frame starts with the IP header */
};

/* Set once before load (const volatile in .rodata). All zero is the normal configuration. */
struct pendulum_config {
	__u32 link_layer;  /* enum pendulum_link_layer */
	__u32 replay_time; /* 1: a packet's time is skb->tstamp (tests on captures), 0: the monotonic clock */
	__u32 queue_mark;  /* 1: write class and time into the packet for the queue tracepoints (mark.h) */
};
_Static_assert(sizeof(struct pendulum_config) == 12, "abi: pendulum_config");

/* Counters of one direction; one copy for each CPU. Bytes are link-layer bytes, as `ip -s link` counts them.
 */
struct pendulum_counters {
	__u64 segments[PENDULUM_CLASSES];
	__u64 bytes[PENDULUM_CLASSES];
	__u64 udp_bytes;     /* of those of PENDULUM_CLASS_NON_TCP */
	__u64 spin_bytes;    /* of those of QUIC connections that spin */
	__u64 spin_replies;  /* of these connections: packets that told how long a round trip took */
	__u64 payload_bytes; /* TCP payload, retransmissions included */
	__u64 marked_segments[PENDULUM_MARKS];
	__u64 retransmitted_segments;
	__u64 reordered_segments;
	__u64 burst_segments; /* sum of all burst lengths */
	__u64 bursts[PENDULUM_BURST_SLOTS];
	__u64 rtt_sum_us; /* RTT of what was sent in this direction */
	__u64 rtt[PENDULUM_TIME_SLOTS];
};
_Static_assert(sizeof(struct pendulum_counters) == (12 + 12 + 4 + 4 + 3 + 65 + 1 + 47) * 8,
	       "abi: pendulum_counters");

/*
 * ACK segments since the last data segment in one direction; shared by all CPUs, on a cache line of its own.
 * The lock is the direction's: whoever takes the run away holds it, and whoever opens a slot of time.
 */
struct pendulum_burst {
	struct bpf_spin_lock lock;
	__u32 pad;
	__u64 run;
	__u64 pad2[6];
};
_Static_assert(sizeof(struct pendulum_burst) == 64, "abi: pendulum_burst");

/* A segment whose RTT is being timed. `at` counts 1.024 µs ticks; 0: slot is free. */
struct pendulum_probe {
	__u32 key; /* TSval, or the sequence number after the segment */
	__u32 at;
};
_Static_assert(sizeof(struct pendulum_probe) == 8, "abi: pendulum_probe");

/*
 * What one end of a flow has sent. halves[PENDULUM_UP] is the home end, halves[PENDULUM_DOWN] the remote end.
 * rtt_* and probes belong to the segments this half sent: up is timed from the gateway to the remote end
 * and back (side "wan"), down from the gateway to the home end and back (side "lan").
 */
struct pendulum_half {
	/* Written by nearly every segment: 64 bytes. */
	__u64 last_seen_ns;
	__u64 wire_bytes;
	__u64 payload_bytes;
	__u64 segments;
	__u64 data_segments;
	__u32 seq_next;    /* highest sequence number sent, plus one */
	__u32 ack_highest; /* highest acknowledgement number sent */
	__u32 tsval_newest;
	__u32 tsecr_newest;
	__u32 rtt_min_us; /* 0: no sample yet */
	__u16 window_raw; /* as in the last header, unscaled */
	__u16 flags;      /* enum pendulum_half_flag */

	/* By one that acknowledges something, or is a sample. */
	__u64 ack_segments;   /* pure ACKs of every kind */
	__u64 acked_bytes;    /* of the other half's data, acknowledged by this half */
	__u64 advancing_acks; /* segments of any class that acknowledged something new; acked_bytes over it
				 gives d */
	__u64 rtt_sum_us;
	__u32 rtt_samples;
	__u32 rtt_last_us;
	__u32 in_flight_max_bytes;
	__u32 retransmitted_segments;
	__u32 reordered_segments;
	__u32 isn;
	__u32 hole_start; /* newest gap in the sequence space: [hole_start, hole_end) was skipped at
			     hole_at_ns */
	__u32 hole_end;

	struct pendulum_probe probes[PENDULUM_PROBES];

	__u64 first_seen_ns;
	__u64 hole_at_ns;
	__u16 mss; /* from the SYN; 0: unknown */
	__u8 wscale;
	__u8 pad[5];
};
_Static_assert(sizeof(struct pendulum_half) == 3 * 64 + 24, "abi: pendulum_half");

/*
 * A segment sent outwards that an answer is awaited for, by a word of time and kind:
 *
 *   bits 31…8  when, ticks of 4.096 µs: comes round after 68 s
 *   bit  7     what the answer is known by: 0 the end of data, 1 the TSval of a pure ACK
 *              (of a request that is no TCP: 1 if its reply, PENDULUM_ANSWER_HELD, may be late)
 *   bits 6…0   its length on the link in units of 16 bytes, never 0
 */
#define PENDULUM_QUESTION_CLOCK  0x80
#define PENDULUM_QUESTION_LENGTH 0x7f
struct pendulum_question {
	__u32 key;   /* sequence number after the data, or TSval */
	__u32 asked; /* 0: slot is free */
};
_Static_assert(sizeof(struct pendulum_question) == 8, "abi: pendulum_question");

struct pendulum_flow {
	struct pendulum_half halves[PENDULUM_DIRECTIONS];
	struct pendulum_question questions[PENDULUM_QUESTIONS]; /* of the home end */
	__u16 ahead[PENDULUM_QUESTIONS]; /* link-layer bytes that left in a question's slot of time ahead of
					    it, in units of 16, at most 65535 */
};
_Static_assert(sizeof(struct pendulum_flow) == 2 * 216 + 160, "abi: pendulum_flow");

/*
 * How much passed in one direction during one slot of time, number at_ns >> PENDULUM_SLOT_SHIFT. The place is
 * the number's low bits; what does not belong to the number looked for is of an earlier turn of the ring.
 *
 * One word for turn, packets and bytes: whoever opens a slot writes the whole word under the direction's
 * lock, all others add to it, so that no CPU loses or mixes what another one counts. Only a CPU that stands
 * still between the two for a whole turn (4.3 s) adds to the wrong slot.
 */
#define PENDULUM_SLOT_PACKETS_SHIFT 27 /* bits 26…0: bytes, enough for 1 Tbit/s */
#define PENDULUM_SLOT_TURN_SHIFT    44 /* bits 43…27: packets; 63…44: the slot's number / PENDULUM_SLOTS */
struct pendulum_slot {
	__u64 at_ns;   /* newest packet; of two at the same moment, either */
	__u64 account; /* link-layer bytes and packets, as on the wire: every segment of a super-packet */
};
_Static_assert(sizeof(struct pendulum_slot) == 16, "abi: pendulum_slot");

/*
 * What came in during one slot of time. Two CPUs may write at the same moment: what belongs together stands
 * in one word, or is separate.
 *
 *  - `clock` is one word, written for every packet: it is never made of two packets.
 *  - `answer` and `answered_by` are two. The second one carries a sum over the first and over the slot's
 * number, PENDULUM_ANSWER_SUM: where it does not fit, they are of two answers, or of an earlier turn.
 */
struct pendulum_arrival {
	struct pendulum_slot slot;
	__u64 clock;  /* newest packet, if it has timestamps: 63…32 its flow, a hash, never 0; 31…0 its TSval;
			 0: it has none */
	__u64 answer; /* newest answer: 31…0 the question's word, 63…32 a word of the same form for the answer
			 itself, its bit 7 PENDULUM_ANSWER_HELD; 0: none */
	__u64 answered_by; /* 63…32 who answered, a hash of the address; 31…16 pendulum_flow.ahead, 15…0 the
			      sum */
};
_Static_assert(sizeof(struct pendulum_arrival) == 40, "abi: pendulum_arrival");

/* The newest reply from home within one slot of time, to a request that is no TCP; both as above. */
struct pendulum_home_reply {
	__u64 answer;
	__u64 answered_by;
};
_Static_assert(sizeof(struct pendulum_home_reply) == 16, "abi: pendulum_home_reply");

/* The sum of an answer, from its two words and the slot's number, all of 32 bits; its halves are combined to
 * 16. */
#define PENDULUM_SUM_FACTOR_ASKED  0x9e3779b1u
#define PENDULUM_SUM_FACTOR_NUMBER 0x85ebca6bu

/*
 * The answer is the ACK of a single segment, for which the receiver may have waited for a second one
 * (RFC 5681 §4.2; Linux: 40 ms and more).
 */
#define PENDULUM_ANSWER_HELD 0x80

/*
 * Bytes of what is no TCP, by what carries it, in one direction; one copy for each CPU. A place is shared by
 * all that its hash leads to; it belongs to the one that sends most: who is not its owner uses up the owner's
 * credit, and takes the place when that is spent. So a figure is never too high, and that of whoever sends
 * more than half of a place's bytes goes on growing.
 */
#define PENDULUM_PORT_KEY_BITS 24
struct pendulum_port {
	__u64 sent; /* 23…16 IP protocol, 15…0 the remote end's UDP port or 0; 63…24 bytes, coming round after
		       1 TB; one word, so that it is never read half-written */
	__u32 credit; /* bytes */
	__u32 pad;
};
struct pendulum_ports {
	struct pendulum_port places[PENDULUM_PORTS];
};
_Static_assert(sizeof(struct pendulum_ports) == PENDULUM_PORTS * 16, "abi: pendulum_ports");

/* Which sockets cwnd is read of. */
struct pendulum_cwnd_config {
	__u32 netns; /* inode number of the network namespace; 0: all */
};
_Static_assert(sizeof(struct pendulum_cwnd_config) == 4, "abi: pendulum_cwnd_config");

/* A local TCP socket at its newest ACK. Its own end is "home" in the key, as the flow table sees it at WAN
 * egress. */
struct pendulum_socket {
	__u64 at_ns;
	__u32 snd_cwnd;     /* segments of mss bytes, as the four below */
	__u32 snd_ssthresh; /* 2^31 − 1: none yet */
	__u32 in_flight;
	__u32 retransmitted; /* since the connection began */
	__u32 mss;           /* payload bytes of a full segment (mss_cache) */
	__u32 srtt_us;
	__u8 ca_state; /* enum tcp_ca_state: open, disorder, CWR, recovery, loss */
	__u8 pad[7];
};
_Static_assert(sizeof(struct pendulum_socket) == 40, "abi: pendulum_socket");

#endif
