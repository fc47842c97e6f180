/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The measurement of one frame, from its first byte to the last counter:
 *
 *   1. parse_frame() reads the headers; what it cannot read is counted by reason and as class non_tcp.
 *   2. find_flow() finds the conversation, both ways under one key; classify() says what the segment is in
 * it.
 *   3. observe_flow() applies the segment: sequence space, acknowledgement, window, RTT, in that order.
 *   4. The direction's counters and the ACK burst take the result; what comes in, the arrivals.
 *
 * Nothing here decides anything about the packet: it passes.
 */
#ifndef PENDULUM_MEASURE_H
#define PENDULUM_MEASURE_H

#include "packet/classify.h"
#include "packet/parse.h"
#include "packet/ports.h"
#include "packet/requests.h"
#include "packet/rtt.h"
#include "common/once.h"
#include "common/seam.h"
#include "packet/slots.h"
#include "packet/spin.h"

#define IP_ECN_CE 3

static __always_inline struct pendulum_counters *counters_of(__u32 direction)
{
	return bpf_map_lookup_elem(&counters, &direction);
}

/* How many ACKs pass between two data segments, over all flows of one direction of the link. */
static __always_inline void observe_burst(struct pendulum_counters *c, __u32 direction, __u32 class,
					  __u32 segments)
{
	struct pendulum_burst *burst;
	__u64 run;

	if (class != PENDULUM_CLASS_DATA && !is_pure_ack(class))
		return;
	burst = bpf_map_lookup_elem(&bursts, &direction);
	if (!burst)
		return;
	if (class != PENDULUM_CLASS_DATA) {
		__sync_fetch_and_add(&burst->run, segments);
		return;
	}
	/* Most data follows data: look before paying for the lock. */
	if (!READ_ONCE(burst->run))
		return;
	/* Other CPUs add without it: what they add meanwhile stays. Why no exchange: slots.h. */
	bpf_spin_lock(&burst->lock);
	run = READ_ONCE(burst->run);
	__sync_fetch_and_add(&burst->run, -run);
	bpf_spin_unlock(&burst->lock);
	if (!run)
		return;
	c->burst_segments += run;
	if (run >= PENDULUM_BURST_SLOTS)
		run = PENDULUM_BURST_SLOTS - 1;
	c->bursts[run] += 1;
}

static __always_inline void count_segment(struct pendulum_counters *c, const struct segment *s, __u32 class)
{
	if (class >= PENDULUM_CLASSES)
		return;
	c->segments[class] += s->segments;
	c->bytes[class] += s->wire_bytes;
	c->payload_bytes += s->payload_bytes;
	if (s->ip_ecn == IP_ECN_CE)
		c->marked_segments[PENDULUM_MARK_CE] += s->segments;
	if (s->flags & TCP_ECE)
		c->marked_segments[PENDULUM_MARK_ECE] += s->segments;
	if (s->flags & TCP_CWR)
		c->marked_segments[PENDULUM_MARK_CWR] += s->segments;
	if (s->options.sack_blocks)
		c->marked_segments[PENDULUM_MARK_SACK] += s->segments;
}

static __always_inline void count_half(struct pendulum_half *me, const struct segment *s, __u32 class,
				       __u64 now)
{
	if (!me->segments)
		me->first_seen_ns = now;
	me->last_seen_ns = now;
	me->segments += s->segments;
	me->wire_bytes += s->wire_bytes;
	me->payload_bytes += s->payload_bytes;
	if (class == PENDULUM_CLASS_DATA)
		me->data_segments += s->segments;
	else if (is_pure_ack(class))
		me->ack_segments += s->segments;
}

static __always_inline void observe_sequence(struct pendulum_half *me, const struct pendulum_half *peer,
					     const struct segment *s, __u32 class, __u32 end, __u64 now,
					     struct pendulum_counters *c, struct sequence_verdict *verdict)
{
	/* A probe repeats a byte on purpose; only a zero-window probe may carry a new one. */
	bool repeats_byte =
		(class == PENDULUM_CLASS_KEEP_ALIVE || class == PENDULUM_CLASS_ZERO_WINDOW_PROBE) &&
		!(s->payload_bytes == 1 && s->seq == me->seq_next);

	if (repeats_byte)
		return;
	apply_sequence(me, peer, s, end, now, verdict);
	if (verdict->retransmitted) {
		me->retransmitted_segments += s->segments;
		c->retransmitted_segments += s->segments;
	}
	if (verdict->reordered) {
		me->reordered_segments += s->segments;
		c->reordered_segments += s->segments;
	}
}

