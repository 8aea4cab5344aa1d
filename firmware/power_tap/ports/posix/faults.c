/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "faults.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCKS_PER_SECOND 50
#define UNIFORMS 12 /* whose sum less 6 has variance 1, and is near enough to normal */

struct key {
	const char *name;
	double *value;	/* of the tap */
	double *values; /* or of each channel */
	double least, most;
};

void faults_init(struct faults *faults, uint32_t rate_hz)
{
	memset(faults, 0, sizeof *faults);
	faults->rate_hz = rate_hz;
	faults->warm_seconds = 10;
	for (unsigned c = 0; c < FAULTS_CHANNELS; c++) {
		faults->gain[c] = 1;
		faults->full_scale[c] = faults->over_range[c] = faults->peaks[c] = faults->stuck[c] =
			INFINITY;
	}
}

/* One line without its end. False where it is none. */
static bool set(struct faults *faults, const char *line)
{
	const struct key keys[] = {
		{ "delay", &faults->delay, NULL, 0, FAULTS_MOST_LATE / 2 },
		{ "skew", &faults->skew, NULL, 0, FAULTS_MOST_LATE / 2 },
		{ "warm_seconds", &faults->warm_seconds, NULL, 1e-3, 1e6 },
		{ "ppm", &faults->ppm, NULL, -1e5, 1e5 },
		{ "doubled", &faults->doubled.fraction, NULL, 0, 1 },
		{ "lost", &faults->lost.fraction, NULL, 0, 1 },
		{ "trickle", &faults->trickle.fraction, NULL, 0, 1 },
		{ "gain", NULL, faults->gain, -1e6, 1e6 },
		{ "offset", NULL, faults->offset, -1e6, 1e6 },
		{ "noise", NULL, faults->noise, 0, 1e6 },
		{ "lsb", NULL, faults->lsb, 0, 1e6 },
		{ "full_scale", NULL, faults->full_scale, 0, 1e6 },
		{ "over_range", NULL, faults->over_range, 0, 1e6 },
		{ "warm", NULL, faults->warm, -1, 1 },
		{ "peaks", NULL, faults->peaks, -1e6, 1e6 },
		{ "stuck", NULL, faults->stuck, 0, 1e6 },
	};
	const char *equals = strchr(line, '=');
	size_t length = equals ? (size_t)(equals - line) : 0;
	char *end;
	double value;

	if (!equals)
		return false;
	if (strncmp(line, "seed=", 5) == 0) {
		errno = 0;
		faults->seed = strtoull(equals + 1, &end, 10);
		return equals[1] >= '0' && equals[1] <= '9' && *end == '\0' && errno == 0;
	}
	value = strtod(equals + 1, &end);
	if (end == equals + 1 || *end != '\0')
		return false;
	for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
		size_t name = strlen(keys[k].name);
		bool of_channel = keys[k].values && length == name + 2 && line[name] == '.' &&
				  line[name + 1] >= '1' && line[name + 1] < '1' + FAULTS_CHANNELS;

		if (strncmp(line, keys[k].name, name) != 0 || !(of_channel || (keys[k].value && length == name)))
			continue;
		if (!(value >= keys[k].least && value <= keys[k].most))
			return false;
		*(of_channel ? &keys[k].values[line[name + 1] - '1'] : keys[k].value) = value;
		return true;
	}
	return false;
}

bool faults_load(struct faults *faults, const char *path, char *error, size_t error_size)
{
	FILE *file = fopen(path, "re");
	char line[256];

	if (!file) {
		snprintf(error, error_size, "--faults %s: %s", path, strerror(errno));
		return false;
	}
	while (fgets(line, sizeof line, file)) {
		line[strcspn(line, "\n")] = '\0';
		if (*line == '\0' || set(faults, line))
			continue;
		snprintf(error, error_size, "--faults %s: %s: allowed are the keys and values of faults.h", path,
			 line);
		fclose(file);
		return false;
	}
	fclose(file);
	if (faults->rate_hz / BLOCKS_PER_SECOND > FAULTS_MOST_BLOCK || faults->rate_hz < BLOCKS_PER_SECOND) {
		snprintf(error, error_size, "--faults %s: allowed with a rate from %d to %d", path,
			 BLOCKS_PER_SECOND, BLOCKS_PER_SECOND * FAULTS_MOST_BLOCK);
		return false;
	}
	faults->used = true;
	faults->doubled.seed = faults->seed;
	faults->lost.seed = faults->seed + 1;
	faults->trickle.seed = faults->seed + 2;
	return true;
}

static double normal(uint64_t seed, uint64_t n)
{
	double sum = 0;

	for (unsigned u = 0; u < UNIFORMS; u++)
		sum += (double)(loss_random(seed, n * UNIFORMS + u) >> 11) * 0x1p-53;
	return sum - UNIFORMS / 2.0;
}

static double within(double value, double limit)
{
	return fmax(-limit, fmin(limit, value));
}

static float reading(struct faults *faults, unsigned c, double value)
{
	double seconds = (double)faults->taken / faults->rate_hz;
	double warm = faults->warm[c] * (1 - exp(-seconds / faults->warm_seconds));

	if (faults->taken && seconds >= faults->stuck[c])
		return faults->last[c];
	value = faults->gain[c] * (1 + warm) * value + faults->offset[c];
	if (faults->noise[c] > 0)
		value += faults->noise[c] * normal(faults->seed + 3 + c, faults->taken);
	if (faults->lsb[c] > 0)
		value = faults->lsb[c] * nearbyint(value / faults->lsb[c]);
	value = within(value, faults->full_scale[c]);
	if (fabs(value) > faults->over_range[c])
		return copysignf(INFINITY, (float)value);
	if (faults->taken && value > faults->peaks[c])
		return faults->last[c];
	return faults->last[c] = (float)value;
}

static const struct sample *past(const struct faults *faults, double samples)
{
	uint64_t back = (uint64_t)samples < faults->taken ? (uint64_t)samples : faults->taken;

	return &faults->raw[(faults->taken - back) % (FAULTS_MOST_LATE + 1)];
}

unsigned faults_apply(struct faults *faults, struct sample *sample)
{
	uint64_t block_samples = (uint64_t)faults->rate_hz / BLOCKS_PER_SECOND;
	uint64_t block = faults->taken / block_samples;
	struct sample *before = &faults->block[faults->taken % block_samples];
	unsigned times = 1;

	faults->raw[faults->taken % (FAULTS_MOST_LATE + 1)] = *sample;
	for (unsigned r = 0; r < SAMPLER_RAILS; r++) {
		sample->volts[r] = reading(faults, 2 * r, past(faults, faults->delay)->volts[r]);
		sample->amps[r] =
			reading(faults, 2 * r + 1, past(faults, faults->delay + faults->skew)->amps[r]);
	}
	if (block > 0 && loss_drops(&faults->doubled, block))
		*sample = *before;
	else
		*before = *sample;
	faults->clock_debt += faults->ppm * 1e-6;
	if (faults->clock_debt >= 1) {
		faults->clock_debt -= 1;
		times = 0;
	} else if (faults->clock_debt <= -1) {
		faults->clock_debt += 1;
		times = 2;
	}
	if (loss_drops(&faults->lost, block) || loss_drops(&faults->trickle, faults->taken))
		times = 0;
	faults->taken++;
	return times;
}
