/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "check.h"
#include "counters.h"

#include <stdlib.h>

#define MS 1000000LL
#define SECOND (1000 * MS)
#define START (7 * SECOND + 123456)

static void add_writes(struct counters *counters, int64_t time_ns, uint64_t bytes)
{
	counters_add(counters, time_ns,
		     (uint64_t[COUNTERS]){ [COUNTER_WRITES] = 1, [COUNTER_WRITE_BYTES] = bytes });
}

static uint64_t writes_at(const struct counters *counters, int64_t time_ns)
{
	uint64_t values[COUNTERS];

	CHECK(counters_at(counters, time_ns, values));
	return values[COUNTER_WRITES];
}

static void are_zero_from_the_start_and_unknown_before(void)
{
	struct counters *counters = counters_new(START, MS, SECOND);
	uint64_t values[COUNTERS];

	CHECK(!counters_at(counters, START - 1, values));
	CHECK(counters_at(counters, START, values));
	for (unsigned c = 0; c < COUNTERS; c++)
		CHECK(values[c] == 0);
	CHECK(counters_oldest_ns(counters) == START);
	counters_free(counters);
}

static void a_change_at_the_start_itself_is_kept(void)
{
	struct counters *counters = counters_new(START, MS, SECOND);

	add_writes(counters, START, 512);
	add_writes(counters, START + 5 * MS, 512);
	CHECK(writes_at(counters, START) == 1);
	CHECK(writes_at(counters, START + 4 * MS) == 1);
	CHECK(writes_at(counters, START + 5 * MS) == 2);
	counters_free(counters);
}

static void every_counter_is_reported_under_its_name(void)
{
	struct counters *counters = counters_new(START, MS, SECOND);
	uint64_t amounts[COUNTERS], values[COUNTERS];

	for (unsigned c = 0; c < COUNTERS; c++)
		amounts[c] = (uint64_t)1 << (5 * c);
	counters_add(counters, START + MS, amounts);
	counters_add(counters, START + 3 * MS, amounts);
	CHECK(counters_at(counters, START + 2 * MS, values));
	for (unsigned c = 0; c < COUNTERS; c++)
		CHECK(values[c] == amounts[c]);
	counters_now(counters, values);
	for (unsigned c = 0; c < COUNTERS; c++) {
		CHECK(values[c] == 2 * amounts[c]);
		for (unsigned other = 0; other < c; other++)
			CHECK(strcmp(counter_name((enum counter)c), counter_name((enum counter)other)));
	}
	CHECK_TEXT(counter_name(COUNTER_READS), "reads");
	CHECK_TEXT(counter_name(COUNTER_DISCARD_BYTES), "discard_bytes");
	counters_free(counters);
}

static void amounts_beyond_32_bits_are_kept(void)
{
	struct counters *counters = counters_new(START, MS, SECOND);
	uint64_t values[COUNTERS];

	add_writes(counters, START + MS, UINT64_MAX / 2);
	add_writes(counters, START + 3 * MS, 1);
	add_writes(counters, START + 5 * MS, 1);
	CHECK(counters_at(counters, START + 2 * MS, values));
	CHECK(values[COUNTER_WRITE_BYTES] == UINT64_MAX / 2);
	CHECK(counters_at(counters, START + 4 * MS, values));
	CHECK(values[COUNTER_WRITE_BYTES] == UINT64_MAX / 2 + 1);
	counters_free(counters);
}

static void within_a_cell_they_are_those_before_it_until_its_last_change(void)
{
	struct counters *counters = counters_new(10 * MS, MS, SECOND);

	add_writes(counters, 20 * MS + 100, 512);
	add_writes(counters, 20 * MS + 200, 512);
	add_writes(counters, 20 * MS + 300, 512);
	for (unsigned closed = 0; closed < 2; closed++) {
		CHECK(writes_at(counters, 20 * MS + 99) == 0);
		CHECK(writes_at(counters, 20 * MS + 299) == 0);
		CHECK(writes_at(counters, 20 * MS + 300) == 3);
		CHECK(writes_at(counters, 21 * MS) == 3);
		add_writes(counters, 25 * MS, 512); /* now the cell is of the past */
	}
	counters_free(counters);
}

