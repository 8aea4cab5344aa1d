/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "nvme_drive.h"

static void before_it_is_enabled_a_controller_does_nothing(void)
{
	nvme_controller_begin(&controller, &facts, &drive, 1);
	CHECK(code(admin(ADMIN_IDENTIFY, 0, 1, 0, 0, 4096).status) == STATUS_SEQUENCE);
	CHECK(!nvme_is_ready(&controller));
}

static void properties_have_their_sizes(void)
{
	uint64_t value;

	begin();
	CHECK(nvme_get_property(&controller, PROPERTY_CAP, true, &value));
	CHECK((value & 0xffff) == NVME_QUEUE_ENTRIES - 1 && (value >> 16 & 1) && (value >> 37 & 1));
	CHECK((value >> 48 & 0xff) == 0); /* pages of 4 KiB and no others */
	CHECK(!nvme_get_property(&controller, PROPERTY_CAP, false, &value));
	CHECK(nvme_get_property(&controller, PROPERTY_VS, false, &value) && value == 0x10400);
	CHECK(nvme_get_property(&controller, PROPERTY_CC, false, &value) && value == READY);
	CHECK(nvme_get_property(&controller, PROPERTY_CSTS, false, &value) && value == 1);
	CHECK(!nvme_get_property(&controller, 0x24, false, &value));
	CHECK(!nvme_set_property(&controller, PROPERTY_CAP, true, 0));
	CHECK(!nvme_set_property(&controller, PROPERTY_CC, true, READY));
}

static void what_it_cannot_be_is_a_fatal_status(void)
{
	static const uint32_t wrong[] = {
		READY | 1 << 7,	      /* larger pages */
		READY | 1 << 4,	      /* another command set */
		READY ^ 1 << 16,      /* larger commands */
		READY ^ 1 << 20,      /* larger completions */
	};

	for (unsigned n = 0; n < sizeof wrong / sizeof *wrong; n++) {
		nvme_controller_begin(&controller, &facts, &drive, 1);
		CHECK(nvme_set_property(&controller, PROPERTY_CC, false, wrong[n]));
		CHECK(!nvme_is_ready(&controller) && nvme_is_failed(&controller));
	}
}

static void a_reset_brings_the_defaults_back(void)
{
	begin();
	CHECK(admin(ADMIN_SET_FEATURES, 0, FEATURE_WRITE_CACHE, 0, 0, 0).status == 0 && !controller.write_cache);
	admin(ADMIN_SET_FEATURES, 0, FEATURE_EVENTS, 2, 0, 0);
	admin(ADMIN_ASYNC_EVENT, 0, 0, 0, 0, 0);
	CHECK(nvme_set_property(&controller, PROPERTY_CC, false, 0) && !nvme_is_ready(&controller));
	CHECK(controller.write_cache && controller.events_wanted == 0 && controller.event_count == 0);
	CHECK(noted.resets == 1);
}

static void a_shutdown_reaches_the_drive_once(void)
{
	uint64_t value;

	begin();
	CHECK(nvme_set_property(&controller, PROPERTY_CC, false, READY | 1 << 14));
	CHECK(nvme_set_property(&controller, PROPERTY_CC, false, READY | 1 << 14));
	CHECK(nvme_get_property(&controller, PROPERTY_CSTS, false, &value) && (value >> 2 & 3) == 2);
	CHECK(noted.shutdowns == 1);
}

static void identify_gives_the_controller(void)
{
	begin();
	CHECK(admin(ADMIN_IDENTIFY, 0, 1, 0, 0, 4096).bytes == 4096);
	CHECK(memcmp(data + 4, "JRTEST0001          ", 20) == 0);
	CHECK(memcmp(data + 24, "Joulerig test twin                      ", 40) == 0);
	CHECK(memcmp(data + 64, "1       ", 8) == 0);
	CHECK(data[77] == 7 && get16(data + 78) == 1 && get32(data + 80) == 0x10400);
	CHECK(get16(data + 256) == 2 && data[259] == NVME_EVENTS - 1 && data[262] == NVME_ERROR_ENTRIES - 1);
	CHECK(data[263] == 2 && data[265] == 1 && get64(data + 280) == DRIVE_BYTES);
	CHECK(get16(data + 320) == 1 && data[512] == 0x66 && data[513] == 0x44);
	CHECK(get16(data + 514) == NVME_QUEUE_ENTRIES && get32(data + 516) == 1 && data[525] == 7);
	CHECK((get16(data + 520) & 0xc) == 0xc && (get32(data + 536) & 3) == 1);
	CHECK(strcmp((const char *)data + 768, "nqn.test:drive") == 0);
	CHECK(get32(data + 1792) * 16 == 64 + NVME_IN_CAPSULE_BYTES && get32(data + 1796) == 1);
}

