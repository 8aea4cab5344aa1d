/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The power states of a drive, numbered as NVMe numbers them: first those in which it
 * serves its host (operational), then those that it rests in. Pure: what the host has
 * set, and what follows for the states that the idle drive goes to (doze.h).
 *
 * The drive works in the operational state that was set last. From there, and from each
 * state that it rests in, a table says which one it goes to by itself, after how much
 * time there without work. A state to rest in can also be set: then the drive goes there
 * as soon as it is idle, and once only: the next operation brings it back to the
 * operational one.
 */
#ifndef JOULERIG_POWER_STATES_H
#define JOULERIG_POWER_STATES_H

#include "doze.h"
#include "power.h"

#include <stdbool.h>
#include <stdint.h>

#define POWER_STATES_MOST_OPERATIONAL 4
#define POWER_STATES_MOST (POWER_STATES_MOST_OPERATIONAL + DOZE_MAX_STATES)

struct power_state {
	double idle_watts[POWER_MAX_RAILS];   /* without operations */
	/* Of an operational one: the most that operations add, and the fraction of the rates
	 * of the drive's link. */
	double active_watts[POWER_MAX_RAILS];
	double rate;
	int64_t entry_ns, exit_ns;
	double declared_watts; /* the most that it draws, by its own word; 0: the truth */
};

/* After idle_ns in the state of the entry; 0: never. */
struct power_transition {
	unsigned to;
	int64_t idle_ns;
};

struct power_states {
	struct power_state of[POWER_STATES_MOST];
	unsigned operational_count; /* at least 1; the rest follows */
	unsigned count;
	unsigned initial; /* operational, after power on */
	struct power_transition defaults[POWER_STATES_MOST]; /* in effect after power on */

	unsigned operational; /* in which it works */
	bool is_resting; /* by command, until an operation comes: */
	unsigned resting;
	bool autonomous;
	struct power_transition table[POWER_STATES_MOST];
};

/* As after power on. */
void power_states_reset(struct power_states *states);

bool power_states_is_operational(const struct power_states *states, unsigned state);

/* Whether two tables, of all states, are the same. */
bool power_states_same_table(const struct power_states *states, const struct power_transition *one,
			     const struct power_transition *other);

/* The states that an idle drive enters from now on, in order, into doze[], and their
 * numbers into numbers[], both of DOZE_MAX_STATES. Gives how many. */
unsigned power_states_plan(const struct power_states *states, struct doze_state *doze, unsigned *numbers);

#endif
