/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Requests and replies of protocols other than TCP: what takes a round trip is timed as a segment and its ACK
 * are. docs/design/measurement.md, "Requests and replies"; the same rules as pendulum_agent's
 * replay/requests.rs.
 *
 * Only packets of the kinds below touch the table. A reply counts if it was asked for, by the same addresses,
 * ports and identifier, and comes in time: so a forged one would have to guess the identifier.
 */
#ifndef PENDULUM_REQUESTS_H
#define PENDULUM_REQUESTS_H

#include <linux/types.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "abi.h"
#include "common/mark.h"
#include "common/once.h"
#include "packet/parse.h"
#include "packet/rtt.h"
#include "packet/turnaround.h"

/* struct segment.request: one of these … */
enum request_kind {
	REQUEST_DNS = 1,  /* RFC 1035 §4.1.1: identifier */
	REQUEST_ECHO = 2, /* RFC 792, RFC 4443 §4: identifier and sequence number */
	REQUEST_NTP = 3,  /* RFC 5905 §8: the client's transmit timestamp is the reply's origin timestamp */
	REQUEST_STUN = 4, /* RFC 8489 §5: transaction identifier of a binding */
	REQUEST_WIREGUARD = 5, /* handshake: the initiator's index */
	REQUEST_QUIC = 6, /* RFC 9000 §17.2: the source connection identifier is the reply's destination */
	REQUEST_SPIN = 7, /* RFC 9000 §17.4: the spin bit of an open connection, in `ack` (spin.h) */
};
#define REQUEST_KIND 0x0f

/* … and what the packet is. A packet of QUIC's handshake may be both. */
#define REQUEST_ASKS    0x10 /* a reply to `seq` is awaited */
#define REQUEST_REPLIES 0x20 /* to `ack` */
#define REQUEST_AGAIN   0x40 /* the reply asks for another request: it tells of no round trip */
#define REQUEST_RELAYS  PENDULUM_ANSWER_HELD /* an upper bound: the server may have asked others first */

#define DNS_PORT  53
#define DNS_BYTES 12
#define DNS_REPLY 0x8000

/* Type and code. */
#define ECHO_BYTES      8
#define ECHO_REQUEST    0x0800
#define ECHO_REPLY      0x0000
#define ECHO_V6_REQUEST 0x8000
#define ECHO_V6_REPLY   0x8100

#define NTP_PORT   123
#define NTP_BYTES  48
#define NTP_CLIENT 3
#define NTP_SERVER 4

#define STUN_BYTES 20

#define STUN_COOKIE        0x2112a442
#define STUN_BINDING       0x0001
#define STUN_BINDING_DONE  0x0101
#define STUN_BINDING_ERROR 0x0111

#define WIREGUARD_INITIATION       0x01000000
#define WIREGUARD_INITIATION_BYTES 148
#define WIREGUARD_RESPONSE         0x02000000
#define WIREGUARD_RESPONSE_BYTES   92

#define QUIC_V1           1
#define QUIC_V2           0x6b3343cf /* RFC 9369 */
#define QUIC_LONG         0x80000000
#define QUIC_CID_MAX      20
#define QUIC_HEADER_BYTES 32 /* no datagram of a handshake is shorter */
/* Types of version 1; those of version 2 are one higher, and come round. */
#define QUIC_INITIAL   0
#define QUIC_HANDSHAKE 2
#define QUIC_RETRY     3

/* 8.6 s: a reply that comes later is none, and as long a repeated request counts from its first packet. */
#define REQUEST_LIFETIME_TICKS (1 << 21)

/* 17 ms: a request of two datagrams (QUIC's first flight) is one. A repetition comes later. */
#define REQUEST_FLIGHT_TICKS (1 << 12)

/* Requests by hash. A word each: 63…32 the rest of the hash, 31…0 as struct pendulum_question.asked, with a
 * length of 0 once it has its reply, and PENDULUM_QUESTION_CLOCK once it was repeated. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PENDULUM_REQUESTS);
	__type(key, __u32);
	__type(value, __u64);
} requests SEC(".maps");

/* Any alignment. */
static __always_inline __u32 word_at(const void *place)
{
	const __u8 *bytes = place;

	return (__u32)bytes[0] << 24 | (__u32)bytes[1] << 16 | (__u32)bytes[2] << 8 | bytes[3];
}

static __always_inline __u32 fold(__u32 high, __u32 low)
{
	return high * 0x9e3779b1u ^ low;
}

/* The header of a QUIC packet with both connection identifiers; of each, the first four bytes are looked at,
 * if there are as many. */
static __always_inline void read_quic(const __u8 *payload, const void *end, __u32 first, __u32 version,
				      struct segment *s)
{
	__u32 type = ((first >> 28 & 3) - (version == QUIC_V2)) & 3, bytes = payload[5];
	const __u8 *source;

