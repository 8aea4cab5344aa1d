/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "clock.h"

#include "../clock/lab_clock.h"

#include <time.h>

#define NS_PER_SECOND 1000000000
#define ATTEMPTS 5
#define NARROW_NS 1000

static int64_t read_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (int64_t)now.tv_sec * NS_PER_SECOND + now.tv_nsec;
}

int64_t clock_monotonic_ns(void)
{
	return read_ns(CLOCK_MONOTONIC);
}

double clock_slowness(void)
{
	return lab_clock_slowness ? lab_clock_slowness() : 1;
}

/* The narrowest of a few brackets. */
struct clock_offset clock_offset_now(void)
{
	struct clock_offset best = { 0, 0 };
	int64_t best_width_ns = INT64_MAX;

	for (int attempt = 0; attempt < ATTEMPTS && best_width_ns > NARROW_NS; attempt++) {
		int64_t before_ns = read_ns(CLOCK_MONOTONIC);
		int64_t real_ns = read_ns(CLOCK_REALTIME);
		int64_t width_ns = read_ns(CLOCK_MONOTONIC) - before_ns;

		if (width_ns < best_width_ns) {
			best_width_ns = width_ns;
			best.monotonic_ns = before_ns + width_ns / 2;
			best.offset_ns = real_ns - best.monotonic_ns;
		}
	}
	return best;
}

/* 1: the newest. */
static const struct clock_offset *noted(const struct clock_record *record, unsigned back)
{
	return &record->offsets[(record->next + CLOCK_RECORD_SECONDS - back) % CLOCK_RECORD_SECONDS];
}

void clock_note(struct clock_record *record, const struct clock_offset *now)
{
	if (record->count && now->monotonic_ns - noted(record, 1)->monotonic_ns < NS_PER_SECOND)
		return;
	record->offsets[record->next] = *now;
	record->next = (record->next + 1) % CLOCK_RECORD_SECONDS;
	if (record->count < CLOCK_RECORD_SECONDS)
		record->count++;
}

int64_t clock_from_real(const struct clock_record *record, const struct clock_offset *now,
			int64_t real_ns)
{
	int64_t offset_ns = now->offset_ns;

	/* From the newest back: the first whose instant is not after the time in
	 * question. Times after the newest note use the offset of this moment only
	 * when they really are newer. */
	for (unsigned back = 1; back <= record->count; back++) {
		const struct clock_offset *note = noted(record, back);

		if (back == 1 && real_ns - offset_ns >= note->monotonic_ns)
			return real_ns - offset_ns;
		offset_ns = note->offset_ns;
		if (real_ns - offset_ns >= note->monotonic_ns)
			break;
	}
	return real_ns - offset_ns;
}
