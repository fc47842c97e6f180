/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * From a frame to a struct segment, for TC and XDP alike. docs/design/measurement.md, "Parsing".
 *
 * The parser sees the linear part of a packet only. Where a header lies beyond it but inside the frame, it
 * returns PARSE_SHORT: the caller may pull the header in and ask again. Every length is checked against both
 * ends.
 */
#ifndef PENDULUM_PARSE_H
#define PENDULUM_PARSE_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "common/config.h"
#include "packet/options.h"
#include "common/seam.h"
#include "packet/segment.h"

#define VLAN_TAGS_MAX       2
#define IPV6_EXTENSIONS_MAX 6

#define PPP_IPV4 0x0021
#define PPP_IPV6 0x0057

#define IPV4_FRAGMENT_OFFSET 0x1fff
#define IPV6_FRAGMENT_OFFSET 0xfff8

/*
 * What parse_frame and its steps return. Values below PARSE_TCP are reasons, enum pendulum_stat (of which the
 * first is 0: compare with PARSE_TCP). For a step, PARSE_TCP means that the next one may go on.
 */
enum parse_result {
	PARSE_TCP = PENDULUM_STATS,
	PARSE_NON_TCP,
	PARSE_UDP,
	PARSE_ICMP,
	PARSE_OTHER, /* of a step: another protocol, whose header is at the cursor */
	PARSE_SHORT,
};

/* Where we are in the frame. `pos` never passes `end` without a check that fails. */
struct cursor {
	const void *start;
	const void *pos;
	const void *end;   /* of the linear part */
	__u32 frame_bytes; /* of the whole frame */
};

struct vlan_tag {
	__be16 tci;
	__be16 ethertype;
};

struct pppoe_session {
	__u8 version_type;
	__u8 code;
	__be16 session;
	__be16 length;
	__be16 protocol;
};

struct ipv6_extension {
	__u8 next;
	__u8 length;     /* in units that depend on the kind */
	__be16 fragment; /* fragment header only */
	__be32 identification;
};

static __always_inline __u32 consumed(const struct cursor *c)
{
	return (__u32)(c->pos - c->start);
}

/* More than all headers together may take: Ethernet, tags, PPPoE, IPv6 with six long extensions. */
#define OFFSET_MAX 16383

/* Stand where we stand, but without the history of how we came here; see seam.h. */
static __always_inline void rebase(struct cursor *c, struct segment *s)
{
	c->pos = c->start + (reread(&s->header_bytes, consumed(c)) & OFFSET_MAX);
}

/* Why `bytes` more are not there: outside the linear part only, or outside the frame. */
static __always_inline __u32 missing(const struct cursor *c, __u32 bytes, __u32 reason)
{
	return consumed(c) + bytes <= c->frame_bytes ? PARSE_SHORT : reason;
}

/* Step over the link header. On success *protocol is an EtherType (network byte order). */
static __always_inline __u32 parse_link(struct cursor *c, __be16 *protocol)
{
	const struct ethhdr *eth = c->pos;
	const struct pppoe_session *pppoe;
	const struct vlan_tag *tag;
	__u16 ppp;

	if (config.link_layer == PENDULUM_LINK_RAW_IP) {
		const __u8 *version = c->pos;

		if ((const void *)(version + 1) > c->end)
			return missing(c, 1, PENDULUM_LOST_IP_HEADER);
		*protocol = *version >> 4 == 6 ? bpf_htons(ETH_P_IPV6) : bpf_htons(ETH_P_IP);
		return PARSE_TCP;
	}

	if ((const void *)(eth + 1) > c->end)
		return missing(c, sizeof(*eth), PENDULUM_LOST_LINK_HEADER);
	*protocol = eth->h_proto;
	c->pos = eth + 1;

#pragma unroll
	for (int i = 0; i < VLAN_TAGS_MAX; i++) {
		if (*protocol != bpf_htons(ETH_P_8021Q) && *protocol != bpf_htons(ETH_P_8021AD))
			break;
		tag = c->pos;
		if ((const void *)(tag + 1) > c->end)
			return missing(c, sizeof(*tag), PENDULUM_LOST_LINK_HEADER);
		*protocol = tag->ethertype;
		c->pos = tag + 1;
	}
	if (*protocol == bpf_htons(ETH_P_8021Q) || *protocol == bpf_htons(ETH_P_8021AD))
		return PENDULUM_LOST_VLAN_DEPTH;

	if (*protocol == bpf_htons(ETH_P_PPP_SES)) {
		pppoe = c->pos;
		if ((const void *)(pppoe + 1) > c->end)
			return missing(c, sizeof(*pppoe), PENDULUM_LOST_LINK_HEADER);
		c->pos = pppoe + 1;
		ppp = bpf_ntohs(pppoe->protocol);
		/* An odd first byte is all of the protocol (RFC 1661 section 6.5). */
		if (ppp & 0x0100) {
			c->pos = (const void *)pppoe + offsetof(struct pppoe_session, protocol) + 1;
			ppp >>= 8;
		}
		*protocol = ppp == PPP_IPV4   ? bpf_htons(ETH_P_IP)
			    : ppp == PPP_IPV6 ? bpf_htons(ETH_P_IPV6)
					      : 0;
	}
	return PARSE_TCP;
}

