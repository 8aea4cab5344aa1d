/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Hold-up of a rail: how long its volts, measured behind the switch, stay above a
 * threshold after a cut. The one who puts samples in, possibly an interrupt,
 * follows it; the one who switched begins, ends and reads it. No locks.
 */
#ifndef JOULERIG_HOLDUP_H
#define JOULERIG_HOLDUP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum holdup_state { HOLDUP_NONE, HOLDUP_RUNNING, HOLDUP_DONE };

struct holdup {
	/* State in the two lowest bits, which cut it is of in the others: a sample
	 * of the cut before cannot end the next one's. */
	_Atomic uint32_t word;
	float volts; /* of the last sample before the cut */
	float threshold;
	uint64_t began; /* number of the first sample that the cut lies in or before */
	uint64_t ended; /* of the first one at or below the threshold */
};

void holdup_init(struct holdup *holdup);
void holdup_begin(struct holdup *holdup, uint64_t index, float volts, float threshold);
/* The rail is on again: there is nothing to measure, nor a result to keep. */
void holdup_cancel(struct holdup *holdup);
enum holdup_state holdup_state(const struct holdup *holdup);

/* For every sample. A value that is not a number ends nothing. */
void holdup_sample(struct holdup *holdup, uint64_t index, float volts);

#endif
