/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "sampler.h"

#include "check.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

#define CAPACITY 16

static struct sample ring[CAPACITY];
static struct sampler sampler;
static struct sampler_reader reader;

static void write_numbers(unsigned from, unsigned count)
{
	for (unsigned n = from; n < from + count; n++) {
		struct sample sample = { .volts = { (float)n, (float)n, (float)n, (float)n },
					 .amps = { (float)n, (float)n, (float)n, (float)n } };

		sampler_write(&sampler, &sample);
	}
}

static void begin(void)
{
	sampler_init(&sampler, ring, CAPACITY);
	reader = (struct sampler_reader){ 0 };
	sampler_join(&reader, &sampler);
}

static void gives_samples_in_order_without_gap(void)
{
	struct sample got[CAPACITY];
	unsigned expected = 0;

	begin();
	for (unsigned round = 0; round < 100; round++) {
		uint32_t count;

		write_numbers(round * 7, 7);
		CHECK(sampler_available(&reader, &sampler) == 7);
		count = sampler_read(&reader, &sampler, got, CAPACITY);
		CHECK(count == 7);
		for (uint32_t n = 0; n < count; n++)
			CHECK(got[n].amps[3] == (float)expected++);
	}
	CHECK(reader.overruns == 0);
	CHECK(sampler_written(&sampler) == 700);
}

static void reads_no_more_than_asked(void)
{
	struct sample got[CAPACITY];

	begin();
	write_numbers(0, 9);
	CHECK(sampler_read(&reader, &sampler, got, 4) == 4);
	CHECK(sampler_read(&reader, &sampler, got, 4) == 4);
	CHECK(got[0].volts[0] == 4);
	CHECK(sampler_read(&reader, &sampler, got, 4) == 1);
	CHECK(sampler_read(&reader, &sampler, got, 4) == 0);
}

static void counts_what_a_slow_reader_lost(void)
{
	struct sample got[CAPACITY];
	uint32_t count;

	begin();
	write_numbers(0, 40);
	count = sampler_read(&reader, &sampler, got, CAPACITY);
	CHECK(count == CAPACITY - 1);
	CHECK(reader.overruns == 40 - (CAPACITY - 1));
	CHECK(got[0].volts[0] == (float)reader.overruns);
	CHECK(got[count - 1].volts[0] == 39);
}

static void a_reader_that_joins_sees_only_what_comes(void)
{
	struct sample got[CAPACITY];

	begin();
	write_numbers(0, 100);
	sampler_join(&reader, &sampler);
	CHECK(sampler_available(&reader, &sampler) == 0);
	write_numbers(100, 1);
	CHECK(sampler_read(&reader, &sampler, got, CAPACITY) == 1);
	CHECK(got[0].volts[0] == 100);
	CHECK(reader.overruns == 0);
}

static void counts_beyond_32_bits(void)
{
	struct sample got[CAPACITY];

	begin();
	atomic_store(&sampler.written_low, UINT32_MAX - 2);
	sampler.next_slot = (UINT32_MAX - 2) % CAPACITY;
	sampler_join(&reader, &sampler);
	for (unsigned n = 0; n < 6; n++) {
		write_numbers(n, 1);
		CHECK(sampler_written(&sampler) == (uint64_t)UINT32_MAX - 1 + n);
	}
	CHECK(sampler_read(&reader, &sampler, got, CAPACITY) == 6);
	CHECK(got[5].volts[0] == 5);
}

/* The writer goes on between a reader's skip and its copy. */
static void what_is_overwritten_during_a_copy_is_not_passed_on(void)
{
	struct sample got[CAPACITY];

	begin();
	write_numbers(0, 10);
	CHECK(sampler_skip(&reader, &sampler) == 0);
	write_numbers(10, 20);
	/* Samples 0 to 14 are overwritten, or may be: the slot of 14 is the next one's. */
	CHECK(sampler_copy(&reader, &sampler, got, CAPACITY) == 1);
	CHECK(got[0].volts[0] == 15 && reader.overruns == 15 && reader.next == 16);
	CHECK(sampler_read(&reader, &sampler, got, CAPACITY) == 14);
	for (unsigned n = 0; n < 14; n++)
		CHECK(got[n].volts[0] == (float)(16 + n));
	CHECK(reader.overruns == 15);
	write_numbers(30, 1);
	CHECK(sampler_skip(&reader, &sampler) == 0);
	write_numbers(31, 100);
	/* Of more than it would have given, it counts what it would have given. */
	CHECK(sampler_copy(&reader, &sampler, got, 4) == 0);
	CHECK(reader.overruns == 19 && reader.next == 34);
}

static void a_ring_is_full_with_one_slot_less_than_it_has(void)
{
	struct sample got[CAPACITY];

	begin();
	write_numbers(0, CAPACITY - 1);
	CHECK(sampler_available(&reader, &sampler) == CAPACITY - 1);
	CHECK(sampler_skip(&reader, &sampler) == 0);
	write_numbers(CAPACITY - 1, 1);
	CHECK(sampler_available(&reader, &sampler) == CAPACITY - 1);
	CHECK(sampler_read(&reader, &sampler, got, CAPACITY) == CAPACITY - 1);
	CHECK(got[0].volts[0] == 1 && reader.overruns == 1);
}

static void the_newest_sample_is_the_last_one_written(void)
{
	struct sample newest;

	begin();
	CHECK(!sampler_newest(&sampler, &newest));
	for (unsigned n = 0; n < 3 * CAPACITY; n++) {
		write_numbers(n, 1);
		CHECK(sampler_newest(&sampler, &newest) && newest.volts[0] == (float)n);
	}
}

static atomic_bool stop;

static void *write_for_ever(void *unused)
{
	unsigned n = 0;

	(void)unused;
	while (!atomic_load(&stop)) {
		write_numbers(n % 1000000, 1);
		if (++n % 8 == 0)
			sched_yield();
	}
	return NULL;
}

/* What is handed out is whole and consecutive, and with the overruns complete. */
static void a_writer_that_overtakes_spoils_no_sample(void)
{
	struct sample got[CAPACITY];
	pthread_t thread;
	uint64_t received = 0;
	bool whole = true, consecutive = true;

	begin();
	atomic_store(&stop, false);
	CHECK(pthread_create(&thread, NULL, write_for_ever, NULL) == 0);
	while (received < 20000) {
		uint32_t count = sampler_read(&reader, &sampler, got, CAPACITY);

		for (uint32_t n = 0; n < count; n++) {
			uint64_t number = received + reader.overruns + n;

			whole = whole && got[n].volts[0] == got[n].amps[3];
			consecutive = consecutive && got[n].volts[0] == (float)(number % 1000000);
		}
		received += count;
		sched_yield();
	}
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
	CHECK(whole);
	CHECK(consecutive);
	CHECK(reader.next == received + reader.overruns);
}

int main(void)
{
	gives_samples_in_order_without_gap();
	reads_no_more_than_asked();
	counts_what_a_slow_reader_lost();
	a_reader_that_joins_sees_only_what_comes();
	counts_beyond_32_bits();
	what_is_overwritten_during_a_copy_is_not_passed_on();
	a_ring_is_full_with_one_slot_less_than_it_has();
	the_newest_sample_is_the_last_one_written();
	a_writer_that_overtakes_spoils_no_sample();
	return report("sampler");
}