static void power_states_have_watts_and_latencies(void)
{
	const uint8_t *states = data + 2048;

	begin();
	admin(ADMIN_IDENTIFY, 0, 1, 0, 0, 4096);
	CHECK(get16(states) == 849 && states[3] == 0); /* hundredths of a watt, operational */
	CHECK(get16(states + 16) == 3500 && states[18] >> 6 == 1); /* tenths of a milliwatt */
	CHECK(get16(states + 32) == 448 && get32(states + 36) == 10 && get32(states + 40) == 20);
	CHECK(states[32 + 12] == 1 && states[32 + 14] == 1);
	CHECK(get16(states + 64) == 400 && states[67] == 3); /* tenths of a milliwatt, not operational */
	CHECK(get32(states + 68) == 2000 && get32(states + 72) == 1200);
	CHECK(get16(states + 96) == 0);
}

static void identify_gives_the_namespace_and_its_lists(void)
{
	begin();
	CHECK(admin(ADMIN_IDENTIFY, 1, 0, 0, 0, 4096).bytes == 4096);
	CHECK(get64(data) == BLOCKS && get64(data + 8) == BLOCKS && data[25] == 0 && data[33] == 9);
	CHECK(data[120] == 0x01 && data[127] == 0xef && data[130] == 9);
	CHECK(admin(ADMIN_IDENTIFY, 0, 2, 0, 0, 4096).bytes && get32(data) == 1 && get32(data + 4) == 0);
	CHECK(admin(ADMIN_IDENTIFY, 1, 2, 0, 0, 4096).bytes && get32(data) == 0);
	CHECK(admin(ADMIN_IDENTIFY, 1, 3, 0, 0, 4096).bytes && data[0] == 1 && data[1] == 8 && data[4] == 0x01 &&
	      data[12] == 0);
	CHECK(admin(ADMIN_IDENTIFY, 0, 6, 0, 0, 4096).bytes && get64(data) == 0);
	CHECK(admin(ADMIN_IDENTIFY, 1, 5, 0, 0, 4096).bytes && get64(data) == 0);
}

static void identify_refuses_what_is_not_there(void)
{
	begin();
	CHECK(code(admin(ADMIN_IDENTIFY, 0, 1, 0, 0, 4095).status) == STATUS_DATA_LENGTH);
	CHECK(code(admin(ADMIN_IDENTIFY, 0, 0x7f, 0, 0, 4096).status) == STATUS_INVALID_FIELD);
	CHECK(code(admin(ADMIN_IDENTIFY, 2, 0, 0, 0, 4096).status) == STATUS_INVALID_NAMESPACE);
	CHECK(code(admin(ADMIN_IDENTIFY, 0, 3, 0, 0, 4096).status) == STATUS_INVALID_NAMESPACE);
	CHECK(code(admin(ADMIN_IDENTIFY, 0xffffffff, 2, 0, 0, 4096).status) == STATUS_INVALID_NAMESPACE);
	CHECK(code(admin(ADMIN_IDENTIFY, 0, 6, 2 << 24, 0, 4096).status) == STATUS_INVALID_FIELD);
	CHECK(code(admin(0xc0, 0, 0, 0, 0, 0).status) == STATUS_INVALID_OPCODE);
}

static struct nvme_reply get_log(uint8_t page, uint32_t bytes, uint32_t offset, bool keep)
{
	struct command command = command_of(ADMIN_GET_LOG, 0xffffffff, page | (keep ? 0x8000u : 0) |
					    (bytes / 4 - 1) << 16, 0, offset);

