/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A virtual drive's data while its power may be cut at any moment: the volatile
 * cache over the backing file, the switches of the rails, and which power cycle
 * an operation belongs to. It knows nothing of the drive's models: what a change
 * of the power means to them, it reports through struct cut_events.
 *
 * Any thread may call any function here. It locks for itself, and calls the events
 * with its lock held: they may take the drive's lock (drive.h), and must not call
 * back. So the order is this lock, then the drive's.
 *
 * An operation enters, and is given its power cycle; it passes its data; it waits
 * as long as the drive takes; it finishes. In a later power cycle, or while there
 * is none, each of these fails with EIO: an operation that was in flight when the
 * power went is never acknowledged. Functions that return int give 0, or -1 with
 * errno.
 */
#ifndef JOULERIG_CUT_H
#define JOULERIG_CUT_H

#include "cache.h"
#include "power.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Calls to the owner of the drive, when the power changes. Each is called with the
 * lock held, in the order of the times. */
struct cut_events {
	void *owner; /* the first argument of each */
	void (*rail_switched)(void *owner, int64_t time_ns, unsigned rail, bool on);
	/* The drive has stopped: what it had begun is given up. */
	void (*power_lost)(void *owner, int64_t time_ns);
	/* The drive starts, and takes operations from ready_ns on. */
	void (*power_restored)(void *owner, int64_t time_ns, int64_t ready_ns);
};

struct cut_settings {
	uint64_t write_cache_bytes; /* 0: every write is durable when it is acknowledged */
	int64_t destage_ns;	    /* age at which a write is made durable; 0: never */
	int64_t holdup_ns; /* how long a rail may be off before the drive stops */
	int64_t ready_ns;  /* from power on until operations work */
	bool plp;	   /* on its last energy the drive makes its cache durable */
	bool lies;	   /* flush and FUA are acknowledged and make nothing durable */
	bool seeded, has_loss; /* else each cut takes its own from the kernel */
	uint64_t seed;
	enum cache_loss loss;
};

struct cut_report {
	int64_t cut_ns; /* monotonic */
	struct cache_cut cache;
	bool held_up;
	int failure; /* errno where the backing file could not take what was to land */
	uint64_t seed;
	enum cache_loss loss;
};

struct cut_state {
	bool powered; /* runs, or is about to be ready */
	bool ready;   /* takes operations */
	bool rail_on[POWER_MAX_RAILS];
	int64_t switched_ns[POWER_MAX_RAILS]; /* last; at first when the twin began */
	uint64_t power_ons; /* since the twin began, its first included */
	uint64_t cuts;
	uint64_t dirty_bytes, capacity_bytes;
	struct cut_report last; /* of cuts > 0 */
};

struct cut;

/* A drive with rail_count rails, all on since began_ns. The file stays the
 * caller's. NULL when memory is short. */
struct cut *cut_new(const struct cut_settings *settings, int backing, unsigned rail_count,
		    int64_t began_ns, const struct cut_events *events);
/* An orderly shutdown: what is volatile becomes durable, unless the power is off. */
int cut_close(struct cut *cut);

int cut_enter(struct cut *cut, uint64_t *cycle);
int cut_read(struct cut *cut, uint64_t cycle, void *data, size_t bytes, uint64_t offset);
/* NULL: zeroes. */
int cut_write(struct cut *cut, uint64_t cycle, const void *data, uint64_t bytes, uint64_t offset,
	      uint64_t *ticket);
/* The newest write that a flush that comes now is to make durable. */
int cut_flush(struct cut *cut, uint64_t cycle, uint64_t *ticket);
/* Until a monotonic time, or until the power goes. */
int cut_wait(struct cut *cut, uint64_t cycle, int64_t until_ns);
int cut_finish_read(struct cut *cut, uint64_t cycle);
int cut_finish_write(struct cut *cut, uint64_t cycle, uint64_t ticket, bool fua);
int cut_finish_flush(struct cut *cut, uint64_t cycle, uint64_t ticket);

/* All rails at once. False where the drive is off or on already. With NULL the
 * seed and the loss are those of the settings, or the kernel's choice. */
bool cut_power_off(struct cut *cut, const uint64_t *seed, const enum cache_loss *loss,
		   struct cut_report *report);
bool cut_power_on(struct cut *cut);
/* One rail's switch; the drive stops when it is off longer than the hold-up, and
 * begins when all are on. Nothing happens where the rail is so already. */
void cut_rail(struct cut *cut, unsigned rail, bool on);

/* Does what is due at this moment. Gives when the next is due, at the latest. */
int64_t cut_tick(struct cut *cut);
void cut_state(struct cut *cut, struct cut_state *state);

#endif
