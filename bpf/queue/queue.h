/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The account of one queue.
 *
 *   1. The level is the qdisc's own (q.qlen, qstats.backlog), and so is what it has sent (bstats), read at
 * every enqueue and dequeue while the kernel holds the qdisc's lock. Both are exact, whatever happened
 * meanwhile.
 *   2. What has come follows from them: the change of the level plus what was sent.
 *   3. The part that is ACKs is ours: plus at enqueue, minus at dequeue and when one is dropped inside, by
 * the mark that TC left in the packet (mark.h). The rest is data. ACKs are kept by the second in which they
 * came, so that one whose departure caused no event is forgotten soon, also where the queue never empties.
 *   4. What the events do not explain is counted as drift. There is always some: under load the kernel (6.18)
 * does not deliver one event in some hundred, and a packet whose events are missed is counted as data.
 *   5. The bucket of the current time takes level, totals and integral (history.h).
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
#include "common/histogram.h"
#include "queue/history.h"
#include "common/kernel.h"
#include "common/mark.h"
#include "common/once.h"

/* Registered devices; index: direction. Looked through at every event of every device of the system: an array
 * of two costs less than a hash, and shares one cache line that is not written. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
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

/* Index: direction · PENDULUM_QUEUE_CLASSES + class. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, PENDULUM_DIRECTIONS *PENDULUM_QUEUE_CLASSES);
	__type(key, __u32);
	__type(value, struct pendulum_sojourn);
} sojourns SEC(".maps");

/* ACKs in the queue that came within one second of 2^30 ns. The level is the sum of those that count. */
struct ack_second {
	__u32 number; /* of the second: time >> ACK_SECOND_SHIFT */
	__u32 bytes;
	__u32 packets;
	__u32 pad;
};

#define ACK_SECOND_SHIFT 30
/* A turn of the mark's clock. */
#define ACK_SECONDS ((MARK_TIME + 1) >> (ACK_SECOND_SHIFT - MARK_TICK_SHIFT))

/* Index: direction · ACK_SECONDS + number mod ACK_SECONDS. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PENDULUM_DIRECTIONS *ACK_SECONDS);
	__type(key, __u32);
	__type(value, struct ack_second);
} ack_seconds SEC(".maps");

/* Index: class · PENDULUM_DEPARTURES + time of the mark mod PENDULUM_DEPARTURES. Of PENDULUM_UP only. Packets
 * of a class that came in one tick share an entry, as the segments of a super-packet do: it is the last
 * one's. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, PENDULUM_QUEUE_CLASSES *PENDULUM_DEPARTURES);
	__type(key, __u32);
	__type(value, struct pendulum_departure);
} departures SEC(".maps");

/* Packets that came or left with one event. */
struct seen {
	__u32 bytes;
	__u32 ack_bytes;
	__u32 ack_packets;
};

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

/* The registered device that this one is, by what it is called. */
static __always_inline struct pendulum_queue_device *find_device(const struct net_device *dev,
								 __u32 *direction)
{
	__u32 ifindex = dev->ifindex;

#pragma unroll
	for (__u32 x = PENDULUM_UP; x < PENDULUM_DIRECTIONS; x++) {
		struct pendulum_queue_device *device;

		*direction = x;
		device = bpf_map_lookup_elem(&queue_devices, direction);
		if (device && device->ifindex == ifindex && device->netns == dev->nd_net.net->ns.inum)
			return device;
	}
	return NULL;
}

/* The same by its address and that of its qdisc, as the event before found them; by its own alone if its
 * qdisc keeps no level: children of mq have one event each, in turn and on several CPUs. Both may be those of
 * another device that came after it. */
static __always_inline struct pendulum_queue_device *
find_known(const struct Qdisc *q, const struct net_device *dev, __u32 *direction)
{
#pragma unroll
	for (__u32 x = PENDULUM_UP; x < PENDULUM_DIRECTIONS; x++) {
		struct pendulum_queue_device *device;

		*direction = x;
		device = bpf_map_lookup_elem(&queue_devices, direction);
		if (device && device->device == (__u64)dev && device->ifindex == (__u32)dev->ifindex &&
		    (device->qdisc == (__u64)q || !device->qdisc))
			return device;
	}
	return NULL;
}

static __always_inline bool keeps_level(const struct Qdisc *q)
{
	return q->parent == TC_H_ROOT && !(q->flags & (TCQ_F_NOLOCK | TCQ_F_CPUSTATS));
}

