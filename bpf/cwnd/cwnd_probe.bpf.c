/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The window at each incoming segment, where functions cannot be traced: the tracepoint tcp_probe fires at
 * the beginning of tcp_rcv_established(), before the segment's ACK is processed.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "cwnd/cwnd.h"

SEC("tp_btf/tcp_probe")
int BPF_PROG(pendulum_cwnd_probe, struct sock *sk, const struct sk_buff *skb)
{
	record_socket(sk, skb);
	return 0;
}
