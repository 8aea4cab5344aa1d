/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "control_requests.h"

#include "clock.h"
#include "device.h"

/* What `state` reports, read under the locks and written without them. */
struct snapshot {
	int64_t time_ns;
	struct cut_state cut;
	struct health health;
	double celsius;
	unsigned throttle_level;
	struct flash_wear wear;
	bool has_flash;
	uint64_t counters[COUNTERS];
	struct pace pace;
	struct {
		double volts, amps, joules, causes[POWER_CAUSES];
	} rails[POWER_MAX_RAILS];
};

static void take_snapshot(struct drive *drive, struct snapshot *now)
{
	device_catch_up(drive);
	device_health(drive, &now->health, &now->celsius);
	cut_state(drive->cut, &now->cut);
	pthread_mutex_lock(&drive->lock);
	device_advance(drive, clock_monotonic_ns());
	now->time_ns = power_settled_ns(drive->power);
	now->has_flash = timing_wear(drive->timing, now->time_ns, &now->wear);
	counters_now(drive->counters, now->counters);
	now->pace = drive->pace;
	now->throttle_level = drive->throttle.level;
	for (unsigned r = 0; r < power_rail_count(drive->power); r++) {
		power_now(drive->power, r, &now->rails[r].volts, &now->rails[r].amps);
		now->rails[r].joules = power_joules(drive->power, r);
		for (enum power_cause c = 0; c < POWER_CAUSES; c++)
			now->rails[r].causes[c] = power_cause_joules(drive->power, r, c);
	}
	pthread_mutex_unlock(&drive->lock);
}

static void write_rails(struct json_writer *reply, const struct power *power, const struct snapshot *now)
{
	json_open(reply, "rails", '[');
	for (unsigned r = 0; r < power_rail_count(power); r++) {
		json_open(reply, NULL, '{');
		json_text(reply, "name", power_rail_name(power, r));
		json_bool(reply, "on", now->cut.rail_on[r]);
		json_number(reply, "volts", now->rails[r].volts, 9);
		json_number(reply, "amps", now->rails[r].amps, 9);
		json_fixed(reply, "joules", now->rails[r].joules, 12);
		json_open(reply, "cause_joules", '{');
		for (enum power_cause c = 0; c < POWER_CAUSES; c++)
			json_fixed(reply, power_cause_name(c), now->rails[r].causes[c], 12);
		json_close(reply, '}');
		json_close(reply, '}');
	}
	json_close(reply, ']');
}

static void write_time(struct json_writer *reply, const struct snapshot *now)
{
	json_open(reply, "time", '{');
	json_signed(reply, "busy_ns", pace_busy_ns(&now->pace, now->time_ns));
	json_signed(reply, "device_bound_ns", pace_device_bound_ns(&now->pace, now->time_ns));
	json_unsigned(reply, "operations", now->pace.operations);
	json_unsigned(reply, "late_operations", now->pace.late_operations);
	json_signed(reply, "late_ns_total", now->pace.late_ns_total);
	json_signed(reply, "late_ns_max", now->pace.late_ns_max);
	json_close(reply, '}');
}

static void write_health(struct json_writer *reply, const struct snapshot *now)
{
	const struct health *health = &now->health;
	const struct flash_wear *wear = &now->wear;

	json_open(reply, "health", '{');
	json_unsigned(reply, "host_bytes_written", health->host_bytes_written);
	json_unsigned(reply, "nand_bytes_written", health->nand_bytes_written);
	json_unsigned(reply, "power_cycles", health->power_cycles);
	json_unsigned(reply, "unsafe_shutdowns", health->unsafe_shutdowns);
	json_fixed(reply, "power_on_seconds", health->power_on_seconds, 3);
	json_fixed(reply, "temperature_celsius", now->celsius, 3);
	json_unsigned(reply, "throttle_level", now->throttle_level);
	json_open(reply, "throttled", '[');
	for (unsigned n = 0; n < THROTTLE_LEVELS; n++) {
		json_open(reply, NULL, '{');
		json_unsigned(reply, "entered", health->throttled.entered[n]);
		json_fixed(reply, "seconds", health->throttled.seconds[n], 3);
		json_close(reply, '}');
	}
	json_close(reply, ']');
	if (now->has_flash) {
		json_number(reply, "erase_count_mean",
			    (double)health->nand_bytes_written / (double)wear->capacity_bytes, 6);
		json_unsigned(reply, "erase_count_max", wear->ftl.erases_max);
		json_unsigned(reply, "slc_bytes", wear->slc_bytes);
		json_unsigned(reply, "mapped_bytes", wear->ftl.valid_pages * FTL_PAGE_BYTES);
	}
	json_close(reply, '}');
}

void control_state(const struct control_context *context, struct json_writer *reply)
{
	const struct drive *drive = context->drive;
	struct snapshot now;

	take_snapshot(context->drive, &now);
	json_open(reply, NULL, '{');
	json_signed(reply, "realtime_ns", now.time_ns + clock_offset_now().offset_ns);
	json_signed(reply, "monotonic_ns", now.time_ns);
	json_text(reply, "serial", drive->serial);
	json_signed(reply, "window_ns", power_window_ns(drive->power));
	json_bool(reply, "powered", now.cut.powered);
	json_bool(reply, "ready", now.cut.ready);
	json_unsigned(reply, "power_cycles", now.health.power_cycles);
	json_unsigned(reply, "unsafe_shutdowns", now.health.unsafe_shutdowns);
	write_rails(reply, drive->power, &now);
	json_open(reply, "counters", '{');
	for (enum counter c = 0; c < COUNTERS; c++)
		json_unsigned(reply, counter_name(c), now.counters[c]);
	json_close(reply, '}');
	write_time(reply, &now);
	json_open(reply, "cache", '{');
	json_unsigned(reply, "capacity_bytes", now.cut.capacity_bytes);
	json_unsigned(reply, "dirty_bytes", now.cut.dirty_bytes);
	json_close(reply, '}');
	if (now.cut.cuts)
		control_write_cut(reply, "last_cut", &now.cut.last);
	else
		json_null(reply, "last_cut");
	write_health(reply, &now);
	json_close(reply, '}');
	json_raw(reply, "\n");
}

void control_latency(const struct control_context *context, struct json_writer *reply)
{
	struct pace pace;

	pthread_mutex_lock(&context->drive->lock);
	pace = context->drive->pace;
	pthread_mutex_unlock(&context->drive->lock);
	json_open(reply, NULL, '{');
	for (enum pace_kind kind = 0; kind < PACE_KINDS; kind++) {
		json_open(reply, pace_kind_name(kind), '{');
		json_signed(reply, "model_ns_total", pace.model_ns_total[kind]);
		json_signed(reply, "served_ns_total", pace.served_ns_total[kind]);
		json_open(reply, "edges_ns", '[');
		for (unsigned bin = 0; bin < PACE_BINS; bin++)
			json_signed(reply, NULL, pace_edge_ns(bin));
		json_close(reply, ']');
		json_open(reply, "model_counts", '[');
		for (unsigned bin = 0; bin < PACE_BINS; bin++)
			json_unsigned(reply, NULL, pace.model_counts[kind][bin]);
		json_close(reply, ']');
		json_open(reply, "served_counts", '[');
		for (unsigned bin = 0; bin < PACE_BINS; bin++)
			json_unsigned(reply, NULL, pace.served_counts[kind][bin]);
		json_close(reply, ']');
		json_close(reply, '}');
	}
	json_close(reply, '}');
	json_raw(reply, "\n");
}
