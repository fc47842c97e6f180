/* SPDX-License-Identifier: GPL-2.0-only */
/* What becomes of ACKs in the queue, as tracepoints tell it. No lock can be taken here: each writes a field
 * of its own. */
#ifndef PENDULUM_ACK_TRACE_H
#define PENDULUM_ACK_TRACE_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#include "ack_filter.h"
#include "kernel.h"

/* Packets that are looked at in one bulk dequeue (dry run only). */
#define ACK_CHAIN_MAX 16

static __always_inline __u32 cb_word(const struct sk_buff *skb, int word)
{
	return ((const __u32 *)((const struct qdisc_skb_cb *)skb->cb)->data)[word];
}

static __always_inline bool is_queue_of(const struct net_device *dev,
					const struct pendulum_shape_control *control)
{
	return dev->ifindex == (int)control->queue_ifindex && dev->nd_net.net->ns.inum == control->netns;
}

SEC("tp_btf/qdisc_enqueue")
int BPF_PROG(pendulum_ack_enqueue, const struct Qdisc *q, const struct netdev_queue *txq,
	     const struct sk_buff *skb)
{
	const struct pendulum_shape_control *control;
	struct pendulum_ack_state *state;
	__u32 tag = cb_word(skb, 3);

	if (!is_tag(tag))
		return 0;
	control = shape_control_now();
	if (!control || !is_queue_of(txq->dev, control))
		return 0;
	state = known_state_of_tag(tag);
	if (state)
		state->enqueued_serial = cb_word(skb, 2);
	return 0;
}

/*
 * A lane that is full drops its oldest and takes the new one. The kernel calls that congestion (NET_XMIT_CN)
 * and no success, and qdisc_enqueue is silent; the drop, on the same CPU and before anything else comes, is
 * what tells.
 */
SEC("tp_btf/kfree_skb")
int BPF_PROG(pendulum_ack_drop, const struct sk_buff *skb)
{
	const struct pendulum_shape_control *control = shape_control_now();
	__u32 zero = 0, tag = cb_word(skb, 3), serial = cb_word(skb, 2);
	struct pendulum_ack_state *state;
	const struct net_device *dev;
	struct ack_arrival *arrival;

	/* Most drops of the system are none of ours: see that first. */
	if (!control || !is_ack_class(skb->priority, control))
		return 0;
	dev = skb->dev;
	if (!dev || !is_queue_of(dev, control))
		return 0;
	arrival = bpf_map_lookup_elem(&newest_arrival, &zero);
	if (arrival && is_tag(arrival->tag)) {
		state = known_state_of_tag(arrival->tag);
		/* Unless it is the new one itself that was refused. */
		if (state && (arrival->tag != tag || arrival->serial != serial))
			state->enqueued_serial = arrival->serial;
		arrival->tag = 0;
	}
	state = is_tag(tag) ? known_state_of_tag(tag) : NULL;
	if (state)
		state->dropped_serial = serial;
	/* Read without the lock: at worst one drop more or less counts. */
	if (state && state->flags & PENDULUM_ACK_PENDING && state->pending_serial == serial)
		note_overflow(bpf_ktime_get_ns());
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
	if (!control || control->mode != PENDULUM_SHAPE_DRY_RUN || !is_queue_of(txq->dev, control))
		return 0;
	now = bpf_ktime_get_ns();
	epoch = now >> EPOCH_SHIFT;
	for (int i = 0; i < ACK_CHAIN_MAX && i < packets; i++) {
		__u32 tag = cb_word(skb, 3), bytes = ((const struct qdisc_skb_cb *)skb->cb)->pkt_len;
		bool fresh = false;

		state = is_tag(tag) ? known_state_of_tag(tag) : NULL;
		if (state) {
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

#endif
