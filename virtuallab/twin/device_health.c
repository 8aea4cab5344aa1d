/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "device.h"

#include "clock.h"

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
	*celsius = drive->warmth.celsius;
	pthread_mutex_unlock(&drive->lock);
}
