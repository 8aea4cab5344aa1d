/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "self_report.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JOULES_PER_WATT_HOUR 3600
#define WRAP_WATT_HOURS 65536
#define MOST_FACTOR 1e6
#define WRONG_UNIT 10
#define HISTOGRAM_MORE_WATTS 1
#define MS_PER_MINUTE 60000

static const char *const flaws[SELF_REPORT_FLAWS] = {
	[FLAW_NONE] = "none",	    [FLAW_STUCK] = "stuck",   [FLAW_WRAPS] = "wraps",
	[FLAW_RESETS] = "resets",   [FLAW_NO_IDLE] = "no_idle", [FLAW_UNIT] = "unit",
	[FLAW_HISTOGRAM] = "histogram",
};

/* The number behind `key` and a comma; *text goes behind it. */
static bool number_of(const char *key, const char **text, double least, double most, double *number)
{
	size_t length = strlen(key);
	const char *from = *text + length + 1;
	char *end;

	if (strncmp(*text, key, length) != 0 || (*text)[length] != ',')
		return false;
	errno = 0;
	*number = strtod(from, &end);
	*text = end;
	return end != from && !errno && *number >= least && *number <= most;
}

static bool set_energy(struct self_report_settings *settings, const char *text)
{
	double factor, percent = SELF_REPORT_ERROR_NOT_STATED;

	if (!number_of("energy", &text, 0, MOST_FACTOR, &factor))
		return false;
	if (*text == ',') {
		char *end;

		percent = strtod(text + 1, &end);
		if (end == text + 1 || !(percent >= 0 && percent <= 100) || percent != floor(percent))
			return false;
		text = end;
	}
	if (*text != '\0')
		return false;
	settings->is_on = true;
	settings->factor = factor;
	settings->error_percent = (unsigned)percent;
	return true;
}

static bool set_flaw(struct self_report_settings *settings, const char *text)
{
	for (enum self_report_flaw flaw = 0; flaw < SELF_REPORT_FLAWS; flaw++) {
		if (strncmp(text, "flaw,", 5) == 0 && strcmp(text + 5, flaws[flaw]) == 0) {
			settings->flaw = flaw;
			return true;
		}
	}
	return false;
}

bool self_report_set(struct self_report_settings *settings, const char *text, char *error, size_t error_size)
{
	const char *written = text, *temperature = text;
	double number;

	if (set_energy(settings, text) || set_flaw(settings, text))
		return true;
	if (strcmp(text, "ocp") == 0) {
		settings->has_ocp = true;
		return true;
	}
	if (number_of("written", &written, 0, MOST_FACTOR, &number) && *written == '\0') {
		settings->written_factor = number;
		return true;
	}
	if (number_of("temperature", &temperature, -100, 100, &number) && *temperature == '\0') {
		settings->celsius_more = number;
		return true;
	}
	snprintf(error, error_size,
		 "reports=%s: allowed are energy,FACTOR[,WHOLE_PERCENT], ocp, written,FACTOR (factors up to a"
		 " million), temperature,KELVINS and flaw,none|stuck|wraps|resets|no_idle|unit|histogram", text);
	return false;
}

static void count(struct self_report_measurement *measurement, const struct self_report *report, uint64_t now_ms)
{
	double seen = report->watts + (report->settings.flaw == FLAW_HISTOGRAM ? HISTOGRAM_MORE_WATTS : 0);
	double bin = floor(seen / SELF_REPORT_BIN_WATTS);

	measurement->count++;
	measurement->watts_sum += report->watts;
	if (report->watts > measurement->most_watts) {
		measurement->most_watts = report->watts;
		measurement->most_ms = now_ms;
	}
	if (bin < SELF_REPORT_BINS)
		measurement->bins[(unsigned)bin]++;
	else
		measurement->overflow++;
}

void self_report_second(struct self_report *report, double joules, double idle_joules, uint64_t now_ms)
{
	const struct self_report_settings *settings = &report->settings;
	double seen = settings->factor * (settings->flaw == FLAW_NO_IDLE ? fmax(joules - idle_joules, 0) : joules);

	if (settings->flaw == FLAW_UNIT)
		seen *= WRONG_UNIT;
	if (!report->is_stuck) {
		report->watts = seen;
		report->lifetime_joules += seen;
	}
	report->is_stuck = settings->flaw == FLAW_STUCK;
	if (!report->measurement.is_running)
		return;
	if (report->measurement.stop_ms && now_ms > report->measurement.stop_ms)
		self_report_stop(report, report->measurement.stop_ms);
	else
		count(&report->measurement, report, now_ms);
}

void self_report_power_on(struct self_report *report)
{
	if (report->settings.flaw == FLAW_RESETS)
		report->lifetime_joules = 0;
	if (report->measurement.is_running)
		report->measurement.has_gaps = true;
}

void self_report_start(struct self_report *report, uint64_t now_ms, unsigned stop_minutes)
{
	uint8_t generation = (uint8_t)(report->measurement.generation + 1);

	report->measurement = (struct self_report_measurement){
		.is_running = true, .generation = generation,
		.stop_ms = stop_minutes ? now_ms + (uint64_t)stop_minutes * MS_PER_MINUTE : 0 };
}

void self_report_stop(struct self_report *report, uint64_t now_ms)
{
	if (!report->measurement.is_running)
		return;
	report->measurement.is_running = false;
	report->measurement.stopped_ms = now_ms;
}

uint64_t self_report_watt_hours(const struct self_report *report)
{
	uint64_t hours = (uint64_t)ceil(report->lifetime_joules / JOULES_PER_WATT_HOUR);

	return report->settings.flaw == FLAW_WRAPS ? hours % WRAP_WATT_HOURS : hours;
}
