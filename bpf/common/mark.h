/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What TC tells the queue tracepoints of a packet: its class and the time, in one word that travels in the
 * packet.
 *
 * The word is skb->cb[4] of __sk_buff: the last four of the 20 bytes that a qdisc may use for itself
 * (struct qdisc_skb_cb, include/net/sch_generic.h). fifo, tbf, htb and prio use none of them, codel, fq_codel
 * and netem the first 8, fq, cake, pie and dualpi2 the first 16, so that it survives all of these;
 * segmentation by tbf and cake copies it to every segment. choke alone uses all 20.
 *
 *   bits 31…26  MARK_MAGIC: written by us
 *   bit  25     direction, enum pendulum_direction
 *   bit  24     class, enum pendulum_queue_class
 *   bits 23…0   time, ticks of 4.096 µs: comes round after 68 s
 */
#ifndef PENDULUM_MARK_H
#define PENDULUM_MARK_H

#include "abi.h"

#define MARK_MAGIC      0x2a
#define MARK_TIME       0xffffff
#define MARK_TICK_SHIFT 12

static __always_inline __u32 make_mark(__u32 direction, __u32 class, __u64 now_ns)
{
	return (__u32)MARK_MAGIC << 26 | direction << 25 | class << 24 |
	       (__u32)(now_ns >> MARK_TICK_SHIFT & MARK_TIME);
}

/* A mark of the other direction is left over from the packet's way in. */
static __always_inline int is_mark(__u32 mark, __u32 direction)
{
	return mark >> 25 == (MARK_MAGIC << 1 | direction);
}

/* What is not marked is data: an ACK is only what is known to be one. */
static __always_inline __u32 class_of_mark(__u32 mark, __u32 direction)
{
	return is_mark(mark, direction) && mark >> 24 & 1 ? PENDULUM_QUEUE_ACK : PENDULUM_QUEUE_DATA;
}

/* Ticks since a time of 24 bits, as in a mark. */
static __always_inline __u32 age_ticks(__u32 time, __u64 now_ns)
{
	return ((__u32)(now_ns >> MARK_TICK_SHIFT) - time) & MARK_TIME;
}

static __always_inline __u32 age_us(__u32 mark, __u64 now_ns)
{
	/* ticks · 4.096, rounded down: the factor is 4.096 · 2^36 rounded up, exact below 2^24 ticks. */
	return (__u64)age_ticks(mark, now_ns) * 281474976711ull >> 36;
}

#endif
