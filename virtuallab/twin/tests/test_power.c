/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "near.h"
#include "power.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MS 1000000LL
#define US 1000LL
#define START (7 * 1000 * MS + 123 * US) /* on no grid */

static struct power_rail rail_of(const char *text)
{
	struct power_rail rail;
	char error[256];

	if (!power_parse_rail(text, &rail, error, sizeof error)) {
		printf("%s\n", error);
		exit(1);
	}
	return rail;
}

static struct power *one_rail(const char *text, int64_t start)
{
	struct power_rail rail = rail_of(text);

	return power_new(&rail, 1, MS, 500 * US, 2 * MS, start);
}

static void volts_and_amps_solve_the_droop_equation(void)
{
	double ohms[] = { 0, 1e-6, 0.02, 0.5 };
	double watts[] = { 0, 1e-9, 0.05, 3, 25 };

	for (unsigned o = 0; o < 4; o++) {
		for (unsigned w = 0; w < 5; w++) {
			double amps = power_amps(12, ohms[o], watts[w]);
			double volts = 12 - ohms[o] * amps;

			check_near("V * I", volts * amps, watts[w], 1e-14);
			CHECK(volts >= 6); /* the stable one of the two solutions */
		}
	}
	/* At the most that the source can give, half the voltage is left. */
	check_near("amps at the limit", power_amps(12, 0.5, 72), 12, 1e-12);
}

static void idle_energy_is_power_times_time(void)
{
	struct power *power = one_rail("3v3,3.3,0.05,0.7,0,0,0,0", START);

	power_advance(power, START + 3600 * 1000 * MS);
	check_near("joules of an idle hour", power_joules(power, 0), 0.7 * 3600, 1e-13);
	power_free(power);
}

static void every_operation_adds_its_energy(void)
{
	struct power *power = one_rail("5v,5,0.02,0.5,2e-9,3e-9,1e-5,4e-4", START);
	double expected = 0.5 * 10e-3;

	CHECK(power_submit(power, START + 10 * US, POWER_READ, 4096, false) == 0);
	expected += 1e-5 + 4096 * 2e-9;
	CHECK(power_submit(power, START + 20 * US, POWER_WRITE, 8192, false) == 0);
	expected += 1e-5 + 8192 * 3e-9;
	CHECK(power_submit(power, START + 30 * US, POWER_WRITE, 512, true) == 0);
	expected += 1e-5 + 512 * 3e-9 + 4e-4;
	CHECK(power_submit(power, START + 40 * US, POWER_FLUSH, 0, false) == 0);
	expected += 1e-5 + 4e-4;
	CHECK(power_submit(power, START + 50 * US, POWER_DISCARD, 1 << 20, false) == 0);
	expected += 1e-5;
	power_advance(power, START + 10 * MS);
	check_near("joules", power_joules(power, 0), expected, 1e-12);
	power_free(power);
}

/* Steps of 1 us on which every begin and end falls, so that V and I of a step
 * are constant: their sum is the integral, formed without the model's help. */
static void energy_is_the_integral_of_volts_times_amps(void)
{
	struct power_rail rails[2] = { rail_of("3v3,3.3,0.1,0.3,1e-9,2e-9,1e-5,5e-5"),
				       rail_of("12v,12,0.05,1.5,3e-9,5e-9,2e-5,2e-4") };
	int64_t start = 7123 * MS, end = start + 400 * MS;
	struct power *power = power_new(rails, 2, MS, 500 * US, 2 * MS, start);
	double joules[2] = { 0, 0 }, charge[2] = { 0, 0 };
	unsigned accepted = 0;

	srand(1);
	for (int64_t now = start; now < end; now += US) {
		power_advance(power, now);
		if (rand() % 40 == 0)
			accepted += power_submit(power, now, (enum power_operation)(rand() % 4),
						 (uint64_t)(rand() % 64) * 512, rand() % 8 == 0) == 0;
		for (unsigned r = 0; r < 2; r++) {
			double volts, amps;

			power_now(power, r, &volts, &amps);
			joules[r] += volts * amps * 1e-6;
			charge[r] += amps * 1e-6;
		}
	}
	power_advance(power, end);
	CHECK(accepted > 5000);
	for (unsigned r = 0; r < 2; r++) {
		double charge_of_windows = 0, volts, amps;

		check_near("joules against the integral", power_joules(power, r), joules[r], 1e-9);
		for (int64_t window = 7123; window < 7523; window++) {
			CHECK(power_mean(power, window, 1, r, &volts, &amps));
			charge_of_windows += amps * 1e-3;
		}
		check_near("charge of the windows", charge_of_windows, charge[r], 1e-9);
	}
	power_free(power);
}

