/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Keeping the verifier's work small.
 *
 * The verifier follows every path through a program, and merges two only where it knows the same of all
 * values. A seam makes it forget, so that paths merge; without seams every combination of VLAN tags,
 * extension headers and options is walked through everything that follows, and a million instructions are not
 * enough. Two kinds:
 *
 *  - A global (non-static) function is checked once, by itself; to its caller the result is any number.
 * Parsing, option lists and measurement are such functions.
 *  - Inside one, what was written through a pointer argument is any number when it is read back: reread().
 */
#ifndef PENDULUM_SEAM_H
#define PENDULUM_SEAM_H

#include <linux/types.h>
#include <bpf/bpf_helpers.h>

/* The same number, without what the verifier knew of it. `place` must lie behind a pointer argument of a
 * global function: memory that the verifier does not follow, unlike the stack. */
static __always_inline __u32 reread(volatile __u32 *place, __u32 value)
{
	*place = value;
	return *place;
}

/* The same where there is no such memory; the call costs some nanoseconds. */
__noinline __u32 forget(__u32 value)
{
	/* Neither may the compiler look through it. */
	asm volatile("" : "+r"(value));
	return value;
}

#endif
