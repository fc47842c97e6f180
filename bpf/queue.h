/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The account of one queue.
 *
 *   1. The level is the qdisc's own (q.qlen, qstats.backlog), and so is what it has sent (bstats), read at
 * every enqueue and dequeue while the kernel holds the qdisc's lock. Both are exact, whatever happened
 * meanwhile.
 *   2. What has come follows from them: the change of the level plus what was sent.
 *   3. The part that is ACKs is ours: plus at enqueue, minus at dequeue and when one is dropped inside, by
 * the mark that TC left in the packet (mark.h). The rest is data.
 *   4. What the events do not explain is counted as drift. There is always some: under load the kernel (6.18)
 * does not deliver one event in some hundred, and a packet whose events are missed is counted as data.
 *   5. The bucket of the current time takes level, totals and integral.
 *
 * Qdiscs that keep their level per CPU (pfifo_fast) or in several children (mq) have no level here: the agent
 * reads theirs by netlink; time in the queue is measured all the same.
 */
#ifndef PENDULUM_QUEUE_H
#define PENDULUM_QUEUE_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#include "abi.h"
#include "kernel.h"
#include "mark.h"

/* Registered devices; index: direction. Looked through at every event of every device of the system: an array
 * of two costs less than a hash. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PENDULUM_DIRECTIONS);
	__type(key, __u32);
	__type(value, struct pendulum_queue_device);
} queue_devices SEC(".maps");

/* Index: direction. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, PENDULUM_DIRECTIONS);
	__type(key, __u32);
	__type(value, struct pendulum_queue);
} queues SEC(".maps");

/* Index: direction · PENDULUM_RING_BUCKETS + number mod PENDULUM_RING_BUCKETS. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, PENDULUM_DIRECTIONS *PENDULUM_RING_BUCKETS);
	__type(key, __u32);
	__type(value, struct pendulum_bucket);
} history SEC(".maps");

/* Index: direction · PENDULUM_QUEUE_CLASSES + class. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, PENDULUM_DIRECTIONS *PENDULUM_QUEUE_CLASSES);
	__type(key, __u32);
	__type(value, struct pendulum_sojourn);
} sojourns SEC(".maps");

/* Index: class · PENDULUM_DEPARTURES + time of the mark mod PENDULUM_DEPARTURES. Of PENDULUM_UP only. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, PENDULUM_QUEUE_CLASSES *PENDULUM_DEPARTURES);
	__type(key, __u32);
	__type(value, struct pendulum_departure);
} departures SEC(".maps");

/* One enqueue or dequeue, while it is worked on. */
struct event {
	__u64 now;
	struct pendulum_queue_level level; /* after it */
	__u32 direction;
	__u32 mark; /* of the packet in hand */
	__u32 bytes;
	__u32 sojourn_max_us[PENDULUM_QUEUE_CLASSES];
	__u32 seen_bytes; /* of all packets that came or left with it */
	__u32 seen_ack_bytes;
	__u32 seen_ack_packets;
};

/* Whose queue an event is about. */
struct target {
	__u32 direction;
	__u32 flags; /* enum pendulum_queue_flag */
};

static __always_inline bool is_registered(const struct net_device *dev, __u32 ifindex, __u32 direction,
					  struct target *target)
{
	const struct pendulum_queue_device *found = bpf_map_lookup_elem(&queue_devices, &direction);

	if (!found || found->ifindex != ifindex || found->netns != dev->nd_net.net->ns.inum)
		return false;
	target->direction = direction;
	target->flags = found->flags;
	return true;
}

static __always_inline struct pendulum_queue *find_queue(const struct net_device *dev, struct target *target)
{
	__u32 ifindex = dev->ifindex;

	if (!is_registered(dev, ifindex, PENDULUM_UP, target) &&
	    !is_registered(dev, ifindex, PENDULUM_DOWN, target))
		return NULL;
	return bpf_map_lookup_elem(&queues, &target->direction);
}

static __always_inline __u32 mark_of(const struct sk_buff *skb)
{
	return *(const __u32 *)&((const struct qdisc_skb_cb *)skb->cb)->data[16];
}

