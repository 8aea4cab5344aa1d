/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "timing.h"

#include <stdlib.h>

struct timing {
	enum timing_model model;
	struct flash *flash;
	struct disk *disk;
	struct doze doze;
	int64_t held_until_ns;
	struct work_queue work;
};

struct timing *timing_new(const struct timing_config *config, uint64_t drive_bytes, int64_t start_ns)
{
	struct timing *timing = calloc(1, sizeof *timing);
	struct flash_config flash = config->flash;
	struct disk_config disk = config->disk;

	if (!timing)
		return NULL;
	timing->model = config->model;
	timing->doze.idle_since_ns = start_ns;
	timing->held_until_ns = start_ns;
	timing_set_doze(timing, config->states, config->state_count);
	flash.bytes = disk.bytes = drive_bytes;
	if (config->model == TIMING_FLASH)
		timing->flash = flash_new(&flash, &timing->work);
	if (config->model == TIMING_DISK)
		timing->disk = disk_new(&disk, &timing->work);
	if ((config->model == TIMING_FLASH && !timing->flash) ||
	    (config->model == TIMING_DISK && !timing->disk)) {
		timing_free(timing);
		return NULL;
	}
	return timing;
}

void timing_free(struct timing *timing)
{
	if (!timing)
		return;
	flash_free(timing->flash);
	disk_free(timing->disk);
	free(timing);
}

void timing_fill(struct timing *timing, uint64_t offset, uint64_t bytes)
{
	if (timing->flash)
		flash_fill(timing->flash, offset, bytes);
}

static void note_busy(struct timing *timing)
{
	if (timing->flash)
		doze_busy(&timing->doze, flash_busy_until_ns(timing->flash));
	if (timing->disk)
		doze_busy(&timing->doze, disk_busy_until_ns(timing->disk));
}

/* When the drive can begin, out of whatever state it is in. */
static int64_t wake(struct timing *timing, int64_t time_ns)
{
	int64_t exit_ns;
	int64_t ready_ns = doze_wake(&timing->doze, time_ns, &exit_ns);
	struct work work = { .cause = timing->disk ? WORK_SPIN_UP : WORK_WAKE,
			     .start_ns = ready_ns - exit_ns, .duration_ns = exit_ns };

	work_put(&timing->work, &work);
	doze_busy(&timing->doze, ready_ns);
	return ready_ns;
}

void timing_set_doze(struct timing *timing, const struct doze_state *states, unsigned count)
{
	timing->doze.state_count = count;
	for (unsigned n = 0; n < count; n++)
		timing->doze.states[n] = states[n];
}

void timing_stir(struct timing *timing, int64_t time_ns)
{
	doze_busy(&timing->doze, time_ns);
}

void timing_wake(struct timing *timing, int64_t time_ns)
{
	wake(timing, time_ns);
}

void timing_hold(struct timing *timing, int64_t time_ns)
{
	timing->held_until_ns = time_ns;
}

void timing_set_rate(struct timing *timing, double rate)
{
	if (timing->flash)
		flash_set_rate(timing->flash, rate);
}

static int64_t submit_to_flash(struct flash *flash, int64_t time_ns,
			       const struct timing_operation *operation)
{
	switch (operation->kind) {
	case PACE_READ:
		return flash_read(flash, time_ns, operation->offset, operation->bytes);
	case PACE_WRITE:
		return flash_write(flash, time_ns, operation->offset, operation->bytes, operation->fua);
	case PACE_FLUSH:
		return flash_flush(flash, time_ns);
	default:
		return flash_discard(flash, time_ns, operation->offset, operation->bytes);
	}
}

static void submit_to_disk(struct disk *disk, int64_t time_ns, struct timing_operation *operation)
{
	struct disk_operation *on_disk = &operation->on_disk;

	*on_disk = (struct disk_operation){
		.kind = operation->kind == PACE_READ  ? DISK_READ :
			operation->kind == PACE_WRITE ? DISK_WRITE : DISK_FLUSH,
		.offset = operation->offset, .bytes = operation->bytes, .fua = operation->fua,
		.arrival_ns = operation->arrival_ns };
	if (time_ns > operation->arrival_ns)
		disk_hold(disk, time_ns);
	disk_submit(disk, on_disk);
}

void timing_submit(struct timing *timing, struct timing_operation *operation)
{
	int64_t ready_ns;

	operation->complete_ns = operation->arrival_ns;
	if (timing->model == TIMING_NULL)
		return;
	timing_advance(timing, operation->arrival_ns);
	ready_ns = wake(timing, operation->arrival_ns);
	if (ready_ns < timing->held_until_ns)
		ready_ns = timing->held_until_ns;
	if (timing->flash) {
		operation->complete_ns = submit_to_flash(timing->flash, ready_ns, operation);
	} else if (operation->kind == PACE_DISCARD) {
		/* A hard disk has nothing to unmap. */
	} else {
		submit_to_disk(timing->disk, ready_ns, operation);
		operation->complete_ns = operation->on_disk.complete_ns;
	}
	doze_busy(&timing->doze, operation->complete_ns);
	note_busy(timing);
}

bool timing_decided(struct timing_operation *operation)
{
	if (operation->complete_ns == 0)
		operation->complete_ns = operation->on_disk.complete_ns;
	return operation->complete_ns != 0;
}

void timing_cancel(struct timing *timing, const struct timing_operation *operation)
{
	if (timing->disk)
		disk_cancel(timing->disk, &operation->on_disk);
}

void timing_reset(struct timing *timing, int64_t time_ns)
{
	if (timing->flash)
		flash_reset(timing->flash, time_ns);
	if (timing->disk)
		disk_reset(timing->disk, time_ns);
	timing->doze.idle_since_ns = time_ns;
	timing->work.count = 0;
}

void timing_begin(struct timing *timing, int64_t time_ns, int64_t ready_ns)
{
	struct work work = { .cause = WORK_SPIN_UP, .start_ns = time_ns,
			     .duration_ns = ready_ns - time_ns };

	timing->doze.idle_since_ns = ready_ns;
	if (timing->disk) {
		disk_hold(timing->disk, ready_ns);
		work_put(&timing->work, &work);
	}
}

void timing_advance(struct timing *timing, int64_t time_ns)
{
	if (timing->flash)
		flash_advance(timing->flash, time_ns);
	if (timing->disk)
		disk_advance(timing->disk, time_ns);
	note_busy(timing);
}

int64_t timing_next_ns(const struct timing *timing)
{
	return timing->flash ? flash_next_ns(timing->flash) :
	       timing->disk  ? disk_next_ns(timing->disk) : INT64_MAX;
}

int64_t timing_work_ns(const struct timing *timing)
{
	return work_next_ns(&timing->work);
}

bool timing_take_work(struct timing *timing, int64_t time_ns, struct work *work)
{
	return work_take(&timing->work, time_ns, work);
}

const struct doze *timing_doze(const struct timing *timing)
{
	return &timing->doze;
}

bool timing_wear(struct timing *timing, int64_t time_ns, struct flash_wear *wear)
{
	if (!timing->flash)
		return false;
	flash_wear(timing->flash, time_ns, wear);
	return true;
}