static __always_inline void copy_address(__u32 to[4], const struct in6_addr *from)
{
	to[0] = from->in6_u.u6_addr32[0];
	to[1] = from->in6_u.u6_addr32[1];
	to[2] = from->in6_u.u6_addr32[2];
	to[3] = from->in6_u.u6_addr32[3];
}

static __always_inline void map_address(__u32 to[4], __be32 from)
{
	to[0] = 0;
	to[1] = 0;
	to[2] = bpf_htonl(0xffff);
	to[3] = from;
}

/* Bytes of the IP packet: what its header says, or all of the frame for a super-packet above 64 KiB (length
 * 0). */
static __always_inline __u32 ip_bytes(__u32 declared, __u32 in_frame)
{
	return declared ? declared : in_frame;
}

/* Step over the IPv4 header. *l4_bytes: bytes that follow it. Addresses go to `source` and `destination`. */
static __always_inline __u32 parse_ipv4(struct cursor *c, struct segment *s, __u32 *l4_bytes, __u32 *source,
					__u32 *destination)
{
	const struct iphdr *ip = c->pos;
	__u32 header, total, in_frame, result = PARSE_TCP;

	if ((const void *)(ip + 1) > c->end)
		return missing(c, sizeof(*ip), PENDULUM_LOST_IP_HEADER);
	in_frame = c->frame_bytes - consumed(c);
	header = ip->ihl * 4;
	total = ip_bytes(bpf_ntohs(ip->tot_len), in_frame);
	if (ip->version != 4 || header < sizeof(*ip) || total < header || total > in_frame)
		return PENDULUM_LOST_IP_HEADER;
	map_address(source, ip->saddr);
	map_address(destination, ip->daddr);
	if (ip->protocol != IPPROTO_TCP) {
		s->port = (__u32)ip->protocol << 16;
		result = PARSE_OTHER;
	}
	if (ip->frag_off & bpf_htons(IPV4_FRAGMENT_OFFSET))
		return result == PARSE_TCP ? PENDULUM_LOST_FRAGMENT : PARSE_NON_TCP;

	s->ip_ecn = ip->tos & 3;
	*l4_bytes = total - header;
	c->pos += header;
	return result;
}

