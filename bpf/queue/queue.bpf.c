/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The queues of the registered devices, by the qdisc tracepoints. docs/design/queues.md.
 *
 * An object of its own: without BTF or these tracepoints it does not load, and only this measurement is lost.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "queue/queue.h"

char LICENSE[] SEC("license") = "GPL";

/* Packets that are looked at in one bulk dequeue; a driver's byte queue limit allows a few dozen. */
#define CHAIN_MAX 64

/* Ethernet with two VLAN tags, IPv6, TCP with options: nothing longer is a pure ACK. */
#define ACK_BYTES_MAX (14 + 8 + 40 + 60)

/*
 * CAKE's ACK filter takes an older ACK out when a newer segment of its connection comes, an ACK or data
 * (cake_ack_filter), without a trace: the number of packets stays as it was. The overlimit drop of another
 * flow's packet looks the same, but for its length.
 */
static __always_inline bool filtered_ack(const struct pendulum_queue *queue, struct pendulum_queue_level was,
					 __u32 expected, const struct Qdisc *q)
{
	__u32 bytes = expected - queue->level.bytes;

	return queue->flags & PENDULUM_QUEUE_CAKE && queue->level.packets == was.packets &&
	       queue->level.bytes < expected && bytes <= ACK_BYTES_MAX && was.ack_packets &&
	       bytes <= was.ack_bytes && sent_bytes(q) == queue->sent_bytes;
}

static __always_inline void count_filtered_ack(struct pendulum_queue *queue, __u32 direction, __u32 bytes)
{
	remove_unknown_acks(queue, direction, bytes, 1);
	__sync_fetch_and_add(&queue->drops[PENDULUM_DROP_ACK_FILTER], 1);
	__sync_fetch_and_add(&queue->totals.dropped_bytes[PENDULUM_QUEUE_ACK], bytes);
	__sync_fetch_and_add(&queue->totals.dropped_packets[PENDULUM_QUEUE_ACK], 1);
}

/* The level is what the qdisc says. */
static __always_inline void read_level(struct pendulum_queue *queue, __u32 direction, const struct Qdisc *q)
{
	queue->level.bytes = q->qstats.backlog;
	queue->level.packets = q->q.qlen;
	take_dropped_acks(queue, direction);
}

/* A packet has entered. `skb` may have been taken apart or be gone already: only its cb is looked at. */
static __always_inline void observe_enqueue(struct pendulum_queue *queue, __u32 direction,
					    const struct Qdisc *q, const struct sk_buff *skb)
{
	struct pendulum_queue_level was = queue->level;
	__u32 mark = mark_of(skb), bytes = bytes_of(skb), expected = was.bytes + bytes;
	struct seen seen = {.bytes = bytes};

	hold_level(queue, direction, enqueue_time(queue, mark, direction));
	read_level(queue, direction, q);
	if (class_of_mark(mark, direction) == PENDULUM_QUEUE_ACK) {
		seen.ack_bytes = bytes;
		seen.ack_packets = 1;
		add_ack(queue, direction, mark, bytes);
	}
	if (filtered_ack(queue, was, expected, q))
		count_filtered_ack(queue, direction, expected - queue->level.bytes);
	count_passage(queue, &seen, was, q, false);
	reconcile(queue, direction);
	note_level(queue);
}

/* `packets` have left, chained; none if `skb` is NULL. */
static __always_inline void observe_dequeue(struct pendulum_queue *queue, __u32 direction,
					    const struct Qdisc *q, const struct sk_buff *skb, int packets)
{
	struct pendulum_queue_level was = queue->level;
	__u64 now = bpf_ktime_get_ns();
	struct seen seen = {};

	hold_level(queue, direction, now);
	read_level(queue, direction, q);
	if (packets && sent_bytes(q) == queue->sent_bytes) {
		/* The driver had given it back: the qdisc counts it once, and so do we. */
		queue->events[PENDULUM_QUEUE_REQUEUED] += 1;
		queue->totals.enqueued_bytes[PENDULUM_QUEUE_DATA] += queue->level.bytes - (__u64)was.bytes;
		queue->totals.enqueued_packets[PENDULUM_QUEUE_DATA] +=
			queue->level.packets - (__u64)was.packets;
		note_level(queue);
		return;
	}
	if (packets > 0)
		count_departure(queue, &seen, direction, mark_of(skb), bytes_of(skb), now);
	for (int i = 1; i < CHAIN_MAX && i < packets; i++) {
		skb = skb->next;
		if (!skb)
			break;
		count_chained(queue, &seen, direction, (__u64)mark_of(skb) << 32 | bytes_of(skb), now);
	}
	if (packets > CHAIN_MAX)
		queue->events[PENDULUM_QUEUE_LONG_CHAIN] += 1;
	count_passage(queue, &seen, was, q, true);
	reconcile(queue, direction);
	note_level(queue);
}

/* Of a queue without a level of its own only the time in it is taken: its CPUs and children write at once. A
 * global function, as count_chained(). */
__noinline int observe_inexact(__u32 direction, __u32 mark, __u64 now)
{
	if (is_mark(mark, direction))
		record_sojourn(direction, mark, now);
	return 0;
}

/*
 * Why a packet was dropped. *inside: it may have stood in the queue, by the qdisc's own reasons. What an
 * egress filter, the stack before the qdisc or the driver behind it drops never did, or has left.
 */
