/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The clock of the twin: every time that is not said to be another is of it. Any
 * thread may ask, with or without a lock. */
#ifndef JOULERIG_CLOCK_H
#define JOULERIG_CLOCK_H

#include <stdint.h>

/* CLOCK_MONOTONIC, in nanoseconds. */
int64_t clock_monotonic_ns(void);

#endif
