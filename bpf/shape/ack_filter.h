/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The ACK filter: hold and replace. docs/design/shaping.md, "ACK filter".
 *
 *   1. While the newest ACK of its connection stands in the queue, an ACK that says all that it says and more
 * may be withheld: it is that one's pending content.
 *   2. The queued one, the carrier, is known by its flow and by a fingerprint of its content when it leaves.
 * It leaves with the pending content.
 *
 * By state of a connection and event, what is done and the state after it. An ACK is plain if it may be
 * rewritten. The flags of struct pendulum_ack_state tell the state:
 *
 *   EMPTY    not QUEUED: none of its ACKs is known to stand in the queue
 *   CARRIER  QUEUED, PLAIN: its newest may be a carrier
 *   FIXED    QUEUED, not PLAIN: its newest must stay as it is, or data follows it
 *   PENDING  and something is pending for its newest
 *   EARLIER  and something is pending for one before it
 *
 *            judge() agrees     another passes    data passes  its newest leaves  the carrier leaves
 *   EMPTY    (does not)         CARRIER or FIXED  EMPTY        -                  -
 *   CARRIER  withheld: PENDING  CARRIER or FIXED  FIXED        EMPTY              -
 *   FIXED    (does not)         CARRIER or FIXED  FIXED        EMPTY              -
 *   PENDING  withheld: PENDING  EARLIER (1)       PENDING (2)  is the carrier     rewritten: EMPTY
 *   EARLIER  withheld: PENDING  EARLIER (1)       EARLIER (2)  as it is: EMPTY    rewritten: CARRIER
 *                                                              (3)                (4)
 *
 *   1: CARRIER or FIXED if enough is withheld, or the carrier is too old: what is pending is given up.
 *   2: no longer PLAIN.
 *   3: the carrier was lost in the queue; what is pending is given up.
 *   4: or FIXED, as its newest is. With the method per-connection any older plain ACK may be rewritten
 * instead; plain ones behind it are DOOMED then: they do not leave.
 */
#ifndef PENDULUM_ACK_FILTER_H
#define PENDULUM_ACK_FILTER_H

#include "shape/ack_accecn.h"

#define EPOCH_SHIFT 30 /* an epoch of activity: 1.07 s */
#define NS_PER_S    1000000000ull
#define PERMILLE    1000
#define ACK_SPAN    (1 << 30)

/* A packet takes its part: TSW, paper 002 §3.1. How many epochs after the one before it. */
static __always_inline __u64 note_rate(struct pendulum_sliding_rate *rate, const struct ack_packet *p,
				       const struct pendulum_shape_control *control)
{
	__u64 epochs = (p->now >> EPOCH_SHIFT) - (rate->at_ns >> EPOCH_SHIFT);
	__u64 since = elapsed_ns(p->now, rate->at_ns);

	rate->bytes_per_s = (rate->bytes_per_s * control->window_ns + p->bytes * NS_PER_S) /
			    (since + control->window_ns + 1);
	rate->at_ns = p->now;
	return epochs;
}

/* The place is this connection's from here on. Its kind of ECN does not change while it is silent. */
static __always_inline void start_state(struct pendulum_ack_state *state, const struct ack_packet *p)
{
	state->flags &= state->last_ns && same_flow(&state->flow, &p->s.key) ? PENDULUM_ACK_ACCECN : 0;
	__builtin_memset(&state->last_ns, 0, sizeof(*state) - offsetof(struct pendulum_ack_state, last_ns));
	state->flow = p->s.key;
	state->seq = p->seq;
	state->first_ack = state->newest.ack = p->feedback.ack;
	state->segments = SEGMENTS_UNKNOWN;
}

