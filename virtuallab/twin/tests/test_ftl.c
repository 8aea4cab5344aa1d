/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "ftl.h"
#include "near.h"
#include "random.h"

#include <math.h>
#include <stdlib.h>

#define PAGES (1 << 17) /* 512 MiB: blocks of 128 pages */

/* 1 / (1 - x), x = exp(-T/U (1 - x)). */
static double analytic_amplification(double flash_per_logical)
{
	double x = 0.5;

	for (unsigned n = 0; n < 10000; n++)
		x = exp(-flash_per_logical * (1 - x));
	return 1 / (1 - x);
}

static double amplification_of_random_writes(double overprovisioning, double *analytic)
{
	struct ftl *ftl = ftl_new(PAGES, overprovisioning, 0, false);
	struct ftl_cost cost = { 0, 0 };
	struct ftl_wear before, after;
	uint64_t state = 1;

	ftl_write(ftl, 0, PAGES, &cost);
	for (unsigned n = 0; n < 6 * PAGES; n++)
		ftl_write(ftl, random_below(&state, PAGES), 1, &cost);
	ftl_wear(ftl, &before);
	for (unsigned n = 0; n < 4 * PAGES; n++)
		ftl_write(ftl, random_below(&state, PAGES), 1, &cost);
	ftl_wear(ftl, &after);
	*analytic = analytic_amplification((double)ftl_flash_pages(ftl) / PAGES);
	ftl_free(ftl);
	return (double)(after.flash_pages - before.flash_pages) /
	       (double)(after.host_pages - before.host_pages);
}

/* The formula is the limit of large blocks, which 128 pages come near: smaller
 * ones are a little better, for they differ more from each other. */
static void uniform_random_writes_amplify_as_the_analysis_says(void)
{
	double spare[] = { 0.07, 0.12, 0.28, 0.5 };

	for (unsigned n = 0; n < 4; n++) {
		double analytic, found = amplification_of_random_writes(spare[n], &analytic);

		printf("write amplification at %.0f %% spare: %.3f, analytic %.3f\n", spare[n] * 100, found,
		       analytic);
		CHECK(found < analytic * 1.02);
		CHECK(found > analytic * 0.94);
	}
}

/* The pages in an order that has each once. */
static uint32_t *shuffled(uint32_t pages)
{
	uint32_t *order = malloc(pages * sizeof *order);
	uint64_t state = 11;

	for (uint32_t n = 0; n < pages; n++) {
		uint32_t other = (uint32_t)random_below(&state, n + 1);

		order[n] = order[other];
		order[other] = n;
	}
	return order;
}

/* ftl.h's closed form: A = U/w from w0 to e w0. Behind that the blocks that were moved first
 * come, which have had less time to lose pages. */
static void random_writes_of_each_page_once_amplify_by_what_is_still_valid(void)
{
	enum { LARGE = 1 << 22, STEPS = 40 };
	struct ftl *ftl = ftl_new(LARGE, 0.1, 4096, true);
	uint32_t *order = shuffled(LARGE);
	struct ftl_cost cost = { 0, 0 };
	unsigned written = 0, begun;
	double within = 0, behind = 0;

	ftl_write(ftl, 0, LARGE, &cost);
	CHECK(ftl_block_pages(ftl) == 4096);
	CHECK(cost.erased_blocks == 0);
	while (cost.erased_blocks == 0)
		ftl_write(ftl, order[written++], 1, &cost);
	begun = written;
	check_near("collection begins when the spare blocks are used up", begun, 0.1 * LARGE, 0.02);
	/* From where the pages' own frontier is full for the first time, to the end of the round. */
	for (unsigned step = 0; step < STEPS; step++) {
		double from = begun * (1.1 + 1.5 * step / STEPS), until = begun * (1.1 + 1.5 * (step + 1) / STEPS);
		uint64_t moved;

		while (written < from)
			ftl_write(ftl, order[written++], 1, &cost);
		moved = cost.moved_pages;
		while (written < until)
			ftl_write(ftl, order[written++], 1, &cost);
		within += (double)(cost.moved_pages - moved) / (until - from);
		behind += LARGE / (until - from) * log(until / from) - 1;
	}
	check_near("moved pages a write, mean of the round", within / STEPS, behind / STEPS, 0.05);
	within = 1 + (double)cost.moved_pages;
	while (written < begun * 3.0)
		ftl_write(ftl, order[written++], 1, &cost);
	behind = ((double)cost.moved_pages - within) / (0.4 * begun);
	printf("moved pages a write at %.1f %% written: %.2f, at the end of the round %.2f\n",
	       100.0 * written / LARGE, behind, LARGE / (begun * exp(1)) - 1);
	CHECK(behind > 1.2 * (LARGE / (begun * exp(1)) - 1));
	free(order);
	ftl_free(ftl);
}

static void moved_pages_that_have_blocks_of_their_own_are_all_kept(void)
{
	struct ftl *ftl = ftl_new(PAGES, 0.03, 256, true);
	struct ftl_cost cost = { 0, 0 };
	struct ftl_wear wear;
	uint64_t state = 13;

	for (unsigned n = 0; n < 4 * PAGES; n++)
		ftl_write(ftl, random_below(&state, n % 2 ? PAGES : PAGES / 8), 1, &cost);
	ftl_write(ftl, 0, PAGES, &cost);
	ftl_wear(ftl, &wear);
	CHECK(wear.valid_pages == PAGES);
	CHECK(wear.flash_pages == wear.host_pages + cost.moved_pages);
	ftl_trim(ftl, 0, PAGES);
	ftl_wear(ftl, &wear);
	CHECK(wear.valid_pages == 0);
	ftl_free(ftl);
}

