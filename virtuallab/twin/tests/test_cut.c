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

static const enum cache_loss lose_all = CACHE_LOSE_ALL;
static const uint64_t one = 1;

/* Writes `letter` into a sector; the write is acknowledged. */
static void write_sector(struct cut *cut, uint64_t cycle, unsigned sector, char letter, bool fua)
{
	char data[CACHE_SECTOR];
	uint64_t ticket;

	memset(data, letter, sizeof data);
	CHECK(cut_write(cut, cycle, data, sizeof data, sector * CACHE_SECTOR, &ticket) == 0);
	CHECK(cut_finish_write(cut, cycle, ticket, fua) == 0);
}

/* Cuts the power and gives what sectors 0 to 3 then hold, '-' for nothing. */
static const char *after_a_cut(struct cut *cut)
{
	static char letters[5];
	char data[CACHE_SECTOR];
	struct cut_report report;
	uint64_t cycle;

	CHECK(cut_power_off(cut, &one, &lose_all, &report));
	CHECK(cut_power_on(cut) && cut_enter(cut, &cycle) == 0);
	for (unsigned sector = 0; sector < 4; sector++) {
		CHECK(cut_read(cut, cycle, data, sizeof data, sector * CACHE_SECTOR) == 0);
		letters[sector] = data[0] ? data[0] : '-';
	}
	return letters;
}

static void a_flush_and_fua_are_kept_but_by_a_drive_that_lies(void)
{
	for (int lies = 0; lies < 2; lies++) {
		const struct cut_settings settings = { .write_cache_bytes = 16 * CACHE_SECTOR,
						       .holdup_ns = 1000 * MS, .lies = lies };
		int backing = new_backing();
		struct cut *cut = new_drive(&settings, backing);
		uint64_t cycle, ticket;

		CHECK(cut_enter(cut, &cycle) == 0);
		write_sector(cut, cycle, 0, 'a', false);
		write_sector(cut, cycle, 1, 'b', false); /* the newest before the flush */
		CHECK(cut_flush(cut, cycle, &ticket) == 0);
		write_sector(cut, cycle, 2, 'c', false); /* it came too late for it */
		CHECK(cut_finish_flush(cut, cycle, ticket) == 0);
		write_sector(cut, cycle, 3, 'd', true);
		CHECK_TEXT(after_a_cut(cut), lies ? "----" : "ab-d");
		CHECK(cut_close(cut) == 0);
		close(backing);
	}
}

static void without_a_cache_each_write_is_kept(void)
{
	const struct cut_settings settings = { .holdup_ns = 1000 * MS };
	int backing = new_backing();
	struct cut *cut = new_drive(&settings, backing);
	uint64_t cycle;

	CHECK(cut_enter(cut, &cycle) == 0);
	write_sector(cut, cycle, 0, 'a', false);
	CHECK_TEXT(after_a_cut(cut), "a---");
	CHECK(cut_close(cut) == 0);
	close(backing);
}

static void an_orderly_end_keeps_what_is_volatile(void)
{
	const struct cut_settings settings = { .write_cache_bytes = 16 * CACHE_SECTOR };
	int backing = new_backing();
	struct cut *cut = new_drive(&settings, backing);
	uint64_t cycle;
	char data = 0;

	CHECK(cut_enter(cut, &cycle) == 0);
	write_sector(cut, cycle, 0, 'a', false);
	CHECK(cut_close(cut) == 0);
	CHECK(pread(backing, &data, 1, 0) == 1 && data == 'a');
	close(backing);
}

static void an_operation_of_before_a_cut_is_not_acknowledged_after_it(void)
{
	const struct cut_settings settings = { .write_cache_bytes = 16 * CACHE_SECTOR, .holdup_ns = 1000 * MS };
	int backing = new_backing();
	struct cut *cut = new_drive(&settings, backing);
	struct cut_report report;
	uint64_t cycle, next, ticket, flushed;
	char data[CACHE_SECTOR] = { 'a' };

	CHECK(cut_enter(cut, &cycle) == 0);
	CHECK(cut_write(cut, cycle, data, sizeof data, 0, &ticket) == 0);
	CHECK(cut_flush(cut, cycle, &flushed) == 0);
	CHECK(cut_power_off(cut, &one, &lose_all, &report) && cut_power_on(cut));
	CHECK(cut_enter(cut, &next) == 0 && next != cycle);
	CHECK(cut_finish_write(cut, cycle, ticket, false) < 0 && cut_finish_write(cut, cycle, ticket, true) < 0);
	CHECK(cut_finish_flush(cut, cycle, flushed) < 0 && cut_finish_read(cut, cycle) < 0);
	CHECK(cut_read(cut, cycle, data, sizeof data, 0) < 0 && cut_flush(cut, cycle, &flushed) < 0);
	CHECK(cut_write(cut, cycle, data, sizeof data, 0, &ticket) < 0);
	CHECK(cut_wait(cut, cycle, clock_monotonic_ns() + 3600 * 1000 * MS) < 0);
	CHECK(cut_close(cut) == 0);
	close(backing);
}

