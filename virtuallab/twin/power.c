/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "power.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_SECOND 1000000000
#define HISTORY_STEP_NS 1000000
#define MEAN_RING_MIN_WINDOWS 8192
#define MEAN_RING_SECONDS 8
#define MEAN_RING_MAX_WINDOWS (1 << 20)
/* More operations than this in flight at once wait, like those over the power
 * limit: it bounds memory, and no drive has as many. */
#define MAX_ACTIVITIES 65536
/* Adding and subtracting powers leaves rounding behind; the sum is recomputed
 * this often, so that it cannot drift in weeks of load without a pause. */
#define RESUM_EVERY 65536

struct activity {
	int64_t end_ns;
	enum power_cause cause;
	double watts[POWER_MAX_RAILS];
};

/* Neumaier's compensated sum (ZAMM 54, 1974): a rail adds millions of segments
 * of nanojoules to thousands of joules. */
struct sum {
	double value;
	double compensation;
};

struct rail_state {
	double idle_watts;
	double active_watts; /* of the activities under way */
	double cause_watts[POWER_CAUSES]; /* their parts, and what is drawn without them */
	double volts;
	double amps;
	double watts;
	bool off;
	int64_t off_ns;
	double off_volts; /* when it was switched off */
	struct sum joules;
	struct sum cause_joules[POWER_CAUSES];
	double window_volts_ns;
	double window_amps_ns;
	double *mean_volts;
	double *mean_amps;
	double *history;
	/* Memory that is never written takes none: a cause that never was stays 0. */
	double *cause_history[POWER_CAUSES];
};

struct power {
	struct power_rail rails[POWER_MAX_RAILS];
	struct rail_state state[POWER_MAX_RAILS];
	unsigned rail_count;
	int64_t window_ns;
	int64_t activity_ns;
	int64_t holdup_ns;
	bool running;
	int64_t start_ns;
	int64_t settled_ns;

	/* Ordered by end, the soonest first, from `head` on. Almost all last
	 * activity_ns, so a new one nearly always goes to the end. */
	struct activity *activities;
	unsigned head;
	unsigned activity_count;
	unsigned retired_since_sum;

	struct power_step steps[POWER_MAX_STEPS];
	unsigned step_first, step_count; /* those to come: [step_first, step_count) */

	int64_t mean_capacity;
	int64_t mean_first; /* number of the first window that is whole */
	int64_t mean_end;

	int64_t history_step_ns;
	int64_t history_capacity;
	int64_t history_first; /* number of the first grid point after the start */
	int64_t history_end;
};

static const char *const cause_names[POWER_CAUSES] = {
	[CAUSE_IDLE] = "idle",	     [CAUSE_READ] = "read",	    [CAUSE_WRITE] = "write",
	[CAUSE_FLUSH] = "flush",     [CAUSE_DISCARD] = "discard",   [CAUSE_GC] = "gc",
	[CAUSE_FOLD] = "fold",	     [CAUSE_SEEK] = "seek",	    [CAUSE_SPIN_UP] = "spin_up",
	[CAUSE_POWER_STATE] = "power_state",
};

const char *power_cause_name(enum power_cause cause)
{
	return cause_names[cause];
}

static void sum_add(struct sum *sum, double term)
{
	double total = sum->value + term;

	if (fabs(sum->value) >= fabs(term))
		sum->compensation += (sum->value - total) + term;
	else
		sum->compensation += (term - total) + sum->value;
	sum->value = total;
}

static double sum_value(const struct sum *sum)
{
	return sum->value + sum->compensation;
}

static int64_t divide_up(int64_t value, int64_t divisor)
{
	return value / divisor + (value % divisor != 0);
}

double power_amps(double volts, double ohms, double watts)
{
	double discriminant = volts * volts - 4 * ohms * watts;

	/* Not 2 * ohms in the denominator: this form also holds for 0 ohms and
	 * loses no digits for small loads. */
	return 2 * watts / (volts + sqrt(fmax(discriminant, 0)));
}

