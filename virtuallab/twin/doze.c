/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "doze.h"

void doze_busy(struct doze *doze, int64_t time_ns)
{
	if (time_ns > doze->idle_since_ns)
		doze->idle_since_ns = time_ns;
}

unsigned doze_state(const struct doze *doze, int64_t time_ns)
{
	unsigned state = 0;

	while (state < doze->state_count &&
	       time_ns - doze->idle_since_ns >= doze->states[state].idle_ns)
		state++;
	return state;
}

int64_t doze_entered_ns(const struct doze *doze, unsigned state)
{
	if (state == 0)
		return doze->idle_since_ns;
	return doze->idle_since_ns + doze->states[state - 1].idle_ns + doze->states[state - 1].entry_ns;
}

int64_t doze_wake(const struct doze *doze, int64_t time_ns, int64_t *exit_ns)
{
	unsigned state = doze_state(doze, time_ns);
	int64_t entered_ns = doze_entered_ns(doze, state);

	*exit_ns = state ? doze->states[state - 1].exit_ns : 0;
	if (state == 0)
		return time_ns;
	return (entered_ns > time_ns ? entered_ns : time_ns) + *exit_ns;
}