static void window_means_integrate_to_the_charge(void)
{
	struct power *power = one_rail("5v,5,0.1,1,0,0,1e-3,0", 100 * MS);
	double charge = 0, volt_seconds = 0;
	double idle_amps = power_amps(5, 0.1, 1), busy_amps = power_amps(5, 0.1, 1 + 2);

	/* 1 mJ in 0.5 ms is 2 W; it straddles a window's end. */
	CHECK(power_submit(power, 100 * MS + 800 * US, POWER_DISCARD, 0, false) == 0);
	power_advance(power, 105 * MS);
	for (int64_t window = 100; window < 105; window++) {
		double volts, amps;

		CHECK(power_mean(power, window, 1, 0, &volts, &amps));
		charge += amps * 1e-3;
		volt_seconds += volts * 1e-3;
		if (window == 100)
			check_near("mean amps", amps, 0.8 * idle_amps + 0.2 * busy_amps, 1e-12);
	}
	check_near("charge", charge, 4.5e-3 * idle_amps + 0.5e-3 * busy_amps, 1e-12);
	check_near("volt seconds", volt_seconds, 5 * 5e-3 - 0.1 * charge, 1e-12);
	power_free(power);
}

static void mean_of_several_windows_is_the_mean_of_their_means(void)
{
	struct power *power = one_rail("5v,5,0.1,1,0,0,1e-3,0", 100 * MS);
	double volts, amps, sum = 0;

	CHECK(power_submit(power, 101 * MS + 1, POWER_READ, 0, false) == 0);
	power_advance(power, 104 * MS);
	for (int64_t window = 100; window < 104; window++) {
		CHECK(power_mean(power, window, 1, 0, &volts, &amps));
		sum += amps;
	}
	CHECK(power_mean(power, 100, 4, 0, &volts, &amps));
	check_near("mean of four", amps, sum / 4, 1e-15);
	power_free(power);
}

static void late_operations_count_from_the_settled_time_and_change_no_window(void)
{
	struct power *power = one_rail("5v,5,0.1,1,0,0,1e-3,0", 100 * MS);
	double volts, before, after, joules;

	power_advance(power, 110 * MS);
	CHECK(power_mean(power, 104, 1, 0, &volts, &before));
	joules = power_joules(power, 0);
	CHECK(power_submit(power, 104 * MS, POWER_READ, 0, false) == 0);
	CHECK(power_settled_ns(power) == 110 * MS);
	CHECK(power_joules(power, 0) == joules);
	CHECK(power_mean(power, 104, 1, 0, &volts, &after));
	CHECK(before == after);
	power_advance(power, 111 * MS);
	check_near("joules", power_joules(power, 0), 11e-3 + 1e-3, 1e-12);
	power_free(power);
}

static void time_does_not_run_backwards(void)
{
	struct power *power = one_rail("5v,5,0.1,1,0,0,1e-3,0", 100 * MS);

	power_advance(power, 110 * MS);
	power_advance(power, 90 * MS);
	CHECK(power_settled_ns(power) == 110 * MS);
	power_free(power);
}

static void operations_beyond_the_active_power_have_to_wait(void)
{
	/* Each is 1.5 W for 0.5 ms; two fit under 3 W, the third does not. */
	struct power *power = one_rail("5v,5,0.1,1,0,0,0.75e-3,0,3", START);
	double volts, amps;
	int64_t retry;

	CHECK(power_submit(power, START, POWER_READ, 0, false) == 0);
	CHECK(power_submit(power, START + 100 * US, POWER_READ, 0, false) == 0);
	retry = power_submit(power, START + 200 * US, POWER_READ, 0, false);
	CHECK(retry == START + 500 * US);
	power_now(power, 0, &volts, &amps);
	check_near("watts at the limit", volts * amps, 1 + 3, 1e-12);
	CHECK(power_submit(power, retry, POWER_READ, 0, false) == 0);
	power_free(power);
}