	return nvme_admin(&controller, command.raw, data, 0, bytes);
}

static void the_health_log_has_the_drives_life(void)
{
	begin();
	noted.health = (struct nvme_health){
		.celsius = 41.6, .percentage_used = 2.1, .read_bytes = 512001, .written_bytes = 1ull << 40,
		.reads = 11, .writes = 12, .busy_seconds = 3600, .power_cycles = 5, .unsafe_shutdowns = 2,
		.media_errors = 3, .power_on_seconds = 7300, .warm_seconds = 179, .hot_seconds = 60,
		.throttled = { .entered = { 6, 1 }, .seconds = { 31.9, 4 } } };
	CHECK(get_log(LOG_HEALTH, 512, 0, false).bytes == 512);
	CHECK(data[0] == 0 && get16(data + 1) == 315 && get16(data + 200) == 315);
	CHECK(data[3] == 100 && data[4] == 10 && data[5] == 3); /* begun percents count */
	CHECK(get64(data + 32) == 2 && get64(data + 48) == ((1ull << 40) + 511999) / 512000);
	CHECK(get64(data + 64) == 11 && get64(data + 80) == 12 && get64(data + 96) == 60);
	CHECK(get64(data + 112) == 5 && get64(data + 128) == 2 && get64(data + 144) == 2 && get64(data + 160) == 3);
	CHECK(get32(data + 192) == 2 && get32(data + 196) == 1); /* whole minutes */
	CHECK(get32(data + 216) == 6 && get32(data + 220) == 1);
	CHECK(get32(data + 224) == 31 && get32(data + 228) == 4);
	noted.health.percentage_used = 1e6;
	noted.health.celsius = 70;
	get_log(LOG_HEALTH, 512, 0, false);
	CHECK(data[5] == 255 && data[0] == 2);
}

static void logs_are_read_in_pieces_and_no_further(void)
{
	begin();
	noted.health.power_cycles = 7;
	CHECK(get_log(LOG_HEALTH, 16, 112, false).bytes == 16 && get64(data) == 7);
	memset(data, 0xff, sizeof data);
	CHECK(get_log(LOG_HEALTH, 1024, 0, false).bytes == 1024 && data[512] == 0 && data[1023] == 0);
	CHECK(get_log(LOG_HEALTH, 4, 512, false).bytes == 4 && get32(data) == 0);
	CHECK(code(get_log(LOG_HEALTH, 4, 516, false).status) == STATUS_INVALID_FIELD);
	CHECK(code(get_log(LOG_HEALTH, 4, 2, false).status) == STATUS_INVALID_FIELD);
	CHECK(code(get_log(0x0c, 512, 0, false).status) == STATUS_INVALID_LOG);
	CHECK(code(admin(ADMIN_GET_LOG, 0xffffffff, LOG_HEALTH | 127u << 16, 0, 0, 508).status) ==
	      STATUS_DATA_LENGTH);
	CHECK(code(admin(ADMIN_GET_LOG, 1, LOG_HEALTH | 127u << 16, 0, 0, 512).status) ==
	      STATUS_INVALID_NAMESPACE);
	CHECK(get_log(LOG_FIRMWARE, 512, 0, false).bytes == 512 && data[0] == 1 && data[8] == '1');
}

static void a_drive_that_measures_its_power_has_it_in_its_health(void)
{
	begin();
	noted.report = (struct self_report){ .lifetime_joules = 3601, .watts = 5.25 };
	get_log(LOG_HEALTH, 512, 0, false);
	CHECK(get64(data + 232) == 0 && get32(data + 240) == 0);
	facts.reports_power = true;
	get_log(LOG_HEALTH, 512, 0, false);
	CHECK(get64(data + 232) == 2 && get32(data + 240) == (1u << 16 | 52500));
	noted.report.watts = 12.5; /* more than fits in tenths of milliwatts */
	get_log(LOG_HEALTH, 512, 0, false);
	CHECK(get32(data + 240) == (2u << 16 | 1250));
	admin(ADMIN_IDENTIFY, 0, 1, 0, 0, NVME_PAGE_BYTES);
	CHECK(get32(data + 96) == (1u << 20 | 1u << 21) && get16(data + 394) == 0xffff);
}

