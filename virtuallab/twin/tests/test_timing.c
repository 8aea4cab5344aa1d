/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "check.h"
#include "timing.h"

#include <stdlib.h>
#include <string.h>

#define US 1000LL
#define MS 1000000LL
#define SECOND 1000000000LL
#define MIB (1ULL << 20)
#define START (5 * SECOND)

static const char *const flash_words[][2] = {
	{ "model", "flash" }, { "channels", "8" }, { "page_bytes", "16384" }, { "read_command_ns", "20000" },
	{ "write_command_ns", "10000" }, { "flush_ns", "1000000" }, { "page_read_ns", "60000" },
	{ "program_ns", "600000" }, { "erase_ns", "3000000" }, { "read_bytes_per_second", "1e9" },
	{ "write_bytes_per_second", "5e8" }, { "overprovisioning", "0.07" },
};
static const char *const disk_words[][2] = {
	{ "model", "disk" }, { "rpm", "7200" }, { "heads", "2" }, { "zones", "16" },
	{ "track_to_track_ns", "1000000" }, { "average_seek_ns", "8500000" }, { "full_stroke_ns", "17000000" },
	{ "head_switch_ns", "800000" }, { "command_ns", "100000" }, { "outer_bytes_per_second", "7.2e7" },
	{ "inner_bytes_per_second", "4.2e7" }, { "link_bytes_per_second", "1.5e8" },
	{ "read_ahead_bytes", "1048576" },
};
#define COUNT(words) (sizeof(words) / sizeof *(words))

static struct timing_config config_of(const char *const words[][2], size_t count)
{
	struct timing_config config = { .model = TIMING_NULL };
	char error[512];

	for (size_t n = 0; n < count; n++)
		CHECK(timing_set(&config, words[n][0], words[n][1], error, sizeof error) == 0);
	config.flash.write_cache_bytes = config.disk.write_cache_bytes = 2 * MIB;
	CHECK(timing_check(&config, error, sizeof error));
	return config;
}

static int64_t run(struct timing *timing, enum pace_kind kind, int64_t time_ns, uint64_t offset,
		   uint64_t bytes)
{
	struct timing_operation operation = { .kind = kind, .offset = offset, .bytes = bytes,
					      .arrival_ns = time_ns };

	timing_submit(timing, &operation);
	while (!timing_decided(&operation))
		timing_advance(timing, timing_next_ns(timing));
	return operation.complete_ns;
}

static void the_null_model_takes_no_time(void)
{
	struct timing_config config = { .model = TIMING_NULL };
	struct timing *timing = timing_new(&config, 64 * MIB, START);

	for (enum pace_kind kind = 0; kind < PACE_KINDS; kind++)
		CHECK(run(timing, kind, START + kind, 0, 4096) == START + kind);
	CHECK(timing_next_ns(timing) == INT64_MAX);
	timing_free(timing);
}

static void the_models_are_those_of_their_parameters(void)
{
	struct timing_config config = config_of(flash_words, COUNT(flash_words));
	struct timing *timing = timing_new(&config, 64 * MIB, START);

	CHECK(run(timing, PACE_READ, START, 0, 4096) == START + 84096);
	CHECK(run(timing, PACE_WRITE, START + SECOND, 0, 4096) == START + SECOND + 18192);
	timing_free(timing);

	config = config_of(disk_words, COUNT(disk_words));
	timing = timing_new(&config, 64 * MIB, START);
	CHECK(run(timing, PACE_READ, START, 32 * MIB, 4096) > START + MS);
	CHECK(run(timing, PACE_WRITE, START + SECOND, 0, 4096) == START + SECOND + 100 * US + 27306);
	CHECK(run(timing, PACE_DISCARD, START + 2 * SECOND, 0, MIB) == START + 2 * SECOND);
	timing_free(timing);
}

