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
#include <stddef.h>

#include "ack_filter.h"
#include "ack_trace.h"
#include "clock.h"
#include "sparse.h"

#define TCX_NEXT -1
#define TCX_DROP 2

#define TCP_ACK_AT      8
#define TCP_WINDOW_AT   14
#define TCP_CHECKSUM_AT 16
#define TCP_TS_AT       24
#define TCP_OPTIONS_AT  20

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
	bool dry = control->mode == PENDULUM_SHAPE_DRY_RUN, lost = false, superseded = false, covers;
	__u64 now = packet_time_ns(skb);

	if (!state || !uplink)
		return PENDULUM_ACK_PASSED_TABLE;
	bpf_spin_lock(&state->lock);
	if (!same_flow(&state->flow, &p->flow) || is_idle(state, control, now)) {
		if (state->last_ns && !is_idle(state, control, now)) {
			bpf_spin_unlock(&state->lock);
			return PENDULUM_ACK_PASSED_TABLE;
		}
		lost = state->flags & PENDULUM_ACK_PENDING;
		start_state(state, p);
	}
	state->last_ns = now;
	note_settled(state, p, control);
	covers = control->merge_sack && covers_sack(p, state);
	fate = judge(state, p, control, uplink, covers, now);
	if (state->flags & PENDULUM_ACK_PENDING &&
	    (fate == PENDULUM_ACK_PASSED_STALE || state->pending_serial == state->dropped_serial)) {
		state->flags &= ~PENDULUM_ACK_PENDING;
		lost = true;
	}
	if (fate == PENDULUM_ACK_PASSED_LAYOUT && makes_pending_needless(state, p, covers)) {
		state->flags &= ~PENDULUM_ACK_PENDING;
		superseded = true;
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
	if (!serial)
		return fate;
	write_tag(skb, place, generation, serial);
	/* Once and for all: the lane goes first, so what is there leaves before what comes after it. */
	if (control->turn_priority && p->settled)
		skb->priority = control->turn_priority;
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

/* What is of no class stays with the data. */
static __always_inline void put_into_class(struct __sk_buff *skb, int kind,
					   const struct pendulum_ack_flow *flow,
					   const struct pendulum_shape_control *control,
					   struct pendulum_shape_counts *counts)
{
	__u32 class = 0;

	if (kind == ACK_PURE) {
		class = control->lane_priority;
		counts->lane_packets += !!class;
	} else if (control->sparse_priority && is_sparse(flow, skb->len, packet_time_ns(skb), control)) {
		class = control->sparse_priority;
		counts->sparse_packets += 1;
	}
	if (class) {
		skb->cb[1] = skb->priority;
		skb->priority = class;
	}
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
	if ((kind == ACK_SYN || kind == ACK_END) && control->filter)
		forget_flow(&packet);
	if (kind == ACK_NONE || !counts)
		return TCX_NEXT;
	if (control->mode == PENDULUM_SHAPE_ENFORCE)
		put_into_class(skb, kind, &packet.flow, control, counts);
	if (kind != ACK_PURE)
		return TCX_NEXT;
	if (packet.obstacle == PENDULUM_ACK_PASSED_SACK && packet.sack_blocks && control->merge_sack)
		packet.obstacle = NO_OBSTACLE;
	if (is_local(skb))
		fate = PENDULUM_ACK_PASSED_LOCAL;
	else if (control->filter)
		fate = admit(skb, &packet, control);
	note_arrival(skb->cb[3], skb->cb[2]);
	if (fate < PENDULUM_ACK_FATES)
		counts->acks[fate] += 1;
	if (is_held(fate))
		counts->held_bytes += skb->len;
	return fate == PENDULUM_ACK_HELD ? TCX_DROP : TCX_NEXT;
}

/* Lengths are constants: the verifier does not see that a variable one is not zero. */
static __always_inline long load_sack(struct __sk_buff *skb, __u32 at, __u32 blocks, __be32 *to)
{
	switch (blocks) {
	case 0:
		return 0;
	case 1:
		return bpf_skb_load_bytes(skb, at, to, 4 + 8);
	case 2:
		return bpf_skb_load_bytes(skb, at, to, 4 + 16);
	case PENDULUM_SACK_BLOCKS:
		return bpf_skb_load_bytes(skb, at, to, 4 + 8 * PENDULUM_SACK_BLOCKS);
	}
	return -1;
}

static __always_inline long store_sack(struct __sk_buff *skb, __u32 at, __u32 blocks, const __be32 *from)
{
	switch (blocks) {
	case 0:
		return 0;
	case 1:
		return bpf_skb_store_bytes(skb, at, from, 4 + 8, 0);
	case 2:
		return bpf_skb_store_bytes(skb, at, from, 4 + 16, 0);
	case PENDULUM_SACK_BLOCKS:
		return bpf_skb_store_bytes(skb, at, from, 4 + 8 * PENDULUM_SACK_BLOCKS, 0);
	}
	return -1;
}

/* Give the ACK a TCP header of so many words, with all that tells the length, and make it writable. */
static __always_inline long resize(struct __sk_buff *skb, const struct ack_packet *p, __u32 words)
{
	__u32 ip_at = config.link_layer == PENDULUM_LINK_RAW_IP ? 0 : sizeof(struct ethhdr);
	bool v6 = p->tcp_at - ip_at == sizeof(struct ipv6hdr);
	__u32 own = v6 ? 0 : sizeof(struct iphdr); /* IPv4's length is that of its header, too */
	__u32 length_at =
		ip_at + (v6 ? offsetof(struct ipv6hdr, payload_len) : offsetof(struct iphdr, tot_len));
	__be16 before = bpf_htons(own + p->layout * 4), after = bpf_htons(own + words * 4);

	if (skb->len != p->tcp_at + p->layout * 4u || bpf_skb_change_tail(skb, p->tcp_at + words * 4, 0))
		return -1;
	if (bpf_skb_store_bytes(skb, length_at, &after, sizeof(after), 0))
		return -1;
	if (!v6 &&
	    bpf_l3_csum_replace(skb, ip_at + offsetof(struct iphdr, check), before, after, sizeof(after)))
		return -1;
	return bpf_l4_csum_replace(skb, p->tcp_at + TCP_CHECKSUM_AT, bpf_htons(p->layout * 4),
				   bpf_htons(words * 4), BPF_F_PSEUDO_HDR | sizeof(__be16));
}

/* Put the newest numbers into the ACK that leaves. The checksum follows by their difference. */
static __always_inline int rewrite(struct __sk_buff *skb, const struct ack_packet *p,
				   const struct ack_content *content)
{
	/* Number; header length, flags and window; timestamps; SACK. */
	__be32 before[5 + 2 * PENDULUM_SACK_BLOCKS] = {}, after[5 + 2 * PENDULUM_SACK_BLOCKS] = {};
	__u32 at = p->tcp_at, sack_at = at + TCP_OPTIONS_AT, blocks = content->sack_blocks;
	__u32 words = p->layout - sack_words(p->sack_blocks) + sack_words(blocks);
	bool timestamps = p->timestamps;
	__s64 difference;
	__be16 window = bpf_htons(content->window);

	if (bpf_skb_load_bytes(skb, at + TCP_ACK_AT, before, 8))
		return -1;
	if (timestamps && bpf_skb_load_bytes(skb, at + TCP_TS_AT, before + 2, 8))
		return -1;
	if (timestamps)
		sack_at += TCP_WORDS_TS * 4;
	if (load_sack(skb, sack_at, p->sack_blocks, before + 4))
		return -1;
	after[0] = bpf_htonl(content->ack);
	after[1] = before[1];
	*(__u8 *)&after[1] = words << 4 | (*(__u8 *)&before[1] & 0xf);
	__builtin_memcpy((__u8 *)&after[1] + 2, &window, 2);
	if (timestamps) {
		after[2] = bpf_htonl(content->tsval);
		after[3] = bpf_htonl(content->tsecr);
	}
	if (blocks)
		after[4] = bpf_htonl(KIND_NOP << 24 | KIND_NOP << 16 | KIND_SACK << 8 | (2 + 8 * blocks));
#pragma unroll
	for (__u32 i = 0; i < 2 * PENDULUM_SACK_BLOCKS; i++)
		if (i < 2 * blocks)
			after[5 + i] = bpf_htonl(content->sack[i]);
	difference = bpf_csum_diff(before, sizeof(before), after, sizeof(after), 0);
	if (difference < 0)
		return -1;
	if (words != p->layout && resize(skb, p, words))
		return -1;
	/* The furthest first: if it can be written, so can the others. */
	if (store_sack(skb, sack_at, blocks, after + 4))
		return -1;
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

	if (is_ack_class(skb->priority, control) ||
	    (control->sparse_priority && skb->priority == control->sparse_priority))
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
	if (departure == LEAVES_BEHIND_LOST)
		count_fate(PENDULUM_ACK_RELEASED_LOST);
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

/* The shaped downlink: ACKs of uploads into its lane, what connections send first into its sparse class. */
SEC("classifier")
int pendulum_shape_in(struct __sk_buff *skb)
{
	const struct pendulum_shape_control *control = shape_control_now();
	struct ack_packet packet = {};
	int kind;

	if (!control || control->mode != PENDULUM_SHAPE_ENFORCE || !control->lane_priority)
		return TCX_NEXT;
	kind = read_ack(skb, &packet);
	if (kind == ACK_PURE)
		skb->priority = control->lane_priority;
	else if (kind != ACK_NONE && control->sparse_priority &&
		 is_sparse(&packet.flow, skb->len, packet_time_ns(skb), control))
		skb->priority = control->sparse_priority;
	return TCX_NEXT;
}
