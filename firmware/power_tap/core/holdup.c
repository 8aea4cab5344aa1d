/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "holdup.h"

#define STATE 3u
#define ONE_CUT 4u

void holdup_init(struct holdup *holdup)
{
	atomic_init(&holdup->word, HOLDUP_NONE);
	holdup->volts = 0;
	holdup->threshold = 0;
	holdup->began = 0;
	holdup->ended = 0;
}

static void set(struct holdup *holdup, enum holdup_state state)
{
	uint32_t word = atomic_load_explicit(&holdup->word, memory_order_relaxed);

	atomic_store_explicit(&holdup->word, ((word & ~STATE) + ONE_CUT) | (uint32_t)state,
			      memory_order_release);
}

void holdup_begin(struct holdup *holdup, uint64_t index, float volts, float threshold)
{
	set(holdup, HOLDUP_NONE);
	holdup->volts = volts;
	holdup->threshold = threshold;
	holdup->began = index;
	set(holdup, HOLDUP_RUNNING);
}

void holdup_cancel(struct holdup *holdup)
{
	set(holdup, HOLDUP_NONE);
}

enum holdup_state holdup_state(const struct holdup *holdup)
{
	return (enum holdup_state)(atomic_load_explicit(&holdup->word, memory_order_acquire) & STATE);
}

void holdup_sample(struct holdup *holdup, uint64_t index, float volts)
{
	uint32_t word = atomic_load_explicit(&holdup->word, memory_order_acquire);

	/* Where samples come late, some from before the cut may still come. */
	if ((word & STATE) != HOLDUP_RUNNING || index < holdup->began || !(volts <= holdup->threshold))
		return;
	holdup->ended = index;
	atomic_compare_exchange_strong_explicit(&holdup->word, &word,
						(word & ~STATE) | (uint32_t)HOLDUP_DONE,
						memory_order_release, memory_order_relaxed);
}
