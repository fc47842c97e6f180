/* SPDX-License-Identifier: GPL-2.0-only */
/* What the congestion control of a local TCP socket holds, taken at its newest ACK. docs/design/queues.md. */
#ifndef PENDULUM_CWND_H
#define PENDULUM_CWND_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>

#include "abi.h"
#include "common/kernel.h"

const volatile struct pendulum_cwnd_config config = {};

char LICENSE[] SEC("license") = "GPL";

#define AF_INET  2
#define AF_INET6 10

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct in6_addr {
	union {
		__be32 u6_addr32[4];
	} in6_u;
};

struct sock_common {
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	__be16 skc_dport;
	__u16 skc_num; /* own port, host byte order */
	unsigned short skc_family;
	struct {
		struct net *net;
	} skc_net;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
};

struct sock {
	struct sock_common __sk_common;
};

struct inet_connection_sock {
	__u8 icsk_ca_state : 5;
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u32 snd_cwnd;
	__u32 snd_ssthresh;
	__u32 packets_out;
	__u32 sacked_out;
	__u32 lost_out;
	__u32 retrans_out;
	__u32 total_retrans;
	__u32 mss_cache;
	__u32 srtt_us; /* eight times the value */
};

#pragma clang attribute pop

/* ifindex of the WAN device; 0: none. Alone in .bss, which the agent writes. */
volatile __u32 wan = 0;

/* LRU: sockets come and go without a word to us. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct pendulum_flow_key);
	__type(value, struct pendulum_socket);
} sockets SEC(".maps");

static __always_inline void copy_words(__u32 to[4], const __be32 from[4])
{
	to[0] = from[0];
	to[1] = from[1];
	to[2] = from[2];
	to[3] = from[3];
}

/* The flow table's key: our end is home. False for what is neither IPv4 nor IPv6. */
static __always_inline bool key_of(const struct sock_common *common, struct pendulum_flow_key *key)
{
	if (config.netns && common->skc_family == AF_INET6) {
		copy_words(key->home_addr, common->skc_v6_rcv_saddr.in6_u.u6_addr32);
		copy_words(key->remote_addr, common->skc_v6_daddr.in6_u.u6_addr32);
	} else if (common->skc_family == AF_INET) {
		key->home_addr[2] = key->remote_addr[2] = bpf_htonl(0xffff);
		key->home_addr[3] = common->skc_rcv_saddr;
		key->remote_addr[3] = common->skc_daddr;
	} else {
		return false;
	}
	key->home_port = bpf_htons(common->skc_num);
	key->remote_port = common->skc_dport;
	return true;
}

static __always_inline void read_window(struct pendulum_socket *value, const struct tcp_sock *tcp)
{
	value->at_ns = bpf_ktime_get_ns();
	value->snd_cwnd = tcp->snd_cwnd;
	value->snd_ssthresh = tcp->snd_ssthresh;
	/* tcp_packets_in_flight(), include/net/tcp.h */
	value->in_flight = tcp->packets_out - (tcp->sacked_out + tcp->lost_out) + tcp->retrans_out;
	value->retransmitted = tcp->total_retrans;
	value->mss = tcp->mss_cache;
	value->srtt_us = tcp->srtt_us >> 3;
	value->ca_state = BPF_CORE_READ_BITFIELD(&tcp->inet_conn, icsk_ca_state);
}

/* The segment came in through the WAN device, or its namesake by number in another namespace. Nearly all of a
 * gateway's own segments have not. */
static __always_inline bool is_from_wan(const struct sk_buff *skb)
{
	return wan == (__u32)skb->skb_iif;
}

static __always_inline void record_socket(const struct sock *sk, const struct sk_buff *skb)
{
	const struct sock_common *common = &sk->__sk_common;
	struct pendulum_socket *known, fresh = {};
	struct pendulum_flow_key key = {};
	const struct tcp_sock *tcp;

	if (!is_from_wan(skb))
		return;
	if (common->skc_net.net->ns.inum != config.netns)
		return;
	if (!key_of(common, &key))
		return;
	tcp = (const void *)bpf_skc_to_tcp_sock((void *)sk);
	if (!tcp)
		return;
	known = bpf_map_lookup_elem(&sockets, &key);
	if (known) {
		read_window(known, tcp);
		return;
	}
	read_window(&fresh, tcp);
	bpf_map_update_elem(&sockets, &key, &fresh, BPF_ANY);
}

#endif