	if (bytes > QUIC_CID_MAX)
		return;
	s->ack = bytes >= 4 ? word_at(payload + 6) : 0;
	source = payload + 6 + bytes;
	if ((const void *)(source + 5) > end)
		return;
	s->seq = source[0] >= 4 ? word_at(source + 1) : 0;
	s->request = REQUEST_QUIC;
	if (!version || type == QUIC_RETRY)
		s->request |= REQUEST_REPLIES | REQUEST_AGAIN;
	else if (type == QUIC_INITIAL)
		s->request |= REQUEST_REPLIES | REQUEST_ASKS;
	else if (type == QUIC_HANDSHAKE)
		s->request |= REQUEST_REPLIES;
}

/*
 * Is the datagram with this payload a request or a reply? Returns how many bytes of the payload it takes to
 * tell, if they are not there, else 0: most datagrams are neither, and their first eight bytes tell.
 */
static __always_inline __u32 read_datagram(const void *payload, const void *end, struct segment *s,
					   __u16 source, __u16 destination)
{
	const __be32 *word = payload;
	__u32 first, second, version;

	if (s->payload_bytes < DNS_BYTES)
		return 0;
	/* Drivers and senders of super-packets leave the payload outside the linear part. */
	if ((const void *)(word + 2) > end)
		return s->payload_bytes < NTP_BYTES ? s->payload_bytes : NTP_BYTES;
	first = bpf_ntohl(word[0]);
	second = bpf_ntohl(word[1]);
	version = first << 8 | second >> 24;
	if (source == DNS_PORT || destination == DNS_PORT) {
		s->seq = s->ack = first >> 16;
		if (first & DNS_REPLY ? source == DNS_PORT : destination == DNS_PORT)
			s->request = REQUEST_DNS | REQUEST_RELAYS |
				     (first & DNS_REPLY ? REQUEST_REPLIES : REQUEST_ASKS);
		return 0;
	}
	if (source == NTP_PORT || destination == NTP_PORT) {
		if (s->payload_bytes < NTP_BYTES)
			return 0;
		if ((const void *)(word + NTP_BYTES / 4) > end)
			return NTP_BYTES;
		s->seq = fold(bpf_ntohl(word[10]), bpf_ntohl(word[11]));
		s->ack = fold(bpf_ntohl(word[6]), bpf_ntohl(word[7]));
		if ((first >> 24 & 7) == NTP_CLIENT && s->seq)
			s->request = REQUEST_NTP | REQUEST_ASKS;
		else if ((first >> 24 & 7) == NTP_SERVER)
			s->request = REQUEST_NTP | REQUEST_REPLIES;
		return 0;
	}
	if (second == STUN_COOKIE) {
		if (s->payload_bytes < STUN_BYTES)
			return 0;
		if ((const void *)(word + STUN_BYTES / 4) > end)
			return STUN_BYTES;
		s->seq = fold(fold(bpf_ntohl(word[2]), bpf_ntohl(word[3])), bpf_ntohl(word[4]));
		s->ack = s->seq;
		if (first >> 16 == STUN_BINDING)
			s->request = REQUEST_STUN | REQUEST_ASKS;
		else if (first >> 16 == STUN_BINDING_DONE || first >> 16 == STUN_BINDING_ERROR)
			s->request = REQUEST_STUN | REQUEST_REPLIES;
		return 0;
	}
	if (first == WIREGUARD_INITIATION && s->payload_bytes == WIREGUARD_INITIATION_BYTES) {
		s->seq = second;
		s->request = REQUEST_WIREGUARD | REQUEST_ASKS;
	} else if (first == WIREGUARD_RESPONSE && s->payload_bytes == WIREGUARD_RESPONSE_BYTES) {
		if ((const void *)(word + 3) > end)
			return 12;
		s->ack = bpf_ntohl(word[2]);
		s->request = REQUEST_WIREGUARD | REQUEST_REPLIES;
	} else if (first & QUIC_LONG && s->payload_bytes >= QUIC_HEADER_BYTES &&
		   (!version || version == QUIC_V1 || version == QUIC_V2)) {
		/* The bit after QUIC_LONG may have either value (RFC 9287). */
		if ((const void *)(word + QUIC_HEADER_BYTES / 4) > end)
			return QUIC_HEADER_BYTES;
		read_quic(payload, end, first, version, s);
	} else if (!(first & QUIC_LONG)) {
		/* Perhaps of an open connection: a short header. */
		s->ack = first >> 29 & 1;
		s->request = REQUEST_SPIN | REQUEST_REPLIES;
	}
	return 0;
}

/* Is it an echo request or an echo reply? */
static __always_inline void read_icmp(const void *message, const void *end, __u32 bytes, bool v6,
				      struct segment *s)
{
	const __be32 *word = message;
	__u32 type;