/* What the qdisc counts it for. */
static __always_inline __u32 bytes_of(const struct sk_buff *skb)
{
	return ((const struct qdisc_skb_cb *)skb->cb)->pkt_len;
}

/* The first eight letters of a qdisc's kind, as they lie in memory. */
#define KIND(text)                                                                                           \
	({                                                                                                   \
		const char kind_[8] = text;                                                                  \
		__u64 word_;                                                                                 \
		__builtin_memcpy(&word_, kind_, 8);                                                          \
		word_;                                                                                       \
	})

static __always_inline __u64 sent_bytes(const struct Qdisc *q)
{
	return *(const __u64 *)&q->bstats.bytes;
}

static __always_inline __u64 sent_packets(const struct Qdisc *q)
{
	return *(const __u64 *)&q->bstats.packets;
}

/*
 * Begin anew. A qdisc that took the place of one we knew started empty, and all it has done since is counted.
 * Of the first one of a device we count from here on. Answers whether this event is to be counted.
 */
static __noinline bool adopt(struct pendulum_queue *queue, const struct Qdisc *q)
{
	__u64 kind = *(const __u64 *)q->ops->id;
	bool first = !queue->qdisc;

	queue->flags = 0;
	if (q->parent == TC_H_ROOT && !(q->flags & (TCQ_F_NOLOCK | TCQ_F_CPUSTATS)))
		queue->flags |= PENDULUM_QUEUE_EXACT;
	if (kind == KIND("cake"))
		queue->flags |= PENDULUM_QUEUE_CAKE | PENDULUM_QUEUE_DROPS_INSIDE;
	if (kind == KIND("fq_codel") || kind == KIND("sfq"))
		queue->flags |= PENDULUM_QUEUE_DROPS_INSIDE;
	if (kind == KIND("cake") || kind == KIND("fq_codel") || kind == KIND("codel") || kind == KIND("pie"))
		queue->flags |= PENDULUM_QUEUE_AQM;
	queue->level = (struct pendulum_queue_level){};
	queue->sent_bytes = first ? sent_bytes(q) : 0;
	queue->sent_packets = first ? sent_packets(q) : 0;
	if (first) {
		queue->level.bytes = q->qstats.backlog;
		queue->level.packets = q->q.qlen;
	}
	queue->taken_ack_bytes = queue->inside_ack_bytes;
	queue->taken_ack_packets = queue->inside_ack_packets;
	queue->qdisc = (__u64)q;
	queue->ops = (__u64)q->ops;
	queue->events[PENDULUM_QUEUE_ADOPTED] += 1;
	return !first;
}

/* The same address and kind may be another one: then it has sent less than the one before. */
static __always_inline bool is_new(const struct pendulum_queue *queue, const struct Qdisc *q)
{
	return queue->qdisc != (__u64)q || queue->ops != (__u64)q->ops || sent_bytes(q) < queue->sent_bytes;
}

/* Take bytes and packets off the ACKs in the queue, as far as they are there. */
static __always_inline void take_acks(struct pendulum_queue_level *level, __u64 bytes, __u64 packets)
{
	level->ack_bytes -= bytes < level->ack_bytes ? bytes : level->ack_bytes;
	level->ack_packets -= packets < level->ack_packets ? packets : level->ack_packets;
}

/* ACKs that were dropped inside since the last event. */
static __always_inline void take_dropped_acks(struct pendulum_queue *queue,
					      struct pendulum_queue_level *level)
{
	__u64 packets = queue->inside_ack_packets - queue->taken_ack_packets;
	__u64 bytes = queue->inside_ack_bytes - queue->taken_ack_bytes;

	if (!packets)
		return;
	queue->taken_ack_packets += packets;
	queue->taken_ack_bytes += bytes;
	take_acks(level, bytes, packets);
}