static void sequential_writes_move_nothing(void)
{
	struct ftl *ftl = ftl_new(PAGES, 0.07, 0, false);
	struct ftl_cost cost = { 0, 0 };
	struct ftl_wear wear;

	for (unsigned pass = 0; pass < 4; pass++)
		ftl_write(ftl, 0, PAGES, &cost);
	ftl_wear(ftl, &wear);
	CHECK(cost.moved_pages == 0);
	CHECK(wear.flash_pages == 4ULL * PAGES);
	CHECK(wear.host_pages == 4ULL * PAGES);
	CHECK(wear.valid_pages == PAGES);
	/* What was written and is no longer there has been erased, but for the spare blocks. */
	CHECK(cost.erased_blocks > 2 * PAGES / ftl_block_pages(ftl));
	ftl_free(ftl);
}

static void a_half_empty_drive_amplifies_less(void)
{
	struct ftl *ftl = ftl_new(PAGES, 0.07, 0, false);
	struct ftl_cost cost = { 0, 0 };
	struct ftl_wear before, after;
	uint64_t state = 7;
	double full;

	for (unsigned n = 0; n < 6 * PAGES; n++)
		ftl_write(ftl, random_below(&state, PAGES / 2), 1, &cost);
	ftl_wear(ftl, &before);
	for (unsigned n = 0; n < 2 * PAGES; n++)
		ftl_write(ftl, random_below(&state, PAGES / 2), 1, &cost);
	ftl_wear(ftl, &after);
	amplification_of_random_writes(0.07, &full);
	CHECK((double)(after.flash_pages - before.flash_pages) / (2.0 * PAGES) < full / 3);
	ftl_free(ftl);
}

static void trimmed_pages_are_not_moved(void)
{
	struct ftl *ftl = ftl_new(PAGES, 0.07, 0, false);
	struct ftl_cost cost = { 0, 0 };
	struct ftl_wear wear;
	uint64_t state = 3;

	ftl_write(ftl, 0, PAGES, &cost);
	for (unsigned n = 0; n < 2 * PAGES; n++)
		ftl_write(ftl, random_below(&state, PAGES), 1, &cost);
	CHECK(cost.moved_pages > 0);
	ftl_trim(ftl, 0, PAGES);
	ftl_wear(ftl, &wear);
	CHECK(wear.valid_pages == 0);
	cost.moved_pages = 0;
	ftl_write(ftl, 0, PAGES, &cost);
	CHECK(cost.moved_pages == 0);
	ftl_free(ftl);
}

/* What the map says is counted again from outside: no page is lost or doubled. */
static void valid_pages_are_those_written_and_not_trimmed(void)
{
	enum { SMALL = 1 << 12 };
	struct ftl *ftl = ftl_new(SMALL, 0.1, 0, false);
	struct ftl_cost cost = { 0, 0 };
	struct ftl_wear wear;
	static char written[SMALL];
	uint64_t state = 11, expected = 0;

	for (unsigned n = 0; n < 40 * SMALL; n++) {
		uint64_t page = random_below(&state, SMALL);

		if (random_below(&state, 4) == 0) {
			ftl_trim(ftl, page, 1);
			expected -= written[page] != 0;
			written[page] = 0;
		} else {
			ftl_write(ftl, page, 1, &cost);
			expected += written[page] == 0;
			written[page] = 1;
		}
	}
	ftl_wear(ftl, &wear);
	CHECK(wear.valid_pages == expected);
	CHECK(cost.erased_blocks > 100);
	ftl_free(ftl);
}

static void pages_beyond_the_end_are_ignored(void)
{
	struct ftl *ftl = ftl_new(4096, 0.1, 0, false);
	struct ftl_cost cost = { 0, 0 };
	struct ftl_wear wear;

	ftl_write(ftl, 4090, 100, &cost);
	ftl_trim(ftl, 4095, 100);
	ftl_wear(ftl, &wear);
	CHECK(wear.valid_pages == 5);
	ftl_free(ftl);
}

static void erases_spread_over_the_blocks(void)
{
	struct ftl *ftl = ftl_new(PAGES, 0.1, 0, false);
	struct ftl_cost cost = { 0, 0 };
	struct ftl_wear wear;
	uint64_t state = 5;

	for (unsigned n = 0; n < 10 * PAGES; n++)
		ftl_write(ftl, random_below(&state, PAGES), 1, &cost);
	ftl_wear(ftl, &wear);
	CHECK(fabs(wear.erases_mean - (double)cost.erased_blocks /
		   ((double)ftl_flash_pages(ftl) / ftl_block_pages(ftl) + 1)) < 1e-9);
	CHECK(wear.erases_max >= wear.erases_mean);
	CHECK(wear.erases_max < 4 * wear.erases_mean);
	ftl_forget_wear(ftl);
	ftl_wear(ftl, &wear);
	CHECK(wear.host_pages == 0 && wear.flash_pages == 0 && wear.erases_max == 0);
	CHECK(wear.valid_pages > 0);
	ftl_free(ftl);
}

int main(void)
{
	uniform_random_writes_amplify_as_the_analysis_says();
	random_writes_of_each_page_once_amplify_by_what_is_still_valid();
	moved_pages_that_have_blocks_of_their_own_are_all_kept();
	sequential_writes_move_nothing();
	a_half_empty_drive_amplifies_less();
	trimmed_pages_are_not_moved();
	valid_pages_are_those_written_and_not_trimmed();
	pages_beyond_the_end_are_ignored();
	erases_spread_over_the_blocks();
	return report("flash translation layer");
}
