/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Makes simultaneous samples of all rails from sources that deliver each on
 * their own. Window k is [k, k + 1) periods of CLOCK_MONOTONIC on all of them.
 * A rail with an attached source is waited for, however long: its energy must
 * not be made up. A rail without one reads 0 V and 0 A. While no source sets
 * the pace, the clock does. The first sample is the first window that all
 * sources attached by then have.
 */
#ifndef JOULERIG_ALIGN_H
#define JOULERIG_ALIGN_H

#include "sampler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ALIGN_QUEUE 8192

struct align_rail {
	bool attached;
	struct {
		int64_t window;
		float volts, amps;
	} queue[ALIGN_QUEUE];
	uint32_t head;
	uint32_t count;
};

struct align {
	bool begun;
	int64_t next_window;
	struct align_rail rails[SAMPLER_RAILS];
};

void align_init(struct align *align);
void align_attach(struct align *align, unsigned rail);
/* What was queued is still used. */
void align_detach(struct align *align, unsigned rail);

/* Room for how many more windows. A source that finds none stops reading. */
uint32_t align_room(const struct align *align, unsigned rail);
void align_put(struct align *align, unsigned rail, int64_t window, float volts, float amps);

/* The next sample, if it can be made. clock_window is the window that the clock
 * may go up to by itself, exclusive. */
bool align_take(struct align *align, int64_t clock_window, struct sample *sample);

#endif
