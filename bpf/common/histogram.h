/* SPDX-License-Identifier: GPL-2.0-only */
/* Slots of a time histogram. */
#ifndef PENDULUM_HISTOGRAM_H
#define PENDULUM_HISTOGRAM_H

#include "abi.h"

/* 1 if a bound is below a time, else 0. The compiler is not to know what is asked, or it makes a branch of
 * it. */
static __always_inline __u64 is_below(__u32 bound_us, __u32 us)
{
	__s64 difference = (__s64)bound_us - us;

	asm volatile("" : "+r"(difference));
	return (__u64)difference >> 63;
}

/*
 * The slot of a time, below PENDULUM_TIME_SLOTS: a binary search of as many steps for every time, and without
 * a branch, since times in a queue are not predicted well.
 */
static __always_inline __u32 slot_of_time(__u32 us)
{
	static const __u32 bounds_us[PENDULUM_TIME_BOUNDS] = PENDULUM_TIME_BOUNDS_US;
	__u64 slot = 0, half;

#pragma unroll
	for (__u32 left = PENDULUM_TIME_BOUNDS; left > 1; left -= half) {
		half = left / 2;
		slot += is_below(bounds_us[slot + half - 1], us) * half;
	}
	return slot + is_below(bounds_us[slot], us);
}

#endif
