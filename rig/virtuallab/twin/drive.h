/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What the block side (twin.c) and the truth socket (truth.c) share of one
 * virtual drive. Power and counters stand behind the lock; `cut` locks for itself.
 */
#ifndef JOULERIG_DRIVE_H
#define JOULERIG_DRIVE_H

#include "counters.h"
#include "cut.h"
#include "power.h"

#include <pthread.h>
#include <stdint.h>

struct drive {
	const char *serial;
	pthread_mutex_t lock;
	struct power *power;
	struct counters *counters;
	struct cut *cut;
};

int64_t drive_monotonic_ns(void);

#endif
