/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The level of a queue over time: the open bucket stands in struct pendulum_queue, beside all else that an
 * event changes; the ring is written once for each bucket, not for each event.
 */
#ifndef PENDULUM_HISTORY_H
#define PENDULUM_HISTORY_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "abi.h"
#include "common/mark.h"

/* Index: direction · PENDULUM_RING_BUCKETS + number mod PENDULUM_RING_BUCKETS. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, PENDULUM_DIRECTIONS *PENDULUM_RING_BUCKETS);
	__type(key, __u32);
	__type(value, struct pendulum_bucket);
} history SEC(".maps");

static __always_inline void store_bucket(const struct pendulum_queue *queue, __u32 direction)
{
	__u32 index = direction * PENDULUM_RING_BUCKETS + (queue->bucket & (PENDULUM_RING_BUCKETS - 1));
	struct pendulum_bucket *bucket = bpf_map_lookup_elem(&history, &index);

	if (!bucket)
		return;
	/* Full barriers on both sides: a reader that finds the same number twice has read one bucket. */
	__sync_lock_test_and_set(&bucket->number, 0);
	bucket->last_ns = queue->last_ns;
	bucket->bytes_ns = queue->bytes_ns;
	bucket->ack_bytes_ns = queue->ack_bytes_ns;
	bucket->packets_ns = queue->packets_ns;
	bucket->totals = queue->totals;
	bucket->last = queue->level;
	bucket->min_bytes = queue->min_bytes;
	bucket->max_bytes = queue->max_bytes;
	bucket->min_packets = queue->min_packets;
	bucket->max_packets = queue->max_packets;
	bucket->sojourn_max_us[PENDULUM_QUEUE_DATA] = queue->sojourn_max_us[PENDULUM_QUEUE_DATA];
	bucket->sojourn_max_us[PENDULUM_QUEUE_ACK] = queue->sojourn_max_us[PENDULUM_QUEUE_ACK];
	__sync_lock_test_and_set(&bucket->number, queue->bucket);
}

/* The open bucket is over: close it, and open that of `now`. A global function: see seam.h. */
__noinline int turn_bucket(struct pendulum_queue *queue, __u32 direction, __u64 now)
{
	__u64 number = now / PENDULUM_BUCKET_NS;

	if (!queue)
		return 0;
	if (queue->bucket)
		store_bucket(queue, direction);
	/* From here on a reader finds it in the ring. */
	__sync_lock_test_and_set(&queue->bucket, number);
	queue->last_ns = number * PENDULUM_BUCKET_NS;
	queue->bytes_ns = 0;
	queue->ack_bytes_ns = 0;
	queue->packets_ns = 0;
	queue->min_bytes = queue->max_bytes = queue->level.bytes;
	queue->min_packets = queue->max_packets = queue->level.packets;
	queue->sojourn_max_us[PENDULUM_QUEUE_DATA] = 0;
	queue->sojourn_max_us[PENDULUM_QUEUE_ACK] = 0;
	return 0;
}

/* The level has held until `now`. To be called before an event changes anything. */
static __always_inline void hold_level(struct pendulum_queue *queue, __u32 direction, __u64 now)
{
	__u64 held;

	if (now < queue->last_ns)
		now = queue->last_ns;
	if (now - queue->bucket * PENDULUM_BUCKET_NS >= PENDULUM_BUCKET_NS)
		turn_bucket(queue, direction, now);
	held = now - queue->last_ns;
	queue->bytes_ns += queue->level.bytes * held;
	queue->ack_bytes_ns += queue->level.ack_bytes * held;
	queue->packets_ns += queue->level.packets * held;
	queue->last_ns = now;
	queue->jiffies = bpf_jiffies64();
}

/* An event has changed the level. */
static __always_inline void note_level(struct pendulum_queue *queue)
{
	if (queue->level.bytes < queue->min_bytes)
		queue->min_bytes = queue->level.bytes;
	if (queue->level.bytes > queue->max_bytes)
		queue->max_bytes = queue->level.bytes;
	if (queue->level.packets < queue->min_packets)
		queue->min_packets = queue->level.packets;
	if (queue->level.packets > queue->max_packets)
		queue->max_packets = queue->level.packets;
}

/* No more than this after the newest event the low bits of a mark tell the whole time: 0.1 to 1 s, by HZ. */
#define JIFFIES_NEAR 100
#define TICKS_NEAR   (1 << 18)

/*
 * When a packet entered: TC saw it just before, and the clock is the dearest thing here, so its mark is taken
 * for the time (to half a tick, 2 µs) as long as it is known which turn of the mark's clock it means.
 */
static __always_inline __u64 enqueue_time(const struct pendulum_queue *queue, __u32 mark, __u32 direction)
{
	__u64 last = queue->last_ns >> MARK_TICK_SHIFT;
	__u32 ticks = (mark - (__u32)last) & MARK_TIME, since = (__u32)bpf_jiffies64() - queue->jiffies;

	if (!is_mark(mark, direction) || since > JIFFIES_NEAR || ticks > TICKS_NEAR)
		return bpf_ktime_get_ns();
	return ((last + ticks) << MARK_TICK_SHIFT) + (1 << (MARK_TICK_SHIFT - 1));
}

#endif
