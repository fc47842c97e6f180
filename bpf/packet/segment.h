/* SPDX-License-Identifier: GPL-2.0-only */
/* What the parser reads from one frame, and all that the measurement sees of it. */
#ifndef PENDULUM_SEGMENT_H
#define PENDULUM_SEGMENT_H

#include <stdbool.h>

#include "abi.h"

enum tcp_flag {
	TCP_FIN = 0x01,
	TCP_SYN = 0x02,
	TCP_RST = 0x04,
	TCP_PSH = 0x08,
	TCP_ACK = 0x10,
	TCP_URG = 0x20,
	TCP_ECE = 0x40,
	TCP_CWR = 0x80,
};

/* Bits of struct tcp_options.present. */
enum tcp_option_bit {
	OPTION_TIMESTAMPS = 1 << 0,
	OPTION_SACK_PERMITTED = 1 << 1,
	OPTION_WSCALE = 1 << 2,
	OPTION_MSS = 1 << 3,
	OPTION_MPTCP = 1 << 4,
	OPTION_ACCECN = 1 << 5,
};

struct tcp_options {
	__u32 tsval;
	__u32 tsecr;
	__u16 mss;
	__u8 wscale;
	__u8 sack_blocks;
	__u8 present; /* enum tcp_option_bit */
	__u8 pad[3];
};

struct segment {
	struct pendulum_flow_key key;
	struct tcp_options options;
	__u32 seq; /* if it is no TCP: the identifier of a request (requests.h) … */
	__u32 ack; /* … and of the request that this replies to */
	__u32 payload_bytes;
	__u32 header_bytes; /* link, IP and TCP headers together */
	__u32 class;        /* enum pendulum_class, once classified */
	__u32 segments;     /* that this super-packet stands for */
	__u32 wire_bytes;   /* of all of them */
	__u32 asked;        /* the question that it answers, or 0 (turnaround.h) */
	__u32 ahead;        /* pendulum_flow.ahead of the question that it is or answers */
	__u32 advance;      /* of the bytes that its end has acknowledged, by this one */
	__u32 request;      /* if it is no TCP: enum request_kind and what it is, or 0 */
	__u32 port;         /* if it is no TCP: IP protocol and port as in struct pendulum_port, or 0 */
	__u16 window;
	__u8 flags;  /* enum tcp_flag */
	__u8 ip_ecn; /* 0…3 */
};

#endif
