/* SPDX-License-Identifier: GPL-2.0-only */
/* Stands in for libbpf's header of this name: a tracepoint's program is a function of its arguments. */
#ifndef PENDULUM_NATIVE_TRACING_H
#define PENDULUM_NATIVE_TRACING_H

#define BPF_PROG(name, args...) name(args)

#endif