bool power_parse_rail(const char *text, struct power_rail *rail, char *error, size_t error_size)
{
	static const char *const keys[] = { "volts", "ohms", "idle_watts", "read_joules_per_byte",
					    "write_joules_per_byte", "command_joules",
					    "flush_joules", "active_watts" };
	double values[8] = { 0 };
	unsigned count = 0;
	const char *comma = strchr(text, ',');
	size_t name_length = comma ? (size_t)(comma - text) : strlen(text);
	double limit;

	if (name_length == 0 || name_length >= POWER_RAIL_NAME_SIZE ||
	    strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") <
		    name_length) {
		snprintf(error, error_size,
			 "rail=%s: name \"%.*s\": allowed are 1 to %d letters, digits, '_', '.', '-'",
			 text, (int)name_length, text, POWER_RAIL_NAME_SIZE - 1);
		return false;
	}
	memset(rail, 0, sizeof *rail);
	memcpy(rail->name, text, name_length);

	while (comma) {
		const char *start = comma + 1;
		char *end;

		if (count == 8) {
			snprintf(error, error_size, "rail=%s: more than 9 fields", text);
			return false;
		}
		errno = 0;
		values[count] = strtod(start, &end);
		if (end == start || (*end != ',' && *end != '\0') || errno == ERANGE ||
		    !isfinite(values[count]) || values[count] < 0) {
			snprintf(error, error_size,
				 "rail=%s: %s \"%.*s\": allowed is a number that is not negative", text,
				 keys[count], (int)strcspn(start, ","), start);
			return false;
		}
		count++;
		comma = *end == ',' ? end : NULL;
	}
	if (count < 7) {
		snprintf(error, error_size, "rail=%s: %s is missing; fields are name,volts,ohms,idle_watts,"
			 "read_joules_per_byte,write_joules_per_byte,command_joules,flush_joules[,active_watts]",
			 text, keys[count]);
		return false;
	}
	rail->volts = values[0];
	rail->ohms = values[1];
	rail->idle_watts = values[2];
	rail->read_joules_per_byte = values[3];
	rail->write_joules_per_byte = values[4];
	rail->command_joules = values[5];
	rail->flush_joules = values[6];
	rail->active_watts = count == 8 ? values[7] : POWER_DEFAULT_ACTIVE_AMPS * rail->volts;
	if (rail->volts == 0) {
		snprintf(error, error_size, "rail=%s: volts 0: allowed is more than 0", text);
		return false;
	}
	if (rail->active_watts == 0) {
		snprintf(error, error_size, "rail=%s: active_watts 0: allowed is more than 0", text);
		return false;
	}
	limit = rail->ohms > 0 ? rail->volts * rail->volts / (4 * rail->ohms) : INFINITY;
	if (rail->idle_watts + rail->active_watts > limit) {
		snprintf(error, error_size,
			 "rail=%s: idle_watts + active_watts is %g W: through %g ohms at most %g W can be drawn",
			 text, rail->idle_watts + rail->active_watts, rail->ohms, limit);
		return false;
	}
	return true;
}

/* Half of the volts are left after the hold-up, none after twice that. */
static double falling_volts(const struct power *power, const struct rail_state *state, int64_t time_ns)
{
	double left_ns = (double)(state->off_ns + 2 * power->holdup_ns - time_ns);

	return left_ns > 0 ? state->off_volts * left_ns / (2 * (double)power->holdup_ns) : 0;
}

static void update_rail(struct power *power, unsigned rail)
{
	const struct power_rail *config = &power->rails[rail];
	struct rail_state *state = &power->state[rail];

	if (state->off || !power->running) {
		state->watts = state->amps = 0;
		state->volts = state->off ? falling_volts(power, state, power->settled_ns) : config->volts;
		return;
	}
	state->watts = state->idle_watts + state->active_watts;
	state->amps = power_amps(config->volts, config->ohms, state->watts);
	state->volts = config->volts - config->ohms * state->amps;
}

