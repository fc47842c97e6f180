/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The ACK filter: hold and replace. docs/shaping.md, "ACK filter".
 *
 *   1. On its way into the queue an ACK gets a serial number of its connection, and carries it in skb->cb.
 *   2. The tracepoint of the enqueue confirms that it stands in the queue; leaving the queue is seen by TC.
 *   3. While the newest ACK of its connection is known to stand there, an ACK that says strictly more may be
 *      withheld: it is that one's pending content.
 *   4. The queued one, the carrier, leaves with the pending acknowledgement number, window and timestamps.
 *
 * Whatever is in doubt passes as it came. BPF cannot send a packet by itself, hence no ACK is withheld
 * without a carrier; and since ACKs behind the carrier are never older than its pending content, numbers
 * never go backwards and a duplicate ACK remains one.
 */
#ifndef PENDULUM_ACK_FILTER_H
#define PENDULUM_ACK_FILTER_H

#include "ack_packet.h"

#define TAG_MAGIC      0x5c
#define TAG_GENERATION 0xff
#define EPOCH_SHIFT    30 /* an epoch of activity: 1.07 s */
#define NS_PER_S       1000000000ull
#define PERMILLE       1000
#define ACK_SPAN       (1 << 30)

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pendulum_shape_control);
} shape_control SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pendulum_shape_counts);
} shape_counts SEC(".maps");

/* Index: a hash of the connection. Two that meet in one place: the later one is not filtered. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PENDULUM_ACK_FLOWS);
	__type(key, __u32);
	__type(value, struct pendulum_ack_state);
} ack_states SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pendulum_channel);
} channel SEC(".maps");

static __always_inline struct pendulum_shape_control *shape_control_now(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&shape_control, &zero);
}

static __always_inline struct pendulum_shape_counts *shape_counts_here(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&shape_counts, &zero);
}

static __always_inline void count_fate(__u32 fate)
{
	struct pendulum_shape_counts *counts = shape_counts_here();

	if (counts && fate < PENDULUM_ACK_FATES)
		counts->acks[fate] += 1;
}

static __always_inline struct pendulum_channel *the_channel(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&channel, &zero);
}

static __always_inline __u32 place_of(const struct pendulum_ack_flow *flow)
{
	const __u32 *word = (const __u32 *)flow;
	__u64 hash = 0x9e3779b97f4a7c15ull;

#pragma unroll
	for (int i = 0; i < 9; i++)
		hash = (hash ^ word[i]) * 0x9ddfea08eb382d69ull;
	return (__u32)(hash >> 40) & (PENDULUM_ACK_FLOWS - 1);
}

static __always_inline bool same_flow(const struct pendulum_ack_flow *a, const struct pendulum_ack_flow *b)
{
	const __u32 *x = (const __u32 *)a, *y = (const __u32 *)b;
	__u32 differs = 0;

#pragma unroll
	for (int i = 0; i < 9; i++)
		differs |= x[i] ^ y[i];
	return !differs;
}

/* TSW, paper 002 §3.1. */
static __always_inline __u64 time_sliding_window(__u64 rate, __u64 last_ns, __u64 now, __u64 window_ns,
						 __u32 bytes)
{
	__u64 since = now > last_ns ? now - last_ns : 0;

	if (since > NS_PER_S * 60)
		since = NS_PER_S * 60;
	return (rate * window_ns + bytes * NS_PER_S) / (since + window_ns + 1);
}

static __always_inline void start_state(struct pendulum_ack_state *state, const struct ack_packet *p)
{
	state->generation += 1;
	state->flow = p->flow;
	state->last_serial = state->enqueued_serial = state->left_serial = 0;
	state->flags = 0;
	state->withheld = 0;
	state->rate = 0;
	state->rate_ns = 0;
	state->epoch = 0;
	state->first_ack = p->ack;
	state->ack = p->ack;
}

