/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The window after each ACK: at the end of tcp_ack(). That function is static and may have been inlined; then
 * at the beginning of tcp_rcv_established(), which shows the window as the ACK before left it. The agent
 * attaches the first that the kernel takes.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "cwnd/cwnd.h"

SEC("fexit/tcp_ack")
int BPF_PROG(pendulum_cwnd_after_ack, struct sock *sk, const struct sk_buff *skb)
{
	record_socket(sk, skb);
	return 0;
}

SEC("fentry/tcp_rcv_established")
int BPF_PROG(pendulum_cwnd_on_segment, struct sock *sk, const struct sk_buff *skb)
{
	record_socket(sk, skb);
	return 0;
}
