/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The time that a hard disk takes: one actuator over spinning platters. Pure:
 * the caller gives times (nanoseconds of one monotonic clock, never falling) and
 * holds one lock around all calls.
 *
 * Geometry. The drive's bytes fill the whole stroke, whatever its size: zones of
 * equally many cylinders, each zone with its own bytes a track, which follow from
 * its transfer rate and the rotation; rates fall evenly from the outermost zone, where
 * offset 0 is, to the innermost. A drive smaller than the real one has fewer
 * cylinders, so its seeks are the real ones' at the same fraction of the stroke.
 *
 * Seek over a fraction d of the stroke, d > 0: settle + a sqrt(d) + b d (C. Ruemmler,
 * J. Wilkes, IEEE Computer 27(3), 1994). a and b follow from the three times that a
 * manual gives: over one cylinder, the mean over random pairs (E sqrt(d) = 8/15,
 * E d = 1/3) and over the full stroke. d is 0 for the next cylinder.
 * Rotation: the platter's angle is the clock's; tracks are skewed by the time that
 * the change to the next one takes, so that reading on loses just that time.
 *
 * Order. Of the operations that wait, the actuator takes the one it can reach
 * first (as with NCQ); one that has waited for DISK_PATIENCE_NS goes first. Writes
 * are acknowledged when they are in the write cache and go to the platter when
 * nothing else waits, or, when the cache is full or a flush waits, along with the
 * rest. After a read the head reads on, up to read_ahead_bytes beyond what was asked.
 *
 * So an operation's end is not known when it comes: disk_submit may leave
 * complete_ns at 0, and disk_advance decides it.
 */
#ifndef JOULERIG_DISK_H
#define JOULERIG_DISK_H

#include "work.h"

#include <stdbool.h>
#include <stdint.h>

#define DISK_MAX_ZONES 32
#define DISK_PATIENCE_NS 500000000LL

struct disk_config {
	uint64_t bytes;
	int64_t rpm;
	int64_t heads;
	int64_t zones;
	int64_t track_to_track_ns;
	int64_t average_seek_ns;
	int64_t full_stroke_ns;
	int64_t head_switch_ns;
	int64_t command_ns;
	double outer_bytes_per_second; /* of the outermost zone, on the platter */
	double inner_bytes_per_second;
	double link_bytes_per_second;
	int64_t write_cache_bytes; /* 0: writes end on the platter */
	int64_t read_ahead_bytes;
};

enum disk_kind { DISK_READ, DISK_WRITE, DISK_FLUSH };

/* One operation; the caller keeps it until complete_ns is not 0. */
struct disk_operation {
	enum disk_kind kind;
	uint64_t offset;
	uint64_t bytes;
	bool fua;
	int64_t arrival_ns;
	int64_t complete_ns;
	uint64_t before; /* of a flush: the number of the first write after it */
	struct disk_operation *next;
};

struct disk;

/* Whether the seek times can be met by the curve: a and b not negative. */
bool disk_seeks_fit(const struct disk_config *config);

/* NULL when memory is short. Work goes to `work`, which must live as long. */
struct disk *disk_new(const struct disk_config *config, struct work_queue *work);
void disk_free(struct disk *disk);

/* The actuator can do nothing before time_ns. */
void disk_hold(struct disk *disk, int64_t time_ns);

void disk_submit(struct disk *disk, struct disk_operation *operation);
/* Decides all that is to be decided by time_ns. */
void disk_advance(struct disk *disk, int64_t time_ns);
/* Forgets an operation that is not decided. */
void disk_cancel(struct disk *disk, const struct disk_operation *operation);
/* The power is gone: the buffers and what goes on are no more. What waits is left
 * to be cancelled. */
void disk_reset(struct disk *disk, int64_t time_ns);
/* When the next decision is due; INT64_MAX: nothing waits. */
int64_t disk_next_ns(const struct disk *disk);
int64_t disk_busy_until_ns(const struct disk *disk);
uint64_t disk_dirty_bytes(const struct disk *disk);

/* For tests: the curve, and the mechanics of one access from the head's place. */
int64_t disk_seek_ns(const struct disk *disk, double stroke_fraction);
int64_t disk_transfer_ns(const struct disk *disk, uint64_t offset, uint64_t bytes);

#endif