struct power *power_new(const struct power_rail *rails, unsigned rail_count, int64_t window_ns,
			int64_t activity_ns, int64_t holdup_ns, int64_t start_ns)
{
	struct power *power = calloc(1, sizeof *power);

	if (!power)
		return NULL;
	memcpy(power->rails, rails, rail_count * sizeof *rails);
	power->rail_count = rail_count;
	power->window_ns = window_ns;
	power->activity_ns = activity_ns;
	power->holdup_ns = holdup_ns;
	power->running = true;
	power->start_ns = power->settled_ns = start_ns;

	power->mean_capacity = (int64_t)MEAN_RING_SECONDS * NS_PER_SECOND / window_ns;
	if (power->mean_capacity < MEAN_RING_MIN_WINDOWS)
		power->mean_capacity = MEAN_RING_MIN_WINDOWS;
	if (power->mean_capacity > MEAN_RING_MAX_WINDOWS)
		power->mean_capacity = MEAN_RING_MAX_WINDOWS;
	power->mean_first = power->mean_end = divide_up(start_ns, window_ns);

	power->history_step_ns = divide_up(HISTORY_STEP_NS, window_ns) * window_ns;
	power->history_capacity =
		divide_up((int64_t)POWER_HISTORY_SECONDS * NS_PER_SECOND, power->history_step_ns) + 1;
	power->history_first = power->history_end = divide_up(start_ns, power->history_step_ns);

	power->activities = calloc(MAX_ACTIVITIES, sizeof *power->activities);
	if (!power->activities)
		goto fail;
	for (unsigned r = 0; r < rail_count; r++) {
		struct rail_state *state = &power->state[r];

		state->mean_volts = calloc((size_t)power->mean_capacity, sizeof *state->mean_volts);
		state->mean_amps = calloc((size_t)power->mean_capacity, sizeof *state->mean_amps);
		state->history = calloc((size_t)power->history_capacity, sizeof *state->history);
		if (!state->mean_volts || !state->mean_amps || !state->history)
			goto fail;
		for (unsigned c = 0; c < POWER_CAUSES; c++) {
			state->cause_history[c] =
				calloc((size_t)power->history_capacity, sizeof(double));
			if (!state->cause_history[c])
				goto fail;
		}
		state->idle_watts = state->cause_watts[CAUSE_IDLE] = rails[r].idle_watts;
		update_rail(power, r);
	}
	return power;
fail:
	power_free(power);
	return NULL;
}

void power_free(struct power *power)
{
	if (!power)
		return;
	for (unsigned r = 0; r < power->rail_count; r++) {
		free(power->state[r].mean_volts);
		free(power->state[r].mean_amps);
		free(power->state[r].history);
		for (unsigned c = 0; c < POWER_CAUSES; c++)
			free(power->state[r].cause_history[c]);
	}
	free(power->activities);
	free(power);
}

unsigned power_rail_count(const struct power *power)
{
	return power->rail_count;
}

const char *power_rail_name(const struct power *power, unsigned rail)
{
	return power->rails[rail].name;
}

int64_t power_window_ns(const struct power *power)
{
	return power->window_ns;
}

int64_t power_settled_ns(const struct power *power)
{
	return power->settled_ns;
}

double power_joules(const struct power *power, unsigned rail)
{
	return sum_value(&power->state[rail].joules);
}

double power_cause_joules(const struct power *power, unsigned rail, enum power_cause cause)
{
	return sum_value(&power->state[rail].cause_joules[cause]);
}

void power_now(const struct power *power, unsigned rail, double *volts, double *amps)
{
	*volts = power->state[rail].volts;
	*amps = power->state[rail].amps;
}

static struct activity *activity_at(struct power *power, unsigned position)
{
	return &power->activities[(power->head + position) % MAX_ACTIVITIES];
}

static void sum_active_watts(struct power *power)
{
	for (unsigned r = 0; r < power->rail_count; r++) {
		struct rail_state *state = &power->state[r];
		struct sum all = { 0, 0 }, causes[POWER_CAUSES] = { { 0, 0 } };

		for (unsigned n = 0; n < power->activity_count; n++) {
			const struct activity *activity = activity_at(power, n);

			sum_add(&all, activity->watts[r]);
			sum_add(&causes[activity->cause], activity->watts[r]);
		}
		state->active_watts = sum_value(&all);
		for (unsigned c = 0; c < POWER_CAUSES; c++)
			state->cause_watts[c] = sum_value(&causes[c]);
		state->cause_watts[CAUSE_IDLE] += state->idle_watts;
	}
	power->retired_since_sum = 0;
}

static void add_watts(struct rail_state *state, enum power_cause cause, double watts)
{
	state->active_watts += watts;
	state->cause_watts[cause] += watts;
}