/* ACKs as we saw them, the rest is data. */
static __always_inline void count_class(__u64 totals[PENDULUM_QUEUE_CLASSES], __u64 all, __u32 acks)
{
	if (acks > all)
		acks = all;
	totals[PENDULUM_QUEUE_ACK] += acks;
	totals[PENDULUM_QUEUE_DATA] += all - acks;
}

/* What has come and left since the event before. `leaves`: this is a dequeue. */
static __always_inline void count_passage(struct pendulum_queue *queue, struct event *event,
					  const struct Qdisc *q, bool leaves)
{
	__u64 out_bytes = sent_bytes(q) - queue->sent_bytes,
	      out_packets = sent_packets(q) - queue->sent_packets;
	__s64 in_bytes = (__s64)event->level.bytes - queue->level.bytes + out_bytes;
	__s64 in_packets = (__s64)event->level.packets - queue->level.packets + out_packets;
	struct pendulum_queue_totals *totals = &queue->totals;
	bool drops_inside = queue->flags & (PENDULUM_QUEUE_DROPS_INSIDE | PENDULUM_QUEUE_AQM);
	__u32 acks_in = leaves ? 0 : event->seen_ack_packets, acks_out = leaves ? event->seen_ack_packets : 0;

	queue->sent_bytes += out_bytes;
	queue->sent_packets += out_packets;
	/* What was dropped inside has come as well. */
	if (drops_inside && in_bytes < (leaves ? 0 : event->seen_bytes)) {
		in_bytes = leaves ? 0 : event->seen_bytes;
		in_packets = leaves ? 0 : 1;
	}
	/* A super-packet of which some segments found no room is what came less than it says. */
	if (in_bytes > (leaves ? 0 : event->seen_bytes) || out_bytes != (leaves ? event->seen_bytes : 0))
		queue->events[PENDULUM_QUEUE_DRIFT] += 1;
	count_class(totals->enqueued_bytes, in_bytes, leaves ? 0 : event->seen_ack_bytes);
	count_class(totals->enqueued_packets, in_packets, acks_in);
	count_class(totals->dequeued_bytes, out_bytes, leaves ? event->seen_ack_bytes : 0);
	count_class(totals->dequeued_packets, out_packets, acks_out);
}

/* ACKs cannot be more than there is. */
static __always_inline void reconcile(struct pendulum_queue *queue, struct pendulum_queue_level *level)
{
	if (level->ack_bytes <= level->bytes && level->ack_packets <= level->packets)
		return;
	queue->events[PENDULUM_QUEUE_DRIFT] += 1;
	if (level->ack_bytes > level->bytes)
		level->ack_bytes = level->bytes;
	if (level->ack_packets > level->packets)
		level->ack_packets = level->packets;
}

/* Open the bucket of `number`: `before` has held since its beginning. */
static __always_inline void open_bucket(struct pendulum_bucket *bucket, __u64 number,
					const struct pendulum_queue_level *before)
{
	/* Full barriers on both sides: a reader that finds the same number twice has read one bucket. */
	__sync_lock_test_and_set(&bucket->number, 0);
	bucket->last_ns = number * PENDULUM_BUCKET_NS;
	bucket->bytes_ns = 0;
	bucket->ack_bytes_ns = 0;
	bucket->packets_ns = 0;
	bucket->min_bytes = bucket->max_bytes = before->bytes;
	bucket->min_packets = bucket->max_packets = before->packets;
	bucket->sojourn_max_us[PENDULUM_QUEUE_DATA] = 0;
	bucket->sojourn_max_us[PENDULUM_QUEUE_ACK] = 0;
}

/*
 * The queue has a new level: write it to the history. A global function, as the two below: the verifier looks
 * at it once, and not again for each way that leads here.
 */