/* enum pendulum_queue_flag, by the qdisc's kind. */
static __noinline __u32 flags_of(const struct Qdisc *q)
{
	__u64 kind = *(const __u64 *)q->ops->id;
	__u32 flags = 0;

	if (keeps_level(q))
		flags |= PENDULUM_QUEUE_EXACT;
	if (kind == KIND("cake"))
		flags |= PENDULUM_QUEUE_CAKE | PENDULUM_QUEUE_DROPS_INSIDE;
	if (kind == KIND("fq_codel") || kind == KIND("sfq"))
		flags |= PENDULUM_QUEUE_DROPS_INSIDE;
	if (kind == KIND("cake") || kind == KIND("fq_codel") || kind == KIND("codel") || kind == KIND("pie"))
		flags |= PENDULUM_QUEUE_AQM;
	return flags;
}

/*
 * Begin anew. A qdisc that took the place of one we knew started empty, and all it has done since is counted.
 * Of the first one of a device we count from here on. Returns whether this event is to be counted.
 */
static __noinline bool adopt(struct pendulum_queue *queue, const struct Qdisc *q)
{
	bool first = !queue->qdisc;

	queue->level = (struct pendulum_queue_level){};
	queue->sent_bytes = first ? sent_bytes(q) : 0;
	queue->sent_packets = first ? sent_packets(q) : 0;
	if (first) {
		queue->level.bytes = q->qstats.backlog;
		queue->level.packets = q->q.qlen;
	}
	queue->inside_ack_bytes = 0;
	queue->inside_ack_packets = 0;
	queue->qdisc = (__u64)q;
	queue->ops = (__u64)q->ops;
	queue->events[PENDULUM_QUEUE_ADOPTED] += 1;
	return !first;
}

/* The same address and kind may be another one: then it has sent less than the one before. Of queues without
 * a level one child is as good as another. */
static __always_inline bool is_new(const struct pendulum_queue *queue, const struct Qdisc *q)
{
	if (!keeps_level(q))
		return !queue->qdisc || queue->flags & PENDULUM_QUEUE_EXACT;
	return queue->qdisc != (__u64)q || queue->ops != (__u64)q->ops || sent_bytes(q) < queue->sent_bytes;
}

/* The queue that an event is about; NULL if it is none of ours. *skips: it was not there before, and what
 * this event does is counted already. */
static __always_inline struct pendulum_queue *find_queue(const struct Qdisc *q, const struct net_device *dev,
							 __u32 *direction, bool *skips)
{
	struct pendulum_queue_device *device = find_known(q, dev, direction);
	bool known = device;
	struct pendulum_queue *queue;

	*skips = false;
	if (!device)
		device = find_device(dev, direction);
	if (!device)
		return NULL;
	queue = bpf_map_lookup_elem(&queues, direction);
	if (!queue)
		return NULL;
	if (known && !is_new(queue, q))
		return queue;
	device->qdisc = keeps_level(q) ? (__u64)q : 0;
	device->device = (__u64)dev;
	if (is_new(queue, q))
		*skips = !adopt(queue, q);
	queue->flags = flags_of(q) | device->flags;
	return queue;
}

static __always_inline struct ack_second *find_second(__u32 direction, __u32 number)
{
	__u32 index = (direction & 1) * ACK_SECONDS + number % ACK_SECONDS;

	return bpf_map_lookup_elem(&ack_seconds, &index);
}

/* The second in which TC marked a packet that is in the queue, or was until `now`. */
static __always_inline __u32 second_of_mark(__u32 mark, __u64 now)
{
	__u32 number = now >> ACK_SECOND_SHIFT, marked = mark >> (ACK_SECOND_SHIFT - MARK_TICK_SHIFT);

	return number - (number - marked) % ACK_SECONDS;
}

/* Take ACKs of one second off, as far as they are there; with the last one goes what is left. Returns how
 * many bytes. */
static __always_inline __u32 take_acks(struct pendulum_queue_level *level, struct ack_second *second,
				       __u32 bytes, __u32 packets)
{
	if (packets >= second->packets) {
		packets = second->packets;
		bytes = second->bytes;
	} else if (bytes > second->bytes) {
		bytes = second->bytes;
	}
	second->bytes -= bytes;
	second->packets -= packets;
	level->ack_bytes -= bytes < level->ack_bytes ? bytes : level->ack_bytes;
	level->ack_packets -= packets < level->ack_packets ? packets : level->ack_packets;
	return bytes;
}