static void retire_ended(struct power *power)
{
	bool changed = false;

	while (power->activity_count && activity_at(power, 0)->end_ns <= power->settled_ns) {
		const struct activity *ended = activity_at(power, 0);

		for (unsigned r = 0; r < power->rail_count; r++)
			add_watts(&power->state[r], ended->cause, -ended->watts[r]);
		power->head = (power->head + 1) % MAX_ACTIVITIES;
		power->activity_count--;
		power->retired_since_sum++;
		changed = true;
	}
	if (!changed)
		return;
	if (power->activity_count == 0 || power->retired_since_sum >= RESUM_EVERY)
		sum_active_watts(power);
	for (unsigned r = 0; r < power->rail_count; r++)
		update_rail(power, r);
}

static void close_window(struct power *power)
{
	int64_t window = power->settled_ns / power->window_ns - 1;

	for (unsigned r = 0; r < power->rail_count; r++) {
		struct rail_state *state = &power->state[r];

		if (window >= power->mean_first) {
			int64_t slot = window % power->mean_capacity;

			state->mean_volts[slot] = (state->window_volts_ns / (double)power->window_ns);
			state->mean_amps[slot] = (state->window_amps_ns / (double)power->window_ns);
		}
		state->window_volts_ns = 0;
		state->window_amps_ns = 0;
	}
	if (window >= power->mean_first)
		power->mean_end = window + 1;
}

static void note_history(struct power *power)
{
	int64_t point = power->settled_ns / power->history_step_ns;

	for (unsigned r = 0; r < power->rail_count; r++) {
		struct rail_state *state = &power->state[r];
		int64_t slot = point % power->history_capacity;

		state->history[slot] = power_joules(power, r);
		for (unsigned c = 0; c < POWER_CAUSES; c++) {
			double joules = power_cause_joules(power, r, (enum power_cause)c);

			if (joules > 0)
				state->cause_history[c][slot] = joules;
		}
	}
	power->history_end = point + 1;
}

