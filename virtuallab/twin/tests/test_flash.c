/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "flash.h"
#include "near.h"
#include "random.h"

#include <math.h>
#include <stdlib.h>

#define US 1000LL
#define MS 1000000LL
#define SECOND 1000000000LL
#define KIB 1024ULL
#define MIB (1ULL << 20)
#define START (5 * SECOND)

static struct work_queue work;

static const struct flash_config plain = {
	.bytes = 256 * MIB,
	.channels = 8,
	.page_bytes = 16384,
	.read_command_ns = 20 * US,
	.write_command_ns = 10 * US,
	.flush_ns = 1 * MS,
	.page_read_ns = 60 * US,
	.program_ns = 600 * US,
	.slc_program_ns = 150 * US,
	.erase_ns = 3 * MS,
	.fold_delay_ns = 100 * MS,
	.read_bytes_per_second = 1e9,
	.write_bytes_per_second = 5e8,
	.overprovisioning = 0.15,
	.write_cache_bytes = 2 * MIB,
};

static struct flash *new_flash(const struct flash_config *config)
{
	work = (struct work_queue){ .count = 0 };
	return flash_new(config, &work);
}

/* A closed loop: `depth` operations are always under way for `seconds`; the rate
 * of those that ended. `arrival` of the next is the end of the one before. */
static double closed_loop(struct flash *flash, unsigned depth, uint64_t bytes, bool write, bool random,
			  double from_seconds, double seconds)
{
	int64_t ends[64];
	int64_t from_ns = START + (int64_t)(from_seconds * 1e9);
	int64_t until_ns = from_ns + (int64_t)(seconds * 1e9);
	uint64_t state = 1, next = 0, done = 0, places = plain.bytes / bytes;

	for (unsigned n = 0; n < depth; n++)
		ends[n] = START;
	for (;;) {
		unsigned first = 0;
		int64_t now_ns;
		uint64_t place = random ? random_below(&state, places) : next++ % places;

		for (unsigned n = 1; n < depth; n++)
			first = ends[n] < ends[first] ? n : first;
		now_ns = ends[first];
		if (now_ns >= until_ns)
			return (double)done / seconds;
		done += now_ns > from_ns;
		ends[first] = write ? flash_write(flash, now_ns, place * bytes, bytes, false) :
				      flash_read(flash, now_ns, place * bytes, bytes);
	}
}

static void a_read_takes_command_page_and_transfer(void)
{
	struct flash *flash = new_flash(&plain);
	int64_t end_ns = flash_read(flash, START, 40960, 4096);

	CHECK(end_ns - START == 20 * US + 60 * US + 4096);
	/* 3 pages at once on three units, then the link takes 40960 bytes from the first page on. */
	end_ns = flash_read(flash, START + SECOND, 0, 40960);
	CHECK(end_ns - START - SECOND == 20 * US + 60 * US + 40960);
	flash_free(flash);
}

static void a_short_read_needs_the_first_part_of_a_page(void)
{
	struct flash_config config = plain;
	struct flash *flash;

	config.short_read_ns = 25 * US;
	flash = new_flash(&config);
	CHECK(flash_read(flash, START, 0, 4096) == START + 20 * US + 25 * US + 4096);
	/* From half a page on it is the whole page; the link takes all of it after that. */
	CHECK(flash_read(flash, START + SECOND, 0, 8192) == START + SECOND + 20 * US + 60 * US + 8192);
	/* The link begins with the first part, and takes longer than the pages. */
	CHECK(flash_read(flash, START + 2 * SECOND, 0, 131072) ==
	      START + 2 * SECOND + 20 * US + 25 * US + 131072);
	flash_free(flash);
	/* A unit is free again when its short read is over. */
	flash = new_flash(&config);
	check_near("short reads a second", closed_loop(flash, 32, 4096, false, true, 0.1, 1),
		   fmin(8 / 25e-6, 1e9 / 4096), 0.02);
	flash_free(flash);
}

static void each_further_page_of_a_read_begins_later(void)
{
	struct flash_config config = plain;
	struct flash *flash;

	config.next_page_ns = 7 * US;
	config.read_bytes_per_second = 1e10;
	flash = new_flash(&config);
	CHECK(flash_read(flash, START, 0, 16384) == START + 20 * US + 60 * US + 1638);
	CHECK(flash_read(flash, START + SECOND, 0, 5 * 16384) ==
	      START + SECOND + 20 * US + 4 * 7 * US + 60 * US + 1638);
	/* Two on the same unit, of nine on eight: the ninth waits for the first. */
	CHECK(flash_read(flash, START + 2 * SECOND, 0, 9 * 16384) ==
	      START + 2 * SECOND + 20 * US + 60 * US + 60 * US + 1638);
	flash_free(flash);
}

