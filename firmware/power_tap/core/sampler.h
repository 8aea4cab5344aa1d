/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Ring of samples between the converter and its readers. One writer, which
 * may be an interrupt, never waits and overwrites the oldest; any number of
 * readers, each with its own position, count what was overwritten before they had
 * it. No locks, and no 64-bit atomics, which small cores have not.
 */
#ifndef JOULERIG_SAMPLER_H
#define JOULERIG_SAMPLER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define SAMPLER_RAILS 4

/* One conversion of all rails over the same window: means, in volts and amps, and
 * the marker inputs as they were in it. */
struct sample {
	float volts[SAMPLER_RAILS];
	float amps[SAMPLER_RAILS];
	uint8_t markers;
};

struct sampler {
	struct sample *ring;
	uint32_t capacity;
	uint32_t next_slot;
	_Atomic uint32_t written_low;
	_Atomic uint32_t written_high;
};

struct sampler_reader {
	uint64_t next; /* number of the next sample to read */
	uint64_t overruns;
};

/* The caller owns the memory; capacity at least 2. */
void sampler_init(struct sampler *sampler, struct sample *ring, uint32_t capacity);

void sampler_write(struct sampler *sampler, const struct sample *sample);

/* Samples written since the beginning. */
uint64_t sampler_written(const struct sampler *sampler);

/* Puts the reader behind the newest sample: it sees what is written from now on. */
void sampler_join(struct sampler_reader *reader, const struct sampler *sampler);

/* Samples that the reader can have now. */
uint32_t sampler_available(const struct sampler_reader *reader, const struct sampler *sampler);

/* Passes over what was overwritten before the reader had it. Returns how many
 * samples that are; they are counted as overruns. */
uint64_t sampler_skip(struct sampler_reader *reader, const struct sampler *sampler);

/* Copies up to `most` samples in order, for a reader that has just skipped; of
 * what is overwritten meanwhile, it counts at most those that it would have given.
 * Returns how many it copied. */
uint32_t sampler_copy(struct sampler_reader *reader, const struct sampler *sampler,
		      struct sample *samples, uint32_t most);

/* Skips and copies up to `most` samples in order, without gap between them; what was
 * overwritten before the first is counted as overruns. Returns how many. */
uint32_t sampler_read(struct sampler_reader *reader, const struct sampler *sampler,
		      struct sample *samples, uint32_t most);

/* The newest sample; false when there is none. */
bool sampler_newest(const struct sampler *sampler, struct sample *sample);

#endif