static void a_lower_limit_holds_from_then_on(void)
{
	struct power *power = one_rail("5v,5,0,0.5,1e-6,0,0,0,8", START);
	double idle = 0.25, active = 2;

	/* 4 mJ in half a millisecond are 8 W: all it may. */
	CHECK(power_submit(power, START, POWER_READ, 4000, false) == 0);
	power_set_limits(power, START + 100 * US, &idle, &active);
	/* What has begun goes on as it was; the next waits for its end, and lasts longer. */
	CHECK(power_submit(power, START + 200 * US, POWER_READ, 4000, false) == START + 500 * US);
	CHECK(power_submit(power, START + 500 * US, POWER_READ, 4000, false) == 0);
	CHECK(power_submit(power, START + 600 * US, POWER_READ, 4, false) == START + 2500 * US);
	power_advance(power, START + 10 * MS);
	check_near("joules", power_joules(power, 0), 0.5 * 100e-6 + 0.25 * 9900e-6 + 8e-3, 1e-12);
	power_free(power);
}

/* A read loads the first rail alone, a write the second. */
static void a_rail_that_is_not_loaded_holds_no_operation_up(void)
{
	struct power_rail rails[2] = { rail_of("5v,5,0,0.5,1e-6,0,0,0,8"), rail_of("12v,12,0,0.5,0,1e-6,0,0,8") };
	struct power *power = power_new(rails, 2, MS, 500 * US, 2 * MS, START);
	double idle[2] = { 0.5, 0.5 }, active[2] = { 2, 8 };

	/* 8 W on the first rail, which from then on may take 2. */
	CHECK(power_submit(power, START, POWER_READ, 4000, false) == 0);
	power_set_limits(power, START + 100 * US, idle, active);
	CHECK(power_submit(power, START + 200 * US, POWER_READ, 4, false) == START + 500 * US);
	CHECK(power_submit(power, START + 200 * US, POWER_WRITE, 4000, false) == 0);
	power_free(power);
}

static void limits_end_what_was_planned_of_the_idle_power(void)
{
	struct power *power = one_rail("5v,5,0,0.5,0,0,0,0,8", START);
	struct power_step step = { .time_ns = START + 2 * MS, .idle_watts = { 0.1 } };
	double idle = 0.25, active = 8;

	power_plan_idle(power, START, &step, 1);
	power_set_limits(power, START + MS, &idle, &active);
	power_advance(power, START + 5 * MS);
	check_near("joules", power_joules(power, 0), 0.5e-3 + 0.25 * 4e-3, 1e-12);
	step.time_ns = START + 7 * MS;
	power_plan_idle(power, START + 5 * MS, &step, 1);
	power_advance(power, START + 8 * MS);
	check_near("joules", power_joules(power, 0), 0.5e-3 + 0.25 * 6e-3 + 0.1e-3, 1e-12);
	power_free(power);
}

static void a_large_operation_lasts_as_long_as_its_energy_needs(void)
{
	struct power *power = one_rail("5v,5,0.1,1,0,1e-9,0,0,2", START);
	double volts, amps;

	CHECK(power_submit(power, START, POWER_WRITE, 20000000, false) == 0); /* 20 mJ at 2 W */
	power_advance(power, START + 9999 * US);
	power_now(power, 0, &volts, &amps);
	check_near("watts before its end", volts * amps, 3, 1e-12);
	power_advance(power, START + 10 * MS + 1);
	power_now(power, 0, &volts, &amps);
	check_near("watts after its end", volts * amps, 1, 1e-12);
	check_near("joules", power_joules(power, 0), 0.03, 1e-6);
	power_free(power);
}

static void no_power_is_left_behind_by_many_operations(void)
{
	struct power *power = one_rail("5v,5,0.02,0.5,2e-9,3e-9,1e-6,4e-4", START);
	int64_t now = START;
	double joules = 0, volts, amps;

	for (unsigned n = 0; n < 300000; n++) {
		now += 20 * US;
		CHECK(power_submit(power, now, POWER_WRITE, 100 + n % 4000, false) == 0);
		joules += 1e-6 + (100 + n % 4000) * 3e-9;
	}
	now += MS;
	power_advance(power, now);
	power_now(power, 0, &volts, &amps);
	check_near("watts", volts * amps, 0.5, 1e-15);
	check_near("joules", power_joules(power, 0), joules + 0.5 * (double)(now - START) * 1e-9, 1e-9);
	power_free(power);
}

