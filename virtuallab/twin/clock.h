/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The clock of the twin, CLOCK_MONOTONIC, and the record by which a real time
 * (UTC) of the last minutes is one of it. Every time in the twin is monotonic, in
 * nanoseconds, unless its name says otherwise.
 *
 * CLOCK_REALTIME minus CLOCK_MONOTONIC changes when the clock is set or slewed: a
 * real time of ten minutes ago means the offset of ten minutes ago.
 *
 * Any thread may read a clock. A record belongs to one thread.
 */
#ifndef JOULERIG_CLOCK_H
#define JOULERIG_CLOCK_H

#include <stdint.h>

/* An offset is noted once a second at most, and kept for so many seconds. */
#define CLOCK_RECORD_SECONDS 662

struct clock_offset {
	int64_t monotonic_ns;
	int64_t offset_ns; /* real minus monotonic, at that time */
};

struct clock_record {
	struct clock_offset offsets[CLOCK_RECORD_SECONDS];
	unsigned count;
	unsigned next;
};

int64_t clock_monotonic_ns(void);

/* How many seconds of the machine a second of this clock lasts: on a lab's clock more than 1. */
double clock_slowness(void);

/* Reads both clocks at one instant. */
struct clock_offset clock_offset_now(void);

/* Notes an offset, unless the last one was noted less than a second before. */
void clock_note(struct clock_record *record, const struct clock_offset *now);

/* The monotonic time of a real time, given the offset of this moment. */
int64_t clock_from_real(const struct clock_record *record, const struct clock_offset *now,
			int64_t real_ns);

#endif