static void the_states_that_an_idle_drive_enters_can_change(void)
{
	struct timing_config config = config_of(flash_words, COUNT(flash_words));
	struct timing *timing = timing_new(&config, 64 * MIB, START);
	struct doze_state at_once = { .idle_ns = 0, .entry_ns = 3 * MS, .exit_ns = 2 * MS };
	struct work work;

	CHECK(doze_state(timing_doze(timing), START + SECOND) == 0);
	timing_set_doze(timing, &at_once, 1);
	timing_stir(timing, START + SECOND);
	CHECK(doze_state(timing_doze(timing), START + SECOND) == 1);
	CHECK(doze_entered_ns(timing_doze(timing), 1) == START + SECOND + 3 * MS);
	CHECK(run(timing, PACE_READ, START + 2 * SECOND, 0, 4096) == START + 2 * SECOND + 2 * MS + 84096);
	CHECK(timing_take_work(timing, INT64_MAX, &work) && work.cause == WORK_WAKE);
	timing_set_doze(timing, NULL, 0);
	CHECK(run(timing, PACE_READ, START + 3 * SECOND, 0, 4096) == START + 3 * SECOND + 84096);
	timing_free(timing);
}

static void a_drive_that_is_woken_has_paid_when_work_comes(void)
{
	struct timing_config config = config_of(flash_words, COUNT(flash_words));
	struct timing *timing = timing_new(&config, 64 * MIB, START);
	struct doze_state state = { .idle_ns = 100 * MS, .entry_ns = 3 * MS, .exit_ns = 2 * MS };
	struct work work;

	timing_set_doze(timing, &state, 1);
	timing_wake(timing, START + SECOND);
	CHECK(timing_take_work(timing, INT64_MAX, &work) && work.cause == WORK_WAKE && work.duration_ns == 2 * MS);
	CHECK(run(timing, PACE_READ, START + SECOND + 50 * MS, 0, 4096) == START + SECOND + 50 * MS + 84096);
	CHECK(!timing_take_work(timing, INT64_MAX, &work));
	timing_free(timing);
}

static void a_drive_that_is_held_begins_later(void)
{
	struct timing_config configs[] = { config_of(flash_words, COUNT(flash_words)),
					   config_of(disk_words, COUNT(disk_words)) };

	for (unsigned n = 0; n < 2; n++) {
		struct timing *timing = timing_new(&configs[n], 64 * MIB, START);
		struct timing *free_one = timing_new(&configs[n], 64 * MIB, START);

		timing_hold(timing, START + 40 * MS);
		CHECK(run(timing, PACE_READ, START + 10 * MS, 0, 4096) >= START + 40 * MS);
		CHECK(run(free_one, PACE_READ, START + 10 * MS, 0, 4096) < START + 40 * MS);
		timing_free(timing);
		timing_free(free_one);
	}
}

static void a_lower_rate_slows_the_link(void)
{
	struct timing_config config = config_of(flash_words, COUNT(flash_words));
	struct timing *timing = timing_new(&config, 64 * MIB, START);

	CHECK(run(timing, PACE_READ, START, 0, 4096) == START + 80 * US + 4096);
	timing_set_rate(timing, 0.25);
	CHECK(run(timing, PACE_READ, START + SECOND, 0, 4096) == START + SECOND + 80 * US + 4 * 4096);
	CHECK(run(timing, PACE_WRITE, START + 2 * SECOND, 0, 4096) == START + 2 * SECOND + 10 * US + 4 * 8192);
	timing_set_rate(timing, 1);
	CHECK(run(timing, PACE_READ, START + 3 * SECOND, 0, 4096) == START + 3 * SECOND + 80 * US + 4096);
	timing_free(timing);
}

