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

static __always_inline bool is_held(__u32 fate)
{
	return fate == PENDULUM_ACK_HELD_REDUNDANT || fate == PENDULUM_ACK_WOULD_HOLD_REDUNDANT;
}

/*
 * An ACK of a connection of this machine is left alone: dropping it here shrinks the sender's window.
 * TEST_RUN gives every packet a socket.
 */
static __always_inline bool is_local(const struct __sk_buff *skb)
{
	return !config.replay_time && skb->sk;
}

/* Nothing is seen to leave in a dry run: the queue is taken to be as long as it was measured. */
static __always_inline void pretend_departure(struct pendulum_ack_state *state,
					      const struct pendulum_shape_control *control, __u64 now)
{
	if (!(state->flags & PENDULUM_ACK_QUEUED) || elapsed_ns(now, state->queued_ns) < control->sojourn_ns)
		return;
	note_empty(state);
	state->flags &= ~PENDULUM_ACK_PENDING;
}

/* A packet of the connection takes its part of the channel. Whether it is the first of this epoch. */
static __always_inline bool note_rate(struct pendulum_ack_state *state,
				      const struct pendulum_shape_control *control, __u64 now, __u32 bytes)
{
	__u64 epoch = now >> EPOCH_SHIFT;
	bool first = state->epoch != epoch;

	state->rate = time_sliding_window(state->rate, state->rate_ns, now, control->window_ns, bytes);
	state->rate_ns = now;
	state->epoch = epoch;
	return first;
}

/* Decide on one ACK, and keep account of it. Returns its fate. */
static __always_inline __u32 admit(struct __sk_buff *skb, const struct ack_packet *p,
				   const struct pendulum_shape_control *control, bool *fresh)
{
	const struct pendulum_channel *uplink = the_channel();
	struct pendulum_ack_state *state = state_of(&p->flow);
	bool dry = control->mode == PENDULUM_SHAPE_DRY_RUN, lost = false, superseded = false, first = false;
	__u32 fate, segments = SEGMENTS_UNKNOWN, bytes = skb->len;
	__u64 now = packet_time_ns(skb);

	if (!state || !uplink)
		return PENDULUM_ACK_PASSED_TABLE_FULL;
	bpf_spin_lock(&state->lock);
	if (!same_flow(&state->flow, &p->flow) || is_idle(state, control, now)) {
		if (!is_idle(state, control, now)) {
			bpf_spin_unlock(&state->lock);
			return PENDULUM_ACK_PASSED_TABLE_FULL;
		}
		lost = state->flags & PENDULUM_ACK_PENDING;
		start_state(state, p);
		first = true;
	}
	state->last_ns = now;
	if (dry)
		pretend_departure(state, control, now);
	if (state->flags & PENDULUM_ACK_ACCECN)
		segments = segments_of(state, p);
	else if (speaks_accecn(p))
		state->flags |= PENDULUM_ACK_ACCECN;
	fate = judge(state, p, control, uplink, segments, first, now);
	if (state->flags & PENDULUM_ACK_PENDING && fate == PENDULUM_ACK_PASSED_STALE_CARRIER) {
		state->flags &= ~PENDULUM_ACK_PENDING;
		lost = true;
	}
	if (fate == NO_OBSTACLE) {
		superseded = state->flags & PENDULUM_ACK_PENDING;
		note_withheld(state, p, segments);
		fate = dry ? PENDULUM_ACK_WOULD_HOLD_REDUNDANT : PENDULUM_ACK_HELD_REDUNDANT;
	} else {
		/*
		 * Enough is withheld for the carrier: this one is the carrier from here on. Otherwise all
		 * ACKs would pass for as long as that one waits, and a queue that ACKs alone have filled
		 * would never become shorter.
		 */
		superseded = fate == PENDULUM_ACK_PASSED_STRETCH;
		if (superseded) {
			state->flags &= ~PENDULUM_ACK_PENDING;
			/* It also delivers what the pending one would have. */
			segments = SEGMENTS_UNKNOWN;
		}
		note_passed(state, p, fate, segments, now);
		if (dry)
			*fresh = note_rate(state, control, now, bytes);
	}
	if (dry)
		note_counters_left(state, p->ack, p->ace, p->counters, p->counted, false);
	bpf_spin_unlock(&state->lock);
	if (dry)
		return fate;
	if (lost)
		count_fate(PENDULUM_ACK_RELEASED_CARRIER_LOST);
	if (superseded)
		count_fate(PENDULUM_ACK_RELEASED_SUPERSEDED);
	return fate;
}