__noinline int record_level(struct pendulum_queue *queue, const struct event *event)
{
	struct pendulum_queue_level before, level;
	struct pendulum_bucket *bucket;
	__u64 number, held, now;
	__u32 index;
	bool opened;

	if (!queue || !event)
		return 0;
	now = event->now;
	level = event->level;
	before = queue->level;
	queue->level = level;
	queue->last_ns = now;
	/* A division at every event would cost more than all else here. */
	number = queue->bucket;
	if (now - number * PENDULUM_BUCKET_NS >= PENDULUM_BUCKET_NS)
		number = now / PENDULUM_BUCKET_NS;
	queue->bucket = number;
	index = event->direction * PENDULUM_RING_BUCKETS + (number & (PENDULUM_RING_BUCKETS - 1));
	bucket = bpf_map_lookup_elem(&history, &index);
	if (!bucket)
		return 0;
	opened = bucket->number != number;
	if (opened)
		open_bucket(bucket, number, &before);
	held = now - bucket->last_ns;
	bucket->bytes_ns += before.bytes * held;
	bucket->ack_bytes_ns += before.ack_bytes * held;
	bucket->packets_ns += before.packets * held;
	bucket->last_ns = now;
	bucket->totals = queue->totals;
	bucket->last = level;
	if (level.bytes < bucket->min_bytes)
		bucket->min_bytes = level.bytes;
	if (level.bytes > bucket->max_bytes)
		bucket->max_bytes = level.bytes;
	if (level.packets < bucket->min_packets)
		bucket->min_packets = level.packets;
	if (level.packets > bucket->max_packets)
		bucket->max_packets = level.packets;
	for (int class = 0; class < PENDULUM_QUEUE_CLASSES; class ++)
		if (event->sojourn_max_us[class] > bucket->sojourn_max_us[class])
			bucket->sojourn_max_us[class] = event->sojourn_max_us[class];
	if (opened)
		__sync_lock_test_and_set(&bucket->number, number);
	return 0;
}

/* When a packet left, found by when it came: the agent joins it with what the packet asked (turnaround.h). */
static __always_inline void record_departure(__u32 class, __u32 mark, __u64 now_ns)
{
	__u32 index = class * PENDULUM_DEPARTURES + (mark & (PENDULUM_DEPARTURES - 1));
	struct pendulum_departure *departure = bpf_map_lookup_elem(&departures, &index);

	if (departure)
		departure->passage = (__u64)mark << 32 | (__u32)(now_ns >> MARK_TICK_SHIFT);
}

/* Count a packet's time in the queue, by its mark. */
__noinline int record_sojourn(struct event *event)
{
	static const __u32 bounds_us[PENDULUM_RTT_BOUNDS] = PENDULUM_RTT_BOUNDS_US;
	struct pendulum_sojourn *sojourn;
	__u32 index, class, us, slot;

	if (!event)
		return 0;
	class = class_of_mark(event->mark, event->direction) & 1;
	us = age_us(event->mark, event->now);
	if (us > event->sojourn_max_us[class])
		event->sojourn_max_us[class] = us;
	if (event->direction == PENDULUM_UP)
		record_departure(class, event->mark, event->now);
	index = event->direction * PENDULUM_QUEUE_CLASSES + class;
	sojourn = bpf_map_lookup_elem(&sojourns, &index);
	if (!sojourn)
		return us;
	sojourn->sum_us += us;
	for (slot = 0; slot < PENDULUM_RTT_BOUNDS && us > bounds_us[slot]; slot++)
		;
	if (slot < PENDULUM_RTT_SLOTS)
		sojourn->slots[slot] += 1;
	return us;
}

/* The packet in hand has left the queue. */
__noinline int count_departure(struct pendulum_queue *queue, struct event *event)
{
	__u32 class;

	if (!queue || !event)
		return 0;
	class = class_of_mark(event->mark, event->direction) & 1;
	event->seen_bytes += event->bytes;
	if (class == PENDULUM_QUEUE_ACK) {
		event->seen_ack_bytes += event->bytes;
		event->seen_ack_packets += 1;
		take_acks(&event->level, event->bytes, 1);
	}
	if (!is_mark(event->mark, event->direction)) {
		queue->events[PENDULUM_QUEUE_UNMARKED] += 1;
		return 0;
	}
	queue->totals.sojourn_sum_us[class] += (__u32)record_sojourn(event);
	queue->totals.sojourn_packets[class] += 1;
	return 0;
}

#endif
