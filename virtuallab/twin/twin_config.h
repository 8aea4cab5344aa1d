/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The parameters of the twin's plugin (README.md): read one by one, then checked
 * together. Called by nbdkit's main thread before the drive serves. What is wrong
 * is one line for nbdkit_error.
 */
#ifndef JOULERIG_TWIN_CONFIG_H
#define JOULERIG_TWIN_CONFIG_H

#include "cut.h"
#include "drive.h"
#include "health.h"
#include "power.h"
#include "power_states.h"
#include "timing.h"

#include <stdint.h>

struct twin_config {
	char *backing_path;
	char *control_path;
	char *operations_path; /* NULL: no log */
	char *writes_path; /* NULL: no log */
	char *serial;
	int64_t size;
	int64_t window_ns;
	int64_t activity_ns;
	struct power_rail rails[POWER_MAX_RAILS];
	unsigned rail_count;
	struct timing_config timing;
	struct work_energy energy;
	struct power_states states; /* whole after twin_config_check */
	/* As given. */
	double doze_watts[DOZE_MAX_STATES][POWER_MAX_RAILS];
	double declared_watts[POWER_STATES_MOST];
	double operational_watts[POWER_STATES_MOST_OPERATIONAL][POWER_MAX_RAILS];
	double operational_idle_watts[POWER_STATES_MOST_OPERATIONAL][POWER_MAX_RAILS];
	struct {
		char *address; /* NULL: no NVMe target */
		char *name;
		char *model;
		uint64_t eui64; /* 0: none */
	} nvme;
	double rated_erases; /* of a cell; 0: its wear is not reported */
	struct cut_settings cut;
	struct thermal thermal;
	struct throttle throttle;
	struct self_report_settings reports;
};

/* What is not given. Temperature: a drive in still air, free choices. */
#define TWIN_CONFIG_DEFAULTS { \
	.size = -1, \
	.window_ns = 1000000, \
	.activity_ns = 500000, \
	.cut = { .destage_ns = 5000000000, .holdup_ns = 2000000 }, \
	.thermal = { .ambient_celsius = 25, .kelvin_per_watt = 5, .seconds = 120 }, \
	.reports = SELF_REPORT_DEFAULTS, \
}

extern const char twin_config_help[];

/* Each 0, or -1. */
int twin_config_set(struct twin_config *config, const char *key, const char *value);
int twin_config_check(struct twin_config *config);
void twin_config_free(struct twin_config *config);

#endif