/* What the method says once all else allows it. */
static __always_inline __u32 method_obstacle(const struct pendulum_ack_state *state,
					     const struct pendulum_shape_control *control,
					     const struct pendulum_channel *uplink)
{
	__u32 active = uplink->active > uplink->active_before ? uplink->active : uplink->active_before;

	switch (control->filter) {
	case PENDULUM_FILTER_STATIC:
		return state->enqueued_serial - state->left_serial < control->delta
			       ? PENDULUM_ACK_PASSED_DELTA
			       : NO_OBSTACLE;
	case PENDULUM_FILTER_DELAYED:
		return uplink->filtering ? NO_OBSTACLE : PENDULUM_ACK_PASSED_UNDER_USED;
	case PENDULUM_FILTER_PER_CONNECTION:
		return state->rate * (active ? active : 1) > control->channel_bytes_per_s
			       ? NO_OBSTACLE
			       : PENDULUM_ACK_PASSED_FAIR;
	}
	return PENDULUM_ACK_PASSED_OFF;
}

/* Why the ACK must pass, or NO_OBSTACLE. The order is that of docs/shaping.md. */
static __always_inline __u32 judge(const struct pendulum_ack_state *state, const struct ack_packet *p,
				   const struct pendulum_shape_control *control,
				   const struct pendulum_channel *uplink, __u64 now)
{
	if (p->obstacle != NO_OBSTACLE)
		return p->obstacle;
	if (!state->last_serial)
		return PENDULUM_ACK_PASSED_FIRST;
	if ((__s32)(p->ack - state->ack) <= 0)
		return PENDULUM_ACK_PASSED_DUPLICATE;
	if (state->left_serial == state->last_serial)
		return PENDULUM_ACK_PASSED_NO_CARRIER;
	if (state->enqueued_serial != state->last_serial)
		return PENDULUM_ACK_PASSED_UNCONFIRMED;
	if (now - state->queued_ns > control->carrier_ns)
		return PENDULUM_ACK_PASSED_STALE;
	if (!(state->flags & PENDULUM_ACK_PLAIN))
		return PENDULUM_ACK_PASSED_CARRIER;
	if (state->layout != p->layout || state->tos != p->tos)
		return PENDULUM_ACK_PASSED_LAYOUT;
	if (p->layout == TCP_WORDS_TS &&
	    ((__s32)(p->tsval - state->tsval) < 0 || (__s32)(p->tsecr - state->tsecr) < 0))
		return PENDULUM_ACK_PASSED_TIMESTAMP;
	/* One pending content at a time: that of an earlier carrier is not given up. */
	if (state->flags & PENDULUM_ACK_PENDING && state->pending_serial != state->last_serial)
		return PENDULUM_ACK_PASSED_CARRIER;
	if (p->ack - state->first_ack < control->spared_bytes)
		return PENDULUM_ACK_PASSED_SLOW_START;
	if (state->flags & PENDULUM_ACK_PENDING && state->withheld >= control->stretch)
		return PENDULUM_ACK_PASSED_STRETCH;
	return method_obstacle(state, control, uplink);
}

static __always_inline void note_newest(struct pendulum_ack_state *state, const struct ack_packet *p)
{
	__s32 ahead = p->ack - state->ack;

	/* Far behind: a new connection that began unseen. */
	if (ahead < 0 && ahead > -ACK_SPAN)
		return;
	state->ack = p->ack;
	if (p->layout == TCP_WORDS_TS) {
		state->tsval = p->tsval;
		state->tsecr = p->tsecr;
	}
}

/* The ACK goes into the queue: its serial number. A duplicate is no carrier: rewritten, it would be one no
 * more. */
static __always_inline __u32 note_passed(struct pendulum_ack_state *state, const struct ack_packet *p,
					 __u32 fate, __u64 now)
{
	/* With nothing pending for the one before, what is withheld counts anew. */
	if (!(state->flags & PENDULUM_ACK_PENDING))
		state->withheld = 0;
	note_newest(state, p);
	state->last_serial += 1;
	if (!state->last_serial)
		state->last_serial = 1;
	state->queued_ns = now;
	state->layout = p->layout;
	state->tos = p->tos;
	if (p->obstacle == NO_OBSTACLE && fate != PENDULUM_ACK_PASSED_DUPLICATE) {
		state->flags |= PENDULUM_ACK_PLAIN;
	} else {
		state->flags &= ~PENDULUM_ACK_PLAIN;
		state->flags |= PENDULUM_ACK_UNSAFE;
		state->unsafe_serial = state->last_serial;
	}
	return state->last_serial;
}

