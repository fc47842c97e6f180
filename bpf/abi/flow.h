/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/* The part of abi.h that names a flow, for the measurement and for the ACK filter. */
#ifndef PENDULUM_FLOW_ABI_H
#define PENDULUM_FLOW_ABI_H

#include <linux/types.h>

/*
 * A flow's identity, the same for both directions: "home" is the end behind the gateway (source at WAN
 * egress, destination at WAN ingress). IPv4 addresses are mapped into IPv6 (::ffff:a.b.c.d). Network byte
 * order.
 */
struct pendulum_flow_key {
	__u32 home_addr[4];
	__u32 remote_addr[4];
	__u16 home_port;
	__u16 remote_port;
};
_Static_assert(sizeof(struct pendulum_flow_key) == 36, "abi: pendulum_flow_key");

#endif