static void history_is_exact_on_its_grid_and_linear_between(void)
{
	struct power *power = one_rail("5v,5,0.1,1,0,0,1e-3,0", START);
	double joules;

	CHECK(power_submit(power, START + 100 * MS, POWER_READ, 0, false) == 0);
	power_advance(power, START + 1000 * MS);
	CHECK(power_history(power, START, &joules));
	CHECK(joules == 0);
	CHECK(power_history(power, START + 400 * US, &joules)); /* before the first grid point */
	check_near("joules at the beginning", joules, 400e-6, 1e-12);
	CHECK(power_history(power, START / MS * MS + 50 * MS, &joules));
	check_near("joules on the grid", joules, (double)(50 * MS - START % MS) * 1e-9, 1e-12);
	CHECK(power_history(power, START + 500 * MS, &joules));
	check_near("joules in idle", joules, 0.501, 1e-12);
	CHECK(power_history(power, START + 1000 * MS, &joules));
	check_near("joules at the end", joules, 1.001, 1e-12);
	/* Within the burst of 2 W over 1 W: wrong by at most 2 W * 1 ms / 4. */
	CHECK(power_history(power, START + 100 * MS + 250 * US, &joules));
	CHECK(fabs(joules - (0.10025 + 0.0005)) <= 2 * 1e-3 / 4);
	CHECK(!power_history(power, START - 1, &joules));
	CHECK(!power_history(power, START + 1000 * MS + 1, &joules));
	power_free(power);
}

static void history_holds_ten_minutes_and_no_invented_past(void)
{
	struct power *power = one_rail("5v,5,0.1,1,0,0,0,0", START);
	int64_t end = START + 1500 * 1000 * MS;
	double joules;

	power_advance(power, end);
	CHECK(power_history(power, end - 600 * 1000 * MS, &joules));
	check_near("joules ten minutes ago", joules, 900, 1e-12);
	CHECK(!power_history(power, START + 1000 * MS, &joules));
	power_free(power);
}

static void means_that_are_no_longer_held_are_refused(void)
{
	struct power *power = one_rail("5v,5,0.1,1,0,0,0,0", 0);
	int64_t first, end;
	double volts, amps;

	power_advance(power, 60 * 1000 * MS);
	power_windows(power, &first, &end);
	CHECK(end == 60000);
	CHECK(first > 0 && end - first >= 8000);
	CHECK(power_mean(power, first, 1, 0, &volts, &amps));
	CHECK(!power_mean(power, first - 1, 1, 0, &volts, &amps));
	CHECK(!power_mean(power, end, 1, 0, &volts, &amps));
	power_free(power);
}

static void a_window_that_began_before_the_twin_is_not_given(void)
{
	struct power *power = one_rail("5v,5,0.1,1,0,0,0,0", 100 * MS + 1);
	double volts, amps;

	power_advance(power, 103 * MS);
	CHECK(!power_mean(power, 100, 1, 0, &volts, &amps));
	CHECK(power_mean(power, 101, 1, 0, &volts, &amps));
	power_free(power);
}

static void bad_rails_are_refused_with_the_reason(void)
{
	static const struct {
		const char *text, *reason;
	} cases[] = {
		{ "", "name" },
		{ "a b,5,0,1,0,0,0,0", "name \"a b\"" },
		{ "a-name-of-more-than-15,5,0,1,0,0,0,0", "name" },
		{ "5v", "volts is missing" },
		{ "5v,5,0,1,0,0,0", "flush_joules is missing" },
		{ "5v,5,0,1,0,0,0,0,1,2", "more than 9" },
		{ "5v,five,0,1,0,0,0,0", "volts \"five\"" },
		{ "5v,0,0,1,0,0,0,0", "volts 0" },
		{ "5v,5,-1,1,0,0,0,0", "ohms \"-1\"" },
		{ "5v,5,0,nan,0,0,0,0", "idle_watts \"nan\"" },
		{ "5v,5,0,inf,0,0,0,0", "idle_watts \"inf\"" },
		{ "5v,5,0,1,,0,0,0", "read_joules_per_byte" },
		{ "5v,5,0,1,0,1x,0,0", "write_joules_per_byte \"1x\"" },
		{ "5v,5,0,1,0,0,0,0,0", "active_watts 0" },
		{ "5v,5,1,1,0,0,0,0,6", "at most 6.25 W" },
	};

	for (unsigned n = 0; n < sizeof cases / sizeof *cases; n++) {
		struct power_rail rail;
		char error[512] = "";

		CHECK(!power_parse_rail(cases[n].text, &rail, error, sizeof error));
		if (!strstr(error, cases[n].reason)) {
			printf("\"%s\" gave \"%s\", expected \"%s\" in it\n", cases[n].text, error,
			       cases[n].reason);
			failures++;
		}
	}
}

