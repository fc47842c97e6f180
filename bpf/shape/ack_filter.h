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
 *
 * Whatever is in doubt passes as it came. BPF cannot send a packet by itself, hence no ACK is withheld
 * without a carrier; and since ACKs behind the carrier are never older than its pending content, numbers
 * never go backwards and a duplicate ACK remains one. A carrier that is lost in the queue costs what a lost
 * ACK costs.
 */
#ifndef PENDULUM_ACK_FILTER_H
#define PENDULUM_ACK_FILTER_H

#include "shape/ack_accecn.h"
#include "shape/ack_packet.h"
#include "shape/ack_table.h"

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
	return !state->last_ns || elapsed_ns(now, state->last_ns) > control->idle_ns;
}

/* The place is this connection's from here on. What kind of ECN it speaks does not change while it is silent.
 */
static __always_inline void start_state(struct pendulum_ack_state *state, const struct ack_packet *p)
{
	bool goes_on = state->last_ns && same_flow(&state->flow, &p->flow);

	state->flags = goes_on ? state->flags & PENDULUM_ACK_ACCECN : 0;
	state->flow = p->flow;
	state->queued = 0;
	state->withheld = 0;
	state->rate = 0;
	state->rate_ns = 0;
	state->epoch = 0;
	state->data_ns = 0;
	state->seq = p->seq;
	state->first_ack = p->ack;
	state->ack = p->ack;
	state->segments = SEGMENTS_UNKNOWN;
	state->steady = 0;
	state->timestamps = 0;
	state->sack_blocks = 0;
	state->counted = 0;
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
		/* As many of one connection as the static method asks for, or as one may stand for, use the
		 * channel up, whatever the average says. */
		return uplink->filtering || state->queued >= control->delta ||
				       state->queued >= control->stretch
			       ? NO_OBSTACLE
			       : PENDULUM_ACK_PASSED_UNDER_USED;
	case PENDULUM_FILTER_PER_CONNECTION:
		return state->rate * (active ? active : 1) > control->channel_bytes_per_s
			       ? NO_OBSTACLE
			       : PENDULUM_ACK_PASSED_FAIR_SHARE;
	}
	return PENDULUM_ACK_PASSED_FILTER_OFF;
}

static __always_inline bool same_sack(const struct ack_packet *p, const struct pendulum_ack_state *state)
{
	__u32 differs = 0;

#pragma unroll
	for (__u32 i = 0; i < 2 * PENDULUM_SACK_BLOCKS; i++)
		differs |= p->sack[i] ^ state->sack[i];
	return !differs;
}

/* 1 if a sequence number does not come before another, else 0: without a branch, for the verifier's sake. */
static __always_inline __u32 is_reached(__u32 number, __u32 other)
{
	return ~(number - other) >> 31;
}

/* The SACK blocks of an ACK tell all that these do: CAKE's rule (net/sched/sch_cake.c,
 * cake_tcph_sack_compare). */
