/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What was done to a virtual drive: counters, and how far they were at any time
 * of the last ten minutes. Pure: the caller gives the times (nanoseconds of one
 * monotonic clock, never falling) and holds one lock around all calls.
 */
#ifndef JOULERIG_COUNTERS_H
#define JOULERIG_COUNTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of operations that succeeded. Zeroes are writes, as the host's block layer
 * counts them, and are counted separately too. */
enum counter {
	COUNTER_READS,
	COUNTER_READ_BYTES,
	COUNTER_WRITES,
	COUNTER_WRITE_BYTES,
	COUNTER_ZEROES,
	COUNTER_ZERO_BYTES,
	COUNTER_FLUSHES,
	COUNTER_FUA_WRITES,
	COUNTER_DISCARDS,
	COUNTER_DISCARD_BYTES,
	COUNTER_THROTTLED_NS, /* time that operations waited for the power limit */
	/* As of the last completion (pace.h). */
	COUNTER_BUSY_NS,
	COUNTER_DEVICE_BOUND_NS,
	COUNTERS
};

struct counters;

/* Their names on the control socket. */
const char *counter_name(enum counter counter);

/* All at 0 from start_ns on. Times are kept to within cell_ns, for keep_ns. NULL when memory is
 * short. */
struct counters *counters_new(int64_t start_ns, int64_t cell_ns, int64_t keep_ns);
void counters_free(struct counters *counters);

/* Counts amounts[] that became true at time_ns, all at once. */
void counters_add(struct counters *counters, int64_t time_ns, const uint64_t amounts[COUNTERS]);

/* As they are now, into values[]. */
void counters_now(const struct counters *counters, uint64_t values[COUNTERS]);

/* As they were at a past time. Exact, but for a time after the first and before
 * the last change within one cell [k * cell_ns, (k + 1) * cell_ns): there what
 * they were before that cell. False when the time is before what is held. The
 * time must not be ahead of the clock: what is to come is not known. */
bool counters_at(const struct counters *counters, int64_t time_ns, uint64_t values[COUNTERS]);
int64_t counters_oldest_ns(const struct counters *counters);

/* What the record takes now: grows with the cells in which something changed. */
size_t counters_bytes(const struct counters *counters);

#endif
