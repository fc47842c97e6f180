/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The flow table, and what one segment changes in its flow. docs/design/measurement.md, "Flow state".
 *
 * Both hooks and several CPUs touch a flow at the same time without a lock (LRU maps allow none). Each field
 * is therefore written by one hook: what a half sent by the hook that sees its segments; its rtt_* and the
 * release of its probes by the hook that sees the answers. A lost update costs one sample, never a wrong
 * verdict.
 */
#ifndef PENDULUM_FLOW_H
#define PENDULUM_FLOW_H

#include "packet/maps.h"
#include "packet/segment.h"
#include "packet/stats.h"

/* Further apart than this, two sequence numbers cannot belong to one window (RFC 7323 §2.3). */
#define SEQUENCE_SPAN (1 << 30)

/* Reordering is distinguished from retransmission by time; this long where no RTT is known yet. */
#define REORDER_WINDOW_DEFAULT_US 3000

/* What applying a segment found out. */
struct sequence_verdict {
	bool moved;         /* seq_next moved on */
	bool fresh;         /* … by a segment that did not start below it */
	bool first;         /* … and was the first of its half */
	bool retransmitted; /* carries payload that passed before */
	bool reordered;     /* fills a gap that just opened */
	bool acked;         /* ack_highest moved on */
};

static __always_inline __s32 sequence_distance(__u32 to, __u32 from)
{
	return (__s32)(to - from);
}

static __always_inline bool beyond_span(__s32 distance)
{
	return distance > SEQUENCE_SPAN || distance < -SEQUENCE_SPAN;
}

/* Bytes that `sender` has sent and `receiver` has not acknowledged, as both passed us. */
static __always_inline __u32 outstanding(const struct pendulum_half *sender,
					 const struct pendulum_half *receiver)
{
	__s32 distance;

	if (!(sender->flags & PENDULUM_HALF_SEQ) || !(receiver->flags & PENDULUM_HALF_ACK))
		return 0;
	distance = sequence_distance(sender->seq_next, receiver->ack_highest);
	if (distance <= 0)
		return 0;
	return sender->flags & PENDULUM_HALF_FIN ? distance - 1 : distance;
}

static __always_inline void forget_probes(struct pendulum_half *half)
{
#pragma unroll
	for (int i = 0; i < PENDULUM_PROBES; i++)
		half->probes[i].at = 0;
}

static __always_inline struct pendulum_flow *create_flow(const struct pendulum_flow_key *key)
{
	__u32 zero = 0;
	struct pendulum_flow *blank = bpf_map_lookup_elem(&blank_flow, &zero);
	struct pendulum_flow *flow;

	if (!blank)
		return NULL;
	/* Another CPU may have been first: then its entry is ours too. */
	if (!bpf_map_update_elem(&nursery, key, blank, BPF_NOEXIST))
		count(PENDULUM_FLOW_NURSED);
	flow = bpf_map_lookup_elem(&nursery, key);
	if (!flow)
		count(PENDULUM_LOST_FLOW_INSERT);
	return flow;
}

/* Move a flow from the nursery to the table. Returns its new place, or the old one if the table refused. */
static __always_inline struct pendulum_flow *promote_flow(const struct pendulum_flow_key *key,
							  struct pendulum_flow *nursed)
{
	struct pendulum_flow *flow;

	if (!bpf_map_update_elem(&flows, key, nursed, BPF_NOEXIST))
		count(PENDULUM_FLOW_PROMOTED);
	flow = bpf_map_lookup_elem(&flows, key);
	if (!flow) {
		count(PENDULUM_LOST_FLOW_INSERT);
		return nursed;
	}
	bpf_map_delete_elem(&nursery, key);
	return flow;
}

/* The segment's flow, created if need be. NULL: it has none (a stray RST, or the tables are full). */
static __always_inline struct pendulum_flow *find_flow(const struct segment *s, __u32 direction)
{
	/* On the stack: Linux 6.1 takes no map key from the memory behind a global function's argument. */
	struct pendulum_flow_key key = s->key;
	struct pendulum_flow *flow = bpf_map_lookup_elem(&flows, &key);

	if (flow)
		return flow;
	flow = bpf_map_lookup_elem(&nursery, &key);
	if (!flow)
		return s->flags & TCP_RST ? NULL : create_flow(&key);
	/* A refusal makes no conversation, nor does what follows one: a scan of closed ports stays here. */
	if (flow->halves[!direction].segments && !(s->flags & TCP_RST) &&
	    !(flow->halves[!direction].flags & PENDULUM_HALF_RST))
		return promote_flow(&key, flow);
	return flow;
}

/* A SYN with a new initial sequence number on a tuple in use begins a new connection. */
static __always_inline void restart_if_new(struct pendulum_flow *flow, struct pendulum_half *me,
					   const struct segment *s)
{
	const __u8 flags = s->flags & (TCP_SYN | TCP_ACK | TCP_RST);

	if (flags != TCP_SYN || !(me->flags & PENDULUM_HALF_SEQ))
		return;
	if (me->flags & PENDULUM_HALF_SYN && me->isn == s->seq)
		return;
	__builtin_memset(flow, 0, sizeof(*flow));
	count(PENDULUM_FLOW_RESTARTED);
}

