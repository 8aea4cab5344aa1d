/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The model of time of a virtual drive: one of
 *   null   no time at all: what the server and its transport cost by themselves
 *   flash  an SSD (flash.h)
 *   disk   a hard disk (disk.h)
 * with the power states that it dozes off to (doze.h). Pure: the caller gives
 * times (nanoseconds of one monotonic clock, never falling) and holds one lock
 * around all calls.
 */
#ifndef JOULERIG_TIMING_H
#define JOULERIG_TIMING_H

#include "disk.h"
#include "doze.h"
#include "flash.h"
#include "pace.h"
#include "work.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum timing_model { TIMING_NULL, TIMING_FLASH, TIMING_DISK };

struct timing_config {
	enum timing_model model;
	struct flash_config flash; /* bytes comes from the drive */
	struct disk_config disk;   /* likewise */
	struct doze_state states[DOZE_MAX_STATES];
	unsigned state_count;
};

/* One operation; the caller keeps it until complete_ns is not 0. */
struct timing_operation {
	enum pace_kind kind;
	uint64_t offset;
	uint64_t bytes;
	bool fua;
	int64_t arrival_ns;
	int64_t complete_ns;
	struct disk_operation on_disk;
};

struct timing;

/* Takes the parameter `key`, all but the write cache's, if it is one of the model's. Returns 0
 * when it has done so, 1 when it is not the model's, -1 with one line in error when the value
 * cannot be used. */
int timing_set(struct timing_config *config, const char *key, const char *value, char *error,
	       size_t error_size);
/* Whether all that the model needs is there and fits; else false and a line. */
bool timing_check(const struct timing_config *config, char *error, size_t error_size);

/* NULL when memory is short. */
struct timing *timing_new(const struct timing_config *config, uint64_t drive_bytes, int64_t start_ns);
void timing_free(struct timing *timing);

/* Data that are on the drive when it begins. */
void timing_fill(struct timing *timing, uint64_t offset, uint64_t bytes);

/* May leave complete_ns at 0: then timing_advance decides it. */
void timing_submit(struct timing *timing, struct timing_operation *operation);
/* Whether complete_ns of an operation that was left open is known now. */
bool timing_decided(struct timing_operation *operation);

/* The states that an idle drive enters from now on. */
void timing_set_doze(struct timing *timing, const struct doze_state *states, unsigned count);
/* Idle time begins no sooner than at time_ns. */
void timing_stir(struct timing *timing, int64_t time_ns);
/* Leaves the state in which the drive is at time_ns, if it is in one. */
void timing_wake(struct timing *timing, int64_t time_ns);
/* What comes begins no sooner than at time_ns; a link of flash goes at a fraction of its
 * rates from now on. */
void timing_hold(struct timing *timing, int64_t time_ns);
void timing_set_rate(struct timing *timing, double rate);

/* Forgets an operation that is not decided. */
void timing_cancel(struct timing *timing, const struct timing_operation *operation);
/* The power is gone at time_ns; what is not decided is left to be cancelled. */
void timing_reset(struct timing *timing, int64_t time_ns);
/* It has come back, and the drive works from ready_ns on: a hard disk spins up. */
void timing_begin(struct timing *timing, int64_t time_ns, int64_t ready_ns);

/* Decides and does all that is due by time_ns. */
void timing_advance(struct timing *timing, int64_t time_ns);
/* When it is due next; INT64_MAX: nothing is. */
int64_t timing_next_ns(const struct timing *timing);

/* When the next piece of work begins; INT64_MAX: there is none. */
int64_t timing_work_ns(const struct timing *timing);
/* The next piece of work that has begun by time_ns. False: none. */
bool timing_take_work(struct timing *timing, int64_t time_ns, struct work *work);

/* The power states to come if nothing else does. */
const struct doze *timing_doze(const struct timing *timing);

/* Of a flash drive; false for others. */
bool timing_wear(struct timing *timing, int64_t time_ns, struct flash_wear *wear);

#endif