static void a_measurement_has_its_log(void)
{
	begin();
	CHECK(code(get_log(LOG_POWER_MEASUREMENT, 576, 0, false).status) == STATUS_INVALID_LOG);
	facts.reports_power = true;
	noted.now_ms = 1000000;
	noted.report.settings.error_percent = 5;
	CHECK(get_log(LOG_POWER_MEASUREMENT, 576, 0, false).bytes == 576);
	CHECK(data[1] == 0 && get16(data + 2) == 0x8 && get32(data + 4) == 576 && get32(data + 8) == 0);
	CHECK(get32(data + 40) == 0 && get32(data + 44) == 0 && get64(data + 48) == 0 && data[56] == 5);
	noted.report.measurement = (struct self_report_measurement){
		.is_running = true, .has_gaps = true, .generation = 3, .count = 4, .watts_sum = 10, .most_watts = 7,
		.most_ms = 900000, .bins = { [2] = 3, [63] = 1 }, .overflow = 9, .stop_ms = 1060001 };
	get_log(LOG_POWER_MEASUREMENT, 576, 0, false);
	CHECK(data[1] == 3 && get16(data + 2) == 0x1b && get32(data + 8) == 4 && get16(data + 12) == 64);
	CHECK(get16(data + 14) == 2); /* begun minutes count */
	CHECK(get16(data + 24) == 8 && get16(data + 26) == 250 && get16(data + 28) == 64 && get32(data + 32) == 9);
	CHECK(get32(data + 40) == (1u << 16 | 25000) && get32(data + 44) == (2u << 16 | 700));
	CHECK(get64(data + 48) == 900000);
	CHECK(get32(data + 64 + 16) == 3 && get32(data + 68 + 16) == (1u << 16 | 5000));
	CHECK(get32(data + 64 + 8 * 63) == 1 && get32(data + 68 + 8 * 63) == (2u << 16 | 1575));
	noted.report.measurement.is_running = false;
	noted.report.measurement.stopped_ms = 950000;
	get_log(LOG_POWER_MEASUREMENT, 576, 0, false);
	CHECK(get64(data + 16) == 950000 && get16(data + 14) == 0);
}

static void the_extended_health_log_is_ocps(void)
{
	begin();
	CHECK(code(get_log(LOG_OCP_HEALTH, 512, 0, false).status) == STATUS_INVALID_LOG);
	facts.has_ocp_log = true;
	noted.health = (struct nvme_health){ .nand_bytes_written = 1ull << 41, .erases = 17.9, .unsafe_shutdowns = 6,
					     .is_throttled = true, .throttled = { .entered = { 250, 9 } } };
	CHECK(get_log(LOG_OCP_HEALTH, 512, 0, false).bytes == 512);
	CHECK(get64(data) == 1ull << 41 && data[96] == 255 && data[97] == 1 && get64(data + 224) == 17);
	CHECK(get16(data + 128) == 0xffff && get64(data + 160) == 0);
	CHECK(get16(data + 494) == 3 && data[496] == 0xc5 && data[511] == 0xaf);
	facts.plp = true;
	get_log(LOG_OCP_HEALTH, 512, 0, false);
	CHECK(get16(data + 128) == 100 && get64(data + 160) == 6);
}

static void errors_are_logged_newest_first(void)
{
	struct command write = command_of(IO_WRITE, 1, 0x12345, 0, 0);

	begin();
	for (unsigned n = 0; n < NVME_ERROR_ENTRIES; n++)
		admin(0xc0, 0, 0, 0, 0, 0);
	nvme_note_error(&controller, 3, write.raw, STATUS_WRITE_FAULT | NVME_DO_NOT_RETRY);
	CHECK(get_log(LOG_ERRORS, 1024, 0, false).bytes == 1024);
	CHECK(get64(data) == NVME_ERROR_ENTRIES + 1 && get16(data + 8) == 3 && get16(data + 10) == 77);
	CHECK(get16(data + 12) >> 1 == (STATUS_WRITE_FAULT | NVME_DO_NOT_RETRY));
	CHECK(get64(data + 16) == 0x12345 && get32(data + 24) == 1);
	CHECK(get64(data + 15 * 64) == 2); /* the oldest that is left */
	get_log(LOG_HEALTH, 512, 0, false);
	CHECK(get64(data + 176) == NVME_ERROR_ENTRIES + 1);
}

