/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * From a packet to what the ACK filter needs of it. What is wrapped into anything (VLAN tags in the frame,
 * PPPoE, IP options, extension headers, fragments) is no ACK here, and passes as it came.
 */
#ifndef PENDULUM_ACK_PACKET_H
#define PENDULUM_ACK_PACKET_H

#include "packet/parse.h"

/* No obstacle against withholding or rewriting. */
#define NO_OBSTACLE PENDULUM_ACK_FATES

/* Ethernet, IPv6, TCP and its options: nothing longer is a pure ACK. */
#define ACK_HEADERS_MAX      (14 + 40 + 60)
#define IPV4_MORE_FRAGMENTS  0x2000
#define TCP_WORDS_PLAIN      5
#define TCP_WORDS_TIMESTAMPS 8 /* nearly every ACK */

/* A segment. From `words` on of pure ACKs only. */
struct ack_packet {
	struct segment s;
	__u64 now;
	__u32 bytes;
	__u32 seq; /* behind the packet: of a pure ACK its own */
	/* As pendulum_ack_state.pending_words, 0 beyond the header; the rest keeps masked indices inside. */
	__be32 words[2 + OPTION_LIST_BYTES / 4];
	struct pendulum_ack_feedback feedback;
	__u32 kind;     /* enum ack_kind */
	__u32 obstacle; /* enum pendulum_ack_fate, or NO_OBSTACLE */
	__u8 length;    /* of the TCP header in words */
	__u8 tos;
};

enum ack_kind {
	ACK_NONE, /* of no connection that is known */
	ACK_DATA, /* any other segment than … */
	ACK_PURE,
};

static __always_inline __u32 link_header_bytes(void)
{
	return config.link_layer == PENDULUM_LINK_RAW_IP ? 0 : ETH_HLEN;
}

/* 1 if a sequence number does not come before another, else 0: without a branch, for the verifier's sake. */
static __always_inline __u32 is_reached(__u32 number, __u32 other)
{
	return ~(number - other) >> 31;
}

/* A report of duplicates (DSACK, RFC 2883) is not for merging. */
static __always_inline bool read_sack(const struct option_list *list, __u32 at, __u32 size,
				      struct pendulum_ack_feedback *f)
{
	__u32 blocks = (size - 2) / 8;

	if (f->sack_blocks || blocks < 1 || blocks > PENDULUM_SACK_BLOCKS || size != 2 + 8 * blocks)
		return false;
#pragma unroll
	for (__u32 i = 0; i < 2 * PENDULUM_SACK_BLOCKS; i++)
		f->sack[i] = i < 2 * blocks ? option_u32(list, at + 2 + 4 * i) : 0;
	f->sack_blocks = blocks;
	return is_reached(f->sack[0], f->ack) &&
	       !(blocks > 1 && is_reached(f->sack[0], f->sack[2]) && is_reached(f->sack[3], f->sack[1]));
}

/* RFC 9768 §3.2.3: ECT(0), CE, ECT(1), or the same from behind; those at the end may be left out. */
static __always_inline bool read_counters(const struct option_list *list, __u32 at, __u32 size,
					  bool from_ect0, struct pendulum_ack_feedback *f)
{
	__u32 fields = (size - 2) / 3;

	if (f->counted || fields > PENDULUM_ECN_COUNTERS || size != 2 + 3 * fields)
		return false;
#pragma unroll
	for (__u32 i = 0; i < PENDULUM_ECN_COUNTERS; i++) {
		__u32 counter = from_ect0 ? i : PENDULUM_ECN_ECT1 - i;

		if (i >= fields)
			break;
		f->counters[counter & 3] = option_u32(list, at + 1 + 3 * i) & 0xffffff;
		f->counted |= 1 << counter;
	}
	return true;
}

/*
 * Why an ACK with these options must stay as it is, or NO_OBSTACLE; SACK alone is the lesser obstacle. A
 * global function: the verifier looks at it once.
 */
__noinline int read_ack_options(struct ack_packet *p)
{
	__u32 at = 0, length, obstacle = NO_OBSTACLE;
	const struct option_list *list;
	struct pendulum_ack_feedback *f;

	if (!p)
		return PENDULUM_ACK_PASSED_OPTIONS;
	f = &p->feedback;
	list = (const struct option_list *)(p->words + 2);
	length = (p->length - TCP_WORDS_PLAIN) * 4;
	for (__u32 i = 0; i < TCP_OPTIONS_MAX && at < length; i++) {
		__u32 kind = option_u8(list, at), size;

		if (kind == KIND_NOP) {
			at++;
			continue;
		}
		size = option_u8(list, at + 1);
		if (size < 2 || at + size > length)
			return PENDULUM_ACK_PASSED_OPTIONS;
		if (kind == KIND_TIMESTAMPS && size == 10 && !f->timestamps) {
			f->timestamps = 1;
			f->tsval = option_u32(list, at + 2);
			f->tsecr = option_u32(list, at + 6);
		} else if (kind == KIND_SACK) {
			if (!read_sack(list, at, size, f)) {
				f->sack_blocks = 0;
				obstacle = PENDULUM_ACK_PASSED_SACK;
			}
		} else if ((kind != KIND_ACCECN_0 && kind != KIND_ACCECN_1) ||
			   !read_counters(list, at, size, kind == KIND_ACCECN_0, f)) {
			return PENDULUM_ACK_PASSED_OPTIONS;
		}
		at = forget(at + size);
	}
	return obstacle;
}

