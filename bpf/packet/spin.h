/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The spin bit of QUIC (RFC 9000 §17.4): the server sends the value that it last received, the client the
 * other one. So each value is a request, and the first packet from the other side that shows it is its reply:
 * both sides of an open connection are timed, once in each round trip. docs/design/measurement.md, "Spin
 * bit"; the same rules as pendulum_agent's replay/requests/spin.rs.
 *
 * Who does not spin sends any value. So a connection only counts after some edges in their order, and no
 * longer once a side shows a value out of its turn.
 */
#ifndef PENDULUM_SPIN_H
#define PENDULUM_SPIN_H

#include "packet/requests.h"

/* 25 ms: a side that sent nothing for longer may have held its reply (max_ack_delay, RFC 9000 §18.2). */
#define SPIN_DELAY_TICKS (25000000 >> MARK_TICK_SHIFT)
/* 200 ms: if it sent nothing for longer, that tells nothing. As long may the ACK of a single segment be held.
 */
#define SPIN_HELD_TICKS (200000000 >> MARK_TICK_SHIFT)

/* What is next of a connection. */
#define SPIN_FROM   0x01 /* an edge is awaited from this direction … */
#define SPIN_VALUE  0x02 /* … to this value */
#define SPIN_CLIENT 0x04 /* the client sends in this direction */
#define SPIN_EDGE   0x08 /* edges that came … */
#define SPIN_PROVEN 0x40 /* … until they are eight */

struct spin {
	__u64 hash; /* of the connection; 0: none */
	__u64 word; /* 63…32 the newest edge, as struct pendulum_question.asked; 31…8 when the side that is to
		       reply sent its newest packet, in ticks; 7…0 what is next */
};

/* Open connections by hash. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PENDULUM_REQUESTS);
	__type(key, __u32);
	__type(value, struct spin);
} spins SEC(".maps");

static __always_inline __u64 hash_of_connection(const struct segment *s)
{
	return hash_between(s, REQUEST_SPIN);
}

static __always_inline struct spin *spin_of(__u64 hash)
{
	__u32 index = hash & (PENDULUM_REQUESTS - 1);

	return bpf_map_lookup_elem(&spins, &index);
}

static __always_inline __u64 edge_word(const struct segment *s, __u32 next, __u64 now_ns)
{
	__u32 asked = question_word(now_ns, 0, s->wire_bytes);

	return (__u64)asked << 32 | (asked & ~0xffu) | next;
}

/* An Initial: the client's opens a connection, whose first edge is the client's to 1. */
static __always_inline void await_edge(const struct segment *s, __u32 direction, __u64 now_ns)
{
	__u64 hash = hash_of_connection(s), word;
	struct spin *spin = spin_of(hash);

	if (!spin)
		return;
	word = READ_ONCE(spin->word);
	if (READ_ONCE(spin->hash) && is_recent(word >> 32, now_ns)) {
		if (spin->hash != hash && word & SPIN_PROVEN)
			count(PENDULUM_LOST_REQUEST_DISPLACED);
		if (spin->hash == hash && !(word & SPIN_CLIENT) != !direction)
			return; /* the server's */
	}
	WRITE_ONCE(spin->hash, hash);
	WRITE_ONCE(spin->word, edge_word(s, direction * (SPIN_FROM | SPIN_CLIENT) | SPIN_VALUE, now_ns));
}

/* A packet of a connection. If its value is the reply to an edge, it says so in `asked`. Returns whether the
 * connection spins. */
static __always_inline bool take_edge(struct segment *s, __u32 direction, __u64 now_ns)
{
	__u64 hash = hash_of_connection(s), word;
	__u32 next, held, value = s->ack ? SPIN_VALUE : 0;
	struct spin *spin = spin_of(hash);

	if (!spin || READ_ONCE(spin->hash) != hash)
		return false;
	word = READ_ONCE(spin->word);
	next = word & 0xff;
	if ((next & SPIN_FROM) != direction) {
		/* Its own value is the one that the server reflects, or the client inverts. */
		if ((value == (next & SPIN_VALUE)) == (!(next & SPIN_CLIENT) == !(next & SPIN_FROM)))
			WRITE_ONCE(spin->hash, 0);
		return next & SPIN_PROVEN;
	}
	if (value != (next & SPIN_VALUE)) {
		WRITE_ONCE(spin->word, word >> 32 << 32 | edge_word(s, next, now_ns) << 32 >> 32);
		return next & SPIN_PROVEN;
	}
	held = age_ticks((__u32)word >> 8, now_ns);
	if (!(next & SPIN_PROVEN))
		next += SPIN_EDGE;
	else if (held <= SPIN_DELAY_TICKS)
		reply_to(s, direction, word >> 32, now_ns);
	else if (held <= SPIN_HELD_TICKS)
		s->asked = word >> 32; /* and `advance` says that it may be held */
	next ^= SPIN_FROM;
	if (!(next & SPIN_CLIENT) == !(next & SPIN_FROM))
		next ^= SPIN_VALUE;
	WRITE_ONCE(spin->word, edge_word(s, next, now_ns));
	return next & SPIN_PROVEN;
}

#endif
