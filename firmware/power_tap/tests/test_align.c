/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "align.h"

#include "check.h"

static struct align align;
static struct sample sample;

static void put(unsigned rail, int64_t window)
{
	align_put(&align, rail, window, (float)window, (float)rail + 1);
}

static void rails_of_a_sample_are_of_the_same_window(void)
{
	align_init(&align);
	align_attach(&align, 0);
	align_attach(&align, 2);
	put(0, 100);
	put(0, 101);
	CHECK(!align_take(&align, 1000, &sample));
	put(2, 100);
	CHECK(align_take(&align, 1000, &sample));
	CHECK(sample.volts[0] == 100 && sample.volts[2] == 100);
	CHECK(sample.amps[0] == 1 && sample.amps[2] == 3);
	CHECK(sample.volts[1] == 0 && sample.amps[1] == 0);
	CHECK(!align_take(&align, 1000, &sample));
}

static void begins_with_the_first_window_that_all_sources_have(void)
{
	align_init(&align);
	align_attach(&align, 0);
	align_attach(&align, 1);
	put(0, 100);
	put(0, 101);
	put(0, 102);
	put(0, 103);
	CHECK(!align_take(&align, 200, &sample));
	put(1, 102);
	CHECK(align_take(&align, 200, &sample) && sample.volts[0] == 102 && sample.volts[1] == 102);
	CHECK(!align_take(&align, 200, &sample));
	put(1, 103);
	CHECK(align_take(&align, 200, &sample) && sample.volts[0] == 103 && sample.volts[1] == 103);
}

static void a_source_that_stalls_is_waited_for(void)
{
	align_init(&align);
	align_attach(&align, 0);
	align_attach(&align, 1);
	for (int64_t window = 0; window < 100; window++)
		put(0, window);
	CHECK(!align_take(&align, 1000000, &sample));
}

static void a_source_that_is_gone_gives_what_it_sent_and_then_nothing(void)
{
	align_init(&align);
	align_attach(&align, 0);
	align_attach(&align, 1);
	put(0, 0);
	put(0, 1);
	put(1, 0);
	align_detach(&align, 1);
	CHECK(align_take(&align, 0, &sample) && sample.amps[0] == 1 && sample.amps[1] == 2);
	CHECK(align_take(&align, 0, &sample) && sample.amps[0] == 1 && sample.amps[1] == 0);
	CHECK(!align_take(&align, 1000, &sample));
}

static void a_source_that_comes_later_reads_zero_before(void)
{
	align_init(&align);
	align_attach(&align, 0);
	put(0, 5);
	CHECK(align_take(&align, 0, &sample));
	put(0, 6);
	put(0, 7);
	align_attach(&align, 1);
	CHECK(!align_take(&align, 0, &sample));
	put(1, 7);
	CHECK(align_take(&align, 0, &sample) && sample.volts[0] == 6 && sample.volts[1] == 0);
	CHECK(align_take(&align, 0, &sample) && sample.volts[0] == 7 && sample.volts[1] == 7);
}

static void the_clock_paces_when_no_source_does(void)
{
	align_init(&align);
	CHECK(!align_take(&align, 10, &sample));
	for (unsigned n = 0; n < 5; n++) {
		CHECK(align_take(&align, 15, &sample));
		CHECK(sample.volts[0] == 0 && sample.amps[3] == 0);
	}
	CHECK(!align_take(&align, 15, &sample));
	CHECK(align.next_window == 15);
}

static void windows_already_sampled_are_not_taken_twice(void)
{
	align_init(&align);
	CHECK(!align_take(&align, 10, &sample));
	align_attach(&align, 0);
	put(0, 8);
	put(0, 9);
	CHECK(!align_take(&align, 1000, &sample));
	put(0, 10);
	CHECK(align_take(&align, 1000, &sample) && sample.volts[0] == 10);
}

static void room_shrinks_and_comes_back(void)
{
	align_init(&align);
	align_attach(&align, 0);
	for (int64_t window = 0; window < ALIGN_QUEUE; window++)
		put(0, window);
	CHECK(align_room(&align, 0) == 0);
	CHECK(align_take(&align, 0, &sample));
	CHECK(align_room(&align, 0) == 1);
	put(0, ALIGN_QUEUE);
	for (int64_t window = 1; window <= ALIGN_QUEUE; window++)
		CHECK(align_take(&align, 0, &sample) && sample.volts[0] == (float)window);
}

int main(void)
{
	rails_of_a_sample_are_of_the_same_window();
	begins_with_the_first_window_that_all_sources_have();
	a_source_that_stalls_is_waited_for();
	a_source_that_is_gone_gives_what_it_sent_and_then_nothing();
	a_source_that_comes_later_reads_zero_before();
	the_clock_paces_when_no_source_does();
	windows_already_sampled_are_not_taken_twice();
	room_shrinks_and_comes_back();
	return report("align");
}
