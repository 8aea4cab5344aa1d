/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Numbers for tests that come the same each time. */
#ifndef JOULERIG_RANDOM_H
#define JOULERIG_RANDOM_H

#include <stdint.h>

/* splitmix64 (G. Steele, D. Lea, C. Flood, OOPSLA 2014). */
static inline uint64_t random_next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static inline uint64_t random_below(uint64_t *state, uint64_t end)
{
	return random_next(state) % end;
}

#endif
