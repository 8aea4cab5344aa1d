/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "health.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_PATH 4096

void warmth_begin(struct warmth *warmth, const struct thermal *thermal, int64_t time_ns)
{
	*warmth = (struct warmth){ .thermal = *thermal, .celsius = thermal->ambient_celsius,
				   .time_ns = time_ns };
}

void warmth_step(struct warmth *warmth, int64_t time_ns, double joules)
{
	const struct thermal *thermal = &warmth->thermal;
	double seconds = (double)(time_ns - warmth->time_ns) * 1e-9;
	double watts, goal;

	if (seconds <= 0)
		return;
	watts = (joules - warmth->joules) / seconds;
	goal = thermal->ambient_celsius + thermal->kelvin_per_watt * watts;
	warmth->celsius = goal + (warmth->celsius - goal) * exp(-seconds / thermal->seconds);
	warmth->time_ns = time_ns;
	warmth->joules = joules;
}

bool health_load(struct health *health, const char *path, char *error, size_t error_size)
{
	struct throttle_counts *throttled = &health->throttled;
	FILE *file = fopen(path, "re");
	unsigned running;
	char end;
	int found, more, thermal;

	memset(health, 0, sizeof *health);
	if (!file) {
		if (errno == ENOENT)
			return true;
		snprintf(error, error_size, "%s: %s", path, strerror(errno));
		return false;
	}
	found = fscanf(file,
		       "host_bytes_written %" SCNu64 "\nnand_bytes_written %" SCNu64 "\npower_cycles %" SCNu64
		       "\nunsafe_shutdowns %" SCNu64 "\npower_on_seconds %lf\nrunning %u%c",
		       &health->host_bytes_written, &health->nand_bytes_written, &health->power_cycles,
		       &health->unsafe_shutdowns, &health->power_on_seconds, &running, &end);
	more = fscanf(file,
		      "host_bytes_read %" SCNu64 "\nhost_reads %" SCNu64 "\nhost_writes %" SCNu64
		      "\nmedia_errors %" SCNu64 "\nbusy_seconds %lf\n",
		      &health->host_bytes_read, &health->host_reads, &health->host_writes,
		      &health->media_errors, &health->busy_seconds);
	thermal = fscanf(file,
			 "warm_seconds %lf\nhot_seconds %lf\nthrottled_1 %" SCNu64 " %lf\nthrottled_2 %" SCNu64
			 " %lf\nreported_joules %lf\n",
			 &health->warm_seconds, &health->hot_seconds, &throttled->entered[0], &throttled->seconds[0],
			 &throttled->entered[1], &throttled->seconds[1], &health->reported_joules);
	fclose(file);
	if (found != 7 || end != '\n' || running > 1 || (more != EOF && more != 5) ||
	    (thermal != EOF && thermal != 7)) {
		snprintf(error, error_size, "%s: is no record of a drive's health; without it the drive is as new",
			 path);
		return false;
	}
	health->unsafe_shutdowns += running;
	return true;
}

bool health_save(const struct health *health, const char *path, bool running)
{
	const struct throttle_counts *throttled = &health->throttled;
	char new_path[MAX_PATH];
	FILE *file;
	bool written;

	if ((size_t)snprintf(new_path, sizeof new_path, "%s.new", path) >= sizeof new_path) {
		errno = ENAMETOOLONG;
		return false;
	}
	file = fopen(new_path, "we");
	if (!file)
		return false;
	fprintf(file,
		"host_bytes_written %" PRIu64 "\nnand_bytes_written %" PRIu64 "\npower_cycles %" PRIu64
		"\nunsafe_shutdowns %" PRIu64 "\npower_on_seconds %.3f\nrunning %d\nhost_bytes_read %" PRIu64
		"\nhost_reads %" PRIu64 "\nhost_writes %" PRIu64 "\nmedia_errors %" PRIu64
		"\nbusy_seconds %.3f\nwarm_seconds %.3f\nhot_seconds %.3f\nthrottled_1 %" PRIu64 " %.3f\nthrottled_2 %" PRIu64
		" %.3f\nreported_joules %.6f\n",
		health->host_bytes_written, health->nand_bytes_written, health->power_cycles,
		health->unsafe_shutdowns, health->power_on_seconds, running, health->host_bytes_read,
		health->host_reads, health->host_writes, health->media_errors, health->busy_seconds, health->warm_seconds,
		health->hot_seconds, throttled->entered[0], throttled->seconds[0], throttled->entered[1],
		throttled->seconds[1], health->reported_joules);
	written = fflush(file) == 0 && !ferror(file);
	if (fclose(file) != 0 || !written || rename(new_path, path) < 0) {
		int failure = errno;

		unlink(new_path);
		errno = failure;
		return false;
	}
	return true;
}
