/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The ACK lane and the ACK filter of the shaped uplink. docs/shaping.md.
 *
 * TC egress of the WAN device sees each packet twice. On its first pass a packet gets its class; then a
 * filter of the agent's (mirred) redirects it to the shaping device, an ifb. When that one's qdisc lets it
 * go, it comes back: the second pass, known by ingress_ifindex. Nothing here sends a packet, and only what is
 * withheld is dropped.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#include "ack_filter.h"
#include "clock.h"
#include "kernel.h"

#define TCX_NEXT -1
#define TCX_DROP 2

/* Packets that are looked at in one bulk dequeue (dry run only). */
#define ACK_CHAIN_MAX 16

#define TCP_ACK_AT      8
#define TCP_WINDOW_AT   14
#define TCP_CHECKSUM_AT 16
#define TCP_TS_AT       24

static __always_inline bool is_held(__u32 fate)
{
	return fate == PENDULUM_ACK_HELD || fate == PENDULUM_ACK_WOULD_HOLD;
}

/*
 * An ACK of a connection of this machine is left alone: dropping it here shrinks the sender's window.
 * TEST_RUN gives every packet a socket.
 */
static __always_inline bool is_local(const struct __sk_buff *skb)
{
	return !config.replay_time && skb->sk;
}

/* Decide on one ACK, and keep account of it. Answers its fate. */
static __always_inline __u32 admit(struct __sk_buff *skb, struct ack_packet *p,
				   const struct pendulum_shape_control *control)
{
	const struct pendulum_channel *uplink = the_channel();
	__u32 place = place_of(&p->flow), fate, serial = 0, generation = 0;
	struct pendulum_ack_state *state = bpf_map_lookup_elem(&ack_states, &place);
	bool dry = control->mode == PENDULUM_SHAPE_DRY_RUN, lost = false, superseded = false;
	__u64 now = packet_time_ns(skb);

	if (!state || !uplink)
		return PENDULUM_ACK_PASSED_TABLE;
	bpf_spin_lock(&state->lock);
	if (!same_flow(&state->flow, &p->flow) || now - state->last_ns > control->idle_ns) {
		if (state->last_ns && now - state->last_ns <= control->idle_ns) {
			bpf_spin_unlock(&state->lock);
			return PENDULUM_ACK_PASSED_TABLE;
		}
		lost = state->flags & PENDULUM_ACK_PENDING;
		start_state(state, p);
	}
	state->last_ns = now;
	fate = judge(state, p, control, uplink, now);
	if (fate == PENDULUM_ACK_PASSED_STALE && state->flags & PENDULUM_ACK_PENDING) {
		state->flags &= ~PENDULUM_ACK_PENDING;
		lost = true;
	}
	if (fate == NO_OBSTACLE && !dry) {
		superseded = state->flags & PENDULUM_ACK_PENDING;
		note_withheld(state, p);
		fate = PENDULUM_ACK_HELD;
	} else {
		serial = note_passed(state, p, fate, now);
		generation = state->generation;
		if (fate == NO_OBSTACLE)
			fate = PENDULUM_ACK_WOULD_HOLD;
	}
	bpf_spin_unlock(&state->lock);
	if (lost)
		count_fate(PENDULUM_ACK_RELEASED_LOST);
	if (superseded)
		count_fate(PENDULUM_ACK_RELEASED_SUPERSEDED);
	if (serial)
		write_tag(skb, place, generation, serial);
	return fate;
}

/* A connection begins or ends: what was known of it counts no longer. */
static __always_inline void forget_flow(const struct ack_packet *p)
{
	__u32 place = place_of(&p->flow);
	struct pendulum_ack_state *state = bpf_map_lookup_elem(&ack_states, &place);

	if (!state)
		return;
	bpf_spin_lock(&state->lock);
	/* Those in the queue still leave with what is pending for them. */
	if (same_flow(&state->flow, &p->flow) && !(state->flags & PENDULUM_ACK_PENDING))
		state->last_ns = 0;
	bpf_spin_unlock(&state->lock);
}

