/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The page by which all programs of a virtual lab have the lab's time.
 *
 * Lab time is piecewise linear in the machine's CLOCK_MONOTONIC ("wall"): a line
 * says where it begins on both, and how many seconds of the wall a second of the
 * lab lasts. The newest line and the one before it are kept: a line begins in the
 * future, so that no reader sees lab time go back, whenever it learns of it.
 *
 * The writer (virtuallab/clock/page.py) fills the line that is not in use, then
 * counts `lines` up; it fills none before the newest one has begun. A reader that
 * finds `lines` changed once it has read its clock reads again. A writer that dies
 * leaves a page that holds.
 *
 * All times are nanoseconds. The page is of one machine: its numbers are in its
 * own byte order.
 */
#ifndef JOULERIG_CLOCK_PAGE_H
#define JOULERIG_CLOCK_PAGE_H

#include <stdint.h>

#define CLOCK_PAGE_MAGIC 0x316b636f6c43524aULL /* "JRCLock1" */

struct clock_line {
	int64_t wall_ns;
	int64_t lab_ns;
	double slowness; /* seconds of the wall a second of the lab lasts: k */
};

struct clock_page {
	uint64_t magic;
	uint64_t lines;	 /* how many there have been; the newest is lines[(lines - 1) & 1] */
	int64_t real_ns; /* the lab's CLOCK_REALTIME minus its CLOCK_MONOTONIC */
	struct clock_line line[2];
};

/* The two lines of an instant. */
struct clock_lines {
	struct clock_line newest;
	struct clock_line before;
};

/* Reads the page, and the wall by `now_ns`, as of one moment: a reader that was held up
 * between the two would go on along a line that has ended. Returns the wall's time. */
int64_t clock_page_read(const struct clock_page *page, struct clock_lines *lines,
			int64_t (*now_ns)(void));

/* The lab's time at a time of the wall. */
int64_t clock_lab_ns(const struct clock_lines *lines, int64_t wall_ns);

/* How slow the lab is at a time of the wall. */
double clock_slowness_at(const struct clock_lines *lines, int64_t wall_ns);

/* The earliest time of the wall at which the lab's time is `lab_ns` or later, as far
 * as the lines tell. */
int64_t clock_wall_ns(const struct clock_lines *lines, int64_t lab_ns);

#endif