/* Another segment of the connection than a pure ACK. */
static __always_inline void note_other(struct __sk_buff *skb, const struct ack_packet *p, int kind)
{
	struct pendulum_ack_state *state = state_of(&p->flow);
	__u64 now = packet_time_ns(skb);

	if (!state || !same_flow(&state->flow, &p->flow))
		return;
	bpf_spin_lock(&state->lock);
	if (same_flow(&state->flow, &p->flow)) {
		/* Behind the carrier: given timestamps that came after it, the carrier would make it old
		 * (PAWS). */
		state->flags &= ~PENDULUM_ACK_PLAIN;
		state->flags |= PENDULUM_ACK_UNSAFE;
		/* A FIN or a SYN. Those in the queue still leave with what is pending for them. */
		if (kind != ACK_DATA && !(state->flags & PENDULUM_ACK_PENDING))
			state->last_ns = 0;
		if (kind == ACK_SYN)
			state->flags &= ~PENDULUM_ACK_ACCECN;
		if (kind == ACK_SYN || !is_probe(state, p))
			state->seq = p->seq;
		state->data_ns = now;
	}
	bpf_spin_unlock(&state->lock);
}

/* First pass: into the queue, or withheld. A global function, as the second pass is: the verifier looks at
 * each by itself. */
__noinline int arrive(struct __sk_buff *skb, struct ack_packet *p, int kind)
{
	const struct pendulum_shape_control *control = shape_control_now();
	struct pendulum_shape_counts *counts = shape_counts_here();
	__u32 fate = PENDULUM_ACK_PASSED_FILTER_OFF;
	bool fresh = false;

	if (!p || !control)
		return TCX_NEXT;
	if (kind == ACK_PURE && counts) {
		if (is_local(skb))
			fate = PENDULUM_ACK_PASSED_LOCAL;
		else if (control->filter)
			fate = admit(skb, p, control, &fresh);
		if (fate < PENDULUM_ACK_FATES)
			counts->acks[fate] += 1;
		if (is_held(fate))
			counts->held_bytes += skb->len;
	} else if (kind != ACK_NONE && control->filter) {
		note_other(skb, p, kind);
	}
	if (control->mode == PENDULUM_SHAPE_DRY_RUN && fate != PENDULUM_ACK_WOULD_HOLD_REDUNDANT)
		note_channel(control, packet_time_ns(skb), skb->len, fresh);
	return fate == PENDULUM_ACK_HELD_REDUNDANT ? TCX_DROP : TCX_NEXT;
}

/* The content could not be given: what the sender knows is unknown. */
static __always_inline void note_not_rewritten(struct pendulum_ack_state *state)
{
	bpf_spin_lock(&state->lock);
	state->flags &= ~PENDULUM_ACK_LEFT;
	state->steady = 0;
	bpf_spin_unlock(&state->lock);
}

/* A pure ACK leaves. */
static __always_inline int depart_ack(struct __sk_buff *skb, const struct ack_packet *p,
				      const struct pendulum_shape_control *control, __u64 now, bool *fresh)
{
	struct pendulum_ack_state *state = state_of(&p->flow);
	enum departure departure = LEAVES_AS_IT_CAME;
	__be32 content[PENDULUM_ACK_WORDS] = {};
	__u32 bytes = skb->len;

	if (!state)
		return TCX_NEXT;
	bpf_spin_lock(&state->lock);
	if (same_flow(&state->flow, &p->flow)) {
		departure = note_left(state, p, control, now, content);
		*fresh = note_rate(state, control, now, bytes);
	}
	bpf_spin_unlock(&state->lock);
	switch (departure) {
	case LEAVES_NOT:
		count_fate(PENDULUM_ACK_HELD_OVERTAKEN);
		return TCX_DROP;
	case LEAVES_BEHIND_LOST:
		count_fate(PENDULUM_ACK_RELEASED_CARRIER_LOST);
		break;
	case LEAVES_REWRITTEN:
		if (rewrite(skb, p, content)) {
			count_fate(PENDULUM_ACK_REWRITTEN_NEWEST);
			break;
		}
		count_fate(PENDULUM_ACK_RELEASED_CARRIER_LOST);
		note_not_rewritten(state);
		break;
	case LEAVES_AS_IT_CAME:
		break;
	}
	return TCX_NEXT;
}

/* Second pass. The filter may just have been turned off: what is pending still leaves. */
__noinline int depart(struct __sk_buff *skb, struct ack_packet *p, int kind)
{
	const struct pendulum_shape_control *control = shape_control_now();
	__u64 now = packet_time_ns(skb);
	__u32 bytes = skb->len;
	int verdict = TCX_NEXT;
	bool fresh = false;

	if (!p || !control)
		return TCX_NEXT;
	if (kind == ACK_PURE)
		verdict = depart_ack(skb, p, control, now, &fresh);
	note_channel(control, now, bytes, fresh);
	return verdict;
}

SEC("classifier")
int pendulum_shape(struct __sk_buff *skb)
{
	const struct pendulum_shape_control *control = shape_control_now();
	struct ack_packet packet = {};
	bool second;
	int kind;

	if (!control || control->mode == PENDULUM_SHAPE_OFF)
		return TCX_NEXT;
	second = control->uplink_ifindex && skb->ingress_ifindex == control->uplink_ifindex;
	/* What has left is of interest only if it is an ACK. */
	kind = second && skb->len > ACK_HEADERS_MAX ? ACK_NONE : read_ack(skb, &packet);
	return second ? depart(skb, &packet, kind) : arrive(skb, &packet, kind);
}