/* There are options, of which `last` is the last byte: the verifier sees its bound, the compiler must not. */
static __always_inline bool may_copy(__u32 *last)
{
	asm volatile("" : "+r"(*last));
	return *last < TCP_OPTIONS_MAX;
}

/* What a pure ACK says, and why it must stay as it is, or NO_OBSTACLE. */
static __always_inline __u32 read_feedback(struct __sk_buff *skb, struct ack_packet *p)
{
	__u32 flags = bpf_ntohl(p->words[1]) >> 16 & 0xfff, options = (p->length - TCP_WORDS_PLAIN) * 4;
	struct pendulum_ack_feedback *f = &p->feedback;
	__u32 obstacle = NO_OBSTACLE, last = options - 1;

	f->ack = p->s.ack;
	f->ace = flags >> 6 & 7;
	if (p->length == TCP_WORDS_TIMESTAMPS && p->words[2] == OPTIONS_TIMESTAMPS) {
		f->timestamps = 1;
		f->tsval = bpf_ntohl(p->words[3]);
		f->tsecr = bpf_ntohl(p->words[4]);
	} else {
		if (may_copy(&last))
			bpf_skb_load_bytes(skb, p->s.header_bytes - options, p->words + 2, last + 1);
		obstacle = read_ack_options(p);
	}
	/* Beside AE, CWR and ECE. */
	if ((flags & ~0x1c0) != TCP_ACK)
		return PENDULUM_ACK_PASSED_FLAGS;
	return obstacle == NO_OBSTACLE && !p->s.window ? PENDULUM_ACK_PASSED_ZERO_WINDOW : obstacle;
}

/* Returns enum ack_kind, or PARSE_SHORT: a header lies outside the linear part. */
static __always_inline __u32 read_frame(const void *data, const void *end, struct ack_packet *p)
{
	const struct iphdr *ip = data + link_header_bytes();
	struct cursor c = {.start = data, .pos = ip, .end = end, .frame_bytes = p->bytes};
	struct segment *s = &p->s;
	const __be32 *tcp;
	__be16 protocol;
	__u32 result;
	bool v4;

	if ((const void *)(ip + 1) > end)
		return PARSE_SHORT;
	v4 = ip->version != 6;
	protocol = v4 ? bpf_htons(ETH_P_IP) : bpf_htons(ETH_P_IPV6);
	if (link_header_bytes() && ((const struct ethhdr *)data)->h_proto != protocol)
		return ACK_NONE;
	result = parse_ip(&c, protocol, PENDULUM_UP, s);
	if (result != PARSE_TCP || consumed(&c) != link_header_bytes() + (v4 ? 20 : 40) ||
	    (v4 && ip->frag_off & bpf_htons(IPV4_MORE_FRAGMENTS)))
		return result == PARSE_SHORT ? PARSE_SHORT : ACK_NONE;
	tcp = c.pos;
	p->tos = v4 ? ip->tos : bpf_ntohs(*(const __be16 *)ip) >> 4;
	p->length = *((const __u8 *)(tcp + 3)) >> 4;
	p->seq = s->seq + s->payload_bytes + !!(s->flags & TCP_SYN) + !!(s->flags & TCP_FIN);
	p->words[0] = tcp[2];
	p->words[1] = tcp[3];
	if (p->length == TCP_WORDS_TIMESTAMPS && (const void *)(tcp + TCP_WORDS_TIMESTAMPS) <= end)
		__builtin_memcpy(p->words + 2, tcp + TCP_WORDS_PLAIN, 12);
	return !s->payload_bytes && (s->flags & (TCP_ACK | TCP_SYN | TCP_FIN | TCP_RST | TCP_URG)) == TCP_ACK
		       ? ACK_PURE
		       : ACK_DATA;
}

/*
 * What the packet is, and of which connection unless it is ACK_NONE. Headers are pulled into the linear part
 * only if they are not there: that copies, and takes a clone apart. A global function: verified once.
 */
__noinline int read_ack(struct __sk_buff *skb, struct ack_packet *p)
{
	__u32 wanted = skb->len < ACK_HEADERS_MAX ? skb->len : ACK_HEADERS_MAX;
	__u32 kind = PARSE_SHORT;

	if (!p)
		return ACK_NONE;
	for (int attempt = 0; attempt < 2 && kind == PARSE_SHORT; attempt++) {
		if (attempt && bpf_skb_pull_data(skb, wanted))
			return ACK_NONE;
		kind = read_frame((const void *)(long)skb->data, (const void *)(long)skb->data_end, p);
	}
	if (kind == ACK_PURE)
		p->obstacle = read_feedback(skb, p);
	return kind;
}

#endif
