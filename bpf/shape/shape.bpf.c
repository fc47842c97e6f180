/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The ACK filter of the shaped uplink. docs/design/shaping.md.
 *
 * TC egress of the WAN device sees each packet twice. After its first pass a filter of the agent's (mirred)
 * redirects it to the shaping device, an ifb with cake. When that lets it go it comes back: the second pass,
 * known by ingress_ifindex. Nothing here sends a packet, and only what is withheld is dropped.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "shape/ack_filter.h"
#include "shape/ack_rewrite.h"
#include "common/clock.h"

#define TCX_NEXT -1
#define TCX_DROP 2

/* Decide on one ACK, and keep account of it. Returns its fate. */
static __always_inline __u32 admit(const struct ack_packet *p, const struct pendulum_shape_control *control,
				   bool *fresh)
{
	const struct pendulum_channel *uplink = value_of(&channel);
	struct pendulum_ack_state *state = state_of(&p->s.key);
	__u32 fate, given_up = NO_OBSTACLE, segments = SEGMENTS_UNKNOWN;
	bool dry = control->mode == PENDULUM_SHAPE_DRY_RUN, first;

	if (!state || !uplink)
		return PENDULUM_ACK_PASSED_TABLE_FULL;
	bpf_spin_lock(&state->lock);
	first = !state->last_ns || elapsed_ns(p->now, state->last_ns) > control->idle_ns;
	if (first) {
		if (state->flags & PENDULUM_ACK_PENDING)
			given_up = PENDULUM_ACK_RELEASED_CARRIER_LOST;
		start_state(state, p);
	} else if (!same_flow(&state->flow, &p->s.key)) {
		bpf_spin_unlock(&state->lock);
		return PENDULUM_ACK_PASSED_TABLE_FULL;
	}
	state->last_ns = p->now;
	/* Nothing is seen to leave in a dry run: the queue is taken to be as long as it was measured. */
	if (dry && state->flags & PENDULUM_ACK_QUEUED &&
	    elapsed_ns(p->now, state->queued_ns) >= control->sojourn_ns) {
		note_empty(state);
		state->flags &= ~PENDULUM_ACK_PENDING;
	}
	if (state->flags & PENDULUM_ACK_ACCECN)
		segments = segments_of(&state->newest, &p->feedback);
	/* It may be that the connection speaks AccECN: classic ECN knows neither AE nor these options. */
	else if (p->feedback.ace & ACE_AE || p->feedback.counted)
		state->flags |= PENDULUM_ACK_ACCECN;
	fate = judge(state, p, control, uplink, segments, first);
	if (state->flags & PENDULUM_ACK_PENDING) {
		if (fate == PENDULUM_ACK_PASSED_STALE_CARRIER)
			given_up = PENDULUM_ACK_RELEASED_CARRIER_LOST;
		else if (fate == NO_OBSTACLE || fate == PENDULUM_ACK_PASSED_STRETCH)
			given_up = PENDULUM_ACK_RELEASED_SUPERSEDED;
	}
	if (fate == NO_OBSTACLE) {
		note_withheld(state, p, segments);
		fate = dry ? PENDULUM_ACK_WOULD_HOLD_REDUNDANT : PENDULUM_ACK_HELD_REDUNDANT;
	} else {
		/*
		 * Enough is withheld for the carrier: this one is the carrier from here on, and also delivers
		 * what the pending one would have. Otherwise all ACKs would pass for as long as that one
		 * waits, and a queue that ACKs alone have filled would never become shorter.
		 */
		if (fate == PENDULUM_ACK_PASSED_STRETCH)
			segments = SEGMENTS_UNKNOWN;
		if (given_up != NO_OBSTACLE)
			state->flags &= ~PENDULUM_ACK_PENDING;
		note_passed(state, p, fate, segments);
		if (dry)
			*fresh = note_rate(&state->rate, p, control);
	}
	if (dry)
		note_counters_left(state, &p->feedback, false);
	bpf_spin_unlock(&state->lock);
	if (!dry)
		count_fate(given_up, p->bytes);
	return fate;
}