/* Against all changes written down, at times on, between and outside of them. */
static void agree_with_a_full_record(void)
{
	enum { CHANGES = 60000 };
	static int64_t times[CHANGES];
	static uint64_t bytes[CHANGES];
	struct counters *counters = counters_new(START, MS, 3600 * SECOND);
	int64_t now = START;
	uint64_t total = 0;
	unsigned exact = 0;

	srand(2);
	for (unsigned n = 0; n < CHANGES; n++) {
		uint64_t amount = (uint64_t)(rand() % 256) * 512;

		now += rand() % 8 ? rand() % 300000 : rand() % (20 * MS);
		total += amount;
		times[n] = now;
		bytes[n] = total;
		counters_add(counters, now,
			     (uint64_t[COUNTERS]){ [COUNTER_WRITES] = 1,
						   [COUNTER_WRITE_BYTES] = amount });
	}
	for (unsigned n = 0; n + 1 < CHANGES; n++) {
		int64_t asked = times[n] + rand() % (times[n + 1] - times[n] + 1);
		unsigned last = n, before = n;
		uint64_t values[COUNTERS];
		bool in_the_midst;

		while (last + 1 < CHANGES && times[last + 1] <= asked)
			last++;
		in_the_midst = times[last] / MS == asked / MS && last + 1 < CHANGES &&
			       times[last + 1] / MS == asked / MS;
		before = last;
		while (in_the_midst && before > 0 && times[before] / MS == asked / MS)
			before--;
		CHECK(counters_at(counters, asked, values));
		if (before == 0 && in_the_midst)
			continue;
		CHECK(values[COUNTER_WRITES] == before + 1);
		CHECK(values[COUNTER_WRITE_BYTES] == bytes[before]);
		exact += !in_the_midst;
		if (failures)
			return;
	}
	CHECK(exact > CHANGES / 4);
	counters_free(counters);
}

static void hold_what_was_promised_and_refuse_what_is_older(void)
{
	struct counters *counters = counters_new(START, MS, 60 * SECOND);
	uint64_t values[COUNTERS];
	int64_t now = START, oldest;
	uint64_t writes = 0;

	for (; now < START + 600 * SECOND; now += MS, writes++)
		add_writes(counters, now, 4096);
	oldest = counters_oldest_ns(counters);
	CHECK(oldest > START);
	CHECK(oldest <= now - 60 * SECOND);
	CHECK(!counters_at(counters, oldest - 1, values));
	CHECK(writes_at(counters, oldest) == (uint64_t)((oldest - START) / MS) + 1);
	CHECK(writes_at(counters, now - 60 * SECOND) == writes - 60000 + 1);
	counters_free(counters);
}

/* README.md has these figures. */
static void ten_minutes_of_load_take_less_than_they_may(void)
{
	struct counters *writing = counters_new(START, MS, 660 * SECOND);
	struct counters *mixed = counters_new(START, MS, 660 * SECOND);
	struct counters *idle = counters_new(START, MS, 660 * SECOND);

	srand(3);
	for (int64_t now = START; now < START + 1200 * SECOND; now += MS) {
		counters_add(writing, now + rand() % 1000,
			     (uint64_t[COUNTERS]){ [COUNTER_WRITES] = 4, [COUNTER_WRITE_BYTES] = 16384,
						   [COUNTER_FLUSHES] = 4 });
		counters_add(mixed, now + rand() % 1000,
			     (uint64_t[COUNTERS]){ [COUNTER_READS] = 20, [COUNTER_READ_BYTES] = 2621440,
						   [COUNTER_WRITES] = 20, [COUNTER_WRITE_BYTES] = 2621440,
						   [COUNTER_ZEROES] = 1, [COUNTER_ZERO_BYTES] = 1048576,
						   [COUNTER_FLUSHES] = 5, [COUNTER_FUA_WRITES] = 5,
						   [COUNTER_DISCARDS] = 3,
						   [COUNTER_DISCARD_BYTES] = 402653184,
						   [COUNTER_THROTTLED_NS] = (uint64_t)(rand() % 1000000) });
	}
	printf("counters: 11 minutes take %zu KiB idle, %zu KiB writing, %zu KiB when all change each ms\n",
	       counters_bytes(idle) >> 10, counters_bytes(writing) >> 10, counters_bytes(mixed) >> 10);
	CHECK(counters_bytes(idle) < 8 << 10);
	CHECK(counters_bytes(writing) < 8 << 20);
	CHECK(counters_bytes(mixed) < 24 << 20);
	counters_free(idle);
	counters_free(writing);
	counters_free(mixed);
}

int main(void)
{
	are_zero_from_the_start_and_unknown_before();
	a_change_at_the_start_itself_is_kept();
	every_counter_is_reported_under_its_name();
	amounts_beyond_32_bits_are_kept();
	within_a_cell_they_are_those_before_it_until_its_last_change();
	agree_with_a_full_record();
	hold_what_was_promised_and_refuse_what_is_older();
	ten_minutes_of_load_take_less_than_they_may();
	return report("counters");
}