/* An ACK has come. */
static __always_inline void add_ack(struct pendulum_queue *queue, __u32 direction, __u32 mark, __u32 bytes)
{
	__u32 number = second_of_mark(mark, queue->last_ns);
	struct pendulum_queue_level *level = &queue->level;
	struct ack_second *second = find_second(direction, number);
	bool first = !level->ack_packets;

	if (!second)
		return;
	if (first) {
		/* What the seconds still hold has left. */
		level->ack_bytes = 0;
		queue->ack_oldest = number;
	} else if (second->number != number && (__s32)(second->number - queue->ack_oldest) >= 0) {
		take_acks(level, second, second->bytes, second->packets);
	}
	if (first || second->number != number) {
		second->number = number;
		second->bytes = second->packets = 0;
	}
	second->bytes += bytes;
	second->packets += 1;
	level->ack_bytes += bytes;
	level->ack_packets += 1;
}

/*
 * An ACK has left. Those of two seconds before it, and older ones, have left too, whether an event reported
 * it or not. In queues that are no FIFO one may be overtaken by that much: it is then forgotten too early.
 */
static __always_inline void remove_ack(struct pendulum_queue *queue, __u32 direction, __u32 mark, __u32 bytes,
				       __u64 now)
{
	__u32 number = second_of_mark(mark, now);
	struct ack_second *second = find_second(direction, number);

	if (second && second->number == number && (__s32)(number - queue->ack_oldest) >= 0)
		take_acks(&queue->level, second, bytes, 1);
#pragma unroll
	for (int i = 0; i < 2; i++) {
		if ((__s32)(number - queue->ack_oldest) < 2)
			break;
		second = find_second(direction, queue->ack_oldest);
		if (second && second->number == queue->ack_oldest)
			take_acks(&queue->level, second, second->bytes, second->packets);
		queue->ack_oldest += 1;
	}
}

/* The same of ACKs of which is not known when they came: queues drop at their head, so the oldest ones.
 * Returns whether younger ones are queued, of another second: then it may have been one of those. A global
 * function: the verifier looks at it once. */
__noinline int remove_oldest_acks(struct pendulum_queue *queue, __u32 direction, __u32 bytes, __u32 packets)
{
	bool others = false;

	if (!queue)
		return 0;
#pragma unroll
	for (int i = 0; i < 3; i++) {
		struct ack_second *second = find_second(direction, queue->ack_oldest);

		if (second && second->number == queue->ack_oldest) {
			__u32 there = second->packets, taken;

			others |= there && there < queue->level.ack_packets;
			taken = take_acks(&queue->level, second, bytes, packets);
			bytes -= taken < bytes ? taken : bytes;
			packets -= packets < there ? packets : there;
		}
		if ((!bytes && !packets) || queue->ack_oldest == (__u32)(queue->last_ns >> ACK_SECOND_SHIFT))
			break;
		queue->ack_oldest += 1;
	}
	return others;
}

/* ACKs that were dropped inside, by no event that says when they came. */
static __always_inline void remove_unknown_acks(struct pendulum_queue *queue, __u32 direction, __u32 bytes,
						__u32 packets)
{
	if (remove_oldest_acks(queue, direction, bytes, packets))
		queue->events[PENDULUM_QUEUE_UNKNOWN_ACK] += 1;
}

/* ACKs that were dropped inside since the last event. */
static __always_inline void take_dropped_acks(struct pendulum_queue *queue, __u32 direction)
{
	__u32 packets, bytes;

	if (!READ_ONCE(queue->inside_ack_packets))
		return;
	packets = __sync_lock_test_and_set(&queue->inside_ack_packets, 0);
	bytes = __sync_lock_test_and_set(&queue->inside_ack_bytes, 0);
	remove_unknown_acks(queue, direction, bytes, packets);
}

/* ACKs as we saw them, the rest is data. */
static __always_inline void count_class(__u64 totals[PENDULUM_QUEUE_CLASSES], __u64 all, __u32 acks)
{
	if (acks > all)
		acks = all;
	if (acks)
		totals[PENDULUM_QUEUE_ACK] += acks;
	totals[PENDULUM_QUEUE_DATA] += all - acks;
}

/* What has come and left since the event before. `leaves`: this is a dequeue; `was`: the level before it. */
static __always_inline void count_passage(struct pendulum_queue *queue, const struct seen *seen,
					  struct pendulum_queue_level was, const struct Qdisc *q, bool leaves)
{
	__u64 out_bytes = sent_bytes(q) - queue->sent_bytes,
	      out_packets = sent_packets(q) - queue->sent_packets;
	__s64 in_bytes = (__s64)queue->level.bytes - was.bytes + out_bytes;
	__s64 in_packets = (__s64)queue->level.packets - was.packets + out_packets;
	struct pendulum_queue_totals *totals = &queue->totals;
	__s64 came = leaves ? 0 : seen->bytes;