/* What the method says once all else allows it. */
static __always_inline __u32 method_obstacle(const struct pendulum_ack_state *state,
					     const struct pendulum_shape_control *control,
					     const struct pendulum_channel *uplink)
{
	__u32 active = uplink->active > uplink->active_before ? uplink->active : uplink->active_before;

	switch (control->filter) {
	case PENDULUM_FILTER_STATIC:
		return state->queued < control->delta ? PENDULUM_ACK_PASSED_BELOW_DELTA : NO_OBSTACLE;
	case PENDULUM_FILTER_DELAYED:
		/* Whatever the average says, as many of one connection use the channel up. */
		return uplink->filtering || state->queued >= control->delta ||
				       state->queued >= control->stretch
			       ? NO_OBSTACLE
			       : PENDULUM_ACK_PASSED_UNDER_USED;
	case PENDULUM_FILTER_PER_CONNECTION:
		return state->rate.bytes_per_s * (active ? active : 1) > control->channel_bytes_per_s
			       ? NO_OBSTACLE
			       : PENDULUM_ACK_PASSED_FAIR_SHARE;
	}
	return PENDULUM_ACK_PASSED_FILTER_OFF;
}

/* The SACK blocks of an ACK tell all that an older one's do: CAKE's rule (net/sched/sch_cake.c,
 * cake_tcph_sack_compare). */
static __always_inline bool covers_sack(const struct pendulum_ack_feedback *f,
					const struct pendulum_ack_feedback *older)
{
	__u32 told = 1;

	if (!older->sack_blocks)
		return true;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < PENDULUM_SACK_BLOCKS; i++) {
		__u32 left = older->sack[2 * i], right = older->sack[2 * i + 1];
		__u32 covered = is_reached(i, older->sack_blocks) | is_reached(f->ack, right);

		/* Otherwise the compiler keeps all blocks on the stack at once. */
		asm volatile("" ::: "memory");
#pragma unroll
		for (__u32 j = 0; j < PENDULUM_SACK_BLOCKS; j++)
			covered |= is_reached(f->sack_blocks, j + 1) & is_reached(left, f->sack[2 * j]) &
				   is_reached(f->sack[2 * j + 1], right);
		told &= covered;
	}
	return told;
}

/*
 * A keep-alive or a zero-window probe: it repeats a number that was used, and asks for an ACK by that. The
 * other end looks at nothing else of it, so it must arrive, and must not be what another one's content leaves
 * with. What is far behind is a new connection that began unseen.
 */
static __always_inline bool is_probe(const struct pendulum_ack_state *state, const struct ack_packet *p)
{
	return state->seq - p->seq - 1 < ACK_SPAN;
}

/* Says nothing that the connection's newest ACK has not said: no carrier's numbers may become its own. */
static __always_inline bool is_duplicate(const struct pendulum_ack_feedback *newest,
					 const struct pendulum_ack_feedback *f)
{
	__s32 ahead = f->ack - newest->ack;

	return ahead < 0 ||
	       (!ahead && (!f->sack_blocks || same_words(f->sack, newest->sack, 2 * PENDULUM_SACK_BLOCKS)));
}

static __always_inline bool has_older_timestamps(const struct pendulum_ack_feedback *newest,
						 const struct pendulum_ack_feedback *f)
{
	return f->timestamps != newest->timestamps || (__s32)(f->tsval - newest->tsval) < 0 ||
	       (__s32)(f->tsecr - newest->tsecr) < 0;
}

/* One content at a time is pending. It is for an earlier carrier than the newest in the queue. */
static __always_inline bool pends_earlier(const struct pendulum_ack_state *state)
{
	return state->flags & PENDULUM_ACK_PENDING && state->carrier_print != state->newest_print;
}

/* Why this ACK must stay as it is, whatever there is in the queue, or NO_OBSTACLE. */
static __always_inline __u32 obstacle_of(const struct ack_packet *p, __u32 flags)
{
	return p->feedback.ace && !(flags & PENDULUM_ACK_ACCECN) ? PENDULUM_ACK_PASSED_FLAGS : p->obstacle;
}

