/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * From a frame to what the ACK filter needs of it. Deliberately narrower than parse.h: what is wrapped into
 * anything (VLAN tags in the frame, PPPoE, IP options, extension headers, fragments) is no ACK here, and
 * passes as it came.
 */
#ifndef PENDULUM_ACK_PACKET_H
#define PENDULUM_ACK_PACKET_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "common/config.h"
#include "packet/options.h"
#include "common/seam.h"
#include "packet/segment.h"

/* No obstacle against withholding or rewriting. */
#define NO_OBSTACLE PENDULUM_ACK_FATES

/* Ethernet, IPv6, TCP and its options: nothing longer is a pure ACK. */
#define ACK_HEADERS_MAX (14 + 40 + 60)
#define TCP_WORDS_PLAIN 5
#define TCP_WORDS_TS    3 /* NOP NOP timestamps */
#define OPTION_WORDS    10
#define ACE_AE          4

/* A pure ACK. Numbers in host byte order, but for words. */
struct ack_packet {
	struct pendulum_flow_key flow;
	/* As in pendulum_ack_state.pending; 0 beyond the header. The rest keeps masked indices inside. */
	__be32 words[2 + OPTION_LIST_BYTES / 4];
	__u32 seq; /* behind the packet: of a pure ACK its own */
	__u32 ack;
	__u32 tsval;
	__u32 tsecr;
	__u32 obstacle;                       /* enum pendulum_ack_fate, or NO_OBSTACLE */
	__u32 tcp_at;                         /* offset of the TCP header */
	__u32 sack[2 * PENDULUM_SACK_BLOCKS]; /* left and right edges; 0 beyond sack_blocks */
	__u32 counters[PENDULUM_ECN_COUNTERS];
	__u8 length; /* of the TCP header in words */
	__u8 tos;
	__u8 ace;         /* AE, CWR, ECE */
	__u8 timestamps;  /* not 0: it has them */
	__u8 sack_blocks; /* 0: no SACK, or one that cannot be merged with another */
	__u8 counted;     /* which counters it has, a set */
};

enum ack_kind {
	ACK_NONE = 0, /* of no connection that is known */
	ACK_PURE = 1,
	ACK_SYN = 2,   /* the connection begins */
	ACK_END = 3,   /* it ends, by FIN or RST */
	ACK_DATA = 4,  /* any other segment */
	ACK_SHORT = 5, /* of read_frame(): a header lies outside the linear part */
};

static __always_inline bool sack_within(const __u32 *block, const __u32 *other)
{
	return (__s32)(block[0] - other[0]) >= 0 && (__s32)(block[1] - other[1]) <= 0;
}

static __always_inline __u8 ack_u8(const struct ack_packet *p, __u32 at)
{
	/* As in option_u8(). */
	asm volatile("" : "+r"(at));
	return ((const __u8 *)(p->words + 2))[at & (OPTION_LIST_BYTES - 1)];
}

static __always_inline __u32 ack_u24(const struct ack_packet *p, __u32 at)
{
	return (__u32)ack_u8(p, at) << 16 | (__u32)ack_u8(p, at + 1) << 8 | ack_u8(p, at + 2);
}

static __always_inline __u32 ack_u32(const struct ack_packet *p, __u32 at)
{
	return (__u32)ack_u8(p, at) << 24 | ack_u24(p, at + 1);
}

/* A report of duplicates (DSACK, RFC 2883) is not for merging. */
static __always_inline bool read_sack(struct ack_packet *p, __u32 at, __u32 size)
{
	__u32 blocks = (size - 2) / 8;

	if (p->sack_blocks || blocks < 1 || blocks > PENDULUM_SACK_BLOCKS || size != 2 + 8 * blocks)
		return false;
#pragma unroll
	for (__u32 i = 0; i < 2 * PENDULUM_SACK_BLOCKS; i++)
		p->sack[i] = i < 2 * blocks ? ack_u32(p, at + 2 + 4 * i) : 0;
	p->sack_blocks = blocks;
	return (__s32)(p->sack[0] - p->ack) >= 0 && !(blocks > 1 && sack_within(p->sack, p->sack + 2));
}

/* RFC 9768 §3.2.3: ECT(0), CE, ECT(1), or the same from behind; those at the end may be left out. */
static __always_inline bool read_counters(struct ack_packet *p, __u32 at, __u32 size, __u32 kind)
{
	__u32 first = kind == KIND_ACCECN_0 ? PENDULUM_ECN_ECT0 : PENDULUM_ECN_ECT1;
	__u32 last = PENDULUM_ECN_ECT1 - first, fields = (size - 2) / 3;

	if (p->counted || fields > PENDULUM_ECN_COUNTERS || size != 2 + 3 * fields)
		return false;
	if (fields > 0) {
		p->counters[first & 3] = ack_u24(p, at + 2);
		p->counted |= 1 << first;
	}
	if (fields > 1) {
		p->counters[PENDULUM_ECN_CE] = ack_u24(p, at + 5);
		p->counted |= 1 << PENDULUM_ECN_CE;
	}
	if (fields > 2) {
		p->counters[last & 3] = ack_u24(p, at + 8);
		p->counted |= 1 << last;
	}
	return true;
}

