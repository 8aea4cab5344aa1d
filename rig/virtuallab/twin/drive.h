/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What the block side (twin.c) and the truth socket (truth.c) share of one
 * virtual drive. Everything behind the lock; the backing file is not.
 */
#ifndef JOULERIG_DRIVE_H
#define JOULERIG_DRIVE_H

#include "counters.h"
#include "pace.h"
#include "power.h"
#include "timing.h"

#include <pthread.h>
#include <stdint.h>

struct drive {
	const char *serial;
	pthread_mutex_t lock;
	struct power *power;
	struct counters *counters;
	struct timing *timing;
	struct pace pace;
};

int64_t drive_monotonic_ns(void);

#endif