static double sum_of_causes(const struct power *power, unsigned rail)
{
	double sum = 0;

	for (unsigned c = 0; c < POWER_CAUSES; c++)
		sum += power_cause_joules(power, rail, (enum power_cause)c);
	return sum;
}

static void causes_add_up_to_the_joules_in_any_load(void)
{
	struct power_rail rails[2] = { rail_of("3v3,3.3,0.1,0.3,1e-9,2e-9,1e-5,5e-5"),
				       rail_of("12v,12,0.05,1.5,3e-9,5e-9,2e-5,2e-4") };
	struct power *power = power_new(rails, 2, MS, 500 * US, 2 * MS, START);
	struct power_work work = { .cause = CAUSE_GC, .joules = { 1e-4, 3e-4 } };
	double past[2][POWER_CAUSES], all[2];
	int64_t now = START;

	srand(3);
	for (unsigned n = 0; n < 200000; n++) {
		now += rand() % 100000;
		if (rand() % 10 == 0)
			power_draw(power, now, 700 * US, &work, 1);
		else
			power_submit(power, now, (enum power_operation)(rand() % 4),
				     (uint64_t)(rand() % 64) * 512, rand() % 8 == 0);
		if (rand() % 5000 == 0)
			power_run(power, now, rand() % 2);
		if (rand() % 5000 == 0)
			power_switch(power, now, (unsigned)(rand() % 2), rand() % 2);
	}
	power_switch(power, now, 0, true);
	power_switch(power, now, 1, true);
	CHECK(power_cause_history(power, now, past) && power_history(power, now, all));
	for (unsigned r = 0; r < 2; r++) {
		double history = 0;

		check_near("sum of the causes", sum_of_causes(power, r), power_joules(power, r), 1e-12);
		CHECK(power_cause_joules(power, r, CAUSE_GC) > 0);
		CHECK(power_cause_joules(power, r, CAUSE_SEEK) == 0);
		for (unsigned c = 0; c < POWER_CAUSES; c++)
			history += past[r][c];
		check_near("sum of the causes in history", history, all[r], 1e-12);
	}
	power_free(power);
}

static void each_cause_has_its_part(void)
{
	struct power *power = one_rail("5v,5,0.02,0.5,2e-9,3e-9,1e-5,4e-4", START);
	struct power_work works[2] = { { .cause = CAUSE_SEEK, .joules = { 0.01 } },
				       { .cause = CAUSE_SPIN_UP, .joules = { 0.02 } } };

	power_submit(power, START, POWER_READ, 4096, false);
	power_submit(power, START, POWER_WRITE, 8192, true);
	power_submit(power, START, POWER_FLUSH, 0, false);
	power_submit(power, START, POWER_DISCARD, 1 << 20, false);
	power_draw(power, START, 5 * MS, works, 2);
	power_advance(power, START + 100 * MS);
	check_near("idle", power_cause_joules(power, 0, CAUSE_IDLE), 0.05, 1e-12);
	check_near("read", power_cause_joules(power, 0, CAUSE_READ), 1e-5 + 4096 * 2e-9, 1e-12);
	check_near("write", power_cause_joules(power, 0, CAUSE_WRITE), 1e-5 + 8192 * 3e-9, 1e-12);
	check_near("flush", power_cause_joules(power, 0, CAUSE_FLUSH), 4e-4 + 1e-5 + 4e-4, 1e-12);
	check_near("discard", power_cause_joules(power, 0, CAUSE_DISCARD), 1e-5, 1e-12);
	check_near("seek", power_cause_joules(power, 0, CAUSE_SEEK), 0.01, 1e-12);
	check_near("spin-up", power_cause_joules(power, 0, CAUSE_SPIN_UP), 0.02, 1e-12);
	power_free(power);
}