/* One option; its obstacle, or NO_OBSTACLE. */
static __always_inline __u32 read_ack_option(struct ack_packet *p, __u32 at, __u32 kind, __u32 size)
{
	switch (kind) {
	case KIND_TIMESTAMPS:
		if (size != 10 || p->timestamps)
			return PENDULUM_ACK_PASSED_OPTIONS;
		p->timestamps = 1;
		p->tsval = ack_u32(p, at + 2);
		p->tsecr = ack_u32(p, at + 6);
		return NO_OBSTACLE;
	case KIND_SACK:
		if (read_sack(p, at, size))
			return NO_OBSTACLE;
		p->sack_blocks = 0;
		return PENDULUM_ACK_PASSED_SACK;
	case KIND_ACCECN_0:
	case KIND_ACCECN_1:
		return read_counters(p, at, size, kind) ? NO_OBSTACLE : PENDULUM_ACK_PASSED_OPTIONS;
	}
	return PENDULUM_ACK_PASSED_OPTIONS;
}

/* Why an ACK with these options must stay as it is, or NO_OBSTACLE. A global function: the verifier looks at
 * it once. */
__noinline int read_ack_options(struct ack_packet *p)
{
	__u32 at = 0, length, obstacle = NO_OBSTACLE;

	if (!p)
		return PENDULUM_ACK_PASSED_OPTIONS;
	length = (p->length - TCP_WORDS_PLAIN) * 4;
	for (__u32 i = 0; i < TCP_OPTIONS_MAX; i++) {
		__u32 kind, size, found;

		if (at >= length)
			return obstacle;
		kind = ack_u8(p, at);
		if (kind == KIND_NOP) {
			at++;
			continue;
		}
		size = ack_u8(p, at + 1);
		if (size < 2 || at + size > length)
			return PENDULUM_ACK_PASSED_OPTIONS;
		found = read_ack_option(p, at, kind, size);
		/* SACK alone is the lesser obstacle. */
		if (found == PENDULUM_ACK_PASSED_OPTIONS)
			return found;
		if (found != NO_OBSTACLE)
			obstacle = found;
		at = forget(at + size);
	}
	return obstacle;
}

/* The header's words; false if it does not lie in the packet. */
static __always_inline bool read_words(const struct tcphdr *tcp, const void *end, struct ack_packet *p)
{
	const __be32 *word = (const __be32 *)tcp;

	p->words[0] = word[2];
	p->words[1] = word[3];
#pragma unroll
	for (__u32 i = 0; i < OPTION_WORDS; i++) {
		if (i + TCP_WORDS_PLAIN >= p->length)
			return true;
		if ((const void *)(word + TCP_WORDS_PLAIN + i + 1) > end)
			return false;
		p->words[2 + i] = word[TCP_WORDS_PLAIN + i];
	}
	return true;
}

static __always_inline enum ack_kind read_tcp(const struct tcphdr *tcp, const void *end, __u32 l4_bytes,
					      struct ack_packet *p)
{
	const __u8 *bytes = (const __u8 *)tcp;
	__u32 payload;
	__u8 flags, reserved;