	if ((const void *)(word + 2) > end || bytes < ECHO_BYTES)
		return;
	type = bpf_ntohl(word[0]) >> 16;
	s->seq = s->ack = bpf_ntohl(word[1]);
	if (type == (v6 ? ECHO_V6_REQUEST : ECHO_REQUEST))
		s->request = REQUEST_ECHO | REQUEST_ASKS;
	else if (type == (v6 ? ECHO_V6_REPLY : ECHO_REPLY))
		s->request = REQUEST_ECHO | REQUEST_REPLIES;
}

/* What the packet in this frame asks or replies to. `result` is parse_frame's. Returns how many bytes behind
 * the headers it takes to tell, if they are not there, else 0. */
static __always_inline __u32 read_request(const void *frame, const void *end, struct segment *s, __u32 result,
					  __u32 direction)
{
	const void *payload = frame + (s->header_bytes & OFFSET_MAX);
	__u16 home = bpf_ntohs(s->key.home_port), remote = bpf_ntohs(s->key.remote_port);
	bool up = direction == PENDULUM_UP;

	if (result == PARSE_UDP && home | remote)
		return read_datagram(payload, end, s, up ? home : remote, up ? remote : home);
	if (result == PARSE_ICMP)
		read_icmp(payload, end, s->payload_bytes, s->port >> 16 == IPPROTO_ICMPV6, s);
	return 0;
}

/* Of what `hash` stands for, between the ends of this packet. */
static __always_inline __u64 hash_between(const struct segment *s, __u64 hash)
{
	const __u32 *words = s->key.home_addr;

	_Static_assert(sizeof(s->key) == 36, "nine words");
#pragma unroll
	for (int i = 0; i < 9; i++) {
		hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15ull;
		hash ^= hash >> 32;
	}
	return hash;
}

/* The request `id` that passes in this direction, or has passed. */
static __always_inline __u64 hash_of_request(const struct segment *s, __u32 direction, __u32 id)
{
	return hash_between(s, (__u64)id << 32 | (s->request & REQUEST_KIND) << 1 | direction);
}

static __always_inline __u64 *place_of_request(__u64 hash)
{
	__u32 index = hash & (PENDULUM_REQUESTS - 1);

	return bpf_map_lookup_elem(&requests, &index);
}

static __always_inline bool is_recent(__u32 asked, __u64 now_ns)
{
	return asked && age_ticks(asked >> 8, now_ns) < REQUEST_LIFETIME_TICKS;
}

static __always_inline bool is_awaited(__u32 asked, __u64 now_ns)
{
	return asked & PENDULUM_QUESTION_LENGTH && is_recent(asked, now_ns);
}

/* It replies to what was `asked`; REQUEST_RELAYS: no later than this. */
static __always_inline void reply_to(struct segment *s, __u32 direction, __u32 asked, __u64 now_ns)
{
	if (s->request & REQUEST_RELAYS) {
		s->asked = asked | PENDULUM_QUESTION_CLOCK;
		return;
	}
	s->asked = asked;
	/* Nobody waits for more to reply to. */
	s->advance = ~0u;
	count_rtt(!direction, age_us(asked >> 8, now_ns));
}

/* It may be a reply: then it says so in `asked`, and how far it is to be trusted. */
static __always_inline void take_reply(struct segment *s, __u32 direction, __u64 now_ns)
{
	__u64 hash = hash_of_request(s, !direction, s->ack), *place = place_of_request(hash), word;
	__u32 asked;

	if (!place)
		return;
	word = READ_ONCE(*place);
	asked = word;
	if ((word ^ hash) >> 32 || !is_awaited(asked, now_ns))
		return;
	WRITE_ONCE(*place, s->request & REQUEST_AGAIN ? 0 : word & ~(__u64)PENDULUM_QUESTION_LENGTH);
	if (s->request & REQUEST_AGAIN)
		return;
	/* Karn: of a request that was repeated, the reply does not tell which packet it answers. */
	if (asked & PENDULUM_QUESTION_CLOCK)
		s->request |= REQUEST_RELAYS;
	reply_to(s, direction, asked, now_ns);
}

/* It is a request: its reply is awaited. */
static __always_inline void await_reply(const struct segment *s, __u32 direction, __u64 now_ns)
{
	__u64 hash = hash_of_request(s, direction, s->seq), *place = place_of_request(hash), word;
	__u32 asked = question_word(now_ns, 0, s->wire_bytes);

	if (!place)
		return;
	word = READ_ONCE(*place);
	if ((word ^ hash) >> 32 || !is_recent(word, now_ns)) {
		/* The newest has the place: a flood of requests without replies does not keep it. */
		if (is_awaited(word, now_ns))
			count(PENDULUM_LOST_REQUEST_DISPLACED);
		WRITE_ONCE(*place, hash >> 32 << 32 | asked);
	} else if (age_ticks((__u32)word >> 8, now_ns) >= REQUEST_FLIGHT_TICKS) {
		WRITE_ONCE(*place, word | PENDULUM_QUESTION_CLOCK);
	}
}

#endif
