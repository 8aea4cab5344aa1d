/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifndef JOULERIG_ENERGY_KERNEL_H
#define JOULERIG_ENERGY_KERNEL_H

#include <math.h>
#include <stddef.h>

struct energy_scale {
	double volts_gain, volts_offset, amps_gain, amps_offset;
};

struct energy_sums {
	double volts, amps, watts, min, max;
};

/* Sums over n samples of the scaled volts and amps and of their products, and the products'
 * extremes. A sample that is no number makes a sum that is none. */
void energy_sums(const float *volts, const float *amps, size_t n, const struct energy_scale *scale, struct energy_sums *sums);

/* No sum of a rail's samples comes near it; what an instrument says in place of a number does
 * (SCPI's infinity is 9.9E37). */
#define ENERGY_NO_SUM 1e30

/* Whether all samples in the sums were numbers. */
static inline int energy_sums_are_of_numbers(const struct energy_sums *sums)
{
	return fabs(sums->volts) < ENERGY_NO_SUM && fabs(sums->amps) < ENERGY_NO_SUM && isfinite(sums->watts);
}

/* Whether the magnitude of a sample is `limit` or more. */
int energy_reaches(const float *samples, size_t n, float limit);

#endif