/* First pass: into the queue, or withheld. */
static __always_inline int arrive(struct __sk_buff *skb, const struct pendulum_shape_control *control)
{
	struct pendulum_shape_counts *counts = shape_counts_here();
	struct ack_packet packet = {};
	__u32 fate = PENDULUM_ACK_PASSED_OFF;
	int kind = read_ack(skb, &packet);

	/* A tag from elsewhere. */
	skb->cb[3] = 0;
	if (kind == ACK_START && control->filter)
		forget_flow(&packet);
	if (kind != ACK_PURE || !counts)
		return TCX_NEXT;
	if (control->mode == PENDULUM_SHAPE_ENFORCE && control->lane_priority) {
		skb->cb[1] = skb->priority;
		skb->priority = control->lane_priority;
		counts->lane_packets += 1;
	}
	if (is_local(skb))
		fate = PENDULUM_ACK_PASSED_LOCAL;
	else if (control->filter)
		fate = admit(skb, &packet, control);
	if (fate < PENDULUM_ACK_FATES)
		counts->acks[fate] += 1;
	if (is_held(fate))
		counts->held_bytes += skb->len;
	return fate == PENDULUM_ACK_HELD ? TCX_DROP : TCX_NEXT;
}

/* Put the newest numbers into the ACK that leaves. The checksum follows by their difference. */
static __always_inline int rewrite(struct __sk_buff *skb, const struct ack_packet *p,
				   const struct ack_content *content)
{
	__be32 before[4] = {}, after[4] = {};
	bool timestamps = p->layout == TCP_WORDS_TS;
	__u32 at = p->tcp_at;
	__s64 difference;
	__be16 window = bpf_htons(content->window);

	if (bpf_skb_load_bytes(skb, at + TCP_ACK_AT, before, 8))
		return -1;
	if (timestamps && bpf_skb_load_bytes(skb, at + TCP_TS_AT, before + 2, 8))
		return -1;
	after[0] = bpf_htonl(content->ack);
	after[1] = before[1];
	__builtin_memcpy((__u8 *)&after[1] + 2, &window, 2);
	if (timestamps) {
		after[2] = bpf_htonl(content->tsval);
		after[3] = bpf_htonl(content->tsecr);
	}
	difference = bpf_csum_diff(before, sizeof(before), after, sizeof(after), 0);
	if (difference < 0)
		return -1;
	/* The furthest first: if it can be written, so can the others. */
	if (timestamps && bpf_skb_store_bytes(skb, at + TCP_TS_AT, after + 2, 8, 0))
		return -1;
	if (bpf_skb_store_bytes(skb, at + TCP_ACK_AT, after, 8, 0))
		return -1;
	return bpf_l4_csum_replace(skb, at + TCP_CHECKSUM_AT, 0, difference, 0);
}

/* Second pass: the packet has left the queue. */
static __always_inline int depart(struct __sk_buff *skb, const struct pendulum_shape_control *control)
{
	__u64 now = packet_time_ns(skb);
	__u64 epoch = now >> EPOCH_SHIFT;
	enum departure departure = LEAVES_AS_IT_CAME;
	struct pendulum_ack_state *state;
	struct ack_content content = {};
	struct ack_packet packet = {};
	__u32 tag = skb->cb[3], serial = skb->cb[2];
	bool fresh = false;

	if (control->lane_priority && skb->priority == control->lane_priority)
		skb->priority = skb->cb[1];
	state = is_tag(tag) ? state_of_tag(tag) : NULL;
	if (state) {
		skb->cb[3] = 0;
		bpf_spin_lock(&state->lock);
		if ((state->generation & TAG_GENERATION) == generation_of_tag(tag)) {
			departure = note_left(state, serial, control->filter, &content);
			state->rate = time_sliding_window(state->rate, state->rate_ns, now,
							  control->window_ns, skb->len);
			state->rate_ns = now;
			fresh = state->epoch != epoch;
			state->epoch = epoch;
		}
		bpf_spin_unlock(&state->lock);
	}
	note_channel(control, now, skb->len, fresh);
	if (departure == LEAVES_NOT) {
		count_fate(PENDULUM_ACK_HELD_OVERTAKEN);
		return TCX_DROP;
	}
	if (departure == LEAVES_REWRITTEN) {
		if (read_ack(skb, &packet) == ACK_PURE && !rewrite(skb, &packet, &content))
			count_fate(PENDULUM_ACK_REWRITTEN);
		else
			count_fate(PENDULUM_ACK_RELEASED_LOST);
	}
	return TCX_NEXT;
}

