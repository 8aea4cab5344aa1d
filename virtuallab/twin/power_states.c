/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "power_states.h"

#include <string.h>

void power_states_reset(struct power_states *states)
{
	states->operational = states->initial;
	states->is_resting = false;
	states->autonomous = true;
	memcpy(states->table, states->defaults, sizeof states->table);
}

bool power_states_is_operational(const struct power_states *states, unsigned state)
{
	return state < states->operational_count;
}

bool power_states_same_table(const struct power_states *states, const struct power_transition *one,
			     const struct power_transition *other)
{
	for (unsigned n = 0; n < states->count; n++)
		if (one[n].idle_ns != other[n].idle_ns || (one[n].idle_ns && one[n].to != other[n].to))
			return false;
	return true;
}

unsigned power_states_plan(const struct power_states *states, struct doze_state *doze, unsigned *numbers)
{
	unsigned count = 0, from = states->operational;
	int64_t idle_ns = 0;

	if (states->is_resting) {
		from = states->resting;
		numbers[count] = from;
		doze[count++] = (struct doze_state){ .idle_ns = 0, .entry_ns = states->of[from].entry_ns,
						     .exit_ns = states->of[from].exit_ns };
	}
	while (states->autonomous && count < DOZE_MAX_STATES) {
		const struct power_transition *next = &states->table[from];

		/* Only deeper: a table that leads back would go round for ever. */
		if (next->idle_ns == 0 || (count && next->to <= from))
			break;
		idle_ns += next->idle_ns;
		from = next->to;
		numbers[count] = from;
		doze[count++] = (struct doze_state){ .idle_ns = idle_ns, .entry_ns = states->of[from].entry_ns,
						     .exit_ns = states->of[from].exit_ns };
	}
	return count;
}
