/* SPDX-License-Identifier: GPL-2.0-only */
/* What is no TCP, by IP protocol and port: who fills a buffer that TCP does not. The rule is in abi.h. */
#ifndef PENDULUM_PORTS_H
#define PENDULUM_PORTS_H

#include "packet/maps.h"
#include "packet/segment.h"

#define PORT_KEY ((1u << PENDULUM_PORT_KEY_BITS) - 1)

/* A new sender of this many bytes has the place of one that has stopped. */
#define PORT_CREDIT_MAX (1 << 20)

/* `key`: IP protocol and port, as in struct pendulum_port. */
static __always_inline void count_port(__u32 direction, __u32 key, __u32 bytes)
{
	struct pendulum_ports *table = bpf_map_lookup_elem(&ports, &direction);
	struct pendulum_port *place;
	__u32 credit;

	if (!table)
		return;
	place = &table->places[(key ^ key >> 8 ^ key >> 16) & (PENDULUM_PORTS - 1)];
	credit = place->credit;
	if ((place->sent & PORT_KEY) == key) {
		place->sent += (__u64)bytes << PENDULUM_PORT_KEY_BITS;
		credit += bytes;
		place->credit = credit < PORT_CREDIT_MAX ? credit : PORT_CREDIT_MAX;
	} else if (credit > bytes) {
		place->credit = credit - bytes;
	} else {
		place->sent = (__u64)bytes << PENDULUM_PORT_KEY_BITS | key;
		place->credit = bytes;
	}
}

#endif
