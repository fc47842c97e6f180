/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Another content for an ACK that leaves. Whatever fails, the packet stays valid: it grows first and shrinks
 * last, in between nothing can fail, and what stands behind its IP length is padding.
 */
#ifndef PENDULUM_ACK_REWRITE_H
#define PENDULUM_ACK_REWRITE_H

#include <stddef.h>

#include "shape/ack_packet.h"

#define TCP_ACK_AT      8
#define TCP_CHECKSUM_AT 16

/* Words of the TCP header that has this content. */
static __always_inline __u32 length_of(const __be32 *content)
{
	return bpf_ntohl(content[1]) >> 28;
}

/* RFC 1624: the checksum after one 16-bit word has changed. */
static __always_inline __be16 checksum_after(__be16 checksum, __be16 before, __be16 after)
{
	__u32 sum = (__be16)~checksum + (__u32)(__be16)~before + after;

	sum = (sum & 0xffff) + (sum >> 16);
	return ~((sum & 0xffff) + (sum >> 16));
}

/* All of the packet is linear and writable. The IP header's lengths, the content. */
static __always_inline bool write_header(struct __sk_buff *skb, const __be32 *content, __u32 at, __u32 length)
{
	__u32 ip_at = config.link_layer == PENDULUM_LINK_RAW_IP ? 0 : sizeof(struct ethhdr);
	__u8 *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct iphdr *v4 = (void *)(data + ip_at);
	struct ipv6hdr *v6 = (void *)(data + ip_at);
	__be32 *tcp;

	/* The verifier of 6.1 has forgotten by here that `at` is small, and the compiler has not. */
	asm volatile("" : "+r"(at));
	tcp = (void *)(data + (at & 63));
	if (at == ip_at + sizeof(*v4)) {
		__be16 after = bpf_htons(sizeof(*v4) + length * 4);

		if ((__u8 *)(v4 + 1) > end)
			return false;
		v4->check = checksum_after(v4->check, v4->tot_len, after);
		v4->tot_len = after;
	} else {
		if ((__u8 *)(v6 + 1) > end)
			return false;
		v6->payload_len = bpf_htons(length * 4);
	}
	if ((__u8 *)(tcp + TCP_WORDS_PLAIN) > end)
		return false;
	tcp[2] = content[0];
	tcp[3] = content[1];
#pragma unroll
	for (__u32 i = 0; i < OPTION_WORDS; i++) {
		if (i + TCP_WORDS_PLAIN >= length)
			break;
		if ((__u8 *)(tcp + TCP_WORDS_PLAIN + i + 1) > end)
			return false;
		tcp[TCP_WORDS_PLAIN + i] = content[2 + i];
	}
	return true;
}

/* Give the ACK this content, from its acknowledgement number on. The checksum follows by the difference. */
static __always_inline bool rewrite(struct __sk_buff *skb, const struct ack_packet *p, __be32 *content)
{
	__u32 at = p->tcp_at, length = length_of(content), total = at + length * 4;
	__be32 before[PENDULUM_ACK_WORDS];
	__s64 difference;

	if (at > sizeof(struct ethhdr) + sizeof(struct ipv6hdr) || length < TCP_WORDS_PLAIN)
		return false;
	__builtin_memcpy(before, p->words, sizeof(before));
	difference = bpf_csum_diff(before, sizeof(before), content, sizeof(before), 0);
	if (difference < 0)
		return false;
	if (total > skb->len && bpf_skb_change_tail(skb, total, 0))
		return false;
	if (bpf_skb_pull_data(skb, total))
		return false;
	/* Of a packet that is writable this fails for no reason but a wrong offset. */
	if (bpf_l4_csum_replace(skb, at + TCP_CHECKSUM_AT, 0, difference, 0))
		return false;
	if (length != p->length)
		bpf_l4_csum_replace(skb, at + TCP_CHECKSUM_AT, bpf_htons(p->length * 4),
				    bpf_htons(length * 4), BPF_F_PSEUDO_HDR | sizeof(__be16));
	write_header(skb, content, at, length);
	if (total < skb->len)
		bpf_skb_change_tail(skb, total, 0);
	return true;
}

#endif
