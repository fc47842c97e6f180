/* SPDX-License-Identifier: GPL-2.0-only */
/* The maps of ACK lane and ACK filter, and how a packet finds its connection in them: by its addresses, or by
 * a tag. */
#ifndef PENDULUM_ACK_TABLE_H
#define PENDULUM_ACK_TABLE_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <stdbool.h>

#include "abi.h"

#define TAG_MAGIC      0x5c
#define TAG_GENERATION 0xff

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pendulum_shape_control);
} shape_control SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pendulum_shape_counts);
} shape_counts SEC(".maps");

/* Index: a hash of the connection. Two that meet in one place: the later one is not filtered. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PENDULUM_ACK_FLOWS);
	__type(key, __u32);
	__type(value, struct pendulum_ack_state);
} ack_states SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pendulum_channel);
} channel SEC(".maps");

static __always_inline struct pendulum_shape_control *shape_control_now(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&shape_control, &zero);
}

static __always_inline struct pendulum_shape_counts *shape_counts_here(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&shape_counts, &zero);
}

static __always_inline void count_fate(__u32 fate)
{
	struct pendulum_shape_counts *counts = shape_counts_here();

	if (counts && fate < PENDULUM_ACK_FATES)
		counts->acks[fate] += 1;
}

static __always_inline struct pendulum_channel *the_channel(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&channel, &zero);
}

/* 24 bits. */
static __always_inline __u32 hash_of(const struct pendulum_ack_flow *flow)
{
	const __u32 *word = (const __u32 *)flow;
	__u64 hash = 0x9e3779b97f4a7c15ull;

#pragma unroll
	for (int i = 0; i < 9; i++)
		hash = (hash ^ word[i]) * 0x9ddfea08eb382d69ull;
	return (__u32)(hash >> 40);
}

static __always_inline __u32 place_of(const struct pendulum_ack_flow *flow)
{
	return hash_of(flow) & (PENDULUM_ACK_FLOWS - 1);
}

/* Another CPU may have been a little later. */
static __always_inline __u64 elapsed_ns(__u64 now, __u64 then)
{
	return now > then ? now - then : 0;
}

static __always_inline bool same_flow(const struct pendulum_ack_flow *a, const struct pendulum_ack_flow *b)
{
	const __u32 *x = (const __u32 *)a, *y = (const __u32 *)b;
	__u32 differs = 0;

#pragma unroll
	for (int i = 0; i < 9; i++)
		differs |= x[i] ^ y[i];
	return !differs;
}

static __always_inline void write_tag(struct __sk_buff *skb, __u32 place, __u32 generation, __u32 serial)
{
	skb->cb[2] = serial;
	skb->cb[3] = (__u32)TAG_MAGIC << 24 | (generation & TAG_GENERATION) << 16 | place;
}

static __always_inline bool is_tag(__u32 tag)
{
	return tag >> 24 == TAG_MAGIC;
}

static __always_inline __u32 generation_of_tag(__u32 tag)
{
	return tag >> 16 & TAG_GENERATION;
}

static __always_inline struct pendulum_ack_state *state_of_tag(__u32 tag)
{
	__u32 place = tag & 0xffff;

	return bpf_map_lookup_elem(&ack_states, &place);
}

/* The same, if the place is that connection's still. Without the lock. */
static __always_inline struct pendulum_ack_state *known_state_of_tag(__u32 tag)
{
	struct pendulum_ack_state *state = state_of_tag(tag);

	return state && (state->generation & TAG_GENERATION) == generation_of_tag(tag) ? state : NULL;
}

/* The newest of a CPU that goes into the lane; a tag of 0 for one that has none. */
struct ack_arrival {
	__u32 tag;
	__u32 serial;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ack_arrival);
} newest_arrival SEC(".maps");

static __always_inline void note_arrival(__u32 tag, __u32 serial)
{
	__u32 zero = 0;
	struct ack_arrival *arrival = bpf_map_lookup_elem(&newest_arrival, &zero);

	if (!arrival)
		return;
	arrival->tag = tag;
	arrival->serial = serial;
}

#endif