static void a_format_erases_all(void)
{
	begin();
	CHECK(admin(ADMIN_FORMAT, 1, 0, 0, 0, 0).status == 0);
	CHECK(noted.discards == 1 && noted.offset == 0 && noted.bytes == DRIVE_BYTES);
	CHECK(admin(ADMIN_FORMAT, 0xffffffff, 1 << 9, 0, 0, 0).status == 0 && noted.discards == 2);
	CHECK(code(admin(ADMIN_FORMAT, 2, 0, 0, 0, 0).status) == STATUS_INVALID_NAMESPACE);
	CHECK(code(admin(ADMIN_FORMAT, 1, 1, 0, 0, 0).status) == STATUS_INVALID_FORMAT);
	CHECK(code(admin(ADMIN_FORMAT, 1, 2 << 9, 0, 0, 0).status) == STATUS_INVALID_FORMAT);
	CHECK(noted.discards == 2);
	noted.fails = true;
	CHECK(code(admin(ADMIN_FORMAT, 1, 0, 0, 0, 0).status) == STATUS_WRITE_FAULT);
}

static void heat_is_reported_once_until_it_is_read(void)
{
	uint16_t command_id;
	uint64_t result;

	begin();
	CHECK(!nvme_take_event(&controller, 80, &command_id, &result)); /* no command waits */
	CHECK(admin(ADMIN_ASYNC_EVENT, 0, 0, 0, 0, 0).waits && admin(ADMIN_ASYNC_EVENT, 0, 0, 0, 0, 0).waits);
	CHECK(!nvme_take_event(&controller, 80, &command_id, &result)); /* not wanted */
	admin(ADMIN_SET_FEATURES, 0, FEATURE_EVENTS, 2, 0, 0);
	CHECK(!nvme_take_event(&controller, 69, &command_id, &result));
	CHECK(nvme_take_event(&controller, 70, &command_id, &result));
	CHECK(command_id == 77 && (result & 7) == 1 && (result >> 8 & 0xff) == 1 && (result >> 16) == LOG_HEALTH);
	CHECK(!nvme_take_event(&controller, 70, &command_id, &result));
	get_log(LOG_HEALTH, 512, 0, true);
	CHECK(!nvme_take_event(&controller, 70, &command_id, &result));
	get_log(LOG_HEALTH, 512, 0, false);
	CHECK(nvme_take_event(&controller, 70, &command_id, &result));
}

static void so_many_commands_wait_for_events(void)
{
	begin();
	for (unsigned n = 0; n < NVME_EVENTS; n++)
		CHECK(admin(ADMIN_ASYNC_EVENT, 0, 0, 0, 0, 0).waits);
	CHECK(code(admin(ADMIN_ASYNC_EVENT, 0, 0, 0, 0, 0).status) == STATUS_EVENT_LIMIT);
	CHECK(admin(ADMIN_KEEP_ALIVE, 0, 0, 0, 0, 0).status == 0);
	CHECK(admin(ADMIN_ABORT, 0, 0, 0, 0, 0).result == 1);
}

int main(void)
{
	before_it_is_enabled_a_controller_does_nothing();
	properties_have_their_sizes();
	what_it_cannot_be_is_a_fatal_status();
	a_reset_brings_the_defaults_back();
	a_shutdown_reaches_the_drive_once();
	identify_gives_the_controller();
	power_states_have_watts_and_latencies();
	identify_gives_the_namespace_and_its_lists();
	identify_refuses_what_is_not_there();
	the_health_log_has_the_drives_life();
	logs_are_read_in_pieces_and_no_further();
	a_drive_that_measures_its_power_has_it_in_its_health();
	a_measurement_has_its_log();
	the_extended_health_log_is_ocps();
	errors_are_logged_newest_first();
	a_format_erases_all();
	heat_is_reported_once_until_it_is_read();
	so_many_commands_wait_for_events();
	return report("nvme_controller");
}
