/* SPDX-License-Identifier: GPL-2.0-only */
/* Time of a packet: the monotonic clock, or the capture's own time in tests. Never the wall clock. */
#ifndef PENDULUM_CLOCK_H
#define PENDULUM_CLOCK_H

#include "common/config.h"

static __always_inline __u64 packet_time_ns(const struct __sk_buff *skb)
{
	return config.replay_time ? skb->tstamp : bpf_ktime_get_ns();
}

/* Time in the unit of struct pendulum_probe: 1.024 µs, never 0 (0 marks a free slot). */
static __always_inline __u32 ticks(__u64 now_ns)
{
	__u32 t = (__u32)(now_ns >> 10);

	return t ? t : 1;
}

#endif
