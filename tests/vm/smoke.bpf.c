// SPDX-License-Identifier: GPL-2.0-only
/* Two programs for the guests' smoke test: a classifier that counts and passes everything, and an fentry
 * hook. */

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} smoke_seen SEC(".maps");

SEC("classifier")
int smoke_pass(struct __sk_buff *skb)
{
	__u32 slot = 0;
	__u64 *seen = bpf_map_lookup_elem(&smoke_seen, &slot);

	if (seen)
		__sync_fetch_and_add(seen, 1);
	return -1; /* TC_ACT_UNSPEC: let the next filter decide */
}

SEC("fentry/tcp_rcv_established")
int smoke_fentry(void *context)
{
	return 0;
}

char _license[] SEC("license") = "GPL";
