/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Accurate ECN (RFC 9768): how much one ACK may acknowledge, so that the sender still decodes the right
 * number of CE marks. docs/design/shaping.md, "AccECN", has the reasoning; pendulum_reference::accecn holds
 * Linux' decoder against it.
 */
#ifndef PENDULUM_ACK_ACCECN_H
#define PENDULUM_ACK_ACCECN_H

#include "shape/ack_packet.h"
#include "shape/ack_table.h"

/* ACE is the receiver's count of marked packets, modulo 8: of so many segments it is decoded exactly. */
#define ACE_MAX 7
/* Of segments: not known. */
#define SEGMENTS_UNKNOWN (ACE_MAX + 1)
/* The largest segment of Ethernet without jumbo frames, and what the smallest MTU of IPv6 leaves of one. */
#define SEGMENT_MOST  1460u
#define SEGMENT_LEAST 1200u
#define ACE_AE        4
#define CE_SET        (1 << PENDULUM_ECN_CE)

/*
 * Segments that an ACK delivers at most, beyond the newest that came. It is for two packets (RFC 5681 §4.2),
 * or for one that GRO made of several full segments and what is left over. With SACK it is not known.
 */
static __always_inline __u32 segments_of(const struct pendulum_ack_feedback *newest,
					 const struct pendulum_ack_feedback *f)
{
	__u32 bytes = f->ack - newest->ack, segments = (bytes + SEGMENT_LEAST - 1) / SEGMENT_LEAST + 1;

	if (!bytes && !f->sack_blocks)
		return 0;
	if ((__s32)bytes <= 0 || f->sack_blocks || newest->sack_blocks || segments > ACE_MAX)
		return SEGMENTS_UNKNOWN;
	return bytes > SEGMENT_LEAST && bytes <= 2 * SEGMENT_MOST ? 3 : segments;
}

/* Of its counters: those that differ from what has left. */
static __always_inline __u32 changed_counters(const struct pendulum_ack_state *state,
					      const struct pendulum_ack_feedback *f)
{
	__u32 changed = 0;

#pragma unroll
	for (int i = 0; i < PENDULUM_ECN_COUNTERS; i++)
		changed |= (f->counted >> i & (f->counters[i] != state->left_counters[i])) << i;
	return changed;
}

/* The ACK tells of no mark, and the sender will believe it. */
static __always_inline bool tells_no_mark(const struct pendulum_ack_state *state,
					  const struct pendulum_ack_feedback *f)
{
	return state->steady && f->counted & CE_SET && f->ace == state->left_ace &&
	       !(changed_counters(state, f) & ~state->steady);
}

/* An ACK with all that it tells may take the place of the newest in the queue. */
static __always_inline bool keeps_ace(const struct pendulum_ack_state *state,
				      const struct pendulum_ack_feedback *f, __u32 segments)
{
	if (!(state->flags & PENDULUM_ACK_ACCECN))
		return true;
	if (state->newest.counted & CE_SET && !(f->counted & CE_SET))
		return false;
	return state->segments + segments <= ACE_MAX || tells_no_mark(state, f);
}

/*
 * An ACK has left, with these counters: what Linux' tcp_accecn_process_option() makes of them. Counters
 * without a change leave its est_ecnfield; a change of one alone sets it, if the ACK acknowledges something
 * (others it may not look at) and no ACK without counters has made it guess since; any other change may unset
 * it. `mixed`: data of the connection may have left in between.
 */
static __always_inline void note_counters_left(struct pendulum_ack_state *state,
					       const struct pendulum_ack_feedback *f, bool mixed)
{
	bool guess = mixed || state->flags & PENDULUM_ACK_GAP || (__s32)(f->ack - state->left_ack) <= 0;
	__u32 changed;

	state->left_ack = f->ack;
	state->left_ace = f->ace;
	/* What the sender guesses of these may be too much (a retransmission without ECT). */
	if (mixed || !(f->counted & CE_SET))
		state->steady = 0;
	if (!(f->counted & CE_SET)) {
		state->flags |= PENDULUM_ACK_GAP;
		return;
	}
	changed = changed_counters(state, f);
	if (!(state->flags & PENDULUM_ACK_LEFT) || changed & CE_SET || changed & (changed - 1))
		state->steady = 0;
	else if (changed && changed != state->steady)
		state->steady = guess ? 0 : changed;
#pragma unroll
	for (int i = 0; i < PENDULUM_ECN_COUNTERS; i++)
		if (f->counted >> i & 1)
			state->left_counters[i] = f->counters[i];
	state->flags |= PENDULUM_ACK_LEFT;
	state->flags &= ~PENDULUM_ACK_GAP;
}

#endif
