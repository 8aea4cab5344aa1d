/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "power_states.h"

#include "check.h"

#define MS 1000000LL

/* 0 to 2 to work in, 3 and 4 to rest in; from any of the first to 3 after 160 ms, and 340 ms
 * later to 4. */
static struct power_states five_states(void)
{
	struct power_states states = { .operational_count = 3, .count = 5, .initial = 1 };

	for (unsigned n = 0; n < 3; n++)
		states.defaults[n] = (struct power_transition){ .to = 3, .idle_ns = 160 * MS };
	states.defaults[3] = (struct power_transition){ .to = 4, .idle_ns = 340 * MS };
	states.of[3].entry_ns = 2 * MS;
	states.of[3].exit_ns = 1 * MS;
	states.of[4].entry_ns = 5 * MS;
	states.of[4].exit_ns = 9 * MS;
	power_states_reset(&states);
	return states;
}

static void after_power_on_the_drive_rests_by_itself(void)
{
	struct power_states states = five_states();
	struct doze_state doze[DOZE_MAX_STATES];
	unsigned numbers[DOZE_MAX_STATES];

	CHECK(states.operational == 1);
	CHECK(power_states_is_operational(&states, 2) && !power_states_is_operational(&states, 3));
	CHECK(power_states_plan(&states, doze, numbers) == 2 && numbers[0] == 3 && numbers[1] == 4);
	CHECK(doze[0].idle_ns == 160 * MS && doze[0].entry_ns == 2 * MS && doze[0].exit_ns == 1 * MS);
	CHECK(doze[1].idle_ns == 500 * MS && doze[1].entry_ns == 5 * MS && doze[1].exit_ns == 9 * MS);
}

static void without_autonomous_transitions_it_stays_awake(void)
{
	struct power_states states = five_states();
	struct doze_state doze[DOZE_MAX_STATES];
	unsigned numbers[DOZE_MAX_STATES];

	states.autonomous = false;
	CHECK(power_states_plan(&states, doze, numbers) == 0);
	states.autonomous = true;
	states.table[1].idle_ns = 0; /* none from where it works */
	CHECK(power_states_plan(&states, doze, numbers) == 0);
	states.operational = 2;
	CHECK(power_states_plan(&states, doze, numbers) == 2);
}

static void by_command_it_rests_at_once_and_goes_on_from_there(void)
{
	struct power_states states = five_states();
	struct doze_state doze[DOZE_MAX_STATES];
	unsigned numbers[DOZE_MAX_STATES];

	states.is_resting = true;
	states.resting = 3;
	CHECK(power_states_plan(&states, doze, numbers) == 2 && numbers[0] == 3 && numbers[1] == 4);
	CHECK(doze[0].idle_ns == 0 && doze[1].idle_ns == 340 * MS);
	states.autonomous = false;
	CHECK(power_states_plan(&states, doze, numbers) == 1 && numbers[0] == 3);
	states.resting = 4;
	CHECK(power_states_plan(&states, doze, numbers) == 1 && numbers[0] == 4 && doze[0].exit_ns == 9 * MS);
}

static void a_table_that_leads_back_ends(void)
{
	struct power_states states = five_states();
	struct doze_state doze[DOZE_MAX_STATES];
	unsigned numbers[DOZE_MAX_STATES];

	states.table[4] = (struct power_transition){ .to = 3, .idle_ns = 1 * MS };
	CHECK(power_states_plan(&states, doze, numbers) == 2 && numbers[1] == 4);
	states.table[3] = (struct power_transition){ .to = 3, .idle_ns = 1 * MS };
	CHECK(power_states_plan(&states, doze, numbers) == 1);
}

static void tables_are_compared_by_what_they_do(void)
{
	struct power_states states = five_states();
	struct power_transition other[POWER_STATES_MOST];

	memcpy(other, states.table, sizeof other);
	CHECK(power_states_same_table(&states, states.table, other));
	other[4].to = 2; /* of no transition */
	CHECK(power_states_same_table(&states, states.table, other));
	other[3].to = 3;
	CHECK(!power_states_same_table(&states, states.table, other));
	memcpy(other, states.table, sizeof other);
	other[0].idle_ns++;
	CHECK(!power_states_same_table(&states, states.table, other));
}

static void a_reset_forgets_what_was_set(void)
{
	struct power_states states = five_states();
	struct doze_state doze[DOZE_MAX_STATES];
	unsigned numbers[DOZE_MAX_STATES];

	states.operational = 2;
	states.is_resting = true;
	states.resting = 4;
	states.autonomous = false;
	states.table[1].idle_ns = 7;
	power_states_reset(&states);
	CHECK(states.operational == 1 && !states.is_resting && states.autonomous);
	CHECK(power_states_plan(&states, doze, numbers) == 2 && doze[0].idle_ns == 160 * MS);
}

int main(void)
{
	after_power_on_the_drive_rests_by_itself();
	without_autonomous_transitions_it_stays_awake();
	by_command_it_rests_at_once_and_goes_on_from_there();
	a_table_that_leads_back_ends();
	tables_are_compared_by_what_they_do();
	a_reset_forgets_what_was_set();
	return report("power_states");
}
