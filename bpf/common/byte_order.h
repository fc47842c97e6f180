/* SPDX-License-Identifier: GPL-2.0-only */
/* Whether the kernel's headers have the byte order of the processor this is compiled for: else bit fields of
 * IP and TCP lie. */
#ifndef PENDULUM_BYTE_ORDER_H
#define PENDULUM_BYTE_ORDER_H

#include <asm/byteorder.h>

#if (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__) != defined(__BIG_ENDIAN_BITFIELD)
#error "<asm/byteorder.h> is that of a processor with the other byte order; bpf/big-endian has the right one"
#endif

#endif