/* Also over changes of the power state, with and without operations. */
static void idle_power_counts_once_whatever_it_changes_to(void)
{
	struct power *power = one_rail("5v,5,0,2,0,0,1e-3,0,8", START);
	struct power_step steps[2] = { { .time_ns = START + 3 * MS, .idle_watts = { 0.5 } },
				       { .time_ns = START + 4 * MS, .idle_watts = { 0.25 } } };
	double active = 8, idle = 1;

	power_set_limits(power, START + MS, &idle, &active);
	power_plan_idle(power, START + 2 * MS, steps, 2);
	power_submit(power, START + 2 * MS, POWER_DISCARD, 0, false);
	idle = 3;
	power_set_limits(power, START + 5 * MS, &idle, &active);
	power_advance(power, START + 6 * MS);
	check_near("idle", power_cause_joules(power, 0, CAUSE_IDLE), 2e-3 + 2 * 1e-3 + 0.5e-3 + 0.25e-3 + 3e-3,
		   1e-12);
	check_near("sum of the causes", sum_of_causes(power, 0), power_joules(power, 0), 1e-12);
	power_free(power);
}

static void a_rail_that_is_off_draws_nothing_and_falls_to_half_by_the_hold_up(void)
{
	struct power *power = one_rail("12v,12,0,6,0,0,0,0", 100 * MS);
	double volts, amps, joules;

	power_switch(power, 110 * MS, 0, false);
	joules = power_joules(power, 0);
	check_near("joules at the switch", joules, 0.06, 1e-12);
	power_advance(power, 120 * MS);
	CHECK(power_joules(power, 0) == joules);
	/* 12 V to nothing within 4 ms: means of 10.5, 7.5, 4.5, 1.5. */
	for (int64_t window = 110; window < 120; window++) {
		CHECK(power_mean(power, window, 1, 0, &volts, &amps));
		check_near("falling volts", volts, window < 114 ? 10.5 - 3 * (double)(window - 110) : 0,
			   1e-12);
		CHECK(amps == 0);
	}
	power_now(power, 0, &volts, &amps);
	CHECK(volts == 0 && amps == 0);
	power_switch(power, 120 * MS, 0, true);
	power_now(power, 0, &volts, &amps);
	CHECK(volts == 12 && amps == 0.5);
	power_free(power);
}

static void a_drive_that_stops_gives_up_what_it_had_begun(void)
{
	struct power *power = one_rail("5v,5,0,1,0,0,1e-3,0", START);
	double volts, amps;

	power_submit(power, START, POWER_DISCARD, 0, false); /* 2 W for 0.5 ms */
	power_run(power, START + 250 * US, false);
	power_submit(power, START + 260 * US, POWER_DISCARD, 0, false);
	power_advance(power, START + 10 * MS);
	check_near("joules", power_joules(power, 0), 3 * 250e-6, 1e-12);
	power_now(power, 0, &volts, &amps);
	CHECK(volts == 5 && amps == 0);
	power_run(power, START + 10 * MS, true);
	power_advance(power, START + 20 * MS);
	check_near("joules", power_joules(power, 0), 3 * 250e-6 + 0.01, 1e-12);
	/* Also where it runs again before that would have ended. */
	power_submit(power, START + 20 * MS, POWER_DISCARD, 0, false);
	power_run(power, START + 20 * MS + 100 * US, false);
	power_run(power, START + 20 * MS + 200 * US, true);
	power_advance(power, START + 30 * MS);
	check_near("joules", power_joules(power, 0), 3 * 250e-6 + 0.01 + 3 * 100e-6 + 9800e-6, 1e-12);
	power_free(power);
}

int main(void)
{
	volts_and_amps_solve_the_droop_equation();
	idle_energy_is_power_times_time();
	every_operation_adds_its_energy();
	energy_is_the_integral_of_volts_times_amps();
	window_means_integrate_to_the_charge();
	mean_of_several_windows_is_the_mean_of_their_means();
	late_operations_count_from_the_settled_time_and_change_no_window();
	time_does_not_run_backwards();
	operations_beyond_the_active_power_have_to_wait();
	a_lower_limit_holds_from_then_on();
	a_rail_that_is_not_loaded_holds_no_operation_up();
	limits_end_what_was_planned_of_the_idle_power();
	a_large_operation_lasts_as_long_as_its_energy_needs();
	no_power_is_left_behind_by_many_operations();
	history_is_exact_on_its_grid_and_linear_between();
	history_holds_ten_minutes_and_no_invented_past();
	means_that_are_no_longer_held_are_refused();
	a_window_that_began_before_the_twin_is_not_given();
	bad_rails_are_refused_with_the_reason();
	causes_add_up_to_the_joules_in_any_load();
	each_cause_has_its_part();
	idle_power_counts_once_whatever_it_changes_to();
	a_rail_that_is_off_draws_nothing_and_falls_to_half_by_the_hold_up();
	a_drive_that_stops_gives_up_what_it_had_begun();
	return report("power");
}
