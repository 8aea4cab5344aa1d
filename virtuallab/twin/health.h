/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What a virtual drive knows of its life: bytes, power cycles, hours, temperature;
 * and the file that keeps it from one run of the twin to the next. No clock, no
 * lock: the caller gives times and figures.
 *
 * Temperature. First order: at a steady power it goes to ambient_celsius +
 * kelvin_per_watt x watts, with the time constant thermal_seconds. It begins at
 * ambient_celsius and is not kept.
 */
#ifndef JOULERIG_HEALTH_H
#define JOULERIG_HEALTH_H

#include "throttle.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* At and above these a drive counts its time as too warm, and as critical. Free choices. */
#define HEALTH_WARM_CELSIUS 70
#define HEALTH_HOT_CELSIUS 80

struct thermal {
	double ambient_celsius;
	double kelvin_per_watt;
	double seconds;
};

/* Since the drive was new. */
struct health {
	uint64_t host_bytes_written;
	uint64_t nand_bytes_written;
	uint64_t power_cycles;
	uint64_t unsafe_shutdowns;
	double power_on_seconds;
	uint64_t host_bytes_read;
	uint64_t host_reads;
	uint64_t host_writes;
	uint64_t media_errors;
	double busy_seconds;
	double warm_seconds, hot_seconds; /* hot ones are warm, too */
	struct throttle_counts throttled;
	double reported_joules; /* what it has taken by its own word (self_report.h) */
};

struct warmth {
	struct thermal thermal;
	double celsius;
	int64_t time_ns;
	double joules; /* taken up to then */
};

void warmth_begin(struct warmth *warmth, const struct thermal *thermal, int64_t time_ns);
/* The drive has taken `joules` since the beginning, up to time_ns. */
void warmth_step(struct warmth *warmth, int64_t time_ns, double joules);

/* Reads what was kept; all 0 where there is no file, and what a file from before it was
 * kept does not have. A drive whose twin was
 * killed has had one more unsafe shutdown. False: one line in error. */
bool health_load(struct health *health, const char *path, char *error, size_t error_size);
/* Puts the file there whole, or leaves the one before. `running`: the
 * twin goes on; should this be the last file, it was killed. False with errno. */
bool health_save(const struct health *health, const char *path, bool running);

#endif
