/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The packet measurement as one object: TC and XDP share the flow table, and maps are shared within an object
 * (aya 0.14 could do it across objects only by pinning, which outlives a crash).
 */
#include "tc.bpf.c"
#include "xdp.bpf.c"