static void a_drive_left_alone_dozes_off_and_takes_its_time_to_wake(void)
{
	struct timing_config config = config_of(flash_words, COUNT(flash_words));
	struct timing *timing;
	struct work work;
	char error[512];
	int64_t end_ns, idle_ns;

	CHECK(timing_set(&config, "doze", "100000000,3000000,2000000", error, sizeof error) == 0);
	CHECK(timing_set(&config, "doze", "2000000000,5000000,10000000", error, sizeof error) == 0);
	timing = timing_new(&config, 64 * MIB, START);
	end_ns = run(timing, PACE_READ, START, 0, 4096);
	idle_ns = timing_doze(timing)->idle_since_ns;
	CHECK(idle_ns == end_ns);
	CHECK(doze_state(timing_doze(timing), end_ns + 100 * MS - 1) == 0);
	CHECK(doze_state(timing_doze(timing), end_ns + 100 * MS) == 1);
	CHECK(doze_state(timing_doze(timing), end_ns + 2 * SECOND) == 2);
	CHECK(doze_entered_ns(timing_doze(timing), 1) == end_ns + 103 * MS);

	/* Awake: no time lost. */
	end_ns = run(timing, PACE_READ, end_ns + 99 * MS, 0, 4096);
	CHECK(!timing_take_work(timing, INT64_MAX, &work));
	/* In state 1: its exit. */
	CHECK(run(timing, PACE_READ, end_ns + 500 * MS, 0, 4096) == end_ns + 502 * MS + 84096);
	end_ns += 502 * MS + 84096;
	CHECK(timing_take_work(timing, INT64_MAX, &work));
	CHECK(work.cause == WORK_WAKE && work.duration_ns == 2 * MS);
	/* Just entering it: the rest of the entry too. */
	CHECK(run(timing, PACE_READ, end_ns + 101 * MS, 0, 4096) == end_ns + 103 * MS + 2 * MS + 84096);
	end_ns += 105 * MS + 84096;
	CHECK(run(timing, PACE_READ, end_ns + 3 * SECOND, 0, 4096) == end_ns + 3 * SECOND + 10 * MS + 84096);
	timing_free(timing);
}

static void a_hard_disk_in_standby_spins_up_first(void)
{
	struct timing_config config = config_of(disk_words, COUNT(disk_words));
	struct timing *timing;
	char error[512];

	CHECK(timing_set(&config, "doze", "60000000000,1000000000,8000000000", error, sizeof error) == 0);
	timing = timing_new(&config, 64 * MIB, START);
	CHECK(run(timing, PACE_READ, START + 100 * SECOND, 0, 4096) > START + 108 * SECOND);
	CHECK(run(timing, PACE_READ, START + 110 * SECOND, 32 * MIB, 4096) < START + 110 * SECOND + 50 * MS);
	timing_free(timing);
}

static void background_work_can_be_taken_when_it_begins(void)
{
	struct work_queue queue = { .count = 0 };
	struct work work = { .cause = WORK_GC, .start_ns = 100, .duration_ns = 10, .bytes = 4096 };
	uint64_t bytes = 0;

	work_put(&queue, &work);
	CHECK(work_next_ns(&queue) == 100);
	CHECK(!work_take(&queue, 99, &work));
	CHECK(work_take(&queue, 100, &work));
	CHECK(work.bytes == 4096);
	CHECK(work_next_ns(&queue) == INT64_MAX);

	/* More than there is room for: joined, not lost. */
	for (unsigned n = 0; n < 2 * WORK_QUEUE_SIZE; n++)
		work_put(&queue, &(struct work){ .cause = WORK_GC, .start_ns = n, .duration_ns = 1, .bytes = 3 });
	work_put(&queue, &(struct work){ .cause = WORK_SEEK, .start_ns = 5, .duration_ns = 7 });
	work_put(&queue, &(struct work){ .cause = WORK_SEEK, .start_ns = 5, .duration_ns = 7 });
	for (unsigned n = 0; n < WORK_CAUSES; n++)
		work_put(&queue, &(struct work){ .cause = (enum work_cause)n, .bytes = 0, .duration_ns = 0 });
	while (work_take(&queue, INT64_MAX, &work))
		bytes += work.bytes + (work.cause == WORK_SEEK ? (uint64_t)work.duration_ns : 0);
	CHECK(bytes == 2 * WORK_QUEUE_SIZE * 3 + 14);
}

