/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The state of one virtual drive: what the block side (twin.c) and the control
 * socket share. It has no functions; device.h has those that change it.
 *
 * Locks. `lock` guards everything but `serial`, `health_path`, `energy` and the
 * pointers, which never change once the drive serves, and `cut`, which locks for
 * itself. Order: first that of `cut`, then `lock`. So no function of cut.h may be
 * called with `lock` held.
 */
#ifndef JOULERIG_DRIVE_H
#define JOULERIG_DRIVE_H

#include "counters.h"
#include "cut.h"
#include "health.h"
#include "pace.h"
#include "power.h"
#include "power_states.h"
#include "self_report.h"
#include "timing.h"
#include "write_log.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* What the drive's own work costs each rail. */
struct work_energy {
	struct {
		double joules_per_byte;
		double watts; /* while it lasts */
	} of[WORK_CAUSES][POWER_MAX_RAILS];
};

struct drive {
	const char *serial;
	pthread_mutex_t lock;
	struct power *power;
	struct counters *counters;
	struct timing *timing;
	struct work_energy energy;
	struct work held; /* taken, and waiting for the power limit */
	bool is_held;
	int64_t planned_since_ns; /* the idle time that the power states are planned from */
	bool is_planned; /* the power model has the times of such states */
	struct power_states states;
	unsigned doze_numbers[DOZE_MAX_STATES]; /* of the states of timing_doze() */
	struct pace pace;
	struct cut *cut;
	struct health kept; /* up to when the twin began */
	uint64_t media_errors; /* since then, as the rest of these */
	bool is_shut_down; /* by its host, who has done nothing since */
	uint64_t orderly_cuts;
	struct warmth warmth;
	struct throttle throttle;
	double warm_seconds, hot_seconds;
	struct self_report self_report;
	int64_t second_ends_ns; /* of the one that it measures; 0: none has begun, at whose begin: */
	double second_joules, second_idle_joules; /* taken since the twin began */
	int64_t powered_ns; /* time with power since the twin began, up to: */
	int64_t powered_until_ns;
	const char *health_path;
	FILE *operations; /* the log of operations, or NULL */
	struct write_log *writes; /* or NULL */
};

#endif
