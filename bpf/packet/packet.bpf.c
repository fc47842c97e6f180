/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The packet measurement: TC ingress and egress of the WAN device, and XDP. They share the flow table, and
 * maps are shared within an object (aya 0.14 could do it across objects only by pinning, which outlives a
 * crash).
 *
 * TC programs always return TCX_NEXT, the XDP program XDP_PASS: an observer never ends the processing of a
 * packet, so that other programs and the user's own filters go on working.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "common/mark.h"
#include "packet/measure.h"

/* TC_ACT_UNSPEC for clsact: the next filter decides. The uapi headers of older systems lack the name. */
#define TCX_NEXT -1

/* All headers the parser may want: Ethernet, 2 VLAN tags, PPPoE, IPv6 and 6 extensions, TCP with options. */
#define HEADERS_MAX 256

/* Segments that a GSO or GRO super-packet stands for; 1 for a plain packet. */
static __always_inline __u32 gso_segments(const struct __sk_buff *skb, __u32 payload_bytes)
{
	__u32 size = skb->gso_size;

	if (skb->gso_segs)
		return skb->gso_segs;
	if (size && payload_bytes)
		return (payload_bytes + size - 1) / size;
	return 1;
}

/* Read the headers, pulling them into the linear part if need be. A global function: see seam.h. */
__noinline int parse_skb(struct __sk_buff *skb, struct segment *s, __u32 direction)
{
	__u32 wanted = skb->len < HEADERS_MAX ? skb->len : HEADERS_MAX;
	__u32 result = PARSE_SHORT;

	if (!s)
		return PARSE_NON_TCP;
	for (int attempt = 0; attempt < 2 && result == PARSE_SHORT; attempt++) {
		if (attempt && bpf_skb_pull_data(skb, wanted))
			break;
		result = parse_frame((const void *)(long)skb->data, (const void *)(long)skb->data_end,
				     skb->len, direction, s);
	}
	return result == PARSE_SHORT ? PENDULUM_LOST_PULL : result;
}

/* What the packet asks or replies to, if its round trip can be timed; pulls that in, too. `result` is
 * parse_frame's. A global function: see seam.h. */
__noinline int read_request_skb(struct __sk_buff *skb, struct segment *s, __u32 result, __u32 direction)
{
	const void *data = (const void *)(long)skb->data, *end = (const void *)(long)skb->data_end;
	__u32 wanted;

	if (!s)
		return 0;
	wanted = read_request(data, end, s, result, direction);
	if (!wanted || s->header_bytes + wanted > skb->len ||
	    bpf_skb_pull_data(skb, s->header_bytes + wanted))
		return 0;
	data = (const void *)(long)skb->data;
	end = (const void *)(long)skb->data_end;
	read_request(data, end, s, result, direction);
	return 0;
}

/* Measure the packet. Returns its class. */
static __always_inline __u32 observe(struct __sk_buff *skb, struct segment *s, __u32 direction, __u64 now)
{
	__u32 result = parse_skb(skb, s, direction);

	if (result < PARSE_TCP)
		count(result);
	if (result != PARSE_TCP && result != PENDULUM_LOST_TCP_OPTIONS) {
		read_request_skb(skb, s, result, direction);
		/* Of a super-packet whose headers were not read, every segment but the first is one short. */
		if (result != PARSE_UDP)
			s->header_bytes = s->payload_bytes = 0;
		s->segments = gso_segments(skb, s->payload_bytes);
		s->wire_bytes = skb->len + (s->segments - 1) * s->header_bytes;
		count_unread(s, direction, result, now);
		return PENDULUM_CLASS_NON_TCP;
	}
	s->segments = gso_segments(skb, s->payload_bytes);
	s->wire_bytes = skb->len + (s->segments - 1) * s->header_bytes;
	observe_segment(s, direction, now);
	return s->class;
}

/* Tell the queue tracepoints what this packet is. On its way in it may be redirected to a queue too (ifb). */
static __always_inline void mark(struct __sk_buff *skb, __u32 direction, __u32 class, __u64 now)
{
	if (config.queue_mark)
		skb->cb[4] = make_mark(direction,
				       is_pure_ack(class) ? PENDULUM_QUEUE_ACK : PENDULUM_QUEUE_DATA, now);
}

/* The device that shapes the uplink, 0: none; as the second word, whether packets pass it at present. */
static __always_inline __u32 shaper(__u32 word)
{
	const __u32 *value = bpf_map_lookup_elem(&shaping_device, &word);

	return value ? *value : 0;
}

/*
 * What is shaped here passes twice (docs/design/shaping.md, "Two passes"): it is measured on its first way,
 * before the shaper's queue, and enters whatever stands behind the WAN device on its second. The slots tell
 * of the second: what waits here does not wait there. The length is the stack's own then
 * (qdisc_pkt_len_init).
 */
SEC("classifier")
int pendulum_up(struct __sk_buff *skb)
{
	__u64 now = packet_time_ns(skb);
	__u32 shaped_by = shaper(0), is_shaped;
	struct segment s = {};

	if (shaped_by && skb->ingress_ifindex == shaped_by) {
		record_egress(now, skb->wire_len, skb->gso_segs ? skb->gso_segs : 1);
		return TCX_NEXT;
	}
	is_shaped = shaper(1);
	if (!is_shaped)
		s.ahead = left_in_slot(now);
	mark(skb, PENDULUM_UP, observe(skb, &s, PENDULUM_UP, now), now);
	if (!is_shaped)
		record_egress(now, s.wire_bytes, s.segments);
	return TCX_NEXT;
}

SEC("classifier")
int pendulum_down(struct __sk_buff *skb)
{
	__u64 now = packet_time_ns(skb);
	struct segment s = {};

	mark(skb, PENDULUM_DOWN, observe(skb, &s, PENDULUM_DOWN, now), now);
	return TCX_NEXT;
}

/*
 * XDP: before GRO, so that every segment has its own time. Takes the place of TC ingress when the user asks
 * for it (ingress-hook = "xdp").
 */

/* Read the headers. A global function: see seam.h. */
__noinline int parse_xdp(struct xdp_md *ctx, struct segment *s)
{
	const void *data = (const void *)(long)ctx->data;
	const void *data_end = (const void *)(long)ctx->data_end;

	if (!s)
		return PARSE_NON_TCP;
	return parse_frame(data, data_end, data_end - data, PENDULUM_DOWN, s);
}

/* The same as read_request_skb(): of these frames all is at hand. */
__noinline int read_request_xdp(struct xdp_md *ctx, struct segment *s, __u32 result)
{
	const void *data = (const void *)(long)ctx->data, *end = (const void *)(long)ctx->data_end;

	if (s)
		read_request(data, end, s, result, PENDULUM_DOWN);
	return 0;
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
		read_request_xdp(ctx, &s, result);
		count_unread(&s, PENDULUM_DOWN, result, now);
		return XDP_PASS;
	}
	observe_segment(&s, PENDULUM_DOWN, now);
	return XDP_PASS;
}
