/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * In place of the build machine's <asm/byteorder.h> where objects are made for a big-endian processor
 * elsewhere: the order of bit fields in <linux/ip.h> and <linux/tcp.h> (version, ihl, doff) follows from it.
 */
#ifndef PENDULUM_ASM_BYTEORDER_H
#define PENDULUM_ASM_BYTEORDER_H

#include <linux/byteorder/big_endian.h>

#endif
