/* SPDX-License-Identifier: GPL-2.0-only */
/* Memory that another CPU writes meanwhile: one access, where it stands. As in the kernel. */
#ifndef PENDULUM_ONCE_H
#define PENDULUM_ONCE_H

#define READ_ONCE(place)         (*(const volatile typeof(place) *)&(place))
#define WRITE_ONCE(place, value) (*(volatile typeof(place) *)&(place) = (value))

#endif