static int64_t lesser(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static void book(struct rail_state *state, double seconds)
{
	sum_add(&state->joules, state->watts * seconds);
	for (unsigned c = 0; c < POWER_CAUSES; c++)
		if (state->cause_watts[c] != 0)
			sum_add(&state->cause_joules[c], state->cause_watts[c] * seconds);
}

/* The integral of the volts of a rail that is off, from the settled time on. */
static double falling_volt_ns(const struct power *power, const struct rail_state *state, int64_t until)
{
	int64_t zero_ns = state->off_ns + 2 * power->holdup_ns;

	until = lesser(until, zero_ns);
	if (until <= power->settled_ns)
		return 0;
	return (falling_volts(power, state, power->settled_ns) + falling_volts(power, state, until)) / 2 *
	       (double)(until - power->settled_ns);
}

static void set_idle_watts(struct power *power, const double *watts)
{
	for (unsigned r = 0; r < power->rail_count; r++) {
		struct rail_state *state = &power->state[r];

		state->cause_watts[CAUSE_IDLE] += watts[r] - state->idle_watts;
		state->idle_watts = watts[r];
		update_rail(power, r);
	}
}

static void take_steps(struct power *power)
{
	while (power->step_first < power->step_count &&
	       power->steps[power->step_first].time_ns <= power->settled_ns)
		set_idle_watts(power, power->steps[power->step_first++].idle_watts);
}

void power_advance(struct power *power, int64_t time_ns)
{
	while (power->settled_ns < time_ns) {
		int64_t window_end = (power->settled_ns / power->window_ns + 1) * power->window_ns;
		int64_t until = lesser(time_ns, window_end);
		double duration_ns;

		if (power->activity_count)
			until = lesser(until, activity_at(power, 0)->end_ns);
		if (power->step_first < power->step_count)
			until = lesser(until, power->steps[power->step_first].time_ns);
		duration_ns = (double)(until - power->settled_ns);
		for (unsigned r = 0; r < power->rail_count; r++) {
			struct rail_state *state = &power->state[r];

			if (state->off) {
				state->window_volts_ns += falling_volt_ns(power, state, until);
				state->volts = falling_volts(power, state, until);
				continue;
			}
			state->window_volts_ns += state->volts * duration_ns;
			state->window_amps_ns += state->amps * duration_ns;
			if (power->running)
				book(state, duration_ns * 1e-9);
		}
		power->settled_ns = until;
		if (until == window_end) {
			close_window(power);
			if (until % power->history_step_ns == 0)
				note_history(power);
		}
		retire_ended(power);
		take_steps(power);
	}
}

void power_set_limits(struct power *power, int64_t time_ns, const double *idle_watts,
		      const double *active_watts)
{
	power_advance(power, time_ns);
	for (unsigned r = 0; r < power->rail_count; r++) {
		power->rails[r].idle_watts = idle_watts[r];
		power->rails[r].active_watts = active_watts[r];
	}
	set_idle_watts(power, idle_watts);
	power->step_first = power->step_count = 0;
}

void power_plan_idle(struct power *power, int64_t time_ns, const struct power_step *steps,
		     unsigned step_count)
{
	double own[POWER_MAX_RAILS];

	power_advance(power, time_ns);
	for (unsigned r = 0; r < power->rail_count; r++)
		own[r] = power->rails[r].idle_watts;
	set_idle_watts(power, own);
	memcpy(power->steps, steps, step_count * sizeof *steps);
	power->step_first = 0;
	power->step_count = step_count;
	take_steps(power);
}

static double operation_joules(const struct power_rail *rail, enum power_operation operation,
			       uint64_t bytes)
{
	switch (operation) {
	case POWER_READ:
		return rail->command_joules + (double)bytes * rail->read_joules_per_byte;
	case POWER_WRITE:
		return rail->command_joules + (double)bytes * rail->write_joules_per_byte;
	case POWER_FLUSH:
		return rail->command_joules + rail->flush_joules;
	case POWER_DISCARD:
		return rail->command_joules;
	}
	return rail->command_joules;
}

int64_t power_submit(struct power *power, int64_t time_ns, enum power_operation operation,
		     uint64_t bytes, bool fua)
{
	static const enum power_cause causes[] = {
		[POWER_READ] = CAUSE_READ,
		[POWER_WRITE] = CAUSE_WRITE,
		[POWER_FLUSH] = CAUSE_FLUSH,
		[POWER_DISCARD] = CAUSE_DISCARD,
	};
	struct power_work works[2] = { { .cause = causes[operation] }, { .cause = CAUSE_FLUSH } };

	for (unsigned r = 0; r < power->rail_count; r++) {
		works[0].joules[r] = operation_joules(&power->rails[r], operation, bytes);
		works[1].joules[r] = power->rails[r].flush_joules;
	}
	return power_draw(power, time_ns, power->activity_ns, works, fua ? 2 : 1);
}

static void begin_activity(struct power *power, const struct activity *activity)
{
	unsigned position = power->activity_count++;

	while (position > 0 && activity_at(power, position - 1)->end_ns > activity->end_ns) {
		*activity_at(power, position) = *activity_at(power, position - 1);
		position--;
	}
	*activity_at(power, position) = *activity;
	for (unsigned r = 0; r < power->rail_count; r++)
		add_watts(&power->state[r], activity->cause, activity->watts[r]);
}

int64_t power_draw(struct power *power, int64_t time_ns, int64_t least_ns,
		   const struct power_work *works, unsigned work_count)
{
	double joules[POWER_MAX_RAILS] = { 0 };
	double seconds = (double)least_ns * 1e-9;
	int64_t duration_ns;

	power_advance(power, time_ns);
	if (!power->running)
		return 0;
	for (unsigned r = 0; r < power->rail_count; r++) {
		for (unsigned w = 0; w < work_count; w++)
			joules[r] += works[w].joules[r];
		seconds = fmax(seconds, joules[r] / power->rails[r].active_watts);
	}
	duration_ns = (int64_t)ceil(seconds * 1e9);

	if (power->activity_count) {
		bool fits = power->activity_count + work_count <= MAX_ACTIVITIES;

		/* A rail that the operation does not load cannot hold it up. */
		for (unsigned r = 0; r < power->rail_count; r++)
			fits = fits && (joules[r] <= 0 ||
					power->state[r].active_watts +
							joules[r] / ((double)duration_ns * 1e-9) <=
						power->rails[r].active_watts);
		if (!fits)
			return activity_at(power, 0)->end_ns;
	}
	for (unsigned w = 0; w < work_count; w++) {
		struct activity activity = { .end_ns = power->settled_ns + duration_ns,
					     .cause = works[w].cause };

		for (unsigned r = 0; r < power->rail_count; r++)
			activity.watts[r] = works[w].joules[r] / ((double)duration_ns * 1e-9);
		begin_activity(power, &activity);
	}
	for (unsigned r = 0; r < power->rail_count; r++)
		update_rail(power, r);
	return 0;
}

void power_switch(struct power *power, int64_t time_ns, unsigned rail, bool on)
{
	struct rail_state *state = &power->state[rail];

	power_advance(power, time_ns);
	if (state->off == !on)
		return;
	state->off = !on;
	state->off_ns = power->settled_ns;
	state->off_volts = state->volts;
	update_rail(power, rail);
}

void power_run(struct power *power, int64_t time_ns, bool running)
{
	power_advance(power, time_ns);
	power->running = running;
	power->activity_count = 0;
	sum_active_watts(power);
	for (unsigned r = 0; r < power->rail_count; r++)
		update_rail(power, r);
}

void power_windows(const struct power *power, int64_t *first, int64_t *end)
{
	int64_t oldest = power->mean_end - power->mean_capacity;

	*first = oldest > power->mean_first ? oldest : power->mean_first;
	*end = power->mean_end;
}

int64_t power_mean_max_windows(const struct power *power)
{
	return power->mean_capacity / 4;
}

bool power_mean(const struct power *power, int64_t window, int64_t count, unsigned rail,
		double *volts, double *amps)
{
	const struct rail_state *state = &power->state[rail];
	int64_t first, end;

	power_windows(power, &first, &end);
	if (window < first || window + count > end)
		return false;
	*volts = *amps = 0;
	for (int64_t w = window; w < window + count; w++) {
		*volts += state->mean_volts[w % power->mean_capacity];
		*amps += state->mean_amps[w % power->mean_capacity];
	}
	*volts /= (double)count;
	*amps /= (double)count;
	return true;
}

int64_t power_history_step_ns(const struct power *power)
{
	return power->history_step_ns;
}

void power_history_range(const struct power *power, int64_t *oldest_ns, int64_t *newest_ns)
{
	int64_t oldest = power->history_end - power->history_capacity;

	*oldest_ns = oldest > power->history_first ? oldest * power->history_step_ns : power->start_ns;
	*newest_ns = power->settled_ns;
}

/* Between the two grid points about a time, of what stood at each and is `now` at
 * the settled time. */
static double at_time(const struct power *power, const double *history, double now, int64_t time_ns)
{
	int64_t point = time_ns / power->history_step_ns;
	int64_t before_ns = point * power->history_step_ns;
	int64_t after_ns = before_ns + power->history_step_ns;
	double before = 0, after;

	/* The two ends of the record lie between grid points: energy is 0 at the
	 * start, and the settled sum is known. */
	if (point < power->history_first)
		before_ns = power->start_ns;
	else
		before = history[point % power->history_capacity];
	if (point + 1 >= power->history_end) {
		after_ns = power->settled_ns;
		after = now;
	} else {
		after = history[(point + 1) % power->history_capacity];
	}
	if (after_ns <= before_ns)
		return before;
	return before + (after - before) * ((double)(time_ns - before_ns) /
					    (double)(after_ns - before_ns));
}

static bool is_held(const struct power *power, int64_t time_ns)
{
	int64_t oldest_ns, newest_ns;

	power_history_range(power, &oldest_ns, &newest_ns);
	return time_ns >= oldest_ns && time_ns <= newest_ns;
}

bool power_history(const struct power *power, int64_t time_ns, double *joules)
{
	if (!is_held(power, time_ns))
		return false;
	for (unsigned r = 0; r < power->rail_count; r++)
		joules[r] = at_time(power, power->state[r].history, power_joules(power, r), time_ns);
	return true;
}

bool power_cause_history(const struct power *power, int64_t time_ns, double joules[][POWER_CAUSES])
{
	if (!is_held(power, time_ns))
		return false;
	for (unsigned r = 0; r < power->rail_count; r++)
		for (unsigned c = 0; c < POWER_CAUSES; c++)
			joules[r][c] = at_time(power, power->state[r].cause_history[c],
					       power_cause_joules(power, r, (enum power_cause)c), time_ns);
	return true;
}
