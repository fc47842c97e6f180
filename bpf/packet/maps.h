/* SPDX-License-Identifier: GPL-2.0-only */
/* The maps of packet measurement. Sizes of the flow tables are defaults: the agent sets them before load. */
#ifndef PENDULUM_MAPS_H
#define PENDULUM_MAPS_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "abi.h"

/* Flows seen both ways. LRU: a full table forgets the conversation that has been silent for longest. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct pendulum_flow_key);
	__type(value, struct pendulum_flow);
} flows SEC(".maps");

/* Flows seen one way only. A SYN flood turns this table over and leaves `flows` alone. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct pendulum_flow_key);
	__type(value, struct pendulum_flow);
} nursery SEC(".maps");

/* A new flow's value: it is larger than the BPF stack. Never written. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pendulum_flow);
} blank_flow SEC(".maps");

/* Index: enum pendulum_direction. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, PENDULUM_DIRECTIONS);
	__type(key, __u32);
	__type(value, struct pendulum_counters);
} counters SEC(".maps");

/* Index: enum pendulum_direction. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PENDULUM_DIRECTIONS);
	__type(key, __u32);
	__type(value, struct pendulum_burst);
} bursts SEC(".maps");

/* Index: enum pendulum_stat. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, PENDULUM_STATS);
	__type(key, __u32);
	__type(value, __u64);
} stats SEC(".maps");

/* What comes in through the WAN device. Index: time, see struct pendulum_slot. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, PENDULUM_SLOTS);
	__type(key, __u32);
	__type(value, struct pendulum_arrival);
} arrivals SEC(".maps");

/* What leaves through it, as it enters whatever stands behind the shaper. Index: time. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, PENDULUM_SLOTS);
	__type(key, __u32);
	__type(value, struct pendulum_slot);
} egress SEC(".maps");

/* What is no TCP, by protocol and port. Index: enum pendulum_direction. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, PENDULUM_DIRECTIONS);
	__type(key, __u32);
	__type(value, struct pendulum_ports);
} ports SEC(".maps");

/* The device that shapes this link's uplink (ifb): what comes from there was measured before. 0: none. Then
 * whether packets pass it at present: shaping may pause. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, __u32);
} shaping_device SEC(".maps");

#endif
