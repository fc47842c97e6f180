/* SPDX-License-Identifier: GPL-2.0-only */
/* Stands in for libbpf's header of this name: which enumerations the running kernel has is what the test
 * says. */
#ifndef PENDULUM_NATIVE_CORE_READ_H
#define PENDULUM_NATIVE_CORE_READ_H

#include <string.h>
#include <linux/types.h>

/* Minor number of a 6.x kernel, 20 for 7.0. */
extern __u32 native_kernel;

/* The qdiscs' own reasons are a subsystem of enum skb_drop_reason: their values begin there. */
#define NATIVE_QDISC_SUBSYSTEM 0x40000

static inline int native_knows(const char *type, const char *value)
{
	if (strcmp(type, "enum qdisc_drop_reason") == 0)
		return native_kernel >= 20;
	if (strcmp(value, "SKB_DROP_REASON_NOT_SPECIFIED") == 0 ||
	    strcmp(value, "SKB_DROP_REASON_QDISC_DROP") == 0)
		return native_kernel >= 1;
	if (strcmp(value, "SKB_DROP_REASON_QDISC_BURST_DROP") == 0)
		return native_kernel >= 19;
	return native_kernel >= 14 && native_kernel < 20;
}

#define bpf_core_enum_value_exists(type, value) native_knows(#type, #value)
#define bpf_core_enum_value(type, value)                                                                     \
	((strcmp(#type, "enum qdisc_drop_reason") == 0 ? NATIVE_QDISC_SUBSYSTEM : 0) + (__u32)(value))

#endif
