/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "page.h"
#include "check.h"

#define SECOND 1000000000LL

/* The wall at 100 s was the lab's 40 s; from the wall's 110 s on it is 8 times slower. */
static const struct clock_page PAGE = {
	.magic = CLOCK_PAGE_MAGIC,
	.lines = 2,
	.line = { { 100 * SECOND, 40 * SECOND, 1.0 }, { 110 * SECOND, 50 * SECOND, 8.0 } },
};

static int64_t now_ns;

static int64_t now(void)
{
	return now_ns;
}

static struct clock_lines lines_of(const struct clock_page *page)
{
	struct clock_lines lines;

	clock_page_read(page, &lines, now);
	return lines;
}

/* A page that is written while its reader is held up before it reads the wall. */
static struct clock_page written;

static int64_t now_after_a_new_line(void)
{
	if (written.lines == 2) {
		written.line[0] = (struct clock_line){ 120 * SECOND, 51 * SECOND + SECOND / 4, 1.0 };
		written.lines = 3;
	}
	return 130 * SECOND;
}

static void a_reader_that_was_held_up_reads_again(void)
{
	struct clock_lines lines;
	int64_t wall_ns;

	written = PAGE;
	wall_ns = clock_page_read(&written, &lines, now_after_a_new_line);
	CHECK(wall_ns == 130 * SECOND);
	CHECK(clock_lab_ns(&lines, wall_ns) == 61 * SECOND + SECOND / 4);
}

static void a_line_holds_from_its_beginning_on(void)
{
	struct clock_lines lines = lines_of(&PAGE);

	CHECK(clock_lab_ns(&lines, 105 * SECOND) == 45 * SECOND);
	CHECK(clock_lab_ns(&lines, 110 * SECOND) == 50 * SECOND);
	CHECK(clock_lab_ns(&lines, 118 * SECOND) == 51 * SECOND);
}

static void the_only_line_holds_before_its_beginning_too(void)
{
	struct clock_page page = PAGE;
	struct clock_lines lines;

	page.lines = 1;
	lines = lines_of(&page);
	CHECK(clock_lab_ns(&lines, 90 * SECOND) == 30 * SECOND);
}

static void lab_time_never_goes_back(void)
{
	struct clock_page page = PAGE;
	struct clock_lines lines;
	int64_t last = 0;

	page.line[1].slowness = 7.3;
	page.line[1].wall_ns += 3;
	lines = lines_of(&page);
	for (int64_t wall = 110 * SECOND - 1000; wall < 110 * SECOND + 1000; wall++) {
		int64_t lab = clock_lab_ns(&lines, wall);

		CHECK(lab >= last);
		last = lab;
	}
}

static void the_slowness_is_that_of_the_line_of_the_moment(void)
{
	struct clock_lines lines = lines_of(&PAGE);

	CHECK(clock_slowness_at(&lines, 105 * SECOND) == PAGE.line[0].slowness);
	CHECK(clock_slowness_at(&lines, 110 * SECOND) == PAGE.line[1].slowness);
}

static void a_deadline_of_the_lab_is_the_first_instant_of_the_wall_that_reaches_it(void)
{
	struct clock_page page = PAGE;
	struct clock_lines lines;

	page.line[1].slowness = 7.3;
	lines = lines_of(&page);
	for (int64_t lab = 50 * SECOND - 20; lab < 50 * SECOND + 20; lab++) {
		int64_t wall = clock_wall_ns(&lines, lab);

		CHECK(clock_lab_ns(&lines, wall) >= lab);
		CHECK(clock_lab_ns(&lines, wall - 1) < lab);
	}
	CHECK(clock_wall_ns(&lines, 45 * SECOND) == 105 * SECOND);
}

int main(void)
{
	a_line_holds_from_its_beginning_on();
	the_only_line_holds_before_its_beginning_too();
	lab_time_never_goes_back();
	a_reader_that_was_held_up_reads_again();
	the_slowness_is_that_of_the_line_of_the_moment();
	a_deadline_of_the_lab_is_the_first_instant_of_the_wall_that_reaches_it();
	return report("clock page");
}
