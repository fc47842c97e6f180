/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The fields of kernel structures that the tracing programs read, and no others. Where they lie is found out
 * at load, from the running kernel's BTF (CO-RE).
 */
#ifndef PENDULUM_KERNEL_H
#define PENDULUM_KERNEL_H

#include <linux/types.h>
#include <stdbool.h>

/* BPF_PROG declares every argument that a tracepoint has, used or not. */
#pragma clang diagnostic ignored "-Wunused-parameter"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct ns_common {
	unsigned int inum;
};

struct net {
	struct ns_common ns;
};

struct net_device {
	int ifindex;
	struct {
		struct net *net;
	} nd_net;
};

struct netdev_queue {
	struct net_device *dev;
};

struct sk_buff {
	struct sk_buff *next;
	struct net_device *dev;
	int skb_iif;
	char cb[48];
	__u32 priority;
};

struct qdisc_skb_cb {
	unsigned int pkt_len;
	unsigned char data[20];
};

struct Qdisc_ops {
	char id[16];
};

struct qdisc_skb_head {
	__u32 qlen;
};

struct gnet_stats_queue {
	__u32 backlog;
};

/* u64_stats_t: eight bytes whatever it is made of. */
struct statistic {
	char bytes[8];
};

struct gnet_stats_basic_sync {
	struct statistic bytes;
	struct statistic packets;
};

struct Qdisc {
	unsigned int flags;
	const struct Qdisc_ops *ops;
	__u32 parent;
	struct qdisc_skb_head q;
	struct gnet_stats_basic_sync bstats;
	struct gnet_stats_queue qstats;
};

#pragma clang attribute pop

/* Values are the running kernel's: bpf_core_enum_value(). */
enum skb_drop_reason {
	SKB_DROP_REASON_NOT_SPECIFIED = 2,
	SKB_DROP_REASON_QDISC_DROP = 3,
	SKB_DROP_REASON_QDISC_OVERLIMIT = 4, /* 6.14 to 6.19, as all below */
	SKB_DROP_REASON_QDISC_CONGESTED = 5,
	SKB_DROP_REASON_CAKE_FLOOD = 6,
	SKB_DROP_REASON_FQ_BAND_LIMIT = 7,
	SKB_DROP_REASON_FQ_HORIZON_LIMIT = 8,
	SKB_DROP_REASON_FQ_FLOW_LIMIT = 9,
	SKB_DROP_REASON_QDISC_BURST_DROP = 10, /* since 6.19 */
};

/* The qdiscs' own reasons, a subsystem of the above (7.0, include/net/dropreason-qdisc.h). */
enum qdisc_drop_reason {
	QDISC_DROP_GENERIC = 1,
	QDISC_DROP_OVERLIMIT = 2,
	QDISC_DROP_CONGESTED = 3,
	QDISC_DROP_MAXFLOWS = 4,
	QDISC_DROP_FLOOD_PROTECTION = 5,
	QDISC_DROP_BAND_LIMIT = 6,
	QDISC_DROP_HORIZON_LIMIT = 7,
	QDISC_DROP_FLOW_LIMIT = 8,
	QDISC_DROP_L4S_STEP_NON_ECN = 9,
};

/* include/net/sch_generic.h */
#define TCQ_F_CPUSTATS 0x20
#define TCQ_F_NOLOCK   0x100
/* <linux/pkt_sched.h> */
#define TC_H_ROOT 0xffffffffu

/*
 * Whether a tracepoint's pointer is NULL. The verifier takes such arguments for valid pointers and throws a
 * comparison of the whole away as dead code; of half of one it knows nothing. No skb begins at a multiple of
 * 4 GiB.
 */
static __always_inline bool is_null(const void *pointer)
{
	__u64 low;

	asm volatile("r1 = %1\n"
		     "w0 = w1\n"
		     "%0 = r0"
		     : "=r"(low)
		     : "r"(pointer)
		     : "r0", "r1");
	return !low;
}

#endif