/* Step over the IPv6 header and its extension headers. */
static __always_inline __u32 parse_ipv6(struct cursor *c, struct segment *s, __u32 *l4_bytes, __u32 *source,
					__u32 *destination)
{
	const struct ipv6hdr *ip = c->pos;
	__u32 payload, in_frame, length;
	__u8 next;

	if ((const void *)(ip + 1) > c->end)
		return missing(c, sizeof(*ip), PENDULUM_LOST_IP_HEADER);
	if (ip->version != 6)
		return PENDULUM_LOST_IP_HEADER;
	in_frame = c->frame_bytes - consumed(c) - sizeof(*ip);
	payload = ip_bytes(bpf_ntohs(ip->payload_len), in_frame);
	if (payload > in_frame)
		return PENDULUM_LOST_IP_HEADER;

	/* Traffic class: the low four bits of it are the high ones of flow_lbl[0]; ECN is the lowest two. */
	s->ip_ecn = ip->flow_lbl[0] >> 4 & 3;
	copy_address(source, &ip->saddr);
	copy_address(destination, &ip->daddr);
	next = ip->nexthdr;
	c->pos = ip + 1;

	for (int i = 0; i <= IPV6_EXTENSIONS_MAX; i++) {
		const struct ipv6_extension *extension = c->pos;

		if (next == IPPROTO_TCP) {
			*l4_bytes = payload;
			return PARSE_TCP;
		}
		if (next != IPPROTO_HOPOPTS && next != IPPROTO_ROUTING && next != IPPROTO_DSTOPTS &&
		    next != IPPROTO_FRAGMENT && next != IPPROTO_AH) {
			*l4_bytes = payload;
			s->port = (__u32)next << 16;
			return PARSE_OTHER;
		}
		if (i == IPV6_EXTENSIONS_MAX)
			break;
		if ((const void *)(extension + 1) > c->end)
			return missing(c, sizeof(*extension), PENDULUM_LOST_IP_HEADER);
		if (next == IPPROTO_FRAGMENT) {
			length = sizeof(*extension);
			if (extension->fragment & bpf_htons(IPV6_FRAGMENT_OFFSET)) {
				if (extension->next == IPPROTO_TCP)
					return PENDULUM_LOST_FRAGMENT;
				s->port = (__u32)extension->next << 16;
				return PARSE_NON_TCP;
			}
		} else if (next == IPPROTO_AH) {
			length = (extension->length + 2) * 4;
		} else {
			length = (extension->length + 1) * 8;
		}
		if (length > payload)
			return PENDULUM_LOST_IP_HEADER;
		payload = reread(&s->payload_bytes, payload - length);
		next = extension->next;
		c->pos += length;
		rebase(c, s);
	}
	return PENDULUM_LOST_IPV6_EXTENSIONS;
}

/* A UDP header that lies beyond the linear part is not worth a pull: then the port is not known. */
static __always_inline __u32 parse_udp(struct cursor *c, struct segment *s, __u32 l4_bytes, bool up)
{
	const struct udphdr *udp = c->pos;

	if (l4_bytes < sizeof(*udp))
		return PARSE_NON_TCP;
	s->header_bytes = consumed(c) + sizeof(*udp);
	s->payload_bytes = l4_bytes - sizeof(*udp);
	if ((const void *)(udp + 1) > c->end)
		return PARSE_UDP;
	s->port |= bpf_ntohs(up ? udp->dest : udp->source);
	s->key.home_port = up ? udp->source : udp->dest;
	s->key.remote_port = up ? udp->dest : udp->source;
	return PARSE_UDP;
}

static __always_inline __u32 parse_other(struct cursor *c, struct segment *s, __u32 l4_bytes, bool up)
{
	__u32 protocol = reread(&s->port, s->port) >> 16;

	if (protocol == IPPROTO_UDP)
		return parse_udp(c, s, l4_bytes, up);
	return protocol == IPPROTO_ICMP || protocol == IPPROTO_ICMPV6 ? PARSE_ICMP : PARSE_NON_TCP;
}

static __always_inline __u32 parse_tcp(struct cursor *c, struct segment *s, __u32 l4_bytes, __be16 *source,
				       __be16 *destination)
{
	const struct tcphdr *tcp = c->pos;
	__u32 header;

	if (l4_bytes < sizeof(*tcp))
		return PENDULUM_LOST_TCP_HEADER;
	if ((const void *)(tcp + 1) > c->end)
		return missing(c, sizeof(*tcp), PENDULUM_LOST_TCP_HEADER);
	header = tcp->doff * 4;
	if (header < sizeof(*tcp) || header > l4_bytes)
		return PENDULUM_LOST_TCP_HEADER;

	*source = tcp->source;
	*destination = tcp->dest;
	s->seq = bpf_ntohl(tcp->seq);
	s->ack = bpf_ntohl(tcp->ack_seq);
	s->window = bpf_ntohs(tcp->window);
	s->flags = ((const __u8 *)tcp)[13];
	s->payload_bytes = l4_bytes - header;
	s->header_bytes = consumed(c) + header;
	return PARSE_TCP;
}

/* NOP, NOP, timestamps, length 10: the options of nearly every segment, and the first of those with SACK. */
#define OPTIONS_TIMESTAMPS bpf_htonl(KIND_NOP << 24 | KIND_NOP << 16 | KIND_TIMESTAMPS << 8 | 10)