static void reads_side_by_side_saturate_at_channels_by_page_time(void)
{
	/* With fixed service times and a closed loop of n: n / latency up to c / page_read (M/D/c's
	 * limit). */
	double latency = (20 * US + 60 * US + 4096) * 1e-9;
	unsigned depths[] = { 1, 2, 4, 8, 16, 32 };

	for (unsigned n = 0; n < 6; n++) {
		struct flash *flash = new_flash(&plain);
		double rate = closed_loop(flash, depths[n], 4096, false, true, 0.1, 1);
		double bound = fmin(depths[n] / latency, 8 / 60e-6);

		check_near("random reads a second", rate, bound, 0.02);
		flash_free(flash);
	}
}

/* Poisson arrivals at 80 % load: the mean wait of M/D/c is near half of M/M/c's
 * (Erlang C); the exact ratio lies between 1/2 and 0.6 here (Cosmetatos 1975). */
static void open_arrivals_wait_as_in_m_d_c(void)
{
	struct flash_config config = plain;
	struct flash *flash;
	double service = 60e-6, load = 0.8, rate = load * 8 / service, offered = load * 8;
	double term = 1, sum = 0, erlang_c, m_m_c, correction, waited = 0;
	uint64_t state = 9;
	double now = 0;
	unsigned count = 400000;

	config.read_bytes_per_second = 1e12;
	config.read_command_ns = 0;
	flash = new_flash(&config);
	for (unsigned k = 0; k < 8; k++) {
		sum += term;
		term *= offered / (k + 1);
	}
	erlang_c = term / (1 - load) / (sum + term / (1 - load));
	m_m_c = erlang_c * service / (8 * (1 - load));
	/* Cosmetatos' approximation of M/D/c from M/M/c. */
	correction = 0.5 * (1 + (1 - load) * 7 * (sqrt(4 + 5 * 8.0) - 2) / (16 * load * 8));
	for (unsigned n = 0; n < count; n++) {
		int64_t at_ns;

		now += -log(((double)(random_next(&state) >> 11) + 0.5) / 9007199254740992.0) / rate;
		at_ns = START + (int64_t)(now * 1e9);
		waited += (double)(flash_read(flash, at_ns, 0, 4096) - at_ns) * 1e-9 - service;
	}
	check_near("mean wait of M/D/8 at 80 %", waited / count, m_m_c * correction, 0.06);
	flash_free(flash);
}

static void bandwidth_is_capped_by_the_link(void)
{
	struct flash *flash = new_flash(&plain);

	/* 8 pages of 16 KiB in 60 us would be 2.2 GB/s. */
	check_near("sequential read", closed_loop(flash, 4, 128 * KIB, false, false, 0.1, 1) * 131072, 1e9,
		   0.01);
	flash_free(flash);
}

static void a_write_ends_in_the_cache_until_it_is_full(void)
{
	struct flash *flash = new_flash(&plain);
	int64_t end_ns = flash_write(flash, START, 0, 4096, false);
	double programs = 8 * 16384 / 600e-6;

	CHECK(end_ns - START == 10 * US + 8192); /* 4096 B at 0.5 GB/s */
	/* Until 2 MiB are full: in at 0.5 GB/s, out at the programs' pace. */
	check_near("burst", closed_loop(flash, 4, 16 * KIB, true, false, 0, 0.005) * 16384, 5e8, 0.05);
	check_near("sustained", closed_loop(flash, 4, 64 * KIB, true, false, 0.2, 0.5) * 65536, programs,
		   0.02);
	flash_free(flash);
}

static void without_a_cache_a_write_ends_when_programmed(void)
{
	struct flash_config config = plain;
	struct flash *flash;

	config.write_cache_bytes = 0;
	flash = new_flash(&config);
	CHECK(flash_write(flash, START, 0, 4096, false) - START == 8192 + 600 * US + 10 * US);
	/* Nothing is volatile: a flush has nothing to wait for. */
	CHECK(flash_flush(flash, START + SECOND) - START - SECOND == 10 * US);
	flash_free(flash);
}

static void a_flush_waits_for_the_programs_unless_the_drive_is_protected(void)
{
	struct flash_config protected_config = plain;
	struct flash *flash = new_flash(&plain);
	int64_t end_ns = flash_write(flash, START, 0, 4096, false);

	CHECK(flash_flush(flash, end_ns) == end_ns + 600 * US + 1 * MS);
	CHECK(flash_write(flash, START + SECOND, 0, 4096, true) == START + SECOND + 8192 + 600 * US + 10 * US);
	flash_free(flash);

	protected_config.plp = true;
	protected_config.flush_ns = 30 * US;
	flash = new_flash(&protected_config);
	end_ns = flash_write(flash, START, 0, 4096, false);
	CHECK(flash_flush(flash, end_ns) == end_ns + 30 * US);
	CHECK(flash_write(flash, START + SECOND, 0, 4096, true) == START + SECOND + 8192 + 10 * US);
	flash_free(flash);
}

