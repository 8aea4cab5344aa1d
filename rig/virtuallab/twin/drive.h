/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What the block side (twin.c) and the truth socket (truth.c) share of one
 * virtual drive. Everything behind the lock; the backing file is not.
 */
#ifndef JOULERIG_DRIVE_H
#define JOULERIG_DRIVE_H

#include "power.h"

#include <pthread.h>
#include <stdint.h>

/* Operations that succeeded. Zeroes are writes, as the host's block layer
 * counts them, and are counted once more apart. */
struct drive_counters {
	uint64_t reads, read_bytes;
	uint64_t writes, write_bytes;
	uint64_t zeroes, zero_bytes;
	uint64_t flushes, fua_writes;
	uint64_t discards, discard_bytes;
	uint64_t throttled_ns; /* time that operations waited for the power limit */
};

struct drive {
	const char *serial;
	pthread_mutex_t lock;
	struct power *power;
	struct drive_counters counters;
};

int64_t drive_monotonic_ns(void);

#endif
