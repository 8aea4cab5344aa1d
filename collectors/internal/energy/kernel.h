/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifndef JOULERIG_ENERGY_KERNEL_H
#define JOULERIG_ENERGY_KERNEL_H

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

#endif
