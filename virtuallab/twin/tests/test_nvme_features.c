/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "nvme_drive.h"

static struct nvme_reply set(uint8_t feature, uint32_t value)
{
	return admin(ADMIN_SET_FEATURES, 0, feature, value, sizeof data, 0);
}

static struct nvme_reply get(uint8_t feature, unsigned select, uint32_t cdw11)
{
	return admin(ADMIN_GET_FEATURES, 0, feature | select << 8, cdw11, 0, sizeof data);
}

static void a_power_state_is_set_and_read(void)
{
	begin();
	CHECK(set(FEATURE_POWER, 2).status == 0 && noted.state == 2);
	CHECK(get(FEATURE_POWER, 0, 0).result == 2);
	CHECK(get(FEATURE_POWER, 1, 0).result == 0);
	CHECK(code(set(FEATURE_POWER, 3).status) == STATUS_INVALID_FIELD && noted.state == 2);
}

/* 4.48 W in state 1, 8.49 in state 0. */
static void a_limit_has_the_drive_work_in_a_state_that_draws_no_more(void)
{
	begin();
	CHECK(get(FEATURE_POWER_LIMIT, 0, 0).result == 0);
	CHECK(set(FEATURE_POWER_LIMIT, 500 | 2 << 16).status == 0 && noted.state == 1);
	CHECK(get(FEATURE_POWER_LIMIT, 0, 0).result == (500 | 2 << 16));
	CHECK(code(set(FEATURE_POWER, 0).status) == STATUS_INVALID_FIELD && noted.state == 1);
	CHECK(set(FEATURE_POWER_LIMIT, 44800 | 1 << 16).status == 0 && noted.state == 1);
	CHECK(set(FEATURE_POWER_LIMIT, 849 | 2 << 16).status == 0 && noted.state == 0);
	CHECK(set(FEATURE_POWER_LIMIT, 500 | 2 << 16).status == 0 && noted.state == 1);
	CHECK(set(FEATURE_POWER_LIMIT, 0).status == 0 && noted.state == 0);
	CHECK(get(FEATURE_POWER_LIMIT, 0, 0).result == 0);
}

static void a_limit_below_all_states_is_refused(void)
{
	begin();
	CHECK(set(FEATURE_POWER_LIMIT, 500 | 2 << 16).status == 0);
	CHECK(code(set(FEATURE_POWER_LIMIT, 447 | 2 << 16).status) == STATUS_INVALID_POWER_LIMIT);
	CHECK(code(set(FEATURE_POWER_LIMIT, 500 | 3 << 16).status) == STATUS_INVALID_FIELD);
	CHECK(get(FEATURE_POWER_LIMIT, 0, 0).result == (500 | 2 << 16) && noted.state == 1);
}

static void a_state_to_rest_in_is_under_no_limit(void)
{
	begin();
	CHECK(set(FEATURE_POWER_LIMIT, 500 | 2 << 16).status == 0);
	CHECK(set(FEATURE_POWER, 2).status == 0 && noted.state == 2);
	CHECK(set(FEATURE_POWER_LIMIT, 0).status == 0 && noted.state == 0);
}

static void a_state_that_was_set_is_kept_under_a_limit(void)
{
	begin();
	CHECK(set(FEATURE_POWER, 1).status == 0);
	CHECK(set(FEATURE_POWER_LIMIT, 900 | 2 << 16).status == 0 && noted.state == 1);
	CHECK(set(FEATURE_POWER_LIMIT, 0).status == 0 && noted.state == 1);
}

static void transitions_reach_the_drive(void)
{
	begin();
	memset(data, 0, sizeof data);
	put64(data, 2 << 3 | 160 << 8);
	put64(data + 8, 2 << 3 | (uint64_t)0xffffff << 8);
	CHECK(set(FEATURE_AUTONOMOUS, 1).status == 0);
	CHECK(noted.enabled && noted.table[0].to == 2 && noted.table[0].idle_ms == 160);
	CHECK(noted.table[1].idle_ms == 0xffffff && noted.table[2].idle_ms == 0);
	memset(data, 0xff, sizeof data);
	CHECK(get(FEATURE_AUTONOMOUS, 0, 0).result == 1 && get64(data) == (2 << 3 | 160 << 8));
	CHECK(get64(data + 8) == (2 << 3 | (uint64_t)0xffffff << 8) && get64(data + 16) == 0);
	CHECK(get64(data + 248) == 0);
	memset(data, 0, sizeof data);
	CHECK(set(FEATURE_AUTONOMOUS, 0).status == 0 && !noted.enabled);
}

