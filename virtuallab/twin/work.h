/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What a drive does in addition to serving its host: pieces of work, each with its
 * cause, time and size. The models of time put them into a queue, the
 * power model gets them when they begin.
 */
#ifndef JOULERIG_WORK_H
#define JOULERIG_WORK_H

#include <stdbool.h>
#include <stdint.h>

enum work_cause {
	WORK_GC,   /* garbage collection: valid pages moved, blocks erased */
	WORK_FOLD, /* pages moved from single-level cells to their final pages */
	WORK_SEEK, /* the actuator moves */
	WORK_SPIN_UP, /* of a hard disk, out of standby or when it gets power */
	WORK_WAKE, /* leaving any other power state */
	WORK_CAUSES
};

struct work {
	enum work_cause cause;
	int64_t start_ns;
	int64_t duration_ns;
	uint64_t bytes; /* moved; 0 where the work is none of bytes */
};

#define WORK_QUEUE_SIZE 4096

struct work_queue {
	struct work items[WORK_QUEUE_SIZE];
	unsigned first, count;
};

const char *work_cause_name(enum work_cause cause);

/* A full queue joins the new work to the last of its cause: no energy is lost,
 * only its time gets coarser. */
void work_put(struct work_queue *queue, const struct work *work);

/* The next piece that has begun by time_ns. False when there is none. */
bool work_take(struct work_queue *queue, int64_t time_ns, struct work *work);

/* When the next piece begins; INT64_MAX when there is none. */
int64_t work_next_ns(const struct work_queue *queue);

#endif