/* Switches both rails off, one after the other, and waits until both hold-ups are over. False where
 * the machine was so busy that the first was over before the second rail went. */
static bool both_rails_go_in_turn(struct cut *cut, unsigned first, int64_t holdup_ns)
{
	cut_rail(cut, first, false);
	while (clock_monotonic_ns() < seen.time_ns[0] + holdup_ns / 4)
		;
	cut_rail(cut, !first, false);
	if (seen.letters[1] == 'L')
		return false;
	while (clock_monotonic_ns() < seen.time_ns[1] + holdup_ns)
		;
	cut_tick(cut);
	return true;
}

/* The capacitors are empty a hold-up after the first rail has gone, whatever the others do. */
static void the_first_rail_that_went_decides_the_hold_up(void)
{
	struct cut_settings settings = { .holdup_ns = 4 * MS };

	for (unsigned first = 0; first < 2; settings.holdup_ns *= 2) {
		int backing = new_backing();
		struct cut *cut = new_drive(&settings, backing);

		if (both_rails_go_in_turn(cut, first, settings.holdup_ns)) {
			CHECK(seen.letters[2] == 'L' && seen.time_ns[2] == seen.time_ns[0] + settings.holdup_ns);
			cut_rail(cut, 0, true); /* one is not enough */
			CHECK(seen.count == 4);
			cut_rail(cut, 1, true);
			CHECK(seen.letters[5] == 'R');
			first++;
		}
		CHECK(cut_close(cut) == 0);
		close(backing);
	}
}

static void a_drive_that_held_up_does_not_stop_later(void)
{
	struct cut_settings settings = { .holdup_ns = 4 * MS };
	bool in_time = false;

	for (; !in_time; settings.holdup_ns *= 2) {
		int backing = new_backing();
		struct cut *cut = new_drive(&settings, backing);

		cut_rail(cut, 1, false);
		cut_rail(cut, 1, true);
		in_time = seen.letters[1] == 'S';
		if (in_time) {
			while (clock_monotonic_ns() < seen.time_ns[0] + settings.holdup_ns)
				;
			cut_tick(cut);
			CHECK_TEXT(seen.letters, "sS");
		}
		CHECK(cut_close(cut) == 0);
		close(backing);
	}
}

static void each_cut_has_the_next_seed(void)
{
	const struct cut_settings settings = { .write_cache_bytes = 16 * CACHE_SECTOR, .holdup_ns = 1000 * MS,
					       .seeded = true, .seed = 7, .has_loss = true,
					       .loss = CACHE_LOSE_TORN };
	int backing = new_backing();
	struct cut *cut = new_drive(&settings, backing);
	struct cut_report report;

	for (uint64_t n = 0; n < 3; n++) {
		CHECK(cut_power_off(cut, NULL, NULL, &report) && cut_power_on(cut));
		CHECK(report.seed == 7 + n && report.loss == CACHE_LOSE_TORN);
	}
	CHECK(cut_power_off(cut, &one, &lose_all, &report));
	CHECK(report.seed == 1 && report.loss == CACHE_LOSE_ALL);
	CHECK(cut_close(cut) == 0);
	close(backing);
}

int main(void)
{
	a_flush_and_fua_are_kept_but_by_a_drive_that_lies();
	without_a_cache_each_write_is_kept();
	an_orderly_end_keeps_what_is_volatile();
	an_operation_of_before_a_cut_is_not_acknowledged_after_it();
	the_first_rail_that_went_decides_the_hold_up();
	a_drive_that_held_up_does_not_stop_later();
	each_cut_has_the_next_seed();
	a_cut_switches_each_rail_and_then_stops_the_drive();
	a_rail_that_comes_back_within_the_hold_up_stops_nothing();
	a_hold_up_that_is_over_stops_the_drive_at_its_end();
	what_is_volatile_is_lost_without_protection_and_kept_with_it();
	return report("cut");
}
