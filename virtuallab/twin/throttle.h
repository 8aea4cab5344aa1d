/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Thermal throttling: a hot drive works at a lower rate and draws less, until it is
 * cooler. Pure: the caller gives temperatures and times.
 *
 * Levels come in order of their temperature. The drive is in the highest one that it
 * has entered at or above its enter_celsius, and leaves it below its leave_celsius. In a level
 * the rates of its link and what its operations may add are those of its power state,
 * times the level's rate and watts. Counts are those of NVMe's health log: how often
 * each level was entered, from below, and the time in it.
 */
#ifndef JOULERIG_THROTTLE_H
#define JOULERIG_THROTTLE_H

#include <stdbool.h>
#include <stdint.h>

#define THROTTLE_LEVELS 2

struct throttle_level {
	double enter_celsius, leave_celsius;
	double rate, watts; /* fractions */
};

/* Since the drive was new, by level. */
struct throttle_counts {
	uint64_t entered[THROTTLE_LEVELS];
	double seconds[THROTTLE_LEVELS];
};

struct throttle {
	struct throttle_level of[THROTTLE_LEVELS];
	unsigned count;
	unsigned level; /* 0: none; else that of[level - 1] */
	struct throttle_counts counts;
};

/* Adds the level "ENTER,LEAVE,RATE,WATTS". On failure false, with one line in error. */
bool throttle_add(struct throttle *throttle, const char *text, char *error, unsigned long error_size);

/* So many seconds have passed, and the drive has that temperature now. Whether the level
 * is another one. */
bool throttle_step(struct throttle *throttle, double seconds, double celsius);

/* The fractions that hold now. */
struct throttle_level throttle_now(const struct throttle *throttle);

#endif
