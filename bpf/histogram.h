/* SPDX-License-Identifier: GPL-2.0-only */
/* Slots of a time histogram. */
#ifndef PENDULUM_HISTOGRAM_H
#define PENDULUM_HISTOGRAM_H

#include "abi.h"

/* The slot of a time, below PENDULUM_RTT_SLOTS. Without a branch: sojourn times are not predicted well. */
static __always_inline __u32 slot_of_time(__u32 us)
{
	static const __u32 bounds_us[PENDULUM_RTT_BOUNDS] = PENDULUM_RTT_BOUNDS_US;
	__u32 slot = 0;

#pragma unroll
	for (int i = 0; i < PENDULUM_RTT_BOUNDS; i++)
		slot += (__u64)((__s64)bounds_us[i] - us) >> 63;
	return slot;
}

#endif
