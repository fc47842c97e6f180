/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The ingress measurement at XDP: before GRO, so that every segment has its own time. Takes the place of TC
 * ingress when the user asks for it (ingress-hook = "xdp"). Always XDP_PASS.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "measure.h"

/* Read the headers. A global function: see seam.h. */
__noinline int parse_xdp(struct xdp_md *ctx, struct segment *s)
{
	const void *data = (const void *)(long)ctx->data;
	const void *data_end = (const void *)(long)ctx->data_end;

	if (!s)
		return PARSE_NON_TCP;
	return parse_frame(data, data_end, data_end - data, PENDULUM_DOWN, s);
}

SEC("xdp")
int pendulum_xdp(struct xdp_md *ctx)
{
	__u32 frame_bytes = ctx->data_end - ctx->data;
	__u64 now = bpf_ktime_get_ns();
	struct segment s = {};
	__u32 result = parse_xdp(ctx, &s);

	s.segments = 1;
	s.wire_bytes = frame_bytes;
	if (result < PARSE_TCP)
		count(result);
	if (result != PARSE_TCP && result != PENDULUM_LOST_TCP_OPTIONS) {
		count_unread(&s, PENDULUM_DOWN, result, now);
		return XDP_PASS;
	}
	observe_segment(&s, PENDULUM_DOWN, now);
	return XDP_PASS;
}