static __always_inline void note_withheld(struct pendulum_ack_state *state, const struct ack_packet *p)
{
	note_newest(state, p);
	state->flags |= PENDULUM_ACK_PENDING;
	state->pending_serial = state->last_serial;
	state->pending_ack = p->ack;
	state->pending_tsval = p->tsval;
	state->pending_tsecr = p->tsecr;
	state->pending_window = p->window;
	state->withheld += 1;
}

/* What is to be done with an ACK that leaves the queue. */
enum departure {
	LEAVES_AS_IT_CAME = 0,
	LEAVES_REWRITTEN = 1,
	LEAVES_NOT = 2, /* its connection's newest has gone out before it */
};

/* The newest numbers, for the carrier. */
struct ack_content {
	__u32 ack;
	__u32 tsval;
	__u32 tsecr;
	__u16 window;
};

static __always_inline bool at_or_before(__u32 serial, __u32 other)
{
	return (__s32)(serial - other) <= 0;
}

/* Paper 002 §4.1: the new ACK goes out in the place of the oldest, if none in between must stay as it is. */
static __always_inline bool may_jump(const struct pendulum_ack_state *state, __u32 serial, __u32 filter)
{
	return filter == PENDULUM_FILTER_PER_CONNECTION && at_or_before(serial, state->pending_serial) &&
	       (!(state->flags & PENDULUM_ACK_UNSAFE) || !at_or_before(serial, state->unsafe_serial));
}

static __always_inline enum departure note_left(struct pendulum_ack_state *state, __u32 serial, __u32 filter,
						struct ack_content *content)
{
	bool pending = state->flags & PENDULUM_ACK_PENDING;

	state->left_serial = serial;
	if (pending && (serial == state->pending_serial || may_jump(state, serial, filter))) {
		state->flags &= ~PENDULUM_ACK_PENDING;
		state->withheld = 0;
		if (serial != state->pending_serial) {
			state->flags |= PENDULUM_ACK_DOOMED;
			state->doomed_serial = state->pending_serial;
		}
		content->ack = state->pending_ack;
		content->tsval = state->pending_tsval;
		content->tsecr = state->pending_tsecr;
		content->window = state->pending_window;
		return LEAVES_REWRITTEN;
	}
	if (state->flags & PENDULUM_ACK_DOOMED) {
		if (at_or_before(serial, state->doomed_serial))
			return LEAVES_NOT;
		state->flags &= ~PENDULUM_ACK_DOOMED;
	}
	return LEAVES_AS_IT_CAME;
}

/* A packet of the uplink has left. */
static __always_inline void note_channel(const struct pendulum_shape_control *control, __u64 now, __u32 bytes,
					 bool first_of_epoch)
{
	struct pendulum_channel *uplink = the_channel();
	__u64 epoch = now >> EPOCH_SHIFT, used;

	if (!uplink)
		return;
	uplink->rate = time_sliding_window(uplink->rate, uplink->rate_ns, now, control->window_ns, bytes);
	uplink->rate_ns = now;
	used = uplink->rate * PERMILLE;
	if (used >= control->channel_bytes_per_s * control->upper_permille)
		uplink->filtering = 1;
	else if (used < control->channel_bytes_per_s * control->lower_permille)
		uplink->filtering = 0;
	if (uplink->epoch != epoch) {
		uplink->active_before = uplink->epoch + 1 == epoch ? uplink->active : 0;
		uplink->active = 0;
		uplink->epoch = epoch;
	}
	uplink->active += first_of_epoch;
}

static __always_inline void write_tag(struct __sk_buff *skb, __u32 place, __u32 generation, __u32 serial)
{
	skb->cb[2] = serial;
	skb->cb[3] = (__u32)TAG_MAGIC << 24 | (generation & TAG_GENERATION) << 16 | place;
}

static __always_inline bool is_tag(__u32 tag)
{
	return tag >> 24 == TAG_MAGIC;
}

static __always_inline __u32 generation_of_tag(__u32 tag)
{
	return tag >> 16 & TAG_GENERATION;
}

static __always_inline struct pendulum_ack_state *state_of_tag(__u32 tag)
{
	__u32 place = tag & 0xffff;

	return bpf_map_lookup_elem(&ack_states, &place);
}

#endif
