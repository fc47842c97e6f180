/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Keeping the verifier's work small.
 *
 * The verifier follows every path through a program and merges two only where it knows the same of all
 * values. It does not look into a global (non-static) function at its call, though: that is checked once, by
 * itself, and to the caller its answer is any number. Parsing, option lists and measurement are such
 * functions here, and forget() makes a seam inside one. Without these seams every combination of VLAN tags,
 * extension headers and options is walked through everything that follows, and a million instructions are not
 * enough.
 */
#ifndef PENDULUM_FORGET_H
#define PENDULUM_FORGET_H

#include <linux/types.h>
#include <bpf/bpf_helpers.h>

/* The same number, without what the verifier (and the compiler) knew of it. */
__noinline __u32 forget(__u32 value)
{
	asm volatile("" : "+r"(value));
	return value;
}

#endif
