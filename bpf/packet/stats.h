/* SPDX-License-Identifier: GPL-2.0-only */
/* Nothing is lost in silence: every early exit that loses a measurement counts its reason here. */
#ifndef PENDULUM_STATS_H
#define PENDULUM_STATS_H

#include "packet/maps.h"

static __always_inline void count(__u32 stat)
{
	__u64 *value = bpf_map_lookup_elem(&stats, &stat);

	if (value)
		*value += 1;
}

#endif
