/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * From a frame to what the ACK lane and the ACK filter need of it. Deliberately narrower than parse.h: what
 * is wrapped into anything (VLAN tags in the frame, PPPoE, IP options, extension headers, fragments) is no
 * ACK here, and passes as data does.
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

#include "byte_order.h"
#include "config.h"
#include "options.h"
#include "segment.h"

/* No obstacle against withholding or rewriting. */
#define NO_OBSTACLE PENDULUM_ACK_FATES

/* Ethernet, IPv6, TCP and its options. */
#define ACK_HEADERS_MAX (14 + 40 + 60)
#define TCP_WORDS_PLAIN 5
#define TCP_WORDS_TS    3 /* NOP NOP timestamps */

/* A pure ACK. Numbers in host byte order. */
struct ack_packet {
	struct pendulum_ack_flow flow;
	__u32 ack;
	__u32 tsval;
	__u32 tsecr;
	__u32 obstacle;                       /* enum pendulum_ack_fate, or NO_OBSTACLE */
	__u32 tcp_at;                         /* offset of the TCP header */
	__u32 sack[2 * PENDULUM_SACK_BLOCKS]; /* left and right edges; 0 beyond sack_blocks */
	__u16 window;
	__u8 layout; /* TCP header length in words */
	__u8 tos;
	__u8 timestamps;  /* not 0: it has them, before all other options */
	__u8 sack_blocks; /* 0: no SACK, or one that cannot be merged with another */
	__u8 settled;     /* not 0: of a connection beyond slow start */
};

enum ack_kind {
	ACK_NONE = 0, /* of no connection that is known */
	ACK_PURE = 1,
	ACK_SYN = 2,  /* the connection begins: SYN, or SYN and ACK, without payload */
	ACK_END = 3,  /* it ends, by FIN or RST; or it begins with payload */
	ACK_DATA = 4, /* any other segment */
};

/* What SACK takes of the options, words. */
static __always_inline __u32 sack_words(__u32 blocks)
{
	return blocks ? 1 + 2 * blocks : 0;
}

static __always_inline bool sack_within(const __u32 *block, const __u32 *other)
{
	return (__s32)(block[0] - other[0]) >= 0 && (__s32)(block[1] - other[1]) <= 0;
}

static __always_inline bool read_block(const __be32 *word, const void *end, __u32 *block)
{
	if ((const void *)(word + 2) > end)
		return false;
	block[0] = bpf_ntohl(word[0]);
	block[1] = bpf_ntohl(word[1]);
	return true;
}

/* The SACK blocks, if nothing but them is left; a report of duplicates (DSACK, RFC 2883) is not for merging.
 */
static __always_inline void read_sack(const __be32 *word, const void *end, __u32 words, struct ack_packet *p)
{
	__u32 blocks = words / 2;

	if (words != 1 + 2 * blocks || blocks < 1 || blocks > PENDULUM_SACK_BLOCKS ||
	    (bpf_ntohl(word[0]) & 0xff) != 2 + 8 * blocks)
		return;
	if (!read_block(word + 1, end, p->sack) || (blocks > 1 && !read_block(word + 3, end, p->sack + 2)) ||
	    (blocks > 2 && !read_block(word + 5, end, p->sack + 4)))
		return;
	if ((__s32)(p->sack[0] - p->ack) < 0 || (blocks > 1 && sack_within(p->sack, p->sack + 2)))
		return;
	p->sack_blocks = blocks;
}

/* Why an ACK with these options must stay as it is. */
static __always_inline __u32 option_obstacle(const __be32 *word, const void *end, __u32 words,
					     struct ack_packet *p)
{
	if (words >= TCP_WORDS_TS) {
		if ((const void *)(word + TCP_WORDS_TS) > end)
			return PENDULUM_ACK_PASSED_OPTIONS;
		if (word[0] == bpf_htonl(KIND_NOP << 24 | KIND_NOP << 16 | KIND_TIMESTAMPS << 8 | 10)) {
			p->timestamps = 1;
			p->tsval = bpf_ntohl(word[1]);
			p->tsecr = bpf_ntohl(word[2]);
			word += TCP_WORDS_TS;
			words -= TCP_WORDS_TS;
		}
	}
	if (words == 0)
		return NO_OBSTACLE;
	/* SACK blocks stand behind two NOPs. */
	if ((const void *)(word + 1) > end ||
	    (bpf_ntohl(word[0]) & 0xffffff00) != (KIND_NOP << 24 | KIND_NOP << 16 | KIND_SACK << 8))
		return PENDULUM_ACK_PASSED_OPTIONS;
	read_sack(word, end, words, p);
	return PENDULUM_ACK_PASSED_SACK;
}