/* Why the ACK must pass, or NO_OBSTACLE. The order is that of docs/design/shaping.md. */
static __always_inline __u32 judge(const struct pendulum_ack_state *state, const struct ack_packet *p,
				   const struct pendulum_shape_control *control,
				   const struct pendulum_channel *uplink, __u32 segments, bool first)
{
	const struct pendulum_ack_feedback *f = &p->feedback;
	__u32 obstacle = obstacle_of(p, state->flags);
	bool earlier = pends_earlier(state);

	if (obstacle != NO_OBSTACLE)
		return obstacle;
	if (first)
		return PENDULUM_ACK_PASSED_FIRST;
	if (is_probe(state, p))
		return PENDULUM_ACK_PASSED_SEQUENCE;
	if (is_duplicate(&state->newest, f))
		return PENDULUM_ACK_PASSED_DUPLICATE;
	if (!(state->flags & PENDULUM_ACK_QUEUED))
		return PENDULUM_ACK_PASSED_NO_CARRIER;
	/* Nor if nothing comes back at all: what redirects packets may have been taken away. */
	if (elapsed_ns(p->now, state->queued_ns) > control->carrier_ns ||
	    elapsed_ns(p->now, uplink->rate.at_ns) > control->carrier_ns)
		return PENDULUM_ACK_PASSED_STALE_CARRIER;
	if (!(state->flags & PENDULUM_ACK_PLAIN))
		return PENDULUM_ACK_PASSED_UNSAFE_CARRIER;
	/* Data in between that was not seen: to its receiver the carrier would be old. */
	if (state->seq != p->seq)
		return PENDULUM_ACK_PASSED_SEQUENCE;
	if (state->tos != p->tos)
		return PENDULUM_ACK_PASSED_DSCP;
	if (!covers_sack(f, &state->newest))
		return PENDULUM_ACK_PASSED_SACK;
	if (has_older_timestamps(&state->newest, f))
		return PENDULUM_ACK_PASSED_TIMESTAMP;
	/*
	 * What is pending for an earlier carrier need not be sent if this ACK tells all of it. But its
	 * duplicate, sent alone, would be none; and AccECN's segments are counted from what leaves before.
	 */
	if (earlier && (state->flags & (PENDULUM_ACK_REPEATED | PENDULUM_ACK_ACCECN) ||
			!covers_sack(f, &state->pending)))
		return PENDULUM_ACK_PASSED_UNSAFE_CARRIER;
	if (f->ack - state->first_ack < control->spared_bytes)
		return PENDULUM_ACK_PASSED_SLOW_START;
	if (!keeps_ace(state, f, segments))
		return PENDULUM_ACK_PASSED_ACCECN;
	/* Nothing else speaks against it: it says all that is pending. */
	if (!earlier && state->flags & PENDULUM_ACK_PENDING && state->withheld >= control->stretch)
		return PENDULUM_ACK_PASSED_STRETCH;
	return method_obstacle(state, control, uplink);
}

/* Of what stays the same from here to where it leaves: the content. */
static __always_inline __u32 print_of(const struct ack_packet *p)
{
	return hash_words(p->words, PENDULUM_ACK_WORDS) >> 32;
}

/* The ACK goes into the queue. A duplicate is no carrier: rewritten, it would be none. Nor is a probe. */
static __always_inline void note_passed(struct pendulum_ack_state *state, const struct ack_packet *p,
					__u32 fate, __u32 segments)
{
	__s32 ahead = p->feedback.ack - state->newest.ack;
	bool probe = is_probe(state, p);
	bool plain = obstacle_of(p, state->flags) == NO_OBSTACLE && fate != PENDULUM_ACK_PASSED_DUPLICATE &&
		     !probe;

	if (!probe)
		state->seq = p->seq;
	/* With nothing pending for the one before, what is withheld counts anew. */
	if (!(state->flags & PENDULUM_ACK_PENDING))
		state->withheld = 0;
	else if (!plain && !pends_earlier(state))
		state->flags |= PENDULUM_ACK_REPEATED;
	/* Far behind: a new connection that began unseen. */
	if (ahead >= 0 || ahead <= -ACK_SPAN)
		state->newest = p->feedback;
	state->newest_print = print_of(p);
	state->queued_ns = p->now;
	state->queued += 1;
	state->tos = p->tos;
	state->segments = segments;
	state->flags &= ~PENDULUM_ACK_PLAIN;
	state->flags |= PENDULUM_ACK_QUEUED | (plain ? PENDULUM_ACK_PLAIN : 0);
	/* Nothing may be put before it that came after it. */
	if (!plain || p->feedback.sack_blocks || state->flags & PENDULUM_ACK_ACCECN)
		state->flags |= PENDULUM_ACK_UNSAFE;
}

