/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "synthetic.h"

#define DROOP_OHM 0.05f

void synthetic_sample(uint64_t n, struct sample *sample)
{
	static const struct {
		float volts, amps;
		uint32_t period;
	} rails[SAMPLER_RAILS] = {
		{ 12, 2, 4096 },
		{ 3.3f, 3, 4093 },
		{ 5, 1, 4091 },
		{ 1.8f, 0.5f, 4087 },
	};

	for (unsigned r = 0; r < SAMPLER_RAILS; r++) {
		float x = (float)(n % rails[r].period) / (float)rails[r].period;

		sample->amps[r] = rails[r].amps * (1 + x) / 2;
		sample->volts[r] = rails[r].volts - DROOP_OHM * sample->amps[r];
	}
	sample->markers = (uint8_t)((n / rails[0].period & 1) | (n / rails[1].period & 1) << 1);
}
