/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * An operation's way through the drive in real time: it is taken when the power
 * limit lets it, the model of time says when it ends, and it is handed back then:
 * never before, and late only by as much as this host is (pace.h).
 *
 * Any thread may call device_begin, device_wait, device_catch_up, device_health:
 * they take the drive's lock themselves (drive.h). The others are called with it
 * held, as their comments say.
 */
#ifndef JOULERIG_DEVICE_H
#define JOULERIG_DEVICE_H

#include "drive.h"
#include "timing.h"

#include <stdbool.h>
#include <stdint.h>

struct device_operation {
	uint64_t cycle; /* the power cycle it belongs to (cut.h) */
	struct timing_operation timing;
};

/* Takes an operation of a power cycle. Waits as long as the drive draws all it
 * may, and until the model knows the operation's end. 0, or -1 with errno when the
 * power went; then the operation is forgotten. */
int device_begin(struct drive *drive, struct device_operation *operation, uint64_t cycle,
		 enum pace_kind kind, uint64_t offset, uint64_t bytes, bool fua);

/* Waits for the operation's end. 0, or -1 with errno when the power went. */
int device_wait(struct drive *drive, const struct device_operation *operation);

/* Notes that the operation is handed back, which counts amounts[], or that it has
 * failed and is in no figure of latency. Under the drive's lock. */
void device_served(struct drive *drive, const struct device_operation *operation, int64_t now_ns,
		   const uint64_t amounts[COUNTERS]);
void device_failed(struct drive *drive, int64_t now_ns);

/* Advance the models of time and power to time_ns. Under the drive's lock. */
void device_advance(struct drive *drive, int64_t time_ns);

/* Brings power, temperature and hours up to now. */
void device_catch_up(struct drive *drive);
/* The drive's life up to now, after device_catch_up, and its temperature. */
void device_health(struct drive *drive, struct health *health, double *celsius);

/* The power states (device_states.c). Under the drive's lock: those that are in effect
 * after power on; an operation has come to a drive that rested by command. */
void device_begin_states(struct drive *drive, int64_t time_ns);
void device_left_rest(struct drive *drive);
/* Any thread may: the state that it is in; to go to one; what it does by itself. */
unsigned device_state(struct drive *drive);
void device_set_state(struct drive *drive, unsigned state);
void device_get_autonomous(struct drive *drive, bool *enabled, struct power_transition *table);
void device_set_autonomous(struct drive *drive, bool enabled, const struct power_transition *table);
void device_reset_states(struct drive *drive);
/* Under the drive's lock: its rates and watts are those of its state and its temperature. */
void device_apply_limits(struct drive *drive, int64_t time_ns);

/* What it reports of its power, after device_catch_up; the measurement that its host starts,
 * which ends by itself after so many minutes (0: never), and stops. */
void device_self_report(struct drive *drive, struct self_report *report);
void device_measure(struct drive *drive, bool start, unsigned stop_minutes);

/* The host has announced that it will cut the power: nothing that comes after it is
 * lost but by a new operation, and such a cut is no unsafe shutdown. */
int device_shut_down(struct drive *drive);
/* The medium could not take or give data. Under no lock. */
void device_media_failed(struct drive *drive);

/* What cut.h reports, for cut_new: it changes the models of time and power. */
struct cut_events device_power_events(struct drive *drive);

/* The parameter `work`, and watts of each power state (`key`: doze_watts and the like),
 * at most `most`, of rails that are given already. Each 0, or -1 with one line in error. */
int device_set_work(struct work_energy *energy, const struct power_rail *rails, unsigned rail_count,
		    const char *value, char *error, size_t error_size);
int device_set_watts(double watts[][POWER_MAX_RAILS], unsigned most, const struct power_rail *rails,
		     unsigned rail_count, const char *key, const char *value, char *error,
		     size_t error_size);

#endif
