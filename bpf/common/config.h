/* SPDX-License-Identifier: GPL-2.0-only */
/* The one configuration, written by the agent before load (all zero is the normal case), and the licence. */
#ifndef PENDULUM_CONFIG_H
#define PENDULUM_CONFIG_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "abi.h"

const volatile struct pendulum_config config = {};

char LICENSE[] SEC("license") = "GPL";

#endif
