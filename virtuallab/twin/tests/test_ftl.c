/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "check.h"
#include "ftl.h"
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
	struct ftl *ftl = ftl_new(PAGES, overprovisioning);
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

static void sequential_writes_move_nothing(void)
{
	struct ftl *ftl = ftl_new(PAGES, 0.07);
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
	struct ftl *ftl = ftl_new(PAGES, 0.07);
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
	struct ftl *ftl = ftl_new(PAGES, 0.07);
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
	struct ftl *ftl = ftl_new(SMALL, 0.1);
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
	struct ftl *ftl = ftl_new(4096, 0.1);
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
	struct ftl *ftl = ftl_new(PAGES, 0.1);
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
	sequential_writes_move_nothing();
	a_half_empty_drive_amplifies_less();
	trimmed_pages_are_not_moved();
	valid_pages_are_those_written_and_not_trimmed();
	pages_beyond_the_end_are_ignored();
	erases_spread_over_the_blocks();
	return report("flash translation layer");
}
