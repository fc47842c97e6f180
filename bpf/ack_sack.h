/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Whether one ACK's SACK blocks tell all that another's do: CAKE's rule (net/sched/sch_cake.c,
 * cake_tcph_sack_compare), as hold and replace needs it.
 */
#ifndef PENDULUM_ACK_SACK_H
#define PENDULUM_ACK_SACK_H

#include "ack_packet.h"

/* The SACK blocks of `newer` tell all that those of the connection's newest ACK do; CAKE's rule. */
static __always_inline bool covers_sack(const struct ack_packet *newer,
					const struct pendulum_ack_state *state)
{
	bool all = true;

#pragma unroll
	for (int i = 0; i < PENDULUM_SACK_BLOCKS; i++) {
		bool covered = i >= state->newest_blocks || (__s32)(state->sack[2 * i + 1] - newer->ack) <= 0;

#pragma unroll
		for (int j = 0; j < PENDULUM_SACK_BLOCKS; j++)
			covered |= j < newer->sack_blocks &&
				   sack_within(state->sack + 2 * i, newer->sack + 2 * j);
		all &= covered;
	}
	return all;
}

static __always_inline bool same_sack(const struct ack_packet *p, const struct pendulum_ack_state *state)
{
	__u32 differs = 0;

#pragma unroll
	for (int i = 0; i < 2 * PENDULUM_SACK_BLOCKS; i++)
		differs |= p->sack[i] ^ state->sack[i];
	return !differs;
}

#endif
