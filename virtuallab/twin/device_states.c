/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The power states that a host sets, in the models of time and power. */
#include "device.h"

#include "block.h"
#include "clock.h"

#include <string.h>

/* What the idle drive does from now on. Under the drive's lock. */
static void plan(struct drive *drive)
{
	struct doze_state doze[DOZE_MAX_STATES];

	timing_set_doze(drive->timing, doze, power_states_plan(&drive->states, doze, drive->doze_numbers));
	drive->planned_since_ns = INT64_MIN;
}

void device_apply_limits(struct drive *drive, int64_t time_ns)
{
	const struct power_state *state = &drive->states.of[drive->states.operational];
	const struct throttle_level throttled = throttle_now(&drive->throttle);
	double active_watts[POWER_MAX_RAILS];

	for (unsigned r = 0; r < POWER_MAX_RAILS; r++)
		active_watts[r] = state->active_watts[r] * throttled.watts;
	power_set_limits(drive->power, time_ns, state->idle_watts, active_watts);
	timing_set_rate(drive->timing, state->rate * throttled.rate);
}

void device_begin_states(struct drive *drive, int64_t time_ns)
{
	power_states_reset(&drive->states);
	device_apply_limits(drive, time_ns);
	plan(drive);
}

void device_left_rest(struct drive *drive)
{
	if (!drive->states.is_resting)
		return;
	drive->states.is_resting = false;
	plan(drive);
}

static unsigned state_at(const struct drive *drive, int64_t time_ns)
{
	unsigned depth = doze_state(timing_doze(drive->timing), time_ns);

	return depth ? drive->doze_numbers[depth - 1] : drive->states.operational;
}

unsigned device_state(struct drive *drive)
{
	unsigned state;

	pthread_mutex_lock(&drive->lock);
	device_advance(drive, clock_monotonic_ns());
	state = state_at(drive, clock_monotonic_ns());
	pthread_mutex_unlock(&drive->lock);
	return state;
}

/* Out of whatever it rests in, into an operational state. Under the drive's lock. */
static void work_in(struct drive *drive, int64_t time_ns, unsigned state)
{
	struct power_states *states = &drive->states;
	int64_t ready_ns;

	timing_wake(drive->timing, time_ns);
	ready_ns = timing_doze(drive->timing)->idle_since_ns;
	if (ready_ns < time_ns)
		ready_ns = time_ns;
	if (state != states->operational)
		ready_ns += states->of[states->operational].exit_ns + states->of[state].entry_ns;
	states->operational = state;
	states->is_resting = false;
	timing_hold(drive->timing, ready_ns);
	device_apply_limits(drive, time_ns);
}

void device_set_state(struct drive *drive, unsigned state)
{
	int64_t now_ns;

	pthread_mutex_lock(&drive->lock);
	now_ns = clock_monotonic_ns();
	device_advance(drive, now_ns);
	if (power_states_is_operational(&drive->states, state)) {
		work_in(drive, now_ns, state);
	} else {
		drive->states.is_resting = true;
		drive->states.resting = state;
	}
	timing_stir(drive->timing, now_ns);
	plan(drive);
	device_advance(drive, now_ns);
	pthread_mutex_unlock(&drive->lock);
}

void device_get_autonomous(struct drive *drive, bool *enabled, struct power_transition *table)
{
	pthread_mutex_lock(&drive->lock);
	*enabled = drive->states.autonomous;
	memcpy(table, drive->states.table, sizeof drive->states.table);
	pthread_mutex_unlock(&drive->lock);
}

/* A change makes the drive as one that has just become idle. */
void device_set_autonomous(struct drive *drive, bool enabled, const struct power_transition *table)
{
	int64_t now_ns;

	pthread_mutex_lock(&drive->lock);
	now_ns = clock_monotonic_ns();
	device_advance(drive, now_ns);
	if (enabled != drive->states.autonomous ||
	    !power_states_same_table(&drive->states, table, drive->states.table)) {
		drive->states.autonomous = enabled;
		memcpy(drive->states.table, table, sizeof drive->states.table);
		timing_stir(drive->timing, now_ns);
		plan(drive);
	}
	device_advance(drive, now_ns);
	pthread_mutex_unlock(&drive->lock);
}

void device_reset_states(struct drive *drive)
{
	int64_t now_ns;

	pthread_mutex_lock(&drive->lock);
	now_ns = clock_monotonic_ns();
	device_advance(drive, now_ns);
	work_in(drive, now_ns, drive->states.initial);
	power_states_reset(&drive->states);
	timing_stir(drive->timing, now_ns);
	plan(drive);
	device_advance(drive, now_ns);
	pthread_mutex_unlock(&drive->lock);
}

int device_shut_down(struct drive *drive)
{
	if (block_flush(drive) < 0)
		return -1;
	pthread_mutex_lock(&drive->lock);
	drive->is_shut_down = true;
	pthread_mutex_unlock(&drive->lock);
	return 0;
}

void device_media_failed(struct drive *drive)
{
	pthread_mutex_lock(&drive->lock);
	drive->media_errors++;
	pthread_mutex_unlock(&drive->lock);
}