static __always_inline __u32 kind_of_drop(__u32 flags, __u32 reason, bool *inside)
{
#define IS(name)                                                                                             \
	(bpf_core_enum_value_exists(enum skb_drop_reason, SKB_DROP_REASON_##name) &&                         \
	 reason == bpf_core_enum_value(enum skb_drop_reason, SKB_DROP_REASON_##name))
#define QDISC(name)                                                                                          \
	(bpf_core_enum_value_exists(enum qdisc_drop_reason, QDISC_DROP_##name) &&                            \
	 reason == bpf_core_enum_value(enum qdisc_drop_reason, QDISC_DROP_##name))
	*inside = flags & PENDULUM_QUEUE_DROPS_INSIDE;
	if (IS(QDISC_DROP) || IS(QDISC_OVERLIMIT) || IS(FQ_BAND_LIMIT) || IS(FQ_FLOW_LIMIT) ||
	    QDISC(OVERLIMIT) || QDISC(BAND_LIMIT) || QDISC(FLOW_LIMIT) || QDISC(MAXFLOWS))
		return PENDULUM_DROP_OVERLIMIT;
	*inside = true;
	if (IS(QDISC_CONGESTED) || IS(CAKE_FLOOD) || IS(FQ_HORIZON_LIMIT) || QDISC(CONGESTED) ||
	    QDISC(FLOOD_PROTECTION) || QDISC(HORIZON_LIMIT) || QDISC(L4S_STEP_NON_ECN))
		return PENDULUM_DROP_AQM;
	/* Before 6.14 active queue management gives no reason, and cannot be distinguished from a driver that
	 * gives none; since 7.0 "generic" is the lack of one. */
	if (QDISC(GENERIC) && flags & PENDULUM_QUEUE_AQM)
		return PENDULUM_DROP_AQM;
	if (flags & PENDULUM_QUEUE_AQM && IS(NOT_SPECIFIED) &&
	    !bpf_core_enum_value_exists(enum skb_drop_reason, SKB_DROP_REASON_QDISC_CONGESTED) &&
	    !bpf_core_enum_value_exists(enum qdisc_drop_reason, QDISC_DROP_CONGESTED))
		return PENDULUM_DROP_AQM;
	*inside = flags & PENDULUM_QUEUE_DROPS_INSIDE;
	if (QDISC(GENERIC))
		return PENDULUM_DROP_OVERLIMIT;
	*inside = false;
	/* Too many wait for the qdisc's lock. */
	if (IS(QDISC_BURST_DROP))
		return PENDULUM_DROP_OVERLIMIT;
#undef QDISC
#undef IS
	return PENDULUM_DROP_OTHER;
}

SEC("tp_btf/qdisc_enqueue")
int BPF_PROG(pendulum_enqueue, const struct Qdisc *q, const struct netdev_queue *txq,
	     const struct sk_buff *skb)
{
	struct pendulum_queue *queue;
	__u32 direction;
	bool skips;

	queue = find_queue(q, txq->dev, &direction, &skips);
	if (!queue)
		return 0;
	if (skips) {
		/* This one is to be counted. */
		queue->level.bytes -= bytes_of(skb);
		queue->level.packets -= 1;
	}
	if (queue->flags & PENDULUM_QUEUE_EXACT)
		observe_enqueue(queue, direction, q, skb);
	return 0;
}

SEC("tp_btf/qdisc_dequeue")
int BPF_PROG(pendulum_dequeue, const struct Qdisc *q, const struct netdev_queue *txq, int packets,
	     const struct sk_buff *skb)
{
	bool nothing = is_null(skb), skips;
	struct pendulum_queue *queue;
	__u32 direction;
	__u64 now;

	queue = find_queue(q, txq->dev, &direction, &skips);
	if (!queue || skips)
		return 0;
	if (queue->flags & PENDULUM_QUEUE_EXACT) {
		if (!nothing && skb)
			observe_dequeue(queue, direction, q, skb, packets);
		/* Half of all calls find nothing to send yet; then there is something to say only if packets
		 * were dropped. */
		else if (queue->level.bytes != q->qstats.backlog || queue->level.packets != q->q.qlen)
			observe_dequeue(queue, direction, q, NULL, 0);
		return 0;
	}
	if (nothing)
		return 0;
	now = bpf_ktime_get_ns();
	for (int i = 0; i < CHAIN_MAX && i < packets && skb; i++, skb = skb->next)
		observe_inexact(direction, mark_of(skb), now);
	return 0;
}

/*
 * A packet that carries our mark and belongs to a registered device was dropped behind TC. Nobody holds the
 * qdisc's lock here: what is counted is counted atomically.
 */
SEC("tp_btf/kfree_skb")
int BPF_PROG(pendulum_drop, const struct sk_buff *skb, const void *location, int reason)
{
	__u32 mark = mark_of(skb), direction, class, bytes, kind, flags;
	const struct pendulum_queue_device *device;
	struct pendulum_queue *queue;
	struct net_device *dev;
	bool inside;

	/* Most drops of the system are none of ours: see that first. */
	if (!is_mark(mark, PENDULUM_UP) && !is_mark(mark, PENDULUM_DOWN))
		return 0;
	dev = skb->dev;
	if (!dev)
		return 0;
	device = find_device(dev, &direction);
	if (!device || !is_mark(mark, direction))
		return 0;
	queue = bpf_map_lookup_elem(&queues, &direction);
	if (!queue)
		return 0;
	flags = queue->flags | device->flags;
	class = class_of_mark(mark, direction) & 1;
	bytes = bytes_of(skb);
	kind = kind_of_drop(flags, reason, &inside);
	__sync_fetch_and_add(&queue->drops[kind], 1);
	__sync_fetch_and_add(&queue->totals.dropped_bytes[class], bytes);
	__sync_fetch_and_add(&queue->totals.dropped_packets[class], 1);
	if (class == PENDULUM_QUEUE_ACK && inside) {
		__sync_fetch_and_add(&queue->inside_ack_bytes, bytes);
		__sync_fetch_and_add(&queue->inside_ack_packets, 1);
	}
	return 0;
}
