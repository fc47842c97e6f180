/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The ACK filter: hold and replace. docs/shaping.md, "ACK filter".
 *
 *   1. On its way into the queue an ACK gets a serial number of its connection, and carries it in skb->cb.
 *   2. The tracepoint of the enqueue confirms that it stands in the queue; or, if the queue made room for it,
 *      that of the drop does. Leaving the queue is seen by TC.
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
#include "ack_sack.h"
#include "ack_table.h"

#define EPOCH_SHIFT 30 /* an epoch of activity: 1.07 s */
#define NS_PER_S    1000000000ull
#define PERMILLE    1000
#define ACK_SPAN    (1 << 30)

/* TSW, paper 002 §3.1. */
static __always_inline __u64 time_sliding_window(__u64 rate, __u64 last_ns, __u64 now, __u64 window_ns,
						 __u32 bytes)
{
	__u64 since = elapsed_ns(now, last_ns);

	if (since > NS_PER_S * 60)
		since = NS_PER_S * 60;
	return (rate * window_ns + bytes * NS_PER_S) / (since + window_ns + 1);
}

static __always_inline bool is_idle(const struct pendulum_ack_state *state,
				    const struct pendulum_shape_control *control, __u64 now)
{
	return elapsed_ns(now, state->last_ns) > control->idle_ns;
}