SEC("classifier")
int pendulum_shape(struct __sk_buff *skb)
{
	const struct pendulum_shape_control *control = shape_control_now();

	if (!control || control->mode == PENDULUM_SHAPE_OFF)
		return TCX_NEXT;
	if (control->uplink_ifindex && skb->ingress_ifindex == control->uplink_ifindex)
		return depart(skb, control);
	return arrive(skb, control);
}

/* The shaped downlink: ACKs of uploads into its lane. */
SEC("classifier")
int pendulum_shape_in(struct __sk_buff *skb)
{
	const struct pendulum_shape_control *control = shape_control_now();
	struct ack_packet packet = {};

	if (!control || control->mode != PENDULUM_SHAPE_ENFORCE || !control->lane_priority)
		return TCX_NEXT;
	if (read_ack(skb, &packet) == ACK_PURE)
		skb->priority = control->lane_priority;
	return TCX_NEXT;
}

static __always_inline __u32 cb_word(const struct sk_buff *skb, int word)
{
	return ((const __u32 *)((const struct qdisc_skb_cb *)skb->cb)->data)[word];
}

static __always_inline bool is_queue_of(const struct netdev_queue *txq,
					const struct pendulum_shape_control *control)
{
	const struct net_device *dev = txq->dev;

	return dev->ifindex == (int)control->queue_ifindex && dev->nd_net.net->ns.inum == control->netns;
}

SEC("tp_btf/qdisc_enqueue")
int BPF_PROG(pendulum_ack_enqueue, const struct Qdisc *q, const struct netdev_queue *txq,
	     const struct sk_buff *skb)
{
	const struct pendulum_shape_control *control;
	struct pendulum_ack_state *state;
	__u32 tag = cb_word(skb, 3), serial = cb_word(skb, 2);

	if (!is_tag(tag))
		return 0;
	control = shape_control_now();
	if (!control || !is_queue_of(txq, control))
		return 0;
	state = state_of_tag(tag);
	if (state && (state->generation & TAG_GENERATION) == generation_of_tag(tag))
		state->enqueued_serial = serial;
	return 0;
}

/* Dry run only: nothing comes back to TC there, and leaving the queue is seen here. */
SEC("tp_btf/qdisc_dequeue")
int BPF_PROG(pendulum_ack_dequeue, const struct Qdisc *q, const struct netdev_queue *txq, int packets,
	     const struct sk_buff *skb)
{
	bool nothing = is_null(skb);
	const struct pendulum_shape_control *control;
	struct pendulum_ack_state *state;
	__u64 now, epoch;

	if (nothing || !skb)
		return 0;
	control = shape_control_now();
	if (!control || control->mode != PENDULUM_SHAPE_DRY_RUN || !is_queue_of(txq, control))
		return 0;
	now = bpf_ktime_get_ns();
	epoch = now >> EPOCH_SHIFT;
	for (int i = 0; i < ACK_CHAIN_MAX && i < packets; i++) {
		__u32 tag = cb_word(skb, 3), bytes = ((const struct qdisc_skb_cb *)skb->cb)->pkt_len;
		bool fresh = false;

		state = is_tag(tag) ? state_of_tag(tag) : NULL;
		if (state && (state->generation & TAG_GENERATION) == generation_of_tag(tag)) {
			state->left_serial = cb_word(skb, 2);
			state->rate = time_sliding_window(state->rate, state->rate_ns, now,
							  control->window_ns, bytes);
			state->rate_ns = now;
			fresh = state->epoch != epoch;
			state->epoch = epoch;
		}
		note_channel(control, now, bytes, fresh);
		skb = skb->next;
		if (!skb)
			break;
	}
	return 0;
}
