/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "loss.h"

/* SplitMix64 (Steele, Lea, Flood 2014): a number that is random in the seed and n. */
uint64_t loss_random(uint64_t seed, uint64_t n)
{
	uint64_t z = seed + (n + 1) * 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

/* Group k is the blocks from here to where group k + 1 begins. */
static uint64_t begin_of(const struct loss *loss, uint64_t group)
{
	return (uint64_t)((double)group / loss->fraction);
}

bool loss_drops(const struct loss *loss, uint64_t block)
{
	uint64_t group, begin, end;

	if (loss->fraction <= 0)
		return false;
	group = (uint64_t)((double)block * loss->fraction);
	/* Rounding may name the neighbour. */
	while (begin_of(loss, group) > block)
		group--;
	while (begin_of(loss, group + 1) <= block)
		group++;
	begin = begin_of(loss, group);
	end = begin_of(loss, group + 1);
	return block == begin + loss_random(loss->seed, group) % (end - begin);
}
