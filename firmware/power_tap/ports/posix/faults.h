/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Makes a tap dirty: what its converters, its clock and its memory do to samples that
 * are right. A file lists it, one `KEY=VALUE` a line; `KEY.N=VALUE` is
 * of channel N: 1 and 2 are volts and amps of rail 1, and so on to 8.
 *
 *   delay         samples by which all readings are late (a filter, a slow path)
 *   skew          further samples by which amps are late
 *   warm.N        part by which the gain rises in the end, with warm_seconds as time
 *                 constant (10 where it is not given): a shunt that gets warm
 *   gain.N, offset.N   reading = gain x value + offset
 *   noise.N       standard deviation, of each sample alone
 *   lsb.N         readings are whole multiples of it
 *   full_scale.N  readings beyond it, either way, are it
 *   over_range.N  readings beyond it, either way, are infinite
 *   peaks.N       readings above it are lost: the one before stays
 *   stuck.N       seconds after which the reading stays what it is
 *   doubled       part of all blocks that are the block before again
 *   lost          part of all blocks that never come
 *   trickle       part of all samples that never come, one by one
 *   ppm           how much slower than its rate the sample clock is: a sample is left out, or
 *                 is there twice, each time that makes one
 *   seed          of noise and of which blocks and samples; 0 where it is not given
 *
 * Blocks are 20 ms. They happen to a sample in this order. Nothing of it is in the tap's own
 * books: they would not know.
 */
#ifndef JOULERIG_FAULTS_H
#define JOULERIG_FAULTS_H

#include "loss.h"
#include "sampler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAULTS_CHANNELS (2 * SAMPLER_RAILS)
#define FAULTS_MOST_LATE 4096 /* delay + skew */
#define FAULTS_MOST_BLOCK 20000

struct faults {
	bool used;
	double rate_hz;
	double gain[FAULTS_CHANNELS], offset[FAULTS_CHANNELS], noise[FAULTS_CHANNELS],
		lsb[FAULTS_CHANNELS], full_scale[FAULTS_CHANNELS], over_range[FAULTS_CHANNELS],
		warm[FAULTS_CHANNELS], stuck[FAULTS_CHANNELS], peaks[FAULTS_CHANNELS];
	double warm_seconds, ppm, delay, skew;
	struct loss doubled, lost, trickle;
	uint64_t seed;

	uint64_t taken;
	double clock_debt; /* samples that the clock owes */
	float last[FAULTS_CHANNELS];
	struct sample raw[FAULTS_MOST_LATE + 1];
	struct sample block[FAULTS_MOST_BLOCK]; /* what the block before gave */
};

/* No faults. */
void faults_init(struct faults *faults, uint32_t rate_hz);

/* Reads the file at `path`. False: one line in error. */
bool faults_load(struct faults *faults, const char *path, char *error, size_t error_size);

/* Makes of a right sample what the tap gives. Returns how many times it comes: 0, 1 or 2. */
unsigned faults_apply(struct faults *faults, struct sample *sample);

#endif
