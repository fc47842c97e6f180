/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Round-trip time from the gateway to one end and back. docs/design/measurement.md, "RTT".
 *
 * A half times up to PENDULUM_PROBES of its segments at once. A slot is found by its key, not searched, and a
 * slot in use is left alone, so that on a link with seconds of queue the oldest segment is still there when
 * its answer comes.
 */
#ifndef PENDULUM_RTT_H
#define PENDULUM_RTT_H

#include "common/clock.h"
#include "packet/flow.h"
#include "common/histogram.h"

/* 16 s in ticks: an answer that comes later is no measurement. */
#define PROBE_LIFETIME_TICKS (16 * 1000 * 1000 / 1024 * 1000)

static __always_inline __u32 slot_of_tsval(__u32 tsval)
{
	return tsval & (PENDULUM_PROBES - 1);
}

static __always_inline __u32 slot_of_sequence(__u32 end)
{
	return end * 0x9e3779b1u >> 29 & (PENDULUM_PROBES - 1);
}

static __always_inline bool expired(const struct pendulum_probe *probe, __u32 tick)
{
	return !probe->at || tick - probe->at > PROBE_LIFETIME_TICKS;
}

/* `direction`: of what was timed. Returns the sample: 0 would read as "none". */
static __always_inline __u32 count_rtt(__u32 direction, __u32 us)
{
	struct pendulum_counters *c = bpf_map_lookup_elem(&counters, &direction);
	__u32 slot;

	us = us ? us : 1;
	slot = slot_of_time(us);
	if (!c)
		return us;
	c->rtt_sum_us += us;
	if (slot < PENDULUM_TIME_SLOTS)
		c->rtt[slot] += 1;
	return us;
}

/* `direction`: of the segment that was timed. */
static __always_inline void record_sample(struct pendulum_half *sender, __u32 direction, __u32 elapsed_ticks)
{
	/* ticks · 1.024, rounded down: as in age_us(). */
	__u32 us = count_rtt(direction, (__u64)elapsed_ticks * 281474976711ull >> 38);

	sender->rtt_last_us = us;
	if (!sender->rtt_min_us || us < sender->rtt_min_us)
		sender->rtt_min_us = us;
	sender->rtt_sum_us += us;
	sender->rtt_samples += 1;
}

/* Is this segment of `me` the answer to one that `peer` had timed? `counters` are those of peer's direction.
 */
static __always_inline void match_probe(struct pendulum_half *me, struct pendulum_half *peer,
					const struct segment *s, bool acked, __u32 tick, __u32 peer_direction)
{
	struct pendulum_probe *probe;
	__u32 key;

	if (!(s->flags & TCP_ACK))
		return;
	if (peer->flags & PENDULUM_HALF_TS) {
		if (!(s->options.present & OPTION_TIMESTAMPS))
			return;
		key = s->options.tsecr;
		probe = &peer->probes[slot_of_tsval(key)];
		if (!(me->flags & PENDULUM_HALF_TSECR) || sequence_distance(key, me->tsecr_newest) > 0) {
			me->flags |= PENDULUM_HALF_TSECR;
			me->tsecr_newest = key;
		}
	} else {
		if (!acked)
			return;
		key = s->ack;
		probe = &peer->probes[slot_of_sequence(key)];
	}
	if (probe->key != key || expired(probe, tick))
		return;
	record_sample(peer, peer_direction, tick - probe->at);
	probe->at = 0;
}

/* Start timing this segment of `me`, if it can be timed and its slot is free. Returns whether its TSval is
 * newer than any before.
 */
static __always_inline bool record_probe(struct pendulum_half *me, const struct pendulum_half *peer,
					 const struct segment *s, __u32 end,
					 const struct sequence_verdict *verdict, __u32 tick)
{
	struct pendulum_probe *probe;
	bool newest = false, answered;
	__u32 key;

	if (s->options.present & OPTION_TIMESTAMPS) {
		key = s->options.tsval;
		newest = !(me->flags & PENDULUM_HALF_TS) || sequence_distance(key, me->tsval_newest) > 0;
		if (!newest)
			return false;
		me->flags |= PENDULUM_HALF_TS;
		me->tsval_newest = key;
		if (!s->payload_bytes && !(s->flags & (TCP_SYN | TCP_FIN)))
			return true;
		probe = &me->probes[slot_of_tsval(key)];
		answered = peer->flags & PENDULUM_HALF_TSECR &&
			   sequence_distance(probe->key, peer->tsecr_newest) < 0;
	} else {
		if (me->flags & PENDULUM_HALF_TS || !verdict->fresh ||
		    (verdict->first && !(s->flags & TCP_SYN)))
			return false;
		key = end;
		probe = &me->probes[slot_of_sequence(key)];
		answered = peer->flags & PENDULUM_HALF_ACK &&
			   sequence_distance(probe->key, peer->ack_highest) <= 0;
	}
	if (!expired(probe, tick) && !answered)
		return newest;
	probe->key = key;
	probe->at = tick;
	return newest;
}

#endif
