/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "clock.h"
#include "check.h"

#define SECOND 1000000000LL
#define YEARS (50LL * 365 * 86400 * SECOND) /* what UTC is ahead of a machine that has just started */

static struct clock_offset offset_at(int64_t seconds, int64_t offset_ns)
{
	return (struct clock_offset){ seconds * SECOND, YEARS + offset_ns };
}

static int64_t moved_back(const struct clock_record *record, struct clock_offset now, int64_t real_ns)
{
	return clock_from_real(record, &now, real_ns);
}

static void without_a_record_the_offset_of_this_moment_counts(void)
{
	static struct clock_record record;

	CHECK(moved_back(&record, offset_at(100, 7), YEARS + 7 + 90 * SECOND) == 90 * SECOND);
}

static void a_past_time_is_mapped_with_the_offset_of_that_time(void)
{
	static struct clock_record record;

	/* The clock was set forward by 5 s at second 20. */
	for (int64_t second = 10; second <= 30; second++) {
		struct clock_offset now = offset_at(second, second < 20 ? 0 : 5 * SECOND);

		clock_note(&record, &now);
	}
	CHECK(moved_back(&record, offset_at(31, 5 * SECOND), YEARS + 15 * SECOND) == 15 * SECOND);
	CHECK(moved_back(&record, offset_at(31, 5 * SECOND), YEARS + 30 * SECOND) == 25 * SECOND);
	/* Newer than the newest note: as of this moment. */
	CHECK(moved_back(&record, offset_at(31, 6 * SECOND), YEARS + 37 * SECOND) == 31 * SECOND);
	/* Older than the oldest: as of the oldest. */
	CHECK(moved_back(&record, offset_at(31, 5 * SECOND), YEARS + 3 * SECOND) == 3 * SECOND);
}

static void an_offset_is_noted_once_a_second_at_most(void)
{
	static struct clock_record record;

	for (int n = 0; n < 50; n++) {
		struct clock_offset now = { n * SECOND / 10, 0 };

		clock_note(&record, &now);
	}
	CHECK(record.count == 5);
}

static void the_oldest_offsets_make_room(void)
{
	static struct clock_record record;
	const int64_t last = 3 * CLOCK_RECORD_SECONDS;

	for (int64_t second = 1; second <= last; second++) {
		struct clock_offset now = offset_at(second, second);

		clock_note(&record, &now);
	}
	CHECK(record.count == CLOCK_RECORD_SECONDS);
	for (int64_t second = last - CLOCK_RECORD_SECONDS + 1; second < last; second++)
		CHECK(moved_back(&record, offset_at(last, last), YEARS + second + second * SECOND) ==
		      second * SECOND);
}

static void both_clocks_are_read_at_one_instant(void)
{
	int64_t before_ns = clock_monotonic_ns();
	struct clock_offset now = clock_offset_now();

	CHECK(now.monotonic_ns >= before_ns && now.monotonic_ns <= clock_monotonic_ns());
}

int main(void)
{
	without_a_record_the_offset_of_this_moment_counts();
	a_past_time_is_mapped_with_the_offset_of_that_time();
	an_offset_is_noted_once_a_second_at_most();
	the_oldest_offsets_make_room();
	both_clocks_are_read_at_one_instant();
	return report("clock");
}