/* Read the options behind the TCP header at the cursor; that header is known to be whole. */
static __always_inline __u32 parse_options(struct cursor *c, struct segment *s)
{
	__u32 length = s->header_bytes - consumed(c) - sizeof(struct tcphdr);
	const __be32 *word = c->pos + sizeof(struct tcphdr);
	struct option_list list = {};
	__be32 *copy = (__be32 *)list.bytes;
	int words = length / 4;

	if (!length)
		return PARSE_TCP;
	/* NOP, NOP, timestamps, NOP, NOP, SACK to the end: what else an established connection sends. */
	if (length >= 24 && (const void *)(word + 4) <= c->end && word[0] == OPTIONS_TIMESTAMPS &&
	    word[3] == bpf_htonl(KIND_NOP << 24 | KIND_NOP << 16 | KIND_SACK << 8 | (length - 14))) {
		s->options.tsval = bpf_ntohl(word[1]);
		s->options.tsecr = bpf_ntohl(word[2]);
		s->options.sack_blocks = (length - 16) / 8;
		s->options.present = OPTION_TIMESTAMPS;
		return PARSE_TCP;
	}
	if (length == 12) {
		if ((const void *)(word + 3) > c->end)
			return missing(c, sizeof(struct tcphdr) + length, PENDULUM_LOST_TCP_HEADER);
		if (word[0] == OPTIONS_TIMESTAMPS) {
			s->options.tsval = bpf_ntohl(word[1]);
			s->options.tsecr = bpf_ntohl(word[2]);
			s->options.present = OPTION_TIMESTAMPS;
			return PARSE_TCP;
		}
	}

	for (int i = 0; i < TCP_OPTIONS_MAX / 4 && i < words; i++) {
		if ((const void *)(word + i + 1) > c->end)
			return missing(c, sizeof(struct tcphdr) + length, PENDULUM_LOST_TCP_HEADER);
		copy[i] = word[i];
	}
	if (walk_options(&list, length, &s->options)) {
		s->options = (struct tcp_options){};
		return PENDULUM_LOST_TCP_OPTIONS;
	}
	return PARSE_TCP;
}

/*
 * From the IP header to the TCP header, before which the cursor then stands. `direction` orients the key: the
 * source is at home on the way up, the destination on the way down. Returns as parse_frame.
 */
static __always_inline __u32 parse_ip(struct cursor *c, __be16 protocol, __u32 direction, struct segment *s)
{
	struct pendulum_flow_key *key = &s->key;
	__u32 l4_bytes = 0, result;
	bool up = direction == PENDULUM_UP;

	if (protocol == bpf_htons(ETH_P_IP))
		result = parse_ipv4(c, s, &l4_bytes, up ? key->home_addr : key->remote_addr,
				    up ? key->remote_addr : key->home_addr);
	else if (protocol == bpf_htons(ETH_P_IPV6))
		result = parse_ipv6(c, s, &l4_bytes, up ? key->home_addr : key->remote_addr,
				    up ? key->remote_addr : key->home_addr);
	else
		return PARSE_NON_TCP;
	if (result != PARSE_TCP && result != PARSE_OTHER)
		return result;
	rebase(c, s);
	l4_bytes = reread(&s->payload_bytes, l4_bytes);
	if (result == PARSE_OTHER)
		return parse_other(c, s, l4_bytes, up);
	return parse_tcp(c, s, l4_bytes, up ? &key->home_port : &key->remote_port,
			 up ? &key->remote_port : &key->home_port);
}

/*
 * Parse one frame. Returns PARSE_TCP, PARSE_UDP, PARSE_ICMP, PARSE_NON_TCP, PARSE_SHORT, or the reason why
 * the frame could not be read; after PENDULUM_LOST_TCP_OPTIONS the segment is whole but for its options,
 * after PARSE_UDP and PARSE_ICMP the lengths of headers and payload are known.
 */
static __always_inline __u32 parse_frame(const void *data, const void *data_end, __u32 frame_bytes,
					 __u32 direction, struct segment *s)
{
	struct cursor c = {.start = data, .pos = data, .end = data_end, .frame_bytes = frame_bytes};
	__be16 protocol;
	__u32 result = parse_link(&c, &protocol);

	if (result != PARSE_TCP)
		return result;
	rebase(&c, s);
	result = parse_ip(&c, protocol, direction, s);
	return result == PARSE_TCP ? parse_options(&c, s) : result;
}

#endif
