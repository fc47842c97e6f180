/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * TCP options. docs/design/measurement.md, "Parsing", 6.
 *
 * Nearly every segment of an established connection carries exactly NOP, NOP, timestamps (RFC 7323 appendix
 * A): that form is recognised by its first word. All others are copied out of the packet and walked in a
 * function of its own, which the verifier checks once and not again for every path that leads there.
 */
#ifndef PENDULUM_OPTIONS_H
#define PENDULUM_OPTIONS_H

#include <linux/tcp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "common/seam.h"
#include "packet/segment.h"

#define TCP_OPTIONS_MAX 40

enum tcp_option_kind {
	KIND_EOL = 0,
	KIND_NOP = 1,
	KIND_MSS = 2,
	KIND_WSCALE = 3,
	KIND_SACK_PERMITTED = 4,
	KIND_SACK = 5,
	KIND_TIMESTAMPS = 8,
	KIND_MPTCP = 30,
	KIND_ACCECN_0 = 172,
	KIND_ACCECN_1 = 174,
};

/* RFC 7323 §2.3: a larger shift counts as 14. */
#define WSCALE_MAX 14

/* A power of two above TCP_OPTIONS_MAX: an index is kept inside by a mask, which the verifier follows with
 * ease. */
#define OPTION_LIST_BYTES 64

struct option_list {
	__u8 bytes[OPTION_LIST_BYTES];
};

static __always_inline __u8 option_u8(const struct option_list *list, __u32 at)
{
	/* Or the compiler, which knows that `at` is small, would drop the mask that the verifier needs. */
	asm volatile("" : "+r"(at));
	return list->bytes[at & (OPTION_LIST_BYTES - 1)];
}

static __always_inline __u32 option_u32(const struct option_list *list, __u32 at)
{
	return (__u32)option_u8(list, at) << 24 | (__u32)option_u8(list, at + 1) << 16 |
	       (__u32)option_u8(list, at + 2) << 8 | option_u8(list, at + 3);
}

/* Record one option that starts at `at` and is `length` long; both lie inside the list. */
static __always_inline void read_option(const struct option_list *list, __u32 at, __u8 kind, __u8 length,
					struct tcp_options *options)
{
	switch (kind) {
	case KIND_MSS:
		if (length == 4) {
			options->mss = option_u8(list, at + 2) << 8 | option_u8(list, at + 3);
			options->present |= OPTION_MSS;
		}
		break;
	case KIND_WSCALE:
		if (length == 3) {
			__u8 shift = option_u8(list, at + 2);

			options->wscale = shift < WSCALE_MAX ? shift : WSCALE_MAX;
			options->present |= OPTION_WSCALE;
		}
		break;
	case KIND_SACK_PERMITTED:
		if (length == 2)
			options->present |= OPTION_SACK_PERMITTED;
		break;
	case KIND_SACK:
		if (length >= 10)
			options->sack_blocks = (length - 2) / 8;
		break;
	case KIND_TIMESTAMPS:
		if (length == 10 && !(options->present & OPTION_TIMESTAMPS)) {
			options->tsval = option_u32(list, at + 2);
			options->tsecr = option_u32(list, at + 6);
			options->present |= OPTION_TIMESTAMPS;
		}
		break;
	case KIND_MPTCP:
		options->present |= OPTION_MPTCP;
		break;
	case KIND_ACCECN_0:
	case KIND_ACCECN_1:
		options->present |= OPTION_ACCECN;
		break;
	}
}

/* Walk an option list. Returns 0, or 1 if it is malformed (then what was read of it must not be used). */
__noinline int walk_options(const struct option_list *list, __u32 length, struct tcp_options *options)
{
	__u32 at = 0;

	if (!list || !options || length > TCP_OPTIONS_MAX)
		return 1;

	for (int i = 0; i < TCP_OPTIONS_MAX; i++) {
		__u8 kind, size;

		if (at >= length)
			return 0;
		kind = option_u8(list, at);
		if (kind == KIND_EOL)
			return 0;
		if (kind == KIND_NOP) {
			at++;
			continue;
		}
		if (at + 1 >= length)
			return 1;
		size = option_u8(list, at + 1);
		if (size < 2 || at + size > length)
			return 1;
		read_option(list, at, kind, size, options);
		at = forget(at + size);
	}
	return 0;
}

#endif