/* Another segment of the connection than a pure ACK. */
static __always_inline void note_other(struct __sk_buff *skb, struct ack_packet *p)
{
	struct pendulum_ack_state *state = state_of(&p->s.key);
	__u8 flags = p->s.flags;

	if (!state || !same_flow(&state->flow, &p->s.key))
		return;
	p->now = packet_time_ns(skb);
	bpf_spin_lock(&state->lock);
	if (same_flow(&state->flow, &p->s.key)) {
		/* Given timestamps that came after this segment, the carrier would make it old (PAWS). */
		state->flags &= ~PENDULUM_ACK_PLAIN;
		state->flags |= PENDULUM_ACK_UNSAFE;
		/* The connection ends or begins. Its carrier still leaves with what is pending. */
		if (flags & (TCP_FIN | TCP_RST | TCP_SYN) && !(state->flags & PENDULUM_ACK_PENDING))
			state->last_ns = 0;
		if (flags & TCP_SYN)
			state->flags &= ~PENDULUM_ACK_ACCECN;
		if (flags & TCP_SYN || !is_probe(state, p))
			state->seq = p->seq;
		state->data_ns = p->now;
	}
	bpf_spin_unlock(&state->lock);
}

/* First pass: into the queue, or withheld. A global function, as the second pass is: the verifier looks at
 * each by itself. */
__noinline int arrive(struct __sk_buff *skb, struct ack_packet *p,
		      const struct pendulum_shape_control *control)
{
	__u32 fate = PENDULUM_ACK_PASSED_FILTER_OFF;
	bool fresh = false;

	if (!p || !control)
		return TCX_NEXT;
	if (p->kind == ACK_PURE) {
		/* An ACK of a connection of this machine is left alone: dropping it here shrinks the sender's
		 * window. TEST_RUN gives every packet a socket. */
		if (!config.replay_time && skb->sk) {
			fate = PENDULUM_ACK_PASSED_LOCAL;
		} else if (control->filter) {
			p->now = packet_time_ns(skb);
			fate = admit(p, control, &fresh);
		}
		count_fate(fate, p->bytes);
	} else if (p->kind == ACK_DATA && control->filter) {
		note_other(skb, p);
	}
	if (control->mode == PENDULUM_SHAPE_DRY_RUN && fate != PENDULUM_ACK_WOULD_HOLD_REDUNDANT) {
		if (!p->now)
			p->now = packet_time_ns(skb);
		note_channel(control, p, fresh);
	}
	return fate == PENDULUM_ACK_HELD_REDUNDANT ? TCX_DROP : TCX_NEXT;
}

/* Second pass. The filter may just have been turned off: what is pending still leaves. */
__noinline int depart(struct __sk_buff *skb, struct ack_packet *p,
		      const struct pendulum_shape_control *control)
{
	__be32 content[PENDULUM_ACK_WORDS] = {};
	struct pendulum_ack_state *state;
	__u32 fate = NO_OBSTACLE;
	bool fresh = false;

	if (!p || !control)
		return TCX_NEXT;
	p->now = packet_time_ns(skb);
	state = p->kind == ACK_PURE ? state_of(&p->s.key) : NULL;
	if (state) {
		bpf_spin_lock(&state->lock);
		if (same_flow(&state->flow, &p->s.key)) {
			fate = note_left(state, p, control, content);
			fresh = note_rate(&state->rate, p, control);
		}
		bpf_spin_unlock(&state->lock);
	}
	if (state && fate == PENDULUM_ACK_REWRITTEN_NEWEST && !rewrite(skb, p, content)) {
		fate = PENDULUM_ACK_RELEASED_CARRIER_LOST;
		/* What the sender knows is unknown. */
		bpf_spin_lock(&state->lock);
		state->flags &= ~PENDULUM_ACK_LEFT;
		state->steady = 0;
		bpf_spin_unlock(&state->lock);
	}
	count_fate(fate, p->bytes);
	note_channel(control, p, fresh);
	return fate == PENDULUM_ACK_HELD_OVERTAKEN ? TCX_DROP : TCX_NEXT;
}

SEC("classifier")
int pendulum_shape(struct __sk_buff *skb)
{
	const struct pendulum_shape_control *control = value_of(&shape_control);
	struct ack_packet packet = {.bytes = skb->len};
	bool second = control && control->uplink_ifindex && skb->ingress_ifindex == control->uplink_ifindex;

	if (!control || control->mode == PENDULUM_SHAPE_OFF)
		return TCX_NEXT;
	/* What has left is of interest only if it is an ACK. */
	if (!second || skb->len <= ACK_HEADERS_MAX)
		packet.kind = read_ack(skb, &packet);
	return second ? depart(skb, &packet, control) : arrive(skb, &packet, control);
}