static void transitions_lead_to_states_that_rest(void)
{
	begin();
	noted.enabled = true;
	memset(data, 0, sizeof data);
	put64(data, 1 << 3 | 160 << 8); /* an operational one */
	CHECK(code(set(FEATURE_AUTONOMOUS, 0).status) == STATUS_INVALID_FIELD);
	put64(data, 3 << 3 | 160 << 8); /* none */
	CHECK(code(set(FEATURE_AUTONOMOUS, 0).status) == STATUS_INVALID_FIELD);
	put64(data, 3 << 3); /* none, and never */
	CHECK(noted.enabled && set(FEATURE_AUTONOMOUS, 0).status == 0);
	CHECK(code(admin(ADMIN_SET_FEATURES, 0, FEATURE_AUTONOMOUS, 1, 255, 0).status) == STATUS_DATA_LENGTH);
	CHECK(code(admin(ADMIN_GET_FEATURES, 0, FEATURE_AUTONOMOUS, 0, 0, 255).status) == STATUS_DATA_LENGTH);
}

static void the_write_cache_is_switched(void)
{
	static struct nvme_facts bare;

	begin();
	CHECK(controller.write_cache && get(FEATURE_WRITE_CACHE, 0, 0).result == 1);
	CHECK(set(FEATURE_WRITE_CACHE, 0).status == 0 && !controller.write_cache);
	CHECK(get(FEATURE_WRITE_CACHE, 0, 0).result == 0 && get(FEATURE_WRITE_CACHE, 1, 0).result == 1);
	bare = facts;
	bare.has_write_cache = false;
	nvme_controller_begin(&controller, &bare, &drive, 1);
	nvme_set_property(&controller, PROPERTY_CC, false, READY);
	CHECK(code(set(FEATURE_WRITE_CACHE, 0).status) == STATUS_INVALID_FIELD && controller.write_cache);
	CHECK(code(get(FEATURE_WRITE_CACHE, 0, 0).status) == STATUS_INVALID_FIELD);
	admin(ADMIN_IDENTIFY, 0, 1, 0, 0, 4096);
	CHECK((data[525] & 1) == 0);
}

static void queues_are_granted_up_to_a_limit(void)
{
	begin();
	CHECK(set(FEATURE_QUEUES, 3 | 3 << 16).result == (3 | 3 << 16));
	CHECK(get(FEATURE_QUEUES, 0, 0).result == (3 | 3 << 16));
	CHECK(set(FEATURE_QUEUES, 200 | 100 << 16).result == (15 | 15 << 16));
	CHECK(code(set(FEATURE_QUEUES, 0xffff).status) == STATUS_INVALID_FIELD);
}

static void thresholds_are_those_of_the_composite_temperature(void)
{
	begin();
	CHECK(get(FEATURE_TEMPERATURE, 0, 0).result == NVME_WARM_KELVINS);
	CHECK(get(FEATURE_TEMPERATURE, 0, 1 << 20).result == 0);
	CHECK(set(FEATURE_TEMPERATURE, 320).status == 0 && controller.too_hot == 320);
	CHECK(set(FEATURE_TEMPERATURE, 1 << 20 | 270).status == 0 && controller.too_cold == 270);
	CHECK(set(FEATURE_TEMPERATURE, 0xfu << 16 | 330).status == 0 && controller.too_hot == 330);
	CHECK(code(set(FEATURE_TEMPERATURE, 2 << 16 | 300).status) == STATUS_INVALID_FIELD);
	CHECK(code(set(FEATURE_TEMPERATURE, 2 << 20 | 300).status) == STATUS_INVALID_FIELD);
	CHECK(code(get(FEATURE_TEMPERATURE, 0, 3 << 16).status) == STATUS_INVALID_FIELD);
	CHECK(controller.too_hot == 330 && controller.too_cold == 270);
}

