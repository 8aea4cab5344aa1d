/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "nvme/backend.h"

#include "block.h"
#include "clock.h"
#include "device.h"

#define NS_PER_MS 1000000
#define NS_PER_US 1000

static struct drive *drive_of(void *owner)
{
	return ((struct nvme_backend *)owner)->drive;
}

static bool is_ready(void *owner, uint64_t *cycle)
{
	return cut_enter(drive_of(owner)->cut, cycle) == 0;
}

static void read_health(void *owner, struct nvme_health *health)
{
	const struct nvme_backend *backend = owner;
	struct drive *drive = backend->drive;
	struct self_report report;
	struct flash_wear wear;
	struct health life;
	double celsius;
	bool has_flash, is_throttled;

	device_catch_up(drive);
	device_health(drive, &life, &celsius);
	device_self_report(drive, &report);
	pthread_mutex_lock(&drive->lock);
	has_flash = timing_wear(drive->timing, clock_monotonic_ns(), &wear);
	is_throttled = drive->throttle.level > 0;
	pthread_mutex_unlock(&drive->lock);
	*health = (struct nvme_health){
		.celsius = celsius + report.settings.celsius_more,
		.read_bytes = life.host_bytes_read,
		.written_bytes = (uint64_t)((double)life.host_bytes_written * report.settings.written_factor),
		.nand_bytes_written = (uint64_t)((double)life.nand_bytes_written * report.settings.written_factor),
		.reads = life.host_reads,
		.writes = life.host_writes,
		.busy_seconds = life.busy_seconds,
		.power_cycles = life.power_cycles,
		.unsafe_shutdowns = life.unsafe_shutdowns,
		.media_errors = life.media_errors,
		.power_on_seconds = life.power_on_seconds,
		.warm_seconds = life.warm_seconds,
		.hot_seconds = life.hot_seconds,
		.throttled = life.throttled,
		.is_throttled = is_throttled,
	};
	if (has_flash)
		health->erases = (double)health->nand_bytes_written / (double)wear.capacity_bytes;
	if (backend->rated_erases > 0)
		health->percentage_used = 100 * health->erases / backend->rated_erases;
}

static void read_self_report(void *owner, struct self_report *report)
{
	device_catch_up(drive_of(owner));
	device_self_report(drive_of(owner), report);
}

static void measure(void *owner, bool start, unsigned stop_minutes)
{
	device_catch_up(drive_of(owner));
	device_measure(drive_of(owner), start, stop_minutes);
}

static unsigned read_state(void *owner)
{
	return device_state(drive_of(owner));
}

static void set_state(void *owner, unsigned state)
{
	device_set_state(drive_of(owner), state);
}

static void get_autonomous(void *owner, bool *enabled, struct nvme_transition *table)
{
	struct power_transition transitions[POWER_STATES_MOST];

	device_get_autonomous(drive_of(owner), enabled, transitions);
	for (unsigned n = 0; n < POWER_STATES_MOST; n++)
		table[n] = (struct nvme_transition){ .to = transitions[n].to,
						     .idle_ms = (uint32_t)(transitions[n].idle_ns / NS_PER_MS) };
}

static void set_autonomous(void *owner, bool enabled, const struct nvme_transition *table)
{
	struct power_transition transitions[POWER_STATES_MOST];

	for (unsigned n = 0; n < POWER_STATES_MOST; n++)
		transitions[n] = (struct power_transition){ .to = table[n].to,
							    .idle_ns = (int64_t)table[n].idle_ms * NS_PER_MS };
	device_set_autonomous(drive_of(owner), enabled, transitions);
}

static void reset(void *owner)
{
	device_reset_states(drive_of(owner));
}

static void shut_down(void *owner)
{
	device_shut_down(drive_of(owner));
}

static uint64_t real_ms(void *owner)
{
	struct clock_offset now = clock_offset_now();

	(void)owner;
	return (uint64_t)((now.monotonic_ns + now.offset_ns) / NS_PER_MS);
}

/* Without power it is not the medium that has failed. */
static int checked(void *owner, int result)
{
	uint64_t cycle;

	if (result < 0 && is_ready(owner, &cycle))
		device_media_failed(drive_of(owner));
	return result;
}

static int read_data(void *owner, void *data, uint32_t bytes, uint64_t offset)
{
	return checked(owner, block_read(drive_of(owner), data, bytes, offset));
}

static int write_data(void *owner, const void *data, uint32_t bytes, uint64_t offset, bool fua)
{
	return checked(owner, block_write(drive_of(owner), data, bytes, offset, fua));
}

static int flush(void *owner)
{
	return checked(owner, block_flush(drive_of(owner)));
}

static int discard(void *owner, uint64_t bytes, uint64_t offset)
{
	return checked(owner, block_discard(drive_of(owner), bytes, offset, false));
}

static int zero(void *owner, uint32_t bytes, uint64_t offset, bool may_unmap, bool fua)
{
	return checked(owner, block_zero(drive_of(owner), bytes, offset, may_unmap, fua));
}

static struct nvme_state state_of(const struct drive *drive, unsigned number)
{
	const struct power_state *state = &drive->states.of[number];
	struct nvme_state seen = {
		.is_operational = power_states_is_operational(&drive->states, number),
		.entry_us = (uint32_t)(state->entry_ns / NS_PER_US),
		.exit_us = (uint32_t)(state->exit_ns / NS_PER_US),
	};

	for (unsigned r = 0; r < power_rail_count(drive->power); r++) {
		seen.watts += state->idle_watts[r] + state->active_watts[r];
		seen.idle_watts += state->idle_watts[r];
	}
	if (state->declared_watts > 0) {
		seen.watts = state->declared_watts;
		seen.idle_watts = 0; /* says nothing of it */
	}
	/* Faster are those with a higher rate, or, of the same, with more watts. */
	for (unsigned n = 0; n < drive->states.count; n++) {
		const struct power_state *other = &drive->states.of[n];

		if (other->rate > state->rate ||
		    (other->rate == state->rate && other->active_watts[0] > state->active_watts[0]))
			seen.rate_rank++;
	}
	return seen;
}

void nvme_backend_begin(struct nvme_backend *backend, struct drive *drive)
{
	backend->drive = drive;
	backend->facts.state_count = drive->states.count;
	backend->facts.initial_state = drive->states.initial;
	for (unsigned n = 0; n < drive->states.count; n++)
		backend->facts.states[n] = state_of(drive, n);
	backend->functions = (struct nvme_drive){
		.owner = backend,
		.is_ready = is_ready,
		.health = read_health,
		.self_report = read_self_report,
		.measure = measure,
		.state = read_state,
		.set_state = set_state,
		.get_autonomous = get_autonomous,
		.set_autonomous = set_autonomous,
		.reset = reset,
		.shut_down = shut_down,
		.real_ms = real_ms,
		.read = read_data,
		.write = write_data,
		.flush = flush,
		.discard = discard,
		.zero = zero,
	};
}