static __always_inline bool covers_sack(const struct ack_packet *p, const __u32 *blocks, __u32 count)
{
	__u32 told = 1;

#pragma unroll
	for (__u32 i = 0; i < PENDULUM_SACK_BLOCKS; i++) {
		__u32 left = blocks[2 * i], right = blocks[2 * i + 1];
		__u32 covered;

		/* Otherwise the compiler keeps all blocks on the stack at once. */
		asm volatile("" ::: "memory");
		covered = is_reached(i, count) | is_reached(p->ack, right);

#pragma unroll
		for (__u32 j = 0; j < PENDULUM_SACK_BLOCKS; j++)
			covered |= is_reached(p->sack_blocks, j + 1) & is_reached(left, p->sack[2 * j]) &
				   is_reached(p->sack[2 * j + 1], right);
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
static __always_inline bool is_duplicate(const struct pendulum_ack_state *state, const struct ack_packet *p)
{
	__s32 ahead = p->ack - state->ack;

	return ahead < 0 || (!ahead && (!p->sack_blocks || same_sack(p, state)));
}

static __always_inline bool has_older_timestamps(const struct pendulum_ack_state *state,
						 const struct ack_packet *p)
{
	return p->timestamps != state->timestamps ||
	       (p->timestamps &&
		((__s32)(p->tsval - state->tsval) < 0 || (__s32)(p->tsecr - state->tsecr) < 0));
}

/* One content at a time is pending. It is for an earlier carrier than the newest in the queue. */
static __always_inline bool pends_earlier(const struct pendulum_ack_state *state)
{
	return state->flags & PENDULUM_ACK_PENDING && state->carrier_print != state->newest_print;
}

/*
 * What is pending for an earlier carrier need not be sent: this ACK tells all of it. But a duplicate of it,
 * sent without it, would be none; and AccECN's segments are counted from what leaves before the carrier.
 */
static __always_inline bool covers_pending(const struct pendulum_ack_state *state, const struct ack_packet *p)
{
	return !(state->flags & (PENDULUM_ACK_REPEATED | PENDULUM_ACK_ACCECN)) &&
	       covers_sack(p, state->pending_sack, state->pending_sack_blocks);
}

/* Why this ACK must stay as it is, whatever there is in the queue, or NO_OBSTACLE. */
static __always_inline __u32 obstacle_of(const struct ack_packet *p, __u32 flags)
{
	return p->ace && !(flags & PENDULUM_ACK_ACCECN) ? PENDULUM_ACK_PASSED_FLAGS : p->obstacle;
}

/* Why the ACK must pass, or NO_OBSTACLE. The order is that of docs/design/shaping.md. */
static __always_inline __u32 judge(const struct pendulum_ack_state *state, const struct ack_packet *p,
				   const struct pendulum_shape_control *control,
				   const struct pendulum_channel *uplink, __u32 segments, bool first,
				   __u64 now)
{
	__u32 obstacle = obstacle_of(p, state->flags);
	bool earlier = pends_earlier(state);

	if (obstacle != NO_OBSTACLE)
		return obstacle;
	if (first)
		return PENDULUM_ACK_PASSED_FIRST;
	if (is_probe(state, p))
		return PENDULUM_ACK_PASSED_SEQUENCE;
	if (is_duplicate(state, p))
		return PENDULUM_ACK_PASSED_DUPLICATE;
	if (!(state->flags & PENDULUM_ACK_QUEUED))
		return PENDULUM_ACK_PASSED_NO_CARRIER;
	/* Nor if nothing comes back at all: what redirects packets may have been taken away. */
	if (elapsed_ns(now, state->queued_ns) > control->carrier_ns ||
	    elapsed_ns(now, uplink->rate_ns) > control->carrier_ns)
		return PENDULUM_ACK_PASSED_STALE_CARRIER;
	if (!(state->flags & PENDULUM_ACK_PLAIN))
		return PENDULUM_ACK_PASSED_UNSAFE_CARRIER;
	/* Data in between that was not seen: to its receiver the carrier would be old. */
	if (state->seq != p->seq)
		return PENDULUM_ACK_PASSED_SEQUENCE;
	if (state->tos != p->tos)
		return PENDULUM_ACK_PASSED_DSCP;
	if (!covers_sack(p, state->sack, state->sack_blocks))
		return PENDULUM_ACK_PASSED_SACK;
	if (has_older_timestamps(state, p))
		return PENDULUM_ACK_PASSED_TIMESTAMP;
	if (earlier && !covers_pending(state, p))
		return PENDULUM_ACK_PASSED_UNSAFE_CARRIER;
	if (p->ack - state->first_ack < control->spared_bytes)
		return PENDULUM_ACK_PASSED_SLOW_START;
	if (!keeps_ace(state, p, segments))
		return PENDULUM_ACK_PASSED_ACCECN;
	/* Nothing else speaks against it: it says all that is pending. */
	if (!earlier && state->flags & PENDULUM_ACK_PENDING && state->withheld >= control->stretch)
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
	__builtin_memcpy(state->sack, p->sack, sizeof(state->sack));
	state->sack_blocks = p->sack_blocks;
	state->counted = p->counted;
	state->timestamps = p->timestamps;
	state->tsval = p->tsval;
	state->tsecr = p->tsecr;
}

/* Of what stays the same from here to where it leaves: the content. */
static __always_inline __u32 print_of(const struct ack_packet *p)
{
	return hash_words(p->words, PENDULUM_ACK_WORDS) >> 32;
}

/* The ACK goes into the queue. A duplicate is no carrier: rewritten, it would be one no more. Nor is a probe.
 */
static __always_inline void note_passed(struct pendulum_ack_state *state, const struct ack_packet *p,
					__u32 fate, __u32 segments, __u64 now)
{
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
	note_newest(state, p);
	state->newest_print = print_of(p);
	state->queued_ns = now;
	state->queued += 1;
	state->tos = p->tos;
	state->segments = segments;
	state->flags |= PENDULUM_ACK_QUEUED;
	state->flags &= ~PENDULUM_ACK_PLAIN;
	if (plain)
		state->flags |= PENDULUM_ACK_PLAIN;
	/* Nothing may be put before it that came after it. */
	if (!plain || p->sack_blocks || state->flags & PENDULUM_ACK_ACCECN)
		state->flags |= PENDULUM_ACK_UNSAFE;
}

static __always_inline void note_withheld(struct pendulum_ack_state *state, const struct ack_packet *p,
					  __u32 segments)
{
	/* Another carrier than that of what was pending. */
	if (pends_earlier(state))
		state->withheld = 0;
	note_newest(state, p);
	state->flags |= PENDULUM_ACK_PENDING;
	state->flags &= ~PENDULUM_ACK_REPEATED;
	state->carrier_print = state->newest_print;
	__builtin_memcpy(state->pending, p->words, sizeof(state->pending));
	__builtin_memcpy(state->pending_counters, p->counters, sizeof(state->pending_counters));
	state->pending_counted = p->counted;
	__builtin_memcpy(state->pending_sack, p->sack, sizeof(state->pending_sack));
	state->pending_sack_blocks = p->sack_blocks;
	state->segments = add_segments(state->segments, segments);
	state->withheld += 1;
}

/* The queue holds nothing more of this connection. */
static __always_inline void note_empty(struct pendulum_ack_state *state)
{
	state->flags &= ~(PENDULUM_ACK_QUEUED | PENDULUM_ACK_DOOMED | PENDULUM_ACK_UNSAFE);
	state->queued = 0;
}

/* What is to be done with an ACK that leaves the queue. */
enum departure {
	LEAVES_AS_IT_CAME = 0,
	LEAVES_REWRITTEN = 1,
	LEAVES_NOT = 2,         /* its connection's newest has gone out before it */
	LEAVES_BEHIND_LOST = 3, /* as it came, behind a carrier that was dropped in the queue */
};

static __always_inline __u32 ack_of(const __be32 *words)
{
	return bpf_ntohl(words[0]);
}

static __always_inline __u32 ace_of(const __be32 *words)
{
	__u32 head = bpf_ntohl(words[1]);

	return (head >> 24 & 1) << 2 | (head >> 22 & 3);
}

/* Paper 002 §4.1: the new ACK goes out in the place of the oldest, if none in between must stay as it is. */
static __always_inline bool may_jump(const struct pendulum_ack_state *state, const struct ack_packet *p,
				     __u32 filter)
{
	return filter == PENDULUM_FILTER_PER_CONNECTION && !(state->flags & PENDULUM_ACK_UNSAFE) &&
	       (__s32)(p->ack - ack_of(state->pending)) < 0;
}

/* What leaves, and in what form: `content` is filled if it is to be rewritten. */
static __always_inline enum departure note_left(struct pendulum_ack_state *state, const struct ack_packet *p,
						const struct pendulum_shape_control *control, __u64 now,
						__be32 *content)
{
	__u32 print = print_of(p);
	bool pending = state->flags & PENDULUM_ACK_PENDING;
	bool newest = state->flags & PENDULUM_ACK_QUEUED && print == state->newest_print;
	bool plain = obstacle_of(p, state->flags) == NO_OBSTACLE && !p->sack_blocks;
	bool carrier = pending && print == state->carrier_print;
	bool mixed = state->data_ns && elapsed_ns(now, state->data_ns) <= control->carrier_ns;
	enum departure departure = LEAVES_AS_IT_CAME;

	if (carrier || (pending && plain && may_jump(state, p, control->filter))) {
		__builtin_memcpy(content, state->pending, sizeof(state->pending));
		state->flags &= ~PENDULUM_ACK_PENDING;
		state->withheld = 0;
		if (!carrier)
			state->flags |= PENDULUM_ACK_DOOMED;
		departure = LEAVES_REWRITTEN;
	} else if (pending && newest) {
		/* What leaves is behind the carrier, and says no less than what was pending for it. */
		state->flags &= ~PENDULUM_ACK_PENDING;
		state->withheld = 0;
		departure = LEAVES_BEHIND_LOST;
	} else if (state->flags & PENDULUM_ACK_DOOMED && plain && (__s32)(p->ack - state->left_ack) < 0) {
		departure = LEAVES_NOT;
	}
	if (state->queued)
		state->queued -= 1;
	if (newest)
		note_empty(state);
	if (departure == LEAVES_REWRITTEN)
		note_counters_left(state, ack_of(content), ace_of(content), state->pending_counters,
				   state->pending_counted, mixed);
	else if (departure != LEAVES_NOT)
		note_counters_left(state, p->ack, p->ace, p->counters, p->counted, mixed);
	return departure;
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
