/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a segment is. The rules, their order and their numbers are those of docs/design/measurement.md,
 * "Classes"; they see the flow as it was before the segment.
 */
#ifndef PENDULUM_CLASSIFY_H
#define PENDULUM_CLASSIFY_H

#include "packet/flow.h"

/* Rules 3 and 4: segments that only ask for an answer. PENDULUM_CLASSES if it is none. */
static __always_inline __u32 classify_probe(const struct pendulum_half *me, const struct pendulum_half *peer,
					    const struct segment *s)
{
	__s32 ahead = sequence_distance(s->seq, me->seq_next);
	bool window_closed = peer->flags & PENDULUM_HALF_WINDOW && !peer->window_raw;

	if (s->flags & TCP_FIN || s->payload_bytes > 1 || !(me->flags & PENDULUM_HALF_SEQ))
		return PENDULUM_CLASSES;
	if (window_closed && (ahead == -1 || (ahead == 0 && s->payload_bytes == 1)))
		return PENDULUM_CLASS_ZERO_WINDOW_PROBE;
	if (ahead == -1 && (!s->payload_bytes || !outstanding(me, peer)))
		return PENDULUM_CLASS_KEEP_ALIVE;
	return PENDULUM_CLASSES;
}

/* Rules 8 to 11: ACKs without payload. */
static __always_inline __u32 classify_ack(const struct pendulum_half *me, const struct pendulum_half *peer,
					  const struct segment *s)
{
	bool repeats = me->flags & PENDULUM_HALF_ACK && s->ack == me->ack_highest;
	bool same_window = me->flags & PENDULUM_HALF_WINDOW && s->window == me->window_raw;

	if (repeats && (s->options.sack_blocks || same_window) && outstanding(peer, me))
		return PENDULUM_CLASS_DUP_ACK;
	if (s->options.sack_blocks)
		return PENDULUM_CLASS_SACK;
	if (repeats && me->flags & PENDULUM_HALF_WINDOW && !same_window)
		return PENDULUM_CLASS_WINDOW_UPDATE;
	return PENDULUM_CLASS_ACK;
}

/* A segment without a flow (`me` and `peer` are NULL) is judged by the rules that need none. */
static __always_inline __u32 classify(const struct pendulum_half *me, const struct pendulum_half *peer,
				      const struct segment *s)
{
	__u32 probe = PENDULUM_CLASSES;

	if (s->flags & TCP_RST)
		return PENDULUM_CLASS_RST;
	if (s->flags & TCP_SYN)
		return PENDULUM_CLASS_SYN;
	if (me)
		probe = classify_probe(me, peer, s);
	if (probe != PENDULUM_CLASSES)
		return probe;
	if (s->payload_bytes)
		return PENDULUM_CLASS_DATA;
	if (s->flags & TCP_FIN)
		return PENDULUM_CLASS_FIN;
	if (!(s->flags & TCP_ACK))
		return PENDULUM_CLASS_OTHER;
	if (me)
		return classify_ack(me, peer, s);
	return s->options.sack_blocks ? PENDULUM_CLASS_SACK : PENDULUM_CLASS_ACK;
}

/* ACKs that carry nothing else: what an ACK burst is made of (paper 000, Fig. 3.4). */
static __always_inline bool is_pure_ack(__u32 class)
{
	return class >= PENDULUM_CLASS_ACK && class <= PENDULUM_CLASS_WINDOW_UPDATE;
}

#endif
