/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Another content for an ACK that leaves. Whatever fails, the packet stays valid: it grows first and shrinks
 * last, in between nothing can fail, and what stands behind its IP length is padding.
 */
#ifndef PENDULUM_ACK_REWRITE_H
#define PENDULUM_ACK_REWRITE_H

#include <stddef.h>

#include "shape/ack_packet.h"

#define TCP_CHECKSUM_AT offsetof(struct tcphdr, check)

/* The lengths in the IP header, and in the pseudo header of TCP, for so many bytes of TCP. */
static __always_inline void write_length(struct __sk_buff *skb, __u32 tcp_at, __u32 before, __u32 after)
{
	__u32 ip_at = link_header_bytes();
	bool v4 = tcp_at == ip_at + sizeof(struct iphdr);
	__be16 old = bpf_htons(before + sizeof(struct iphdr));
	__be16 length = bpf_htons(v4 ? after + sizeof(struct iphdr) : after);

	bpf_l4_csum_replace(skb, tcp_at + TCP_CHECKSUM_AT, bpf_htons(before), bpf_htons(after),
			    BPF_F_PSEUDO_HDR | sizeof(length));
	if (v4)
		bpf_l3_csum_replace(skb, ip_at + offsetof(struct iphdr, check), old, length, sizeof(length));
	ip_at += v4 ? offsetof(struct iphdr, tot_len) : offsetof(struct ipv6hdr, payload_len);
	bpf_skb_store_bytes(skb, ip_at, &length, sizeof(length), 0);
}

/* Give the ACK this content, from its acknowledgement number on. The checksum follows by the difference. */
static __always_inline bool rewrite(struct __sk_buff *skb, const struct ack_packet *p, __be32 *content)
{
	__u32 at = p->s.header_bytes - p->length * 4, length = bpf_ntohl(content[1]) >> 28;
	__u32 total = at + length * 4, last = (length - TCP_WORDS_PLAIN) * 4 - 1;
	__s64 difference =
		bpf_csum_diff((__be32 *)p->words, PENDULUM_ACK_WORDS * 4, content, PENDULUM_ACK_WORDS * 4, 0);

	/* Of a packet that is writable the last one fails for no reason but a wrong offset. */
	if (difference < 0 || (total > skb->len && bpf_skb_change_tail(skb, total, 0)) ||
	    bpf_skb_pull_data(skb, total) || bpf_l4_csum_replace(skb, at + TCP_CHECKSUM_AT, 0, difference, 0))
		return false;
	if (length != p->length)
		write_length(skb, at, p->length * 4, length * 4);
	bpf_skb_store_bytes(skb, at + offsetof(struct tcphdr, ack_seq), content, 8, 0);
	if (may_copy(&last))
		bpf_skb_store_bytes(skb, at + sizeof(struct tcphdr), content + 2, last + 1, 0);
	if (total < skb->len)
		bpf_skb_change_tail(skb, total, 0);
	return true;
}

#endif
