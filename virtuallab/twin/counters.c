/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The record: for each cell in which something changed, the time of its last
 * change and the counters after it, as differences to the entry before in
 * variable length (7 bits a byte, as in LEB128). A millisecond of 4 KiB writes
 * takes some ten bytes instead of the hundred of plain figures. Entries stand
 * in blocks that begin with plain figures, so that a look-up decodes one block
 * and the oldest can be given back.
 */
#include "counters.h"

#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES 4096
#define VARINT_MAX 10
/* The time, which counters changed, and by how much. */
#define ENTRY_MAX ((2 + COUNTERS) * VARINT_MAX)

struct block {
	struct block *newer;
	int64_t first_ns; /* the counters were `first` from then on */
	uint64_t first[COUNTERS];
	size_t used;
	unsigned char entries[BLOCK_BYTES];
};

struct counters {
	int64_t cell_ns;
	int64_t keep_ns;
	uint64_t now[COUNTERS];
	/* The entry of the cell under way is not in a block yet: it may change. */
	bool open;
	int64_t open_ns;
	int64_t closed_ns; /* the entry before */
	uint64_t closed[COUNTERS];
	struct block *oldest;
	struct block *newest;
	size_t blocks;
};

static const char *const names[COUNTERS] = {
	[COUNTER_READS] = "reads",
	[COUNTER_READ_BYTES] = "read_bytes",
	[COUNTER_WRITES] = "writes",
	[COUNTER_WRITE_BYTES] = "write_bytes",
	[COUNTER_ZEROES] = "zeroes",
	[COUNTER_ZERO_BYTES] = "zero_bytes",
	[COUNTER_FLUSHES] = "flushes",
	[COUNTER_FUA_WRITES] = "fua_writes",
	[COUNTER_DISCARDS] = "discards",
	[COUNTER_DISCARD_BYTES] = "discard_bytes",
	[COUNTER_THROTTLED_NS] = "throttled_ns",
	[COUNTER_BUSY_NS] = "busy_ns",
	[COUNTER_DEVICE_BOUND_NS] = "device_bound_ns",
};

const char *counter_name(enum counter counter)
{
	return names[counter];
}

static unsigned char *put(unsigned char *to, uint64_t value)
{
	while (value >= 0x80) {
		*to++ = (unsigned char)(value | 0x80);
		value >>= 7;
	}
	*to++ = (unsigned char)value;
	return to;
}

static const unsigned char *get(const unsigned char *from, uint64_t *value)
{
	*value = 0;
	for (unsigned shift = 0;; shift += 7) {
		*value |= (uint64_t)(*from & 0x7f) << shift;
		if (!(*from++ & 0x80))
			return from;
	}
}

struct counters *counters_new(int64_t start_ns, int64_t cell_ns, int64_t keep_ns)
{
	struct counters *counters = calloc(1, sizeof *counters);

	if (!counters)
		return NULL;
	counters->cell_ns = cell_ns;
	counters->keep_ns = keep_ns;
	counters->open_ns = counters->closed_ns = start_ns;
	counters->oldest = counters->newest = calloc(1, sizeof *counters->oldest);
	if (!counters->oldest) {
		free(counters);
		return NULL;
	}
	counters->oldest->first_ns = start_ns;
	counters->blocks = 1;
	return counters;
}

void counters_free(struct counters *counters)
{
	if (!counters)
		return;
	while (counters->oldest) {
		struct block *block = counters->oldest;

		counters->oldest = block->newer;
		free(block);
	}
	free(counters);
}

static struct block *take_oldest(struct counters *counters)
{
	struct block *block = counters->oldest;

	counters->oldest = block->newer;
	if (!counters->oldest)
		counters->newest = NULL;
	counters->blocks--;
	return block;
}

/* A block that begins with what is now known. When memory is short, the oldest
 * part of the record makes room: it then counts as not held. */
static void begin_block(struct counters *counters)
{
	struct block *block;

	while (counters->oldest->newer &&
	       counters->oldest->newer->first_ns <= counters->open_ns - counters->keep_ns)
		free(take_oldest(counters));
	block = malloc(sizeof *block);
	if (!block)
		block = take_oldest(counters);
	block->newer = NULL;
	block->used = 0;
	block->first_ns = counters->open_ns;
	memcpy(block->first, counters->now, sizeof block->first);
	if (counters->newest)
		counters->newest->newer = block;
	else
		counters->oldest = block;
	counters->newest = block;
	counters->blocks++;
}

static void close_entry(struct counters *counters)
{
	struct block *block = counters->newest;

	if (block->used + ENTRY_MAX > BLOCK_BYTES) {
		begin_block(counters);
	} else {
		unsigned char *to = block->entries + block->used;
		unsigned changed = 0;

		for (unsigned c = 0; c < COUNTERS; c++)
			changed |= (unsigned)(counters->now[c] != counters->closed[c]) << c;
		to = put(to, (uint64_t)(counters->open_ns - counters->closed_ns));
		to = put(to, changed);
		for (unsigned c = 0; c < COUNTERS; c++) {
			if (changed & 1u << c)
				to = put(to, counters->now[c] - counters->closed[c]);
		}
		block->used = (size_t)(to - block->entries);
	}
	counters->closed_ns = counters->open_ns;
	memcpy(counters->closed, counters->now, sizeof counters->closed);
}

void counters_add(struct counters *counters, int64_t time_ns, const uint64_t amounts[COUNTERS])
{
	if (counters->open && time_ns / counters->cell_ns != counters->open_ns / counters->cell_ns)
		close_entry(counters);
	counters->open = true;
	for (unsigned c = 0; c < COUNTERS; c++)
		counters->now[c] += amounts[c];
	counters->open_ns = time_ns;
}

void counters_now(const struct counters *counters, uint64_t values[COUNTERS])
{
	memcpy(values, counters->now, sizeof counters->now);
}

bool counters_at(const struct counters *counters, int64_t time_ns, uint64_t values[COUNTERS])
{
	const struct block *block = counters->oldest;
	const unsigned char *from, *end;
	int64_t entry_ns = block->first_ns;

	if (time_ns < entry_ns)
		return false;
	if (time_ns >= counters->open_ns) {
		counters_now(counters, values);
		return true;
	}
	while (block->newer && block->newer->first_ns <= time_ns)
		block = block->newer;
	entry_ns = block->first_ns;
	memcpy(values, block->first, sizeof block->first);
	from = block->entries;
	end = block->entries + block->used;
	while (from < end) {
		uint64_t step_ns, changed, amount;

		from = get(from, &step_ns);
		from = get(from, &changed);
		entry_ns += (int64_t)step_ns;
		if (entry_ns > time_ns)
			break;
		for (unsigned c = 0; c < COUNTERS; c++) {
			if (changed & 1u << c) {
				from = get(from, &amount);
				values[c] += amount;
			}
		}
	}
	return true;
}

int64_t counters_oldest_ns(const struct counters *counters)
{
	return counters->oldest->first_ns;
}

size_t counters_bytes(const struct counters *counters)
{
	return sizeof *counters + counters->blocks * sizeof *counters->oldest;
}