static __always_inline enum ack_kind read_tcp(const struct tcphdr *tcp, const void *end, __u32 l4_bytes,
					      struct ack_packet *p)
{
	const __u8 *bytes = (const __u8 *)tcp;
	__u8 flags, reserved;

	if ((const void *)(tcp + 1) > end)
		return ACK_NONE;
	p->layout = tcp->doff;
	flags = bytes[13];
	reserved = bytes[12] & 0xf; /* AE (AccECN) is the lowest of these */
	p->flow.ports = (__u32)tcp->source | (__u32)tcp->dest << 16;
	if (flags & (TCP_SYN | TCP_FIN | TCP_RST))
		return flags & (TCP_FIN | TCP_RST) || l4_bytes != p->layout * 4u ? ACK_END : ACK_SYN;
	if (p->layout < TCP_WORDS_PLAIN || l4_bytes != p->layout * 4u || !(flags & TCP_ACK) ||
	    flags & TCP_URG)
		return ACK_DATA;
	p->ack = bpf_ntohl(tcp->ack_seq);
	p->window = bpf_ntohs(tcp->window);
	p->obstacle = option_obstacle((const __be32 *)(tcp + 1), end, p->layout - TCP_WORDS_PLAIN, p);
	if (flags != TCP_ACK || reserved)
		p->obstacle = PENDULUM_ACK_PASSED_FLAGS;
	else if ((p->obstacle == NO_OBSTACLE || p->sack_blocks) && !p->window)
		p->obstacle = PENDULUM_ACK_PASSED_WINDOW;
	return ACK_PURE;
}

static __always_inline enum ack_kind read_ipv4(const struct iphdr *ip, const void *end, struct ack_packet *p)
{
	if ((const void *)(ip + 1) > end || ip->version != 4 || ip->ihl != 5 || ip->protocol != IPPROTO_TCP)
		return ACK_NONE;
	/* More fragments, or an offset. */
	if (ip->frag_off & bpf_htons(0x3fff))
		return ACK_NONE;
	p->tos = ip->tos;
	p->flow.home_addr[3] = ip->saddr;
	p->flow.remote_addr[3] = ip->daddr;
	p->tcp_at += sizeof(*ip);
	return read_tcp((const struct tcphdr *)(ip + 1), end, bpf_ntohs(ip->tot_len) - sizeof(*ip), p);
}

static __always_inline enum ack_kind read_ipv6(const struct ipv6hdr *ip, const void *end,
					       struct ack_packet *p)
{
	const __u8 *bytes = (const __u8 *)ip;

	if ((const void *)(ip + 1) > end || ip->version != 6 || ip->nexthdr != IPPROTO_TCP)
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

	if (config.link_layer == PENDULUM_LINK_RAW_IP) {
		if ((const void *)(version + 1) > end)
			return ACK_NONE;
		if (*version >> 4 == 4)
			return read_ipv4(data, end, p);
		return *version >> 4 == 6 ? read_ipv6(data, end, p) : ACK_NONE;
	}
	if ((const void *)(eth + 1) > end)
		return ACK_NONE;
	p->tcp_at = sizeof(*eth);
	if (eth->h_proto == bpf_htons(ETH_P_IP))
		return read_ipv4((const void *)(eth + 1), end, p);
	if (eth->h_proto == bpf_htons(ETH_P_IPV6))
		return read_ipv6((const void *)(eth + 1), end, p);
	return ACK_NONE;
}

/* What the packet is, and of which connection unless it is ACK_NONE. A global function: the verifier looks at
 * it once. */
__noinline int read_ack(struct __sk_buff *skb, struct ack_packet *p)
{
	__u32 wanted = skb->len < ACK_HEADERS_MAX ? skb->len : ACK_HEADERS_MAX;
	enum ack_kind kind;

	if (!p)
		return ACK_NONE;
	if ((void *)(long)skb->data + wanted > (void *)(long)skb->data_end && bpf_skb_pull_data(skb, wanted))
		return ACK_NONE;
	kind = read_frame((const void *)(long)skb->data, (const void *)(long)skb->data_end, p);
	/* A super-packet carries data; of more than 64 kB its IP header does not tell how much. */
	return kind == ACK_PURE && skb->gso_segs > 1 ? ACK_DATA : kind;
}

#endif
