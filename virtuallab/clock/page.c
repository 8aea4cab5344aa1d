/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "page.h"

#include <math.h>
#include <string.h>

int64_t clock_page_read(const struct clock_page *page, struct clock_lines *lines,
			int64_t (*now_ns)(void))
{
	uint64_t count = __atomic_load_n(&page->lines, __ATOMIC_ACQUIRE);
	uint64_t again;
	int64_t wall_ns;

	for (;;) {
		memcpy(&lines->newest, &page->line[(count - 1) & 1], sizeof(lines->newest));
		memcpy(&lines->before, &page->line[count & 1], sizeof(lines->before));
		wall_ns = now_ns();
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		again = __atomic_load_n(&page->lines, __ATOMIC_ACQUIRE);
		if (again == count)
			break;
		count = again;
	}
	if (count < 2)
		lines->before = lines->newest;
	return wall_ns;
}

static int64_t on_line(const struct clock_line *line, int64_t wall_ns)
{
	return line->lab_ns + (int64_t)floor((double)(wall_ns - line->wall_ns) / line->slowness);
}

int64_t clock_lab_ns(const struct clock_lines *lines, int64_t wall_ns)
{
	if (wall_ns >= lines->newest.wall_ns)
		return on_line(&lines->newest, wall_ns);
	int64_t lab_ns = on_line(&lines->before, wall_ns);

	/* What both lines say of the end of the one before may differ by a rounding. */
	return lab_ns < lines->newest.lab_ns ? lab_ns : lines->newest.lab_ns;
}

double clock_slowness_at(const struct clock_lines *lines, int64_t wall_ns)
{
	return wall_ns >= lines->newest.wall_ns ? lines->newest.slowness : lines->before.slowness;
}

int64_t clock_wall_ns(const struct clock_lines *lines, int64_t lab_ns)
{
	const struct clock_line *line = lab_ns >= lines->newest.lab_ns ? &lines->newest : &lines->before;
	int64_t wall_ns =
		line->wall_ns + (int64_t)ceil((double)(lab_ns - line->lab_ns) * line->slowness);

	while (clock_lab_ns(lines, wall_ns) < lab_ns)
		wall_ns++;
	return wall_ns;
}
