/* SPDX-License-Identifier: GPL-2.0-only */
/* Stands in for libbpf's header of this name: maps are plain memory, and the clock is what the test says. */
#ifndef PENDULUM_NATIVE_HELPERS_H
#define PENDULUM_NATIVE_HELPERS_H

#include <stdlib.h>
#include <linux/types.h>

#define SEC(name)           __attribute__((used))
#define __uint(name, value) int(*name)[value]
#define __type(name, value) typeof(value) *name
#undef __always_inline
#define __always_inline inline __attribute__((always_inline))
#ifndef __noinline
#define __noinline __attribute__((noinline))
#endif

/* Nanoseconds; one jiffy is 4 ms (HZ = 250). */
extern __u64 native_now;

static inline __u64 bpf_ktime_get_ns(void)
{
	return native_now;
}

static inline __u64 bpf_jiffies64(void)
{
	return native_now / 4000000;
}

/* The memory behind a map, made at its first use and zero then, as the kernel's arrays are. */
void *native_memory(const void *map, size_t bytes);

/* An array map's element. A per-CPU map has one processor. */
#define bpf_map_lookup_elem(map, key)                                                                        \
	({                                                                                                   \
		const size_t entries_ = sizeof(*(map)->max_entries) / sizeof(int);                           \
		const size_t index_ = *(const __u32 *)(key);                                                 \
		typeof((map)->value) memory_ = native_memory(map, entries_ * sizeof(*(map)->value));         \
		index_ < entries_ ? memory_ + index_ : NULL;                                                 \
	})

#endif
