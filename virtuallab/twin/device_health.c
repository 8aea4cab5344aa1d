/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "device.h"

#include "clock.h"

#define NS_PER_SECOND 1000000000
#define NS_PER_MS 1000000

/* Its time since it was last brought up to date counts at the temperature that it has now. */
static void count_heat(struct drive *drive, int64_t now_ns, bool powered)
{
	double seconds = powered ? (double)(now_ns - drive->powered_until_ns) * 1e-9 : 0;

	if (drive->warmth.celsius >= HEALTH_WARM_CELSIUS)
		drive->warm_seconds += seconds;
	if (drive->warmth.celsius >= HEALTH_HOT_CELSIUS)
		drive->hot_seconds += seconds;
	if (throttle_step(&drive->throttle, seconds, drive->warmth.celsius))
		device_apply_limits(drive, now_ns);
}

/* What it has taken up to a settled time, all of it and without operations. */
static bool taken_by(const struct drive *drive, int64_t time_ns, double *joules, double *idle_joules)
{
	double causes[POWER_MAX_RAILS][POWER_CAUSES];

	*joules = *idle_joules = 0;
	if (!power_cause_history(drive->power, time_ns, causes))
		return false;
	for (unsigned r = 0; r < power_rail_count(drive->power); r++) {
		for (enum power_cause c = 0; c < POWER_CAUSES; c++)
			*joules += causes[r][c];
		*idle_joules += causes[r][CAUSE_IDLE];
	}
	return true;
}

/* The drive's own measurement of its power: the seconds with power that have ended. */
static void report_seconds(struct drive *drive, bool powered)
{
	int64_t settled_ns = power_settled_ns(drive->power);
	double joules, idle_joules;

	if (!drive->self_report.settings.is_on)
		return;
	if (!powered || drive->second_ends_ns == 0) {
		drive->second_ends_ns = 0;
		if (powered && taken_by(drive, settled_ns, &drive->second_joules, &drive->second_idle_joules))
			drive->second_ends_ns = settled_ns + NS_PER_SECOND;
		return;
	}
	while (drive->second_ends_ns <= settled_ns) {
		uint64_t real_ms = (uint64_t)((drive->second_ends_ns + clock_offset_now().offset_ns) / NS_PER_MS);

		if (!taken_by(drive, drive->second_ends_ns, &joules, &idle_joules)) {
			drive->second_ends_ns = 0; /* too long ago: it starts over */
			return;
		}
		self_report_second(&drive->self_report, joules - drive->second_joules,
				   idle_joules - drive->second_idle_joules, real_ms);
		drive->second_joules = joules;
		drive->second_idle_joules = idle_joules;
		drive->second_ends_ns += NS_PER_SECOND;
	}
}

void device_catch_up(struct drive *drive)
{
	struct cut_state cut;
	double joules = 0;
	int64_t now_ns;

	cut_state(drive->cut, &cut);
	pthread_mutex_lock(&drive->lock);
	now_ns = clock_monotonic_ns();
	device_advance(drive, now_ns);
	for (unsigned r = 0; r < power_rail_count(drive->power); r++)
		joules += power_joules(drive->power, r);
	warmth_step(&drive->warmth, now_ns, joules);
	if (cut.powered)
		drive->powered_ns += now_ns - drive->powered_until_ns;
	count_heat(drive, now_ns, cut.powered);
	report_seconds(drive, cut.powered);
	drive->powered_until_ns = now_ns;
	pthread_mutex_unlock(&drive->lock);
}

void device_health(struct drive *drive, struct health *health, double *celsius)
{
	uint64_t counters[COUNTERS];
	struct flash_wear wear;
	struct cut_state cut;

	cut_state(drive->cut, &cut);
	pthread_mutex_lock(&drive->lock);
	counters_now(drive->counters, counters);
	*health = drive->kept;
	health->host_bytes_written += counters[COUNTER_WRITE_BYTES];
	/* Without a model of its flash, it writes what the host writes. */
	health->nand_bytes_written += timing_wear(drive->timing, clock_monotonic_ns(), &wear) ?
					      wear.flash_bytes : counters[COUNTER_WRITE_BYTES];
	health->power_cycles += cut.power_ons;
	health->unsafe_shutdowns += cut.cuts - drive->orderly_cuts;
	health->host_bytes_read += counters[COUNTER_READ_BYTES];
	health->host_reads += counters[COUNTER_READS];
	health->host_writes += counters[COUNTER_WRITES];
	health->media_errors += drive->media_errors;
	health->busy_seconds += (double)pace_busy_ns(&drive->pace, clock_monotonic_ns()) * 1e-9;
	health->power_on_seconds += (double)drive->powered_ns * 1e-9;
	health->warm_seconds += drive->warm_seconds;
	health->hot_seconds += drive->hot_seconds;
	health->reported_joules = drive->self_report.lifetime_joules;
	for (unsigned n = 0; n < THROTTLE_LEVELS; n++) {
		health->throttled.entered[n] += drive->throttle.counts.entered[n];
		health->throttled.seconds[n] += drive->throttle.counts.seconds[n];
	}
	*celsius = drive->warmth.celsius;
	pthread_mutex_unlock(&drive->lock);
}

void device_self_report(struct drive *drive, struct self_report *report)
{
	pthread_mutex_lock(&drive->lock);
	*report = drive->self_report;
	pthread_mutex_unlock(&drive->lock);
}

void device_measure(struct drive *drive, bool start, unsigned stop_minutes)
{
	struct clock_offset now = clock_offset_now();
	uint64_t now_ms = (uint64_t)((now.monotonic_ns + now.offset_ns) / NS_PER_MS);

	pthread_mutex_lock(&drive->lock);
	if (start)
		self_report_start(&drive->self_report, now_ms, stop_minutes);
	else
		self_report_stop(&drive->self_report, now_ms);
	pthread_mutex_unlock(&drive->lock);
}