/* Classify the segment in its flow and apply it. Returns its class. */
static __always_inline __u32 observe_flow(struct pendulum_flow *flow, struct segment *s, __u32 direction,
					  __u64 now, struct pendulum_counters *c)
{
	struct pendulum_half *me = &flow->halves[direction == PENDULUM_UP ? PENDULUM_UP : PENDULUM_DOWN];
	struct pendulum_half *peer = &flow->halves[direction == PENDULUM_UP ? PENDULUM_DOWN : PENDULUM_UP];
	__u32 end = s->seq + s->payload_bytes + !!(s->flags & TCP_SYN) + !!(s->flags & TCP_FIN);
	struct sequence_verdict verdict = {};
	__u32 class, in_flight;
	bool is_new_clock;

	restart_if_new(flow, me, s);
	class = reread(&s->class, classify(me, peer, s));
	count_half(me, s, class, now);
	observe_sequence(me, peer, s, class, end, now, c, &verdict);
	apply_acknowledgement(me, peer, s, &verdict);
	if (s->flags & (TCP_ACK | TCP_SYN)) {
		me->window_raw = s->window;
		me->flags |= PENDULUM_HALF_WINDOW;
	}
	match_probe(me, peer, s, verdict.acked, ticks(now), !direction);
	is_new_clock = record_probe(me, peer, s, end, &verdict, ticks(now));
	if (direction == PENDULUM_UP)
		ask(flow, s, end, &verdict, is_new_clock, now);
	else
		s->asked = take_answered(flow, s, now);
	apply_flags(me, peer, s);
	if (verdict.moved) {
		in_flight = outstanding(me, peer);
		if (in_flight > me->in_flight_max_bytes)
			me->in_flight_max_bytes = in_flight;
	}
	return class;
}

/* A packet that is no TCP segment passes, and `request` is set. Returns whether it is of a connection that
 * spins. A global function: see seam.h. */
__noinline int observe_request(struct segment *s, __u32 direction, __u64 now_ns)
{
	bool spins = false;
	__u32 kind;

	if (!s)
		return 0;
	direction = direction == PENDULUM_UP ? PENDULUM_UP : PENDULUM_DOWN;
	kind = s->request & REQUEST_KIND;
	if (kind == REQUEST_SPIN)
		spins = take_edge(s, direction, now_ns);
	else if (s->request & REQUEST_REPLIES)
		take_reply(s, direction, now_ns);
	if (direction == PENDULUM_UP && s->asked)
		record_home_reply(s, now_ns);
	if (!(s->request & REQUEST_ASKS))
		return spins;
	await_reply(s, direction, now_ns);
	if (kind == REQUEST_QUIC)
		await_edge(s, direction, now_ns);
	return 0;
}

/* Count what is no TCP segment, or cannot be read: `result` is parse_frame's. Its `segments` and `wire_bytes`
 * are set. */
static __always_inline void count_unread(struct segment *s, __u32 direction, __u32 result, __u64 now)
{
	struct pendulum_counters *c = counters_of(direction);
	__u32 bytes = s->wire_bytes;
	bool spins = s->request && observe_request(s, direction, now);

	if (direction == PENDULUM_DOWN)
		record_arrival(s, now);
	if (!c)
		return;
	c->segments[PENDULUM_CLASS_NON_TCP] += s->segments;
	c->bytes[PENDULUM_CLASS_NON_TCP] += bytes;
	if (result == PARSE_UDP)
		c->udp_bytes += bytes;
	if (spins) {
		c->spin_bytes += bytes;
		c->spin_replies += !!s->asked;
	}
	if (result > PARSE_TCP && s->port)
		count_port(direction, s->port, bytes);
}

/* A parsed segment: its `segments` and `wire_bytes` are set. A global function: see seam.h. */
__noinline int observe_segment(struct segment *s, __u32 direction, __u64 now)
{
	struct pendulum_counters *c = counters_of(direction);
	struct pendulum_flow *flow;
	__u32 class;

	if (!s || !c)
		return 0;
	flow = find_flow(s, direction);
	class = flow ? observe_flow(flow, s, direction, now, c) : classify(NULL, NULL, s);
	class = reread(&s->class, class);
	count_segment(c, s, class);
	observe_burst(c, direction, class, s->segments);
	if (direction == PENDULUM_DOWN)
		record_arrival(s, now);
	return 0;
}

#endif
