/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "cut.h"
#include "check.h"
#include "clock.h"

#include <stdlib.h>
#include <unistd.h>

#define DRIVE_BYTES (64 * CACHE_SECTOR)
#define MOST_EVENTS 16
#define MS 1000000LL

/* What was reported, a letter each: s rail off, S rail on, L lost, R restored. */
static struct {
	char letters[MOST_EVENTS + 1];
	unsigned count;
	int64_t time_ns[MOST_EVENTS];
	int64_t ready_ns;
} seen;

static void note(char letter, int64_t time_ns)
{
	if (seen.count == MOST_EVENTS)
		return;
	seen.time_ns[seen.count] = time_ns;
	seen.letters[seen.count++] = letter;
}

static void rail_switched(void *owner, int64_t time_ns, unsigned rail, bool on)
{
	CHECK(owner == &seen && rail < 2);
	note(on ? 'S' : 's', time_ns);
}

static void power_lost(void *owner, int64_t time_ns)
{
	CHECK(owner == &seen);
	note('L', time_ns);
}

static void power_restored(void *owner, int64_t time_ns, int64_t ready_ns)
{
	CHECK(owner == &seen);
	note('R', time_ns);
	seen.ready_ns = ready_ns;
}

static struct cut *new_drive(const struct cut_settings *settings, int backing)
{
	const struct cut_events events = { &seen, rail_switched, power_lost, power_restored };

	memset(&seen, 0, sizeof seen);
	return cut_new(settings, backing, 2, clock_monotonic_ns(), &events);
}

static int new_backing(void)
{
	char path[] = "/tmp/twin-cut-XXXXXX";
	int backing = mkstemp(path);

	CHECK(backing >= 0 && ftruncate(backing, DRIVE_BYTES) == 0);
	unlink(path);
	return backing;
}

static void a_cut_switches_each_rail_and_then_stops_the_drive(void)
{
	const struct cut_settings settings = { .holdup_ns = 1000 * MS, .ready_ns = 3 * MS };
	int backing = new_backing();
	struct cut *cut = new_drive(&settings, backing);
	struct cut_report report;
	uint64_t cycle;

	CHECK(cut_enter(cut, &cycle) == 0);
	CHECK(cut_power_off(cut, NULL, NULL, &report));
	CHECK_TEXT(seen.letters, "ssL");
	CHECK(seen.time_ns[0] == seen.time_ns[2] && report.cut_ns == seen.time_ns[2]);
	CHECK(!cut_power_off(cut, NULL, NULL, &report));
	CHECK(cut_finish_read(cut, cycle) < 0 && cut_enter(cut, &cycle) < 0);
	CHECK(cut_power_on(cut));
	CHECK_TEXT(seen.letters, "ssLSSR");
	CHECK(seen.ready_ns == seen.time_ns[5] + settings.ready_ns);
	CHECK(cut_enter(cut, &cycle) < 0); /* it is not ready yet */
	CHECK(cut_wait(cut, cycle, seen.ready_ns) == 0 && cut_enter(cut, &cycle) == 0);
	CHECK(cut_close(cut) == 0);
	close(backing);
}

static void a_rail_that_comes_back_within_the_hold_up_stops_nothing(void)
{
	const struct cut_settings settings = { .holdup_ns = 1000 * MS };
	int backing = new_backing();
	struct cut *cut = new_drive(&settings, backing);
	uint64_t cycle;

	CHECK(cut_enter(cut, &cycle) == 0);
	cut_rail(cut, 1, false);
	cut_rail(cut, 1, false); /* it is off already */
	cut_rail(cut, 1, true);
	CHECK_TEXT(seen.letters, "sS");
	CHECK(cut_finish_read(cut, cycle) == 0);
	CHECK(cut_close(cut) == 0);
	close(backing);
}

static void a_hold_up_that_is_over_stops_the_drive_at_its_end(void)
{
	const struct cut_settings settings = { .holdup_ns = 2 * MS };
	int backing = new_backing();
	struct cut *cut = new_drive(&settings, backing);
	struct cut_state state;
	uint64_t cycle;

	CHECK(cut_enter(cut, &cycle) == 0);
	cut_rail(cut, 0, false);
	while (clock_monotonic_ns() < seen.time_ns[0] + settings.holdup_ns)
		;
	cut_state(cut, &state);
	CHECK(!state.powered && state.cuts == 1 && !state.rail_on[0] && state.rail_on[1]);
	CHECK_TEXT(seen.letters, "sL");
	CHECK(seen.time_ns[1] == seen.time_ns[0] + settings.holdup_ns);
	CHECK(cut_finish_read(cut, cycle) < 0);
	CHECK(cut_close(cut) == 0);
	close(backing);
}

static void what_is_volatile_is_lost_without_protection_and_kept_with_it(void)
{
	for (int plp = 0; plp < 2; plp++) {
		const struct cut_settings settings = { .write_cache_bytes = 16 * CACHE_SECTOR,
						       .holdup_ns = 1000 * MS, .plp = plp };
		const enum cache_loss all = CACHE_LOSE_ALL;
		char written[CACHE_SECTOR], found[CACHE_SECTOR];
		int backing = new_backing();
		struct cut *cut = new_drive(&settings, backing);
		struct cut_report report;
		uint64_t cycle, ticket, seed = 1;

		memset(written, 'w', sizeof written);
		CHECK(cut_enter(cut, &cycle) == 0);
		CHECK(cut_write(cut, cycle, written, sizeof written, 0, &ticket) == 0);
		CHECK(cut_finish_write(cut, cycle, ticket, false) == 0);
		CHECK(cut_power_off(cut, &seed, &all, &report) && report.held_up == plp);
		CHECK(report.cache.lost_sectors == (plp ? 0 : 1));
		CHECK(cut_power_on(cut) && cut_enter(cut, &cycle) == 0);
		CHECK(cut_read(cut, cycle, found, sizeof found, 0) == 0);
		CHECK(found[0] == (plp ? 'w' : 0));
		CHECK(cut_close(cut) == 0);
		close(backing);
	}
}

int main(void)
{
	a_cut_switches_each_rail_and_then_stops_the_drive();
	a_rail_that_comes_back_within_the_hold_up_stops_nothing();
	a_hold_up_that_is_over_stops_the_drive_at_its_end();
	what_is_volatile_is_lost_without_protection_and_kept_with_it();
	return report("cut");
}