static void the_clock_is_the_hosts(void)
{
	begin();
	noted.now_ms = 1000;
	CHECK(get(FEATURE_TIMESTAMP, 0, 0).bytes == 8 && get64(data) == 1000);
	put64(data, 1800000000000);
	CHECK(set(FEATURE_TIMESTAMP, 0).status == 0);
	noted.now_ms = 1500;
	get(FEATURE_TIMESTAMP, 0, 0);
	CHECK((get64(data) & 0xffffffffffff) == 1800000000500 && data[6] == 2);
	CHECK(code(admin(ADMIN_SET_FEATURES, 0, FEATURE_TIMESTAMP, 0, 7, 0).status) == STATUS_DATA_LENGTH);
}

static void a_measurement_of_power_is_started_and_stopped(void)
{
	begin();
	CHECK(code(set(FEATURE_POWER_MEASUREMENT, 1).status) == STATUS_INVALID_FIELD);
	CHECK(code(get(FEATURE_POWER_MEASUREMENT, 0, 0).status) == STATUS_INVALID_FIELD);
	CHECK(noted.starts == 0);
	facts.reports_power = true;
	CHECK(set(FEATURE_POWER_MEASUREMENT, 30u << 16 | 1).status == 0 && noted.starts == 1 &&
	      noted.stop_minutes == 30);
	CHECK(get(FEATURE_POWER_MEASUREMENT, 0, 0).result == 1);
	CHECK(set(FEATURE_POWER_MEASUREMENT, 0).status == 0 && noted.stops == 1);
	CHECK(get(FEATURE_POWER_MEASUREMENT, 0, 0).result == 0);
	CHECK(code(set(FEATURE_POWER_MEASUREMENT, 2).status) == STATUS_INVALID_FIELD);
	CHECK(code(set(FEATURE_POWER_MEASUREMENT, 1 << 4 | 1).status) == STATUS_INVALID_FIELD);
	CHECK(noted.starts == 1 && noted.stops == 1);
}

static void plain_values_are_kept(void)
{
	static const uint8_t plain[] = { FEATURE_ARBITRATION, FEATURE_ERROR_RECOVERY, FEATURE_WRITE_ATOMICITY,
					 FEATURE_EVENTS, FEATURE_KEEP_ALIVE };

	begin();
	for (unsigned n = 0; n < sizeof plain; n++)
		CHECK(set(plain[n], 100 + n).status == 0 && get(plain[n], 0, 0).result == 100 + n);
}

static void what_is_not_there_is_refused(void)
{
	begin();
	CHECK(code(set(0x7e, 0).status) == STATUS_INVALID_FIELD);
	CHECK(code(get(0x7e, 0, 0).status) == STATUS_INVALID_FIELD);
	CHECK(code(get(0x7e, 3, 0).status) == STATUS_INVALID_FIELD);
	CHECK(code(get(FEATURE_EVENTS, 4, 0).status) == STATUS_INVALID_FIELD);
	CHECK(get(FEATURE_EVENTS, 3, 0).result == 4); /* can be changed, and not saved */
	CHECK(code(admin(ADMIN_SET_FEATURES, 0, FEATURE_EVENTS | 1u << 31, 1, 0, 0).status) ==
	      STATUS_NOT_SAVEABLE);
	CHECK(controller.events_wanted == 0);
}

int main(void)
{
	a_power_state_is_set_and_read();
	a_limit_has_the_drive_work_in_a_state_that_draws_no_more();
	a_limit_below_all_states_is_refused();
	a_state_to_rest_in_is_under_no_limit();
	a_state_that_was_set_is_kept_under_a_limit();
	transitions_reach_the_drive();
	transitions_lead_to_states_that_rest();
	the_write_cache_is_switched();
	queues_are_granted_up_to_a_limit();
	thresholds_are_those_of_the_composite_temperature();
	the_clock_is_the_hosts();
	a_measurement_of_power_is_started_and_stopped();
	plain_values_are_kept();
	what_is_not_there_is_refused();
	return report("nvme_features");
}
