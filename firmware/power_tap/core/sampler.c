/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sampler.h"

#include <string.h>

void sampler_init(struct sampler *sampler, struct sample *ring, uint32_t capacity)
{
	sampler->ring = ring;
	sampler->capacity = capacity;
	sampler->next_slot = 0;
	atomic_init(&sampler->written_low, 0);
	atomic_init(&sampler->written_high, 0);
}

void sampler_write(struct sampler *sampler, const struct sample *sample)
{
	uint32_t low = atomic_load_explicit(&sampler->written_low, memory_order_relaxed) + 1;

	/* Keeps this slot's contents behind the count published before: a reader
	 * that has seen any of them will see that count when it checks. */
	atomic_thread_fence(memory_order_release);
	sampler->ring[sampler->next_slot] = *sample;
	sampler->next_slot = sampler->next_slot + 1 == sampler->capacity ? 0 : sampler->next_slot + 1;
	if (low == 0)
		atomic_fetch_add_explicit(&sampler->written_high, 1, memory_order_release);
	atomic_store_explicit(&sampler->written_low, low, memory_order_release);
}

uint64_t sampler_written(const struct sampler *sampler)
{
	uint32_t high, low, again;

	do {
		high = atomic_load_explicit(&sampler->written_high, memory_order_acquire);
		low = atomic_load_explicit(&sampler->written_low, memory_order_acquire);
		again = atomic_load_explicit(&sampler->written_high, memory_order_acquire);
	} while (high != again);
	return (uint64_t)high << 32 | low;
}

void sampler_join(struct sampler_reader *reader, const struct sampler *sampler)
{
	reader->next = sampler_written(sampler);
}

/* The slot of the oldest sample is the one that the writer may be filling. */
static uint64_t oldest_safe(const struct sampler *sampler, uint64_t written)
{
	return written >= sampler->capacity ? written - sampler->capacity + 1 : 0;
}

uint64_t sampler_skip(struct sampler_reader *reader, const struct sampler *sampler)
{
	uint64_t oldest = oldest_safe(sampler, sampler_written(sampler));
	uint64_t lost = reader->next < oldest ? oldest - reader->next : 0;

	reader->overruns += lost;
	reader->next += lost;
	return lost;
}

uint32_t sampler_available(const struct sampler_reader *reader, const struct sampler *sampler)
{
	uint64_t written = sampler_written(sampler);
	uint64_t oldest = oldest_safe(sampler, written);
	uint64_t from = reader->next > oldest ? reader->next : oldest;

	return (uint32_t)(written - from);
}

uint32_t sampler_copy(struct sampler_reader *reader, const struct sampler *sampler,
		      struct sample *samples, uint32_t most)
{
	uint64_t first = reader->next;
	uint64_t there = sampler_written(sampler) - first;
	uint32_t count = there < most ? (uint32_t)there : most;
	uint64_t oldest;
	uint32_t lost, slot;

	slot = (uint32_t)(first % sampler->capacity);
	for (uint32_t n = 0; n < count; n++) {
		samples[n] = sampler->ring[slot];
		slot = slot + 1 == sampler->capacity ? 0 : slot + 1;
	}

	/* The writer may have come round while this was copying: what it may
	 * have touched is thrown away, never passed on. */
	atomic_thread_fence(memory_order_acquire);
	oldest = oldest_safe(sampler, sampler_written(sampler));
	if (oldest > first) {
		lost = oldest - first < count ? (uint32_t)(oldest - first) : count;
		memmove(samples, samples + lost, (count - lost) * sizeof *samples);
		count -= lost;
		reader->overruns += lost;
		first += lost;
	}
	reader->next = first + count;
	return count;
}

uint32_t sampler_read(struct sampler_reader *reader, const struct sampler *sampler,
		      struct sample *samples, uint32_t most)
{
	sampler_skip(reader, sampler);
	return sampler_copy(reader, sampler, samples, most);
}

bool sampler_newest(const struct sampler *sampler, struct sample *sample)
{
	struct sampler_reader reader = { 0 };

	do {
		sampler_join(&reader, sampler);
		if (reader.next == 0)
			return false;
		reader.next--;
	} while (sampler_read(&reader, sampler, sample, 1) == 0);
	return true;
}
