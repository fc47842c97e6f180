/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How long the outside takes to answer: the delay that the provider's buffer is estimated from.
 * docs/design/observer.md, "Inputs"; the same rules as pendulum_agent's
 * replay/turnaround.rs.
 *
 *  - Data is a question until an ACK comes whose number is exactly its end: the segment that made the
 * receiver answer, so that the time for which it held back the ACK of an earlier one does not count.
 *  - A pure ACK with a new TSval is a question until data comes with that TSval as its TSecr: the ACK clock
 * makes a bulk sender answer at once. So the sender of a download is timed although it acknowledges nothing.
 *
 * Answers go to the arrivals by time, not to the flow: what the agent reads is one small ring, whatever the
 * number of flows.
 */
#ifndef PENDULUM_TURNAROUND_H
#define PENDULUM_TURNAROUND_H

#include "packet/flow.h"
#include "common/mark.h"

/* 34 s: an answer that comes later is none. Half of the time after which ticks come round. */
#define QUESTION_LIFETIME_TICKS (1 << 23)

/* Payload of a single segment, at most, where packets are no longer than on Ethernet. */
#define SINGLE_SEGMENT 1500

static __always_inline __u32 question_word(__u64 now_ns, __u32 kind, __u32 bytes)
{
	__u32 length = bytes / 16;

	length = length < 1 ? 1 : length > PENDULUM_QUESTION_LENGTH ? PENDULUM_QUESTION_LENGTH : length;
	return (__u32)(now_ns >> MARK_TICK_SHIFT & MARK_TIME) << 8 | kind | length;
}

static __always_inline bool is_open(const struct pendulum_question *question, __u64 now_ns)
{
	return question->asked && age_ticks(question->asked >> 8, now_ns) < QUESTION_LIFETIME_TICKS;
}

static __always_inline __u32 question_of_end(__u32 end)
{
	return end * 0x9e3779b1u >> 28 & (PENDULUM_QUESTIONS - 1);
}

static __always_inline __u32 question_of_clock(__u32 tsval)
{
	return tsval & (PENDULUM_QUESTIONS - 1);
}

/* The outside has answered something newer: no answer to this one will come. */
static __always_inline bool was_skipped(const struct pendulum_question *question,
					const struct pendulum_half *peer)
{
	if (question->asked & PENDULUM_QUESTION_CLOCK)
		return peer->flags & PENDULUM_HALF_TSECR &&
		       sequence_distance(question->key, peer->tsecr_newest) < 0;
	return peer->flags & PENDULUM_HALF_ACK && sequence_distance(question->key, peer->ack_highest) <= 0;
}

/* The home end sends a segment. `is_new_clock`: its TSval is newer than any before. */
static __always_inline void ask(struct pendulum_flow *flow, const struct segment *s, __u32 end,
				const struct sequence_verdict *verdict, bool is_new_clock, __u64 now_ns)
{
	const struct pendulum_half *peer = &flow->halves[PENDULUM_DOWN];
	struct pendulum_question *question;
	__u32 key, kind, index, bytes = s->wire_bytes;

	if (verdict->retransmitted || verdict->reordered) {
		/* Karn: an answer would not tell which of the copies it answers. */
		__builtin_memset(flow->questions, 0, sizeof(flow->questions));
		return;
	}
	if (end != s->seq) {
		key = end;
		kind = 0;
		index = question_of_end(end);
	} else if (is_new_clock) {
		key = s->options.tsval;
		kind = PENDULUM_QUESTION_CLOCK;
		index = question_of_clock(key);
	} else {
		return;
	}
	question = &flow->questions[index];
	if (is_open(question, now_ns) && !was_skipped(question, peer))
		return;
	question->key = key;
	question->asked = question_word(now_ns, kind, bytes);
	flow->ahead[index] = s->ahead;
}

/* A segment comes from outside. If it answers a question: that question's word, else 0. */
static __always_inline __u32 take_answered(struct pendulum_flow *flow, struct segment *s, __u64 now_ns)
{
	struct pendulum_question *question;
	__u32 asked = 0, index;

	if (!(s->flags & TCP_ACK))
		return 0;
	if (s->options.present & OPTION_TIMESTAMPS && s->payload_bytes) {
		index = question_of_clock(s->options.tsecr);
		question = &flow->questions[index];
		if (question->key == s->options.tsecr && question->asked & PENDULUM_QUESTION_CLOCK &&
		    is_open(question, now_ns)) {
			asked = question->asked;
			s->ahead = flow->ahead[index];
			question->asked = 0;
		}
	}
	index = question_of_end(s->ack);
	question = &flow->questions[index];
	if (question->key == s->ack && !(question->asked & PENDULUM_QUESTION_CLOCK) &&
	    is_open(question, now_ns)) {
		asked = question->asked;
		s->ahead = flow->ahead[index];
		question->asked = 0;
	}
	return asked;
}

/*
 * PENDULUM_ANSWER_HELD if this answer acknowledges no more than the question, or one segment: a second full
 * segment would have been acknowledged at once. Not for clocks and handshakes. Of what is no TCP, `request`
 * tells. By arithmetic on the sign and on the bits: each branch here would double what the verifier walks.
 */
static __always_inline __u32 held_of_answer(const struct segment *s)
{
	__s64 beyond_question = (__s64)s->advance - (s->asked & PENDULUM_QUESTION_LENGTH) * 16 - 1;
	__s64 beyond_segment = (__s64)s->advance - SINGLE_SEGMENT - 1;
	__u32 held = (__u64)(beyond_question | beyond_segment) >> 63 << 7;

	_Static_assert(PENDULUM_ANSWER_HELD == 1 << 7 && PENDULUM_QUESTION_CLOCK == 1 << 7, "bit 7");
	_Static_assert(TCP_SYN == 1 << 1, "bit 1");
	return (held & ~(s->asked | (__u32)s->flags << 6)) | (s->request & PENDULUM_ANSWER_HELD);
}

#endif