static void single_level_cells_are_fast_until_they_are_full_and_fold_when_idle(void)
{
	struct flash_config config = plain;
	struct flash *flash;
	struct flash_wear wear;
	struct work item;
	uint64_t folded = 0;
	double seconds_to_fill, tail_seconds;
	int64_t last_ns = START;

	config.slc_fraction = 0.25; /* 64 MiB */
	flash = new_flash(&config);
	seconds_to_fill = 64.0 * (double)MIB / fmin(5e8, 8 * 16384 / 150e-6);
	check_near("into single-level cells",
		   closed_loop(flash, 4, 64 * KIB, true, false, 0, 0.9 * seconds_to_fill) * 65536, 5e8, 0.03);
	flash_free(flash);

	flash = new_flash(&config);
	check_near("after them",
		   closed_loop(flash, 4, 64 * KIB, true, false, 2 * seconds_to_fill, 0.5) * 65536,
		   8 * 16384 / 600e-6, 0.02);
	flash_wear(flash, START + SECOND, &wear);
	CHECK(wear.slc_bytes == 64 * MIB);

	/* The tail: from 100 ms after the last program, each page is read and programmed. */
	CHECK(flash_next_ns(flash) == flash_busy_until_ns(flash) + 100 * MS);
	last_ns = flash_next_ns(flash);
	tail_seconds = 64.0 * (double)MIB / 16384 * (60e-6 + 600e-6) / 8;
	flash_advance(flash, last_ns + (int64_t)(tail_seconds * 0.5e9));
	flash_wear(flash, last_ns + (int64_t)(tail_seconds * 0.5e9), &wear);
	check_near("half folded", (double)wear.slc_bytes, 32.0 * (double)MIB, 0.06);
	flash_advance(flash, last_ns + (int64_t)(tail_seconds * 1.1e9));
	CHECK(flash_next_ns(flash) == INT64_MAX);
	while (work_take(&work, INT64_MAX, &item))
		folded += item.cause == WORK_FOLD ? item.bytes : 0;
	CHECK(folded == 64 * MIB);
	flash_free(flash);
}

/* channels * page / (A program + (A - 1) read + A erase / pages of a block), with A as
 * the map counts it. */
static void random_writes_on_a_full_drive_fall_to_what_the_map_says(void)
{
	struct flash *flash = new_flash(&plain);
	struct flash_wear before, after;
	double rate, amplification, page_seconds;
	struct work item;

	flash_fill(flash, 0, plain.bytes);
	flash_wear(flash, START, &before);
	CHECK(before.flash_bytes == 0);
	CHECK(before.ftl.valid_pages == plain.bytes / 4096);
	closed_loop(flash, 8, 4096, true, true, 0, 6);
	flash_wear(flash, START, &before);
	while (work_take(&work, INT64_MAX, &item))
		CHECK(item.cause == WORK_GC);
	/* The loop begins again at START: the arrivals are past, the units' times hold. */
	rate = closed_loop(flash, 8, 4096, true, true, 8, 4);
	flash_wear(flash, START, &after);
	amplification = (double)(after.ftl.flash_pages - before.ftl.flash_pages) /
			(double)(after.ftl.host_pages - before.ftl.host_pages);
	page_seconds = amplification * 600e-6 + (amplification - 1) * 60e-6 +
		       amplification * 3e-3 / (64.0 / 4);
	printf("full drive: %.0f writes a second at write amplification %.2f\n", rate, amplification);
	CHECK(amplification > 2.5);
	check_near("sustained random writes", rate * 4096, 8 * 16384 / page_seconds, 0.04);
	flash_free(flash);
}

static void a_discarded_drive_is_as_new(void)
{
	struct flash *flash = new_flash(&plain);
	struct flash_wear wear;

	flash_fill(flash, 0, plain.bytes);
	CHECK(flash_discard(flash, START, 100, plain.bytes) == START + 10 * US);
	flash_wear(flash, START, &wear);
	CHECK(wear.ftl.valid_pages == 1); /* of the first only a part is discarded */
	flash_free(flash);
}

static void a_power_cut_empties_the_cache_and_stops_the_units(void)
{
	struct flash *flash = new_flash(&plain);
	struct flash_wear wear;

	flash_write(flash, START, 0, MIB, false);
	flash_wear(flash, START + 3 * MS, &wear);
	CHECK(wear.dirty_bytes > 0);
	flash_reset(flash, START + 3 * MS);
	flash_wear(flash, START + 3 * MS, &wear);
	CHECK(wear.dirty_bytes == 0);
	CHECK(flash_busy_until_ns(flash) == START + 3 * MS);
	CHECK(flash_read(flash, START + 4 * MS, 0, 4096) == START + 4 * MS + 80 * US + 4096);
	flash_free(flash);
}

int main(void)
{
	a_read_takes_command_page_and_transfer();
	a_short_read_needs_the_first_part_of_a_page();
	each_further_page_of_a_read_begins_later();
	reads_side_by_side_saturate_at_channels_by_page_time();
	open_arrivals_wait_as_in_m_d_c();
	bandwidth_is_capped_by_the_link();
	a_write_ends_in_the_cache_until_it_is_full();
	without_a_cache_a_write_ends_when_programmed();
	a_flush_waits_for_the_programs_unless_the_drive_is_protected();
	single_level_cells_are_fast_until_they_are_full_and_fold_when_idle();
	random_writes_on_a_full_drive_fall_to_what_the_map_says();
	a_discarded_drive_is_as_new();
	a_power_cut_empties_the_cache_and_stops_the_units();
	return report("flash");
}
