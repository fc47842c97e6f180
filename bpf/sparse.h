/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Connections that have sent little, the sparse flows of RFC 8290: what they send goes into a class of its
 * own, served before the other data. docs/shaping.md, "Short connections".
 *
 * A place in the table stands for all connections whose hash leads there, and counts what they send together.
 * It begins anew only when all of them were silent: nothing of theirs can stand behind other data by then, so
 * that no connection's packets overtake each other.
 */
#ifndef PENDULUM_SPARSE_H
#define PENDULUM_SPARSE_H

#include "ack_filter.h"

/* A power of two, of at most 24 bits. */
#define SPARSE_PLACES 16384

struct sparse_place {
	__u64 last_ns;
	__u64 bytes;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SPARSE_PLACES);
	__type(key, __u32);
	__type(value, struct sparse_place);
} sparse_places SEC(".maps");

/* Takes note of a packet; whether its connection has sent little, this packet included. */
static __always_inline bool is_sparse(const struct pendulum_ack_flow *flow, __u32 bytes, __u64 now,
				      const struct pendulum_shape_control *control)
{
	__u32 key = hash_of(flow) & (SPARSE_PLACES - 1);
	struct sparse_place *place = bpf_map_lookup_elem(&sparse_places, &key);

	if (!place)
		return false;
	if (elapsed_ns(now, place->last_ns) > control->sparse_idle_ns)
		place->bytes = 0;
	place->last_ns = now;
	/* What did not fit counts too: no smaller packet after it is sparse. */
	place->bytes += bytes;
	return place->bytes <= control->sparse_bytes;
}

#endif
