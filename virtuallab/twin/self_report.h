/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What a drive reports of its power, by NVMe 2.1 and later: the mean of each second, its
 * energy since it was new, and a measurement that its host starts and stops, with a
 * histogram. True, or wrong in a way that a parameter names. Pure: the caller gives the
 * true joules of each second in which the drive has power.
 */
#ifndef JOULERIG_SELF_REPORT_H
#define JOULERIG_SELF_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SELF_REPORT_BINS 64
#define SELF_REPORT_BIN_WATTS 0.25 /* NVMe's */
#define SELF_REPORT_ERROR_NOT_STATED 255

enum self_report_flaw {
	FLAW_NONE,
	FLAW_STUCK,	/* power and energy stay as they were in the first second */
	FLAW_WRAPS,	/* the energy since it was new has 16 bits */
	FLAW_RESETS,	/* ... and starts over with power */
	FLAW_NO_IDLE,	/* what it draws without operations is left out */
	FLAW_UNIT,	/* ten times too high: another unit than it says */
	FLAW_HISTOGRAM, /* is of a watt more than the mean */
	SELF_REPORT_FLAWS
};

struct self_report_settings {
	bool is_on;
	bool has_ocp; /* its log C0h of the Datacenter NVMe SSD specification */
	double factor; /* of the true joules */
	unsigned error_percent; /* which it states; or SELF_REPORT_ERROR_NOT_STATED */
	enum self_report_flaw flaw;
	/* Of the health log: of the bytes written; what is added to the temperature. */
	double written_factor;
	double celsius_more;
};

/* Reports nothing of its power, and the truth of its health. */
#define SELF_REPORT_DEFAULTS { .factor = 1, .error_percent = SELF_REPORT_ERROR_NOT_STATED, .written_factor = 1 }

/* Of NVMe's log of power measurements. */
struct self_report_measurement {
	bool is_running;
	bool has_gaps; /* the drive was without power in between */
	uint8_t generation;
	uint32_t count; /* seconds */
	double watts_sum, most_watts;
	uint64_t most_ms; /* its real time */
	uint32_t bins[SELF_REPORT_BINS], overflow;
	uint64_t stop_ms; /* real time; 0: not by itself */
	uint64_t stopped_ms; /* 0: it has not */
};

struct self_report {
	struct self_report_settings settings;
	double lifetime_joules; /* as the drive has counted them; kept */
	double watts; /* of the last second; 0: none yet */
	bool is_stuck;
	struct self_report_measurement measurement;
};

/* Takes "energy,FACTOR[,ERROR_PERCENT]", "flaw,NAME", "ocp", "written,FACTOR" or
 * "temperature,KELVINS_MORE". On failure false, with one line in error. */
bool self_report_set(struct self_report_settings *settings, const char *text, char *error, size_t error_size);

/* A second with power has ended at real time now_ms, in which the drive took so many
 * joules, idle_joules of them without operations. */
void self_report_second(struct self_report *report, double joules, double idle_joules, uint64_t now_ms);
/* The drive was without power. */
void self_report_power_on(struct self_report *report);

/* The host starts or stops the measurement; stop_minutes: when it ends by itself, 0: never. */
void self_report_start(struct self_report *report, uint64_t now_ms, unsigned stop_minutes);
void self_report_stop(struct self_report *report, uint64_t now_ms);

/* Watt-hours since the drive was new, rounded up; 0: not reported. */
uint64_t self_report_watt_hours(const struct self_report *report);

#endif
