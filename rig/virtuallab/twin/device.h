/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * An operation's way through the drive in real time: it is taken when the power
 * limit lets it, the model of time says when it ends, and it is handed back then:
 * never before, and late only by as much as this host is (pace.h).
 */
#ifndef JOULERIG_DEVICE_H
#define JOULERIG_DEVICE_H

#include "drive.h"
#include "timing.h"

#include <stdbool.h>
#include <stdint.h>

struct device_operation {
	struct timing_operation timing;
};

/* Takes an operation. Waits as long as the drive draws all it may, and until the
 * model knows the operation's end. */
void device_begin(struct drive *drive, struct device_operation *operation, enum pace_kind kind,
		  uint64_t offset, uint64_t bytes, bool fua);

/* Waits for the operation's end. */
void device_wait(struct drive *drive, const struct device_operation *operation);

/* Notes that the operation is handed back, or that it has failed and its time does
 * not count. Under the drive's lock. */
void device_served(struct drive *drive, const struct device_operation *operation, int64_t now_ns);
void device_failed(struct drive *drive, const struct device_operation *operation, int64_t now_ns);

/* Brings the models of time and power up to time_ns. Under the drive's lock. */
void device_settle(struct drive *drive, int64_t time_ns);

#endif
