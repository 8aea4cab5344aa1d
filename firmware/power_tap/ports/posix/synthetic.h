/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A source of samples that are a known function of their number, for benches and
 * tests, which can compute every value, and so every joule, and can derive a
 * sample's number from its values.
 *
 * Sample n, rail r (1 to 4), with x = (n mod period[r]) / period[r]:
 *   amps  = peak[r] * (1 + x) / 2        a ramp from half of the peak up to it
 *   volts = nominal[r] - droop * amps    with a droop of 0.05 ohm
 * in single precision, of nominal 12, 3.3, 5, 1.8 V, peak 2, 3, 1, 0.5 A, period
 * 4096, 4093, 4091, 4087. No two periods have a common divisor: the ramps of rails
 * 1 and 2 together do not repeat for 16.7 million samples.
 * Markers: line 0 is high in every second period of rail 1, line 1 in every second
 * period of rail 2.
 */
#ifndef JOULERIG_SYNTHETIC_H
#define JOULERIG_SYNTHETIC_H

#include "sampler.h"

#include <stdint.h>

void synthetic_sample(uint64_t n, struct sample *sample);

#endif
