/* SPDX-License-Identifier: GPL-2.0-only */
/* The maps of the ACK filter, and how a packet finds its connection in them. */
#ifndef PENDULUM_ACK_TABLE_H
#define PENDULUM_ACK_TABLE_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <stdbool.h>

#include "abi.h"

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

/* The value of a map that has one. */
static __always_inline void *value_of(void *map)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(map, &zero);
}

static __always_inline void count_fate(__u32 fate, __u32 bytes)
{
	struct pendulum_shape_counts *counts = value_of(&shape_counts);

	if (!counts || fate >= PENDULUM_ACK_FATES)
		return;
	counts->acks[fate] += 1;
	if (fate >= PENDULUM_ACK_HELD_REDUNDANT && fate <= PENDULUM_ACK_WOULD_HOLD_REDUNDANT)
		counts->held_bytes += bytes;
}

/* Multilinear, without a chain of multiplications: the upper half is the good one. `count` is a constant. */
static __always_inline __u64 hash_words(const __u32 *word, int count)
{
	__u64 hash = 0, factor = 0x9e3779b97f4a7c15ull;

#pragma unroll
	for (int i = 0; i < count; i++, factor *= 0x9ddfea08eb382d69ull)
		hash += word[i] * factor;
	return hash;
}

/* Where this connection's state is, or another's. */
static __always_inline struct pendulum_ack_state *state_of(const struct pendulum_flow_key *flow)
{
	__u32 place = hash_words((const __u32 *)flow, 9) >> 40 & (PENDULUM_ACK_FLOWS - 1);

	return bpf_map_lookup_elem(&ack_states, &place);
}

/* Another CPU may have been a little later. */
static __always_inline __u64 elapsed_ns(__u64 now, __u64 then)
{
	return now > then ? now - then : 0;
}

static __always_inline bool same_words(const void *a, const void *b, int count)
{
	const __u32 *x = a, *y = b;
	__u32 differs = 0;

#pragma unroll
	for (int i = 0; i < count; i++)
		differs |= x[i] ^ y[i];
	return !differs;
}

static __always_inline bool same_flow(const struct pendulum_flow_key *a, const struct pendulum_flow_key *b)
{
	return same_words(a, b, 9);
}

#endif