/* How long a late segment still counts as reordered; compare RFC 8985 §6.2, which takes a quarter of the RTT.
 */
static __always_inline __u64 reorder_window_ns(const struct pendulum_half *a, const struct pendulum_half *b)
{
	__u64 rtt_us = (__u64)a->rtt_min_us + b->rtt_min_us;

	return (rtt_us ? rtt_us / 2 : REORDER_WINDOW_DEFAULT_US) * 1000;
}

static __always_inline bool fills_hole(const struct pendulum_half *me, const struct pendulum_half *peer,
				       const struct segment *s, __u32 end, __u64 now)
{
	return me->flags & PENDULUM_HALF_HOLE && sequence_distance(s->seq, me->hole_start) >= 0 &&
	       sequence_distance(me->hole_end, end) >= 0 &&
	       now - me->hole_at_ns < reorder_window_ns(me, peer);
}

/* Apply the sequence range [seq, end) of a segment; docs/design/measurement.md, "Flow state", 1. */
static __always_inline void apply_sequence(struct pendulum_half *me, const struct pendulum_half *peer,
					   const struct segment *s, __u32 end, __u64 now,
					   struct sequence_verdict *verdict)
{
	__s32 ahead, gap;

	if (end == s->seq)
		return;
	if (!(me->flags & PENDULUM_HALF_SEQ)) {
		me->flags |= PENDULUM_HALF_SEQ;
		me->seq_next = end;
		verdict->first = true;
		verdict->fresh = true;
		verdict->moved = true;
		return;
	}

	ahead = sequence_distance(end, me->seq_next);
	if (beyond_span(ahead)) {
		count(PENDULUM_LOST_SEQUENCE_JUMP);
		me->seq_next = end;
		me->flags &= ~PENDULUM_HALF_HOLE;
		forget_probes(me);
		return;
	}
	gap = sequence_distance(s->seq, me->seq_next);
	if (gap < 0) {
		if (fills_hole(me, peer, s, end, now)) {
			verdict->reordered = s->payload_bytes;
		} else {
			verdict->retransmitted = s->payload_bytes;
			/* Karn: an answer would not tell which of the two copies it answers. */
			if (!(me->flags & PENDULUM_HALF_TS))
				forget_probes(me);
		}
		if (ahead > 0) {
			me->seq_next = end;
			verdict->moved = true;
		}
		return;
	}
	if (gap > 0) {
		me->flags |= PENDULUM_HALF_HOLE;
		me->hole_start = me->seq_next;
		me->hole_end = s->seq;
		me->hole_at_ns = now;
	}
	me->seq_next = end;
	verdict->fresh = true;
	verdict->moved = true;
}

/* Apply the acknowledgement number; docs/design/measurement.md, "Flow state", 2. */
static __always_inline void apply_acknowledgement(struct pendulum_half *me, struct pendulum_half *peer,
						  struct segment *s, struct sequence_verdict *verdict)
{
	__s32 ahead;

	if (!(s->flags & TCP_ACK))
		return;
	ahead = sequence_distance(s->ack, me->ack_highest);
	if (!(me->flags & PENDULUM_HALF_ACK)) {
		me->flags |= PENDULUM_HALF_ACK;
		me->ack_highest = s->ack;
	} else if (beyond_span(ahead)) {
		count(PENDULUM_LOST_SEQUENCE_JUMP);
		me->ack_highest = s->ack;
	} else if (ahead > 0) {
		me->acked_bytes += ahead;
		me->advancing_acks += 1;
		me->ack_highest = s->ack;
		verdict->acked = true;
		s->advance = ahead;
	}
	if (peer->flags & PENDULUM_HALF_SEQ && sequence_distance(me->ack_highest, peer->seq_next) > 0) {
		count(PENDULUM_LOST_ACK_OF_UNSEEN);
		peer->seq_next = me->ack_highest;
	}
}

/* What the flags and the options tell about a half, and a refusal about its peer. */
static __always_inline void apply_flags(struct pendulum_half *me, struct pendulum_half *peer,
					const struct segment *s)
{
	const __u8 present = s->options.present;

	if (present & OPTION_MPTCP)
		me->flags |= PENDULUM_HALF_MPTCP;
	if (present & OPTION_ACCECN)
		me->flags |= PENDULUM_HALF_ACCECN;
	if (s->flags & TCP_FIN)
		me->flags |= PENDULUM_HALF_FIN;
	if (s->flags & TCP_RST)
		me->flags |= PENDULUM_HALF_RST;
	if (!(s->flags & TCP_SYN))
		return;

	/* The peer had offered timestamps and will send none: RFC 7323 §3.2. */
	if (s->flags & TCP_ACK && !(present & OPTION_TIMESTAMPS) && peer->flags & PENDULUM_HALF_TS) {
		peer->flags &= ~PENDULUM_HALF_TS;
		forget_probes(peer);
	}
	me->isn = s->seq;
	me->flags |= PENDULUM_HALF_SYN;
	if (present & OPTION_SACK_PERMITTED)
		me->flags |= PENDULUM_HALF_SACK_OK;
	if (present & OPTION_WSCALE) {
		me->flags |= PENDULUM_HALF_WSCALE;
		me->wscale = s->options.wscale;
	}
	if (present & OPTION_MSS)
		me->mss = s->options.mss;
}

#endif
