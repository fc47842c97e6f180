/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What passes the WAN device, by time: small rings in memory that the agent shares (abi.h has what each word
 * means). docs/design/observer.md, "Inputs".
 */
#ifndef PENDULUM_SLOTS_H
#define PENDULUM_SLOTS_H

#include "common/once.h"
#include "packet/turnaround.h"

/* What home replied. Index: time. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, PENDULUM_HOME_REPLIES);
	__type(key, __u32);
	__type(value, struct pendulum_home_reply);
} home_replies SEC(".maps");

static __always_inline __u32 hash_of_address(const __u32 address[4])
{
	__u32 hash = address[0];

#pragma unroll
	for (int i = 1; i < 4; i++)
		hash = (hash ^ address[i]) * 0x9e3779b1u;
	return hash ^ hash >> 15;
}

/* Tells the flows of the same few seconds apart; never 0. */
static __always_inline __u32 hash_of_flow(const struct pendulum_flow_key *key)
{
	__u32 ports = (__u32)key->home_port << 16 | key->remote_port;

	return (ports ^ key->home_addr[3] ^ key->remote_addr[3] * 0x9e3779b1u) | 1;
}

static __always_inline __u64 turn_of(__u64 now_ns)
{
	return (now_ns >> PENDULUM_SLOT_SHIFT) / PENDULUM_SLOTS << PENDULUM_SLOT_TURN_SHIFT;
}

static __always_inline struct pendulum_slot *egress_slot(__u64 now_ns)
{
	__u32 index = now_ns >> PENDULUM_SLOT_SHIFT & (PENDULUM_SLOTS - 1);

	return bpf_map_lookup_elem(&egress, &index);
}

static __always_inline bool is_of_turn(const struct pendulum_slot *slot, __u64 turn)
{
	return !((READ_ONCE(slot->account) ^ turn) >> PENDULUM_SLOT_TURN_SHIFT);
}

/* The slot is still one of an earlier turn: empty it, unless another CPU just did. */
static __always_inline void open_slot(struct pendulum_slot *slot, __u32 direction, __u64 turn)
{
	struct pendulum_burst *shared = bpf_map_lookup_elem(&bursts, &direction);

	if (!shared)
		return;
	bpf_spin_lock(&shared->lock);
	if (!is_of_turn(slot, turn))
		WRITE_ONCE(slot->account, turn);
	bpf_spin_unlock(&shared->lock);
}

/*
 * Count packets that pass at `now`. A lock, because a compare-and-exchange is out of reach: before Linux 5.18
 * the JIT of arm64 takes no atomic operation but an addition. It is taken once for each slot.
 */
static __always_inline void fill_slot(struct pendulum_slot *slot, __u32 direction, __u64 now_ns, __u32 bytes,
				      __u32 packets)
{
	__u64 turn = turn_of(now_ns);

	if (!is_of_turn(slot, turn))
		open_slot(slot, direction, turn);
	__sync_fetch_and_add(&slot->account, (__u64)packets << PENDULUM_SLOT_PACKETS_SHIFT | bytes);
	slot->at_ns = now_ns;
}

/* Bytes that have left through the WAN device in the same slot of time as what leaves at `now`, in units of
 * 16. */
static __always_inline __u32 left_in_slot(__u64 now_ns)
{
	const struct pendulum_slot *slot = egress_slot(now_ns);
	__u32 units;

	if (!slot || !is_of_turn(slot, turn_of(now_ns)))
		return 0;
	units = (READ_ONCE(slot->account) & ((1 << PENDULUM_SLOT_PACKETS_SHIFT) - 1)) / 16;
	return units < 0xffff ? units : 0xffff;
}

/* Packets leave through the WAN device. */
static __always_inline void record_egress(__u64 now_ns, __u32 bytes, __u32 packets)
{
	struct pendulum_slot *slot = egress_slot(now_ns);

	if (slot)
		fill_slot(slot, PENDULUM_UP, now_ns, bytes, packets);
}

static __always_inline __u32 sum_of_answer(__u32 asked, __u32 answered, __u32 number)
{
	__u32 sum = answered ^ asked * PENDULUM_SUM_FACTOR_ASKED ^ number * PENDULUM_SUM_FACTOR_NUMBER;

	return (sum ^ sum >> 16) & 0xffff;
}

/* `s`, which comes from this address, answers what it says in `asked`. */
static __always_inline void write_answer(__u64 *answer, __u64 *answered_by, const struct segment *s,
					 const __u32 address[4], __u64 now_ns)
{
	__u32 answered = question_word(now_ns, held_of_answer(s), s->wire_bytes);

	*answer = (__u64)answered << 32 | s->asked;
	*answered_by = (__u64)hash_of_address(address) << 32 | (s->ahead & 0xffff) << 16 |
		       sum_of_answer(s->asked, answered, now_ns >> PENDULUM_SLOT_SHIFT);
}

/* Packets come in. */
static __always_inline void record_arrival(const struct segment *s, __u64 now_ns)
{
	__u32 index = now_ns >> PENDULUM_SLOT_SHIFT & (PENDULUM_SLOTS - 1);
	struct pendulum_arrival *arrival = bpf_map_lookup_elem(&arrivals, &index);
	__u64 clock = 0;

	if (!arrival)
		return;
	fill_slot(&arrival->slot, PENDULUM_DOWN, now_ns, s->wire_bytes, s->segments);
	if (s->options.present & OPTION_TIMESTAMPS)
		clock = (__u64)hash_of_flow(&s->key) << 32 | s->options.tsval;
	arrival->clock = clock;
	if (s->asked)
		write_answer(&arrival->answer, &arrival->answered_by, s, s->key.remote_addr, now_ns);
}

/* A reply from home, whose request is `asked`. */
static __always_inline void record_home_reply(const struct segment *s, __u64 now_ns)
{
	__u32 index = now_ns >> PENDULUM_SLOT_SHIFT & (PENDULUM_HOME_REPLIES - 1);
	struct pendulum_home_reply *reply = bpf_map_lookup_elem(&home_replies, &index);

	if (reply)
		write_answer(&reply->answer, &reply->answered_by, s, s->key.home_addr, now_ns);
}

#endif