static __always_inline void note_withheld(struct pendulum_ack_state *state, const struct ack_packet *p,
					  __u32 segments)
{
	/* Another carrier than that of what was pending. */
	if (pends_earlier(state))
		state->withheld = 0;
	state->flags |= PENDULUM_ACK_PENDING;
	state->flags &= ~PENDULUM_ACK_REPEATED;
	state->carrier_print = state->newest_print;
	state->newest = p->feedback;
	state->pending = p->feedback;
	__builtin_memcpy(state->pending_words, p->words, sizeof(state->pending_words));
	segments += state->segments;
	state->segments = segments < SEGMENTS_UNKNOWN ? segments : SEGMENTS_UNKNOWN;
	state->withheld += 1;
}

/* The queue holds nothing more of this connection. */
static __always_inline void note_empty(struct pendulum_ack_state *state)
{
	state->flags &= ~(PENDULUM_ACK_QUEUED | PENDULUM_ACK_DOOMED | PENDULUM_ACK_UNSAFE);
	state->queued = 0;
}

/*
 * An ACK leaves the queue. Returns PENDULUM_ACK_REWRITTEN_NEWEST if it is to leave with `content`,
 * PENDULUM_ACK_HELD_OVERTAKEN if not at all, since its connection's newest has gone out before it; else it
 * leaves as it came.
 */
static __always_inline __u32 note_left(struct pendulum_ack_state *state, const struct ack_packet *p,
				       const struct pendulum_shape_control *control, __be32 *content)
{
	__u32 print = print_of(p), fate = NO_OBSTACLE;
	bool pending = state->flags & PENDULUM_ACK_PENDING;
	bool newest = state->flags & PENDULUM_ACK_QUEUED && print == state->newest_print;
	bool plain = obstacle_of(p, state->flags) == NO_OBSTACLE && !p->feedback.sack_blocks;
	bool carrier = pending && print == state->carrier_print;
	/* Paper 002 §4.1: the new ACK goes out in the place of the oldest, if none in between must stay. */
	bool jumps = pending && plain && control->filter == PENDULUM_FILTER_PER_CONNECTION &&
		     !(state->flags & PENDULUM_ACK_UNSAFE) &&
		     (__s32)(p->feedback.ack - state->pending.ack) < 0;
	bool mixed = state->data_ns && elapsed_ns(p->now, state->data_ns) <= control->carrier_ns;

	if (carrier || jumps) {
		__builtin_memcpy(content, state->pending_words, sizeof(state->pending_words));
		if (!carrier)
			state->flags |= PENDULUM_ACK_DOOMED;
		fate = PENDULUM_ACK_REWRITTEN_NEWEST;
	} else if (pending && newest) {
		/* What leaves is behind the carrier, and says no less than what was pending for it. */
		fate = PENDULUM_ACK_RELEASED_CARRIER_LOST;
	} else if (state->flags & PENDULUM_ACK_DOOMED && plain &&
		   (__s32)(p->feedback.ack - state->left_ack) < 0) {
		fate = PENDULUM_ACK_HELD_OVERTAKEN;
	}
	if (fate == PENDULUM_ACK_REWRITTEN_NEWEST || fate == PENDULUM_ACK_RELEASED_CARRIER_LOST) {
		state->flags &= ~PENDULUM_ACK_PENDING;
		state->withheld = 0;
	}
	state->queued -= !!state->queued;
	if (newest)
		note_empty(state);
	if (fate != PENDULUM_ACK_HELD_OVERTAKEN)
		note_counters_left(
			state, fate == PENDULUM_ACK_REWRITTEN_NEWEST ? &state->pending : &p->feedback, mixed);
	return fate;
}

/* A packet of the uplink has left. */
static __always_inline void note_channel(const struct pendulum_shape_control *control,
					 const struct ack_packet *p, bool first_of_epoch)
{
	struct pendulum_channel *uplink = value_of(&channel);
	__u64 epochs, used;

	if (!uplink)
		return;
	epochs = note_rate(&uplink->rate, p, control);
	if (epochs) {
		uplink->active_before = epochs == 1 ? uplink->active : 0;
		uplink->active = 0;
	}
	uplink->active += first_of_epoch;
	used = uplink->rate.bytes_per_s * PERMILLE;
	if (used >= control->channel_bytes_per_s * control->upper_permille)
		uplink->filtering = 1;
	else if (used < control->channel_bytes_per_s * control->lower_permille)
		uplink->filtering = 0;
}

#endif
