/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Chooses blocks of samples to be lost on purpose, a given part of all, at random
 * places that a seed repeats. Block counts are exact: of every 1 / fraction blocks
 * one is lost, so that a test knows how many are.
 */
#ifndef JOULERIG_LOSS_H
#define JOULERIG_LOSS_H

#include <stdbool.h>
#include <stdint.h>

struct loss {
	double fraction; /* 0 to 1 */
	uint64_t seed;
};

/* A number that is random in the seed and n, over all 64 bits. */
uint64_t loss_random(uint64_t seed, uint64_t n);

bool loss_drops(const struct loss *loss, uint64_t block);

#endif