static __always_inline void start_state(struct pendulum_ack_state *state, const struct ack_packet *p)
{
	state->generation += 1;
	state->flow = p->flow;
	state->last_serial = state->enqueued_serial = state->left_serial = 0;
	state->dropped_serial = 0;
	state->flags = 0;
	state->withheld = 0;
	state->rate = 0;
	state->rate_ns = 0;
	state->epoch = 0;
	state->first_ack = p->ack;
	state->ack = p->ack;
	state->layout = p->layout;
	state->sack_blocks = p->sack_blocks;
	state->newest_blocks = 0;
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

/* Says nothing that the connection's newest ACK has not said: no carrier's numbers may become its own. */
static __always_inline bool is_duplicate(const struct pendulum_ack_state *state, const struct ack_packet *p)
{
	__s32 ahead = p->ack - state->ack;

	return ahead < 0 || (!ahead && (!p->sack_blocks || same_sack(p, state)));
}

static __always_inline bool has_older_timestamps(const struct pendulum_ack_state *state,
						 const struct ack_packet *p)
{
	return p->timestamps &&
	       ((__s32)(p->tsval - state->tsval) < 0 || (__s32)(p->tsecr - state->tsecr) < 0);
}

/*
 * Past slow start, for good: what was acknowledged less what is spared has its sign bit clear. Read as a bit,
 * since with a branch here the verifier would have two ways through all that follows.
 */
static __always_inline void note_settled(struct pendulum_ack_state *state, struct ack_packet *p,
					 const struct pendulum_shape_control *control)
{
	__u32 beyond = p->ack - state->first_ack - control->spared_bytes;

	state->flags |= (~beyond >> 31) * PENDULUM_ACK_SETTLED;
	p->settled = state->flags & PENDULUM_ACK_SETTLED;
}

/*
 * What fills the lane cannot be merged, and pushes the oldest out: the carriers, which hold the newest
 * numbers. As long as any of what stood there then may still stand there, ACKs are better off one by one.
 */
static __always_inline bool overflows(const struct pendulum_channel *uplink,
				      const struct pendulum_shape_control *control, __u64 now)
{
	return uplink->overflow_ns && elapsed_ns(now, uplink->overflow_ns) < control->carrier_ns;
}

static __always_inline bool is_ack_class(__u32 priority, const struct pendulum_shape_control *control)
{
	/* 0 is no class, and what most packets have. */
	return priority && (priority == control->lane_priority || priority == control->turn_priority);
}

static __always_inline void note_overflow(__u64 now)
{
	struct pendulum_channel *uplink = the_channel();

	if (uplink)
		uplink->overflow_ns = now;
}

/*
 * The carrier can be made into this ACK: built alike, but for SACK blocks, which may become more or fewer.
 * Not on a carrier without any option: of the least size of Ethernet, it may end in padding.
 */
static __always_inline bool fits_carrier(const struct pendulum_ack_state *state, const struct ack_packet *p,
					 const struct pendulum_shape_control *control)
{
	if (state->sack_blocks == p->sack_blocks)
		return state->layout == p->layout;
	return control->merge_sack && state->layout > TCP_WORDS_PLAIN &&
	       state->layout - sack_words(state->sack_blocks) == p->layout - sack_words(p->sack_blocks);
}

/* Why the ACK must pass, or NO_OBSTACLE. The order is that of docs/shaping.md. */
static __always_inline __u32 judge(const struct pendulum_ack_state *state, const struct ack_packet *p,
				   const struct pendulum_shape_control *control,
				   const struct pendulum_channel *uplink, bool covers, __u64 now)
{
	if (p->obstacle != NO_OBSTACLE)
		return p->obstacle;
	if (!state->last_serial)
		return PENDULUM_ACK_PASSED_FIRST;
	if (is_duplicate(state, p))
		return PENDULUM_ACK_PASSED_DUPLICATE;
	if (state->left_serial == state->last_serial || state->dropped_serial == state->last_serial)
		return PENDULUM_ACK_PASSED_NO_CARRIER;
	if (state->enqueued_serial != state->last_serial)
		return PENDULUM_ACK_PASSED_UNCONFIRMED;
	if (elapsed_ns(now, state->queued_ns) > control->carrier_ns)
		return PENDULUM_ACK_PASSED_STALE;
	if (!(state->flags & PENDULUM_ACK_PLAIN))
		return PENDULUM_ACK_PASSED_CARRIER;
	if (state->tos != p->tos || !fits_carrier(state, p, control))
		return PENDULUM_ACK_PASSED_LAYOUT;
	if ((p->sack_blocks || state->newest_blocks) && !covers)
		return PENDULUM_ACK_PASSED_SACK;
	if (has_older_timestamps(state, p))
		return PENDULUM_ACK_PASSED_TIMESTAMP;
	/* One pending content at a time: that of an earlier carrier is not given up. */
	if (state->flags & PENDULUM_ACK_PENDING && state->pending_serial != state->last_serial)
		return PENDULUM_ACK_PASSED_CARRIER;
	if (p->ack - state->first_ack < control->spared_bytes)
		return PENDULUM_ACK_PASSED_SLOW_START;
	if (state->flags & PENDULUM_ACK_PENDING && state->withheld >= control->stretch)
		return PENDULUM_ACK_PASSED_STRETCH;
	if (overflows(uplink, control, now))
		return PENDULUM_ACK_PASSED_OVERFLOW;
	return method_obstacle(state, control, uplink);
}

/*
 * SACK begins on a connection without timestamps, so the ACK cannot be merged with the one before it; but it
 * says all that is pending for that one. Without this nothing more would be withheld until that one has left.
 */
static __always_inline bool makes_pending_needless(const struct pendulum_ack_state *state,
						   const struct ack_packet *p, bool covers)
{
	return covers && state->flags & PENDULUM_ACK_PENDING && state->sack_blocks != p->sack_blocks &&
	       state->tos == p->tos && !has_older_timestamps(state, p);
}

static __always_inline void note_newest(struct pendulum_ack_state *state, const struct ack_packet *p)
{
	__s32 ahead = p->ack - state->ack;

	/* Far behind: a new connection that began unseen. */
	if (ahead < 0 && ahead > -ACK_SPAN)
		return;
	state->ack = p->ack;
	__builtin_memcpy(state->sack, p->sack, sizeof(state->sack));
	state->newest_blocks = p->sack_blocks;
	if (p->timestamps) {
		state->tsval = p->tsval;
		state->tsecr = p->tsecr;
	}
}

/* The ACK goes into the queue: its serial number. A duplicate is no carrier: rewritten, it would be one no
 * more. */
static __always_inline __u32 note_passed(struct pendulum_ack_state *state, const struct ack_packet *p,
					 __u32 fate, __u64 now)
{
	bool plain = p->obstacle == NO_OBSTACLE && fate != PENDULUM_ACK_PASSED_DUPLICATE;
	bool alike = state->layout == p->layout && state->sack_blocks == p->sack_blocks;

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
	state->sack_blocks = p->sack_blocks;
	if (plain)
		state->flags |= PENDULUM_ACK_PLAIN;
	else
		state->flags &= ~PENDULUM_ACK_PLAIN;
	/* What is built otherwise than the one before takes no place before its own. */
	if (!plain || !alike || p->sack_blocks) {
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
	__builtin_memcpy(state->pending_sack, p->sack, sizeof(state->pending_sack));
	state->pending_blocks = p->sack_blocks;
	state->pending_window = p->window;
	state->withheld += 1;
}

/* What is to be done with an ACK that leaves the queue. */
enum departure {
	LEAVES_AS_IT_CAME = 0,
	LEAVES_REWRITTEN = 1,
	LEAVES_NOT = 2,         /* its connection's newest has gone out before it */
	LEAVES_BEHIND_LOST = 3, /* as it came, behind a carrier that was dropped in the queue */
};

/* The newest numbers, for the carrier. */
struct ack_content {
	__u32 ack;
	__u32 tsval;
	__u32 tsecr;
	__u32 sack[2 * PENDULUM_SACK_BLOCKS];
	__u32 sack_blocks;
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
		__builtin_memcpy(content->sack, state->pending_sack, sizeof(content->sack));
		content->sack_blocks = state->pending_blocks;
		content->window = state->pending_window;
		return LEAVES_REWRITTEN;
	}
	/* The lane is first in, first out. What was pending says no more than what was queued behind it. */
	if (pending && !at_or_before(serial, state->pending_serial)) {
		state->flags &= ~PENDULUM_ACK_PENDING;
		state->withheld = 0;
		return LEAVES_BEHIND_LOST;
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

#endif