	if ((const void *)(tcp + 1) > end)
		return ACK_SHORT;
	p->length = tcp->doff;
	flags = bytes[13];
	reserved = bytes[12] & 0xf;
	payload = l4_bytes - p->length * 4u;
	/* A super-packet of more than 64 kB does not tell its length. */
	p->seq = bpf_ntohl(tcp->seq) + (payload <= 0xffff ? payload : 0) + !!(flags & TCP_SYN) +
		 !!(flags & TCP_FIN);
	p->flow.home_port = tcp->source;
	p->flow.remote_port = tcp->dest;
	if (flags & (TCP_FIN | TCP_RST))
		return ACK_END;
	if (flags & TCP_SYN)
		return ACK_SYN;
	if (p->length < TCP_WORDS_PLAIN || l4_bytes != p->length * 4u || !(flags & TCP_ACK) ||
	    flags & TCP_URG)
		return ACK_DATA;
	if (!read_words(tcp, end, p))
		return ACK_SHORT;
	p->ack = bpf_ntohl(tcp->ack_seq);
	p->ace = (reserved & 1) << 2 | flags >> 6;
	if (p->length == TCP_WORDS_PLAIN) {
		p->obstacle = NO_OBSTACLE;
	} else if (p->length == TCP_WORDS_PLAIN + TCP_WORDS_TS &&
		   p->words[2] == bpf_htonl(KIND_NOP << 24 | KIND_NOP << 16 | KIND_TIMESTAMPS << 8 | 10)) {
		/* What nearly every ACK has. */
		p->obstacle = NO_OBSTACLE;
		p->timestamps = 1;
		p->tsval = bpf_ntohl(p->words[3]);
		p->tsecr = bpf_ntohl(p->words[4]);
	} else {
		p->obstacle = read_ack_options(p);
	}
	if ((flags & ~(TCP_ECE | TCP_CWR)) != TCP_ACK || reserved & ~1)
		p->obstacle = PENDULUM_ACK_PASSED_FLAGS;
	else if (p->obstacle == NO_OBSTACLE && !tcp->window)
		p->obstacle = PENDULUM_ACK_PASSED_ZERO_WINDOW;
	return ACK_PURE;
}
static __always_inline enum ack_kind read_ipv4(const struct iphdr *ip, const void *end, struct ack_packet *p)
{
	if ((const void *)(ip + 1) > end)
		return ACK_SHORT;
	if (ip->version != 4 || ip->ihl != 5 || ip->protocol != IPPROTO_TCP)
		return ACK_NONE;
	/* More fragments, or an offset. */
	if (ip->frag_off & bpf_htons(0x3fff))
		return ACK_NONE;
	p->tos = ip->tos;
	p->flow.home_addr[2] = p->flow.remote_addr[2] = bpf_htonl(0xffff);
	p->flow.home_addr[3] = ip->saddr;
	p->flow.remote_addr[3] = ip->daddr;
	p->tcp_at += sizeof(*ip);
	return read_tcp((const struct tcphdr *)(ip + 1), end, bpf_ntohs(ip->tot_len) - sizeof(*ip), p);
}

static __always_inline enum ack_kind read_ipv6(const struct ipv6hdr *ip, const void *end,
					       struct ack_packet *p)
{
	const __u8 *bytes = (const __u8 *)ip;

	if ((const void *)(ip + 1) > end)
		return ACK_SHORT;
	if (ip->version != 6 || ip->nexthdr != IPPROTO_TCP)
		return ACK_NONE;
	p->tos = bytes[0] << 4 | bytes[1] >> 4;
	__builtin_memcpy(p->flow.home_addr, &ip->saddr, 16);
	__builtin_memcpy(p->flow.remote_addr, &ip->daddr, 16);
	p->tcp_at += sizeof(*ip);
	return read_tcp((const struct tcphdr *)(ip + 1), end, bpf_ntohs(ip->payload_len), p);
}

static __always_inline enum ack_kind read_frame(const void *data, const void *end, struct ack_packet *p)
{
	const struct ethhdr *eth = data;
	const __u8 *version = data;

	p->tcp_at = 0;
	if (config.link_layer == PENDULUM_LINK_RAW_IP) {
		if ((const void *)(version + 1) > end)
			return ACK_SHORT;
		if (*version >> 4 == 4)
			return read_ipv4(data, end, p);
		return *version >> 4 == 6 ? read_ipv6(data, end, p) : ACK_NONE;
	}
	if ((const void *)(eth + 1) > end)
		return ACK_SHORT;
	p->tcp_at = sizeof(*eth);
	if (eth->h_proto == bpf_htons(ETH_P_IP))
		return read_ipv4((const void *)(eth + 1), end, p);
	if (eth->h_proto == bpf_htons(ETH_P_IPV6))
		return read_ipv6((const void *)(eth + 1), end, p);
	return ACK_NONE;
}

/*
 * What the packet is, and of which connection unless it is ACK_NONE. Headers are pulled into the linear part
 * only if they are not there: that copies, and takes a clone apart. Of data the options are of no interest. A
 * global function: the verifier looks at it once.
 */
__noinline int read_ack(struct __sk_buff *skb, struct ack_packet *p)
{
	__u32 wanted = skb->len < ACK_HEADERS_MAX ? skb->len : ACK_HEADERS_MAX;
	enum ack_kind kind = ACK_SHORT;

	if (!p)
		return ACK_NONE;
	for (int attempt = 0; attempt < 2 && kind == ACK_SHORT; attempt++) {
		if (attempt && bpf_skb_pull_data(skb, wanted))
			break;
		kind = read_frame((const void *)(long)skb->data, (const void *)(long)skb->data_end, p);
	}
	/* The packet ends inside a header. */
	if (kind == ACK_SHORT)
		return ACK_NONE;
	/* A super-packet carries data; of more than 64 kB its IP header does not tell how much. */
	return kind == ACK_PURE && skb->gso_segs > 1 ? ACK_DATA : kind;
}

#endif