	/* What was dropped inside has come as well. */
	if (in_bytes < came && queue->flags & (PENDULUM_QUEUE_DROPS_INSIDE | PENDULUM_QUEUE_AQM)) {
		in_bytes = came;
		in_packets = !leaves;
	}
	/* A super-packet of which some segments found no room is what came less than it says. */
	if (in_bytes > came || out_bytes != (leaves ? seen->bytes : 0))
		queue->events[PENDULUM_QUEUE_DRIFT] += 1;
	if (in_bytes || in_packets) {
		count_class(totals->enqueued_bytes, in_bytes, leaves ? 0 : seen->ack_bytes);
		count_class(totals->enqueued_packets, in_packets, leaves ? 0 : seen->ack_packets);
	}
	if (out_bytes || out_packets) {
		queue->sent_bytes += out_bytes;
		queue->sent_packets += out_packets;
		count_class(totals->dequeued_bytes, out_bytes, leaves ? seen->ack_bytes : 0);
		count_class(totals->dequeued_packets, out_packets, leaves ? seen->ack_packets : 0);
	}
}

/* ACKs cannot be more than there is. */
static __always_inline void reconcile(struct pendulum_queue *queue, __u32 direction)
{
	struct pendulum_queue_level *level = &queue->level;

	if (level->ack_bytes <= level->bytes && level->ack_packets <= level->packets)
		return;
	queue->events[PENDULUM_QUEUE_DRIFT] += 1;
	remove_oldest_acks(queue, direction,
			   level->ack_bytes > level->bytes ? level->ack_bytes - level->bytes : 0,
			   level->ack_packets > level->packets ? level->ack_packets - level->packets : 0);
	if (level->ack_bytes > level->bytes)
		level->ack_bytes = level->bytes;
	if (level->ack_packets > level->packets)
		level->ack_packets = level->packets;
}

/* When a packet left, found by when it came: the agent joins it with what the packet asked (turnaround.h). */
static __always_inline void record_departure(__u32 class, __u32 mark, __u64 now_ns)
{
	__u32 index = class * PENDULUM_DEPARTURES + (mark & (PENDULUM_DEPARTURES - 1));
	struct pendulum_departure *departure = bpf_map_lookup_elem(&departures, &index);

	if (departure)
		departure->passage = (__u64)mark << 32 | (__u32)(now_ns >> MARK_TICK_SHIFT);
}

/* Count a packet's time in the queue, by its mark. Returns it: microseconds. */
static __always_inline __u32 record_sojourn(__u32 direction, __u32 mark, __u64 now_ns)
{
	__u32 class = class_of_mark(mark, direction) & 1, us = age_us(mark, now_ns);
	__u32 index = (direction & 1) * PENDULUM_QUEUE_CLASSES + class, slot = slot_of_time(us);
	struct pendulum_sojourn *sojourn;

	if (direction == PENDULUM_UP)
		record_departure(class, mark, now_ns);
	sojourn = bpf_map_lookup_elem(&sojourns, &index);
	if (!sojourn)
		return us;
	sojourn->sum_us += us;
	if (slot < PENDULUM_TIME_SLOTS)
		sojourn->slots[slot] += 1;
	return us;
}

/* One packet has left the queue. */
static __always_inline void count_departure(struct pendulum_queue *queue, struct seen *seen, __u32 direction,
					    __u32 mark, __u32 bytes, __u64 now)
{
	__u32 class = class_of_mark(mark, direction) & 1, us;

	seen->bytes += bytes;
	if (class == PENDULUM_QUEUE_ACK) {
		seen->ack_bytes += bytes;
		seen->ack_packets += 1;
		remove_ack(queue, direction, mark, bytes, now);
	}
	if (!is_mark(mark, direction)) {
		queue->events[PENDULUM_QUEUE_UNMARKED] += 1;
		return;
	}
	us = record_sojourn(direction, mark, now);
	queue->totals.sojourn_sum_us[class] += us;
	queue->totals.sojourn_packets[class] += 1;
	if (us > queue->sojourn_max_us[class])
		queue->sojourn_max_us[class] = us;
}

/* The same for the second and later packets of a chain. A global function: the verifier looks at it once and
 * not again for each turn of the loop. */
__noinline int count_chained(struct pendulum_queue *queue, struct seen *seen, __u32 direction,
			     __u64 mark_bytes, __u64 now)
{
	if (queue && seen)
		count_departure(queue, seen, direction, mark_bytes >> 32, mark_bytes, now);
	return 0;
}

#endif