static void check_refused(const char *key, const char *value, const char *line)
{
	struct timing_config config = { .model = TIMING_NULL };
	char error[512] = "";

	CHECK(timing_set(&config, key, value, error, sizeof error) == -1);
	CHECK_TEXT(error, line);
}

static void a_wrong_parameter_is_named(void)
{
	struct timing_config config = { .model = TIMING_NULL };
	char error[512];

	check_refused("model", "tape", "model=tape: allowed are null, flash, disk");
	check_refused("channels", "0", "channels=0: allowed are whole numbers from 1 to 128");
	check_refused("channels", "1.5", "channels=1.5: allowed are whole numbers from 1 to 128");
	check_refused("rpm", "fast", "rpm=fast: allowed are whole numbers from 1000 to 30000");
	check_refused("overprovisioning", "nan", "overprovisioning=nan: allowed are numbers from 0.01 to 10");
	check_refused("doze", "5,6", "doze=5,6: allowed is idle_ns,entry_ns,exit_ns, each a whole number up to"
				     " 3600000000000");
	CHECK(timing_set(&config, "colour", "red", error, sizeof error) == 1);
}

static void a_parameter_that_is_missing_or_does_not_fit_is_named(void)
{
	char error[512];

	for (size_t left_out = 1; left_out < COUNT(flash_words); left_out++) {
		struct timing_config config = { .model = TIMING_NULL };
		const char *key = flash_words[left_out][0];
		bool may_be_zero = strstr(key, "command") || strcmp(key, "flush_ns") == 0 ||
				   strcmp(key, "erase_ns") == 0;

		for (size_t n = 0; n < COUNT(flash_words); n++)
			if (n != left_out)
				timing_set(&config, flash_words[n][0], flash_words[n][1], error, sizeof error);
		CHECK(timing_check(&config, error, sizeof error) == may_be_zero);
		if (!may_be_zero)
			CHECK(strncmp(error, key, strlen(key)) == 0);
	}
	struct timing_config config = config_of(disk_words, COUNT(disk_words));

	config.disk.average_seek_ns = 16 * MS;
	CHECK(!timing_check(&config, error, sizeof error));
	CHECK(strncmp(error, "average_seek_ns=16000000: no seek curve", 39) == 0);
	config = config_of(flash_words, COUNT(flash_words));
	config.flash.page_bytes = 5000;
	CHECK(!timing_check(&config, error, sizeof error));
	CHECK_TEXT(error, "page_bytes=5000: allowed are multiples of 4096");
	config.flash.page_bytes = 16384;
	config.flash.write_cache_bytes = 20000;
	CHECK(!timing_check(&config, error, sizeof error));
	CHECK_TEXT(error, "write_cache=20000: allowed are 0 and at least four pages, 65536");
	config.flash.write_cache_bytes = 0;
	config.flash.short_read_ns = config.flash.page_read_ns + 1;
	CHECK(!timing_check(&config, error, sizeof error));
	CHECK(strncmp(error, "short_read_ns=", 14) == 0);
	CHECK(strstr(error, ": allowed is at most page_read_ns, ") != NULL);
	config.flash.short_read_ns = config.flash.page_read_ns;
	config.flash.block_pages = 768;
	CHECK(!timing_check(&config, error, sizeof error));
	CHECK_TEXT(error, "block_pages=768: allowed are 0 and powers of two");
	config.flash.block_pages = 1024;
	CHECK(timing_check(&config, error, sizeof error));
}

int main(void)
{
	the_null_model_takes_no_time();
	the_models_are_those_of_their_parameters();
	the_states_that_an_idle_drive_enters_can_change();
	a_drive_that_is_woken_has_paid_when_work_comes();
	a_drive_that_is_held_begins_later();
	a_lower_rate_slows_the_link();
	a_drive_left_alone_dozes_off_and_takes_its_time_to_wake();
	a_hard_disk_in_standby_spins_up_first();
	background_work_can_be_taken_when_it_begins();
	a_wrong_parameter_is_named();
	a_parameter_that_is_missing_or_does_not_fit_is_named();
	return report("timing");
}
