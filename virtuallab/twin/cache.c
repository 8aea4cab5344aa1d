/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A write is an entry in a list by age, with its data and a piece for each block
 * of BLOCK_SECTORS that it touches. Pieces hang in a hash table by block, the
 * newest first, so a reader takes of each sector what it meets first. A piece
 * has a mask of its sectors that are still volatile.
 */
#include "cache.h"
#include "backing.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_SECTORS 8
#define LEAST_BUCKETS 1024

struct entry;

struct piece {
	struct piece *older; /* in the bucket, also of other blocks */
	struct piece *newer;
	struct entry *entry;
	uint64_t block;
	uint8_t sectors; /* bit n: sector n of the block is volatile */
	uint8_t landed;	 /* in a cut */
};

struct entry {
	struct entry *older;
	struct entry *newer;
	uint64_t ticket;
	int64_t time_ns;
	uint64_t rank; /* in a cut: which landed after which */
	uint64_t first_sector;
	uint64_t end_sector;
	size_t piece_count;
	char *data; /* NULL: zeroes */
	struct piece pieces[];
};

struct bucket {
	struct piece *newest;
};

struct cache {
	int backing;
	uint64_t capacity_bytes;
	int64_t destage_ns;
	uint64_t ticket;
	uint64_t dirty_sectors;
	struct entry *oldest;
	struct entry *newest;
	uint64_t bucket_mask;
	struct bucket buckets[];
};

static const char *const loss_names[CACHE_LOSSES] = {
	[CACHE_LOSE_NONE] = "none",	      [CACHE_LOSE_ALL] = "all",	  [CACHE_LOSE_RANDOM] = "random",
	[CACHE_LOSE_TORN] = "torn", [CACHE_LOSE_REORDERED] = "reordered",
};

const char *cache_loss_name(enum cache_loss loss)
{
	return (unsigned)loss < CACHE_LOSSES ? loss_names[loss] : NULL;
}

bool cache_loss_named(const char *name, enum cache_loss *loss)
{
	for (unsigned n = 0; n < CACHE_LOSSES; n++) {
		if (strcmp(name, loss_names[n]) == 0) {
			*loss = (enum cache_loss)n;
			return true;
		}
	}
	return false;
}

/* Vigna's splitmix64: public domain, one word of state, good enough for coins. */
static uint64_t next_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

struct cache *cache_new(int backing, uint64_t capacity_bytes, int64_t destage_ns)
{
	uint64_t buckets = LEAST_BUCKETS;
	struct cache *cache;

	while (buckets * BLOCK_SECTORS * CACHE_SECTOR < capacity_bytes)
		buckets *= 2;
	cache = calloc(1, sizeof *cache + buckets * sizeof *cache->buckets);
	if (!cache)
		return NULL;
	cache->backing = backing;
	cache->capacity_bytes = capacity_bytes;
	cache->destage_ns = destage_ns;
	cache->bucket_mask = buckets - 1;
	return cache;
}

static struct bucket *find_bucket(struct cache *cache, uint64_t block)
{
	uint64_t mixed = block * 0x9e3779b97f4a7c15u;

	return &cache->buckets[(mixed >> 32) & cache->bucket_mask];
}

static const struct piece *newest_piece(const struct cache *cache, uint64_t block)
{
	return find_bucket((struct cache *)(uintptr_t)cache, block)->newest;
}

static void unlink_piece(struct cache *cache, struct piece *piece)
{
	if (piece->newer)
		piece->newer->older = piece->older;
	else
		find_bucket(cache, piece->block)->newest = piece->older;
	if (piece->older)
		piece->older->newer = piece->newer;
}

static void remove_entry(struct cache *cache, struct entry *entry)
{
	for (size_t n = 0; n < entry->piece_count; n++) {
		cache->dirty_sectors -= (unsigned)__builtin_popcount(entry->pieces[n].sectors);
		unlink_piece(cache, &entry->pieces[n]);
	}
	if (entry->newer)
		entry->newer->older = entry->older;
	else
		cache->newest = entry->older;
	if (entry->older)
		entry->older->newer = entry->newer;
	else
		cache->oldest = entry->newer;
	free(entry);
}

void cache_free(struct cache *cache)
{
	if (!cache)
		return;
	while (cache->oldest)
		remove_entry(cache, cache->oldest);
	free(cache);
}

uint64_t cache_capacity_bytes(const struct cache *cache)
{
	return cache->capacity_bytes;
}

uint64_t cache_dirty_bytes(const struct cache *cache)
{
	return cache->dirty_sectors * CACHE_SECTOR;
}

uint64_t cache_newest(const struct cache *cache)
{
	return cache->ticket;
}

/* The sectors of `block` that lie in [first, end). */
static uint8_t sectors_in(uint64_t block, uint64_t first, uint64_t end)
{
	uint64_t begin = block * BLOCK_SECTORS;
	unsigned from = first > begin ? (unsigned)(first - begin) : 0;
	unsigned to = end < begin + BLOCK_SECTORS ? (unsigned)(end - begin) : BLOCK_SECTORS;

	return (uint8_t)((1u << to) - (1u << from));
}

/* Copies what bytes [offset, offset + bytes) have of one sector of an entry. */
static void copy_sector(const struct entry *entry, uint64_t sector, char *data, size_t bytes,
			uint64_t offset)
{
	uint64_t begin = sector * CACHE_SECTOR, end = begin + CACHE_SECTOR;
	size_t length;

	if (begin < offset)
		begin = offset;
	if (end > offset + bytes)
		end = offset + bytes;
	length = (size_t)(end - begin);
	if (entry->data)
		memcpy(data + (begin - offset), entry->data + (begin - entry->first_sector * CACHE_SECTOR),
		       length);
	else
		memset(data + (begin - offset), 0, length);
}

int cache_read(const struct cache *cache, void *data, size_t bytes, uint64_t offset)
{
	uint64_t first = offset / CACHE_SECTOR;
	uint64_t end = (offset + bytes + CACHE_SECTOR - 1) / CACHE_SECTOR;

	if (bytes == 0)
		return 0;
	if (backing_read(cache->backing, data, bytes, offset) < 0)
		return -1;
	if (!cache->oldest)
		return 0;
	for (uint64_t block = first / BLOCK_SECTORS; block * BLOCK_SECTORS < end; block++) {
		uint8_t wanted = sectors_in(block, first, end);

		for (const struct piece *piece = newest_piece(cache, block); piece && wanted;
		     piece = piece->older) {
			uint8_t found = piece->block == block ? piece->sectors & wanted : 0;

			wanted &= (uint8_t)~found;
			for (; found; found &= (uint8_t)(found - 1))
				copy_sector(piece->entry,
					    block * BLOCK_SECTORS + (unsigned)__builtin_ctz(found), data,
					    bytes, offset);
		}
	}
	return 0;
}

/* Older versions of sectors [first, end) will not be written any more. */
static void supersede(struct cache *cache, uint64_t first, uint64_t end, uint64_t ticket)
{
	for (uint64_t block = first / BLOCK_SECTORS; block * BLOCK_SECTORS < end; block++) {
		uint8_t covered = sectors_in(block, first, end);

		for (struct piece *piece = find_bucket(cache, block)->newest; piece; piece = piece->older) {
			uint8_t gone = piece->sectors & covered;

			if (piece->block != block || piece->entry->ticket >= ticket)
				continue;
			piece->sectors &= (uint8_t)~gone;
			cache->dirty_sectors -= (unsigned)__builtin_popcount(gone);
		}
	}
}

static void insert(struct cache *cache, struct entry *entry)
{
	uint64_t block = entry->first_sector / BLOCK_SECTORS;

	for (size_t n = 0; n < entry->piece_count; n++, block++) {
		struct piece *piece = &entry->pieces[n];
		struct bucket *bucket = find_bucket(cache, block);

		piece->entry = entry;
		piece->block = block;
		piece->sectors = sectors_in(block, entry->first_sector, entry->end_sector);
		piece->newer = NULL;
		piece->older = bucket->newest;
		if (bucket->newest)
			bucket->newest->newer = piece;
		bucket->newest = piece;
		cache->dirty_sectors += (unsigned)__builtin_popcount(piece->sectors);
	}
	entry->newer = NULL;
	entry->older = cache->newest;
	if (cache->newest)
		cache->newest->newer = entry;
	else
		cache->oldest = entry;
	cache->newest = entry;
}

/* A sector is written whole: what the write leaves of its first and last one is
 * taken from what is there. */
static int fill_data(const struct cache *cache, char *to, uint64_t first, uint64_t end,
		     const void *data, uint64_t bytes, uint64_t offset)
{
	uint64_t last = end - 1, head = offset - first * CACHE_SECTOR;

	if (head && cache_read(cache, to, CACHE_SECTOR, first * CACHE_SECTOR) < 0)
		return -1;
	if ((offset + bytes) % CACHE_SECTOR && !(head && last == first) &&
	    cache_read(cache, to + (last - first) * CACHE_SECTOR, CACHE_SECTOR, last * CACHE_SECTOR) < 0)
		return -1;
	if (data)
		memcpy(to + head, data, bytes);
	else
		memset(to + head, 0, bytes);
	return 0;
}

static struct entry *new_entry(uint64_t bytes, uint64_t offset, bool with_data)
{
	uint64_t first = offset / CACHE_SECTOR;
	uint64_t end = (offset + bytes + CACHE_SECTOR - 1) / CACHE_SECTOR;
	size_t piece_count = (size_t)((end - 1) / BLOCK_SECTORS - first / BLOCK_SECTORS + 1);
	size_t entry_size = sizeof(struct entry) + piece_count * sizeof(struct piece);
	struct entry *entry = malloc(entry_size + (with_data ? (size_t)(end - first) * CACHE_SECTOR : 0));

	if (!entry)
		return NULL;
	entry->first_sector = first;
	entry->end_sector = end;
	entry->piece_count = piece_count;
	entry->data = with_data ? (char *)entry + entry_size : NULL;
	return entry;
}

static bool is_sector_aligned(uint64_t bytes, uint64_t offset)
{
	return offset % CACHE_SECTOR == 0 && bytes % CACHE_SECTOR == 0;
}

struct entry *cache_prepare(const void *data, uint64_t bytes, uint64_t offset)
{
	struct entry *entry;

	if (!data || bytes == 0 || !is_sector_aligned(bytes, offset))
		return NULL;
	entry = new_entry(bytes, offset, true);
	if (entry)
		memcpy(entry->data, data, bytes);
	return entry;
}

void cache_forget(struct entry *entry)
{
	free(entry);
}

uint64_t cache_write_prepared(struct cache *cache, int64_t time_ns, struct entry *entry)
{
	entry->ticket = ++cache->ticket;
	entry->time_ns = time_ns;
	insert(cache, entry);
	return entry->ticket;
}

uint64_t cache_write(struct cache *cache, int64_t time_ns, const void *data, uint64_t bytes,
		     uint64_t offset)
{
	bool plain_zeroes = !data && is_sector_aligned(bytes, offset);
	struct entry *entry;

	if (bytes == 0)
		return ++cache->ticket;
	if (plain_zeroes && bytes > CACHE_ZERO_MAX && bytes > cache->capacity_bytes) {
		if (backing_zero(cache->backing, bytes, offset) < 0)
			return 0;
		supersede(cache, offset / CACHE_SECTOR, (offset + bytes) / CACHE_SECTOR, ++cache->ticket);
		return cache->ticket;
	}
	entry = new_entry(bytes, offset, !plain_zeroes);
	if (!entry)
		return 0;
	if (!plain_zeroes && fill_data(cache, entry->data, entry->first_sector, entry->end_sector, data,
				       bytes, offset) < 0) {
		free(entry);
		return 0;
	}
	return cache_write_prepared(cache, time_ns, entry);
}

static int write_sectors(const struct cache *cache, const struct entry *entry, uint64_t first,
			 uint64_t end)
{
	uint64_t bytes = (end - first) * CACHE_SECTOR, offset = first * CACHE_SECTOR;

	if (!entry->data)
		return backing_zero(cache->backing, bytes, offset);
	return backing_write(cache->backing, entry->data + (first - entry->first_sector) * CACHE_SECTOR,
			     bytes, offset);
}

/* Writes those sectors of an entry that are volatile, or in a cut those that are
 * to land, in as few runs as they form. */
static int write_entry(const struct cache *cache, const struct entry *entry, bool in_cut)
{
	uint64_t run_first = 0, run_end = 0; /* empty */

	for (size_t n = 0; n < entry->piece_count; n++) {
		const struct piece *piece = &entry->pieces[n];
		uint8_t sectors = in_cut ? piece->landed : piece->sectors;

		for (; sectors; sectors &= (uint8_t)(sectors - 1)) {
			uint64_t sector =
				piece->block * BLOCK_SECTORS + (unsigned)__builtin_ctz(sectors);

			if (sector != run_end) {
				if (run_end > run_first &&
				    write_sectors(cache, entry, run_first, run_end) < 0)
					return -1;
				run_first = sector;
			}
			run_end = sector + 1;
		}
	}
	return run_end > run_first ? write_sectors(cache, entry, run_first, run_end) : 0;
}

static int evict_oldest(struct cache *cache)
{
	if (write_entry(cache, cache->oldest, false) < 0)
		return -1;
	remove_entry(cache, cache->oldest);
	return 0;
}

int cache_flush(struct cache *cache, uint64_t ticket)
{
	while (cache->oldest && cache->oldest->ticket <= ticket)
		if (evict_oldest(cache) < 0)
			return -1;
	return 0;
}

int cache_evict(struct cache *cache, uint64_t most_bytes)
{
	while (cache_dirty_bytes(cache) > most_bytes)
		if (evict_oldest(cache) < 0)
			return -1;
	return 0;
}

int cache_destage(struct cache *cache, int64_t now_ns)
{
	while (cache->destage_ns && cache->oldest &&
	       now_ns - cache->oldest->time_ns >= cache->destage_ns)
		if (evict_oldest(cache) < 0)
			return -1;
	return cache_evict(cache, cache->capacity_bytes);
}

int cache_commit(struct cache *cache, uint64_t ticket)
{
	struct entry *entry = cache->newest;
	int result, failure;

	while (entry && entry->ticket > ticket)
		entry = entry->older;
	if (!entry || entry->ticket != ticket)
		return 0;
	result = write_entry(cache, entry, false);
	failure = errno;
	if (result == 0)
		supersede(cache, entry->first_sector, entry->end_sector, ticket);
	remove_entry(cache, entry);
	errno = failure;
	return result;
}

/* What of an entry's piece lands: nothing, or all, or each sector by a coin. */
static void decide(struct entry *entry, enum cache_loss loss, uint64_t *random)
{
	bool whole = loss == CACHE_LOSE_NONE ||
		     (loss == CACHE_LOSE_RANDOM && next_random(random) & 1);

	for (size_t n = 0; n < entry->piece_count; n++) {
		struct piece *piece = &entry->pieces[n];

		piece->landed = whole ? piece->sectors : 0;
		if (loss == CACHE_LOSE_TORN)
			piece->landed = piece->sectors & (uint8_t)next_random(random);
	}
}

/* The entries in the order in which they land, those that do not last. */
static struct entry **order_of_landing(const struct cache *cache, size_t count, enum cache_loss loss,
				       uint64_t *random)
{
	struct entry **order = malloc(count * sizeof *order);
	size_t landing, n = 0;

	if (!order)
		return NULL;
	for (struct entry *entry = cache->oldest; entry; entry = entry->newer)
		order[n++] = entry;
	if (loss == CACHE_LOSE_REORDERED) {
		for (n = count; n > 1; n--) {
			size_t other = next_random(random) % n;
			struct entry *swapped = order[n - 1];

			order[n - 1] = order[other];
			order[other] = swapped;
		}
		/* Of several, some land and some are lost. */
		landing = count > 1 ? 1 + next_random(random) % (count - 1) : next_random(random) & 1;
		for (n = 0; n < count; n++)
			decide(order[n], n < landing ? CACHE_LOSE_NONE : CACHE_LOSE_ALL, random);
	} else {
		for (n = 0; n < count; n++)
			decide(order[n], loss, random);
	}
	for (n = 0; n < count; n++)
		order[n]->rank = n;
	return order;
}

/* The sectors of a piece that hold the newest version, where the drive will hold
 * another. */
static unsigned lost_newest(const struct piece *piece)
{
	uint8_t newest = piece->sectors, overwritten = 0;

	for (const struct piece *other = piece->newer; other; other = other->newer)
		if (other->block == piece->block)
			newest &= (uint8_t)~other->sectors;
	for (const struct piece *other = piece->older; other; other = other->older)
		if (other->block == piece->block && other->entry->rank > piece->entry->rank)
			overwritten |= other->landed;
	return (unsigned)__builtin_popcount(newest & (uint8_t)(~piece->landed | overwritten));
}

int cache_cut(struct cache *cache, uint64_t seed, enum cache_loss loss, struct cache_cut *cut)
{
	struct entry **order;
	size_t count = 0;
	int failure = 0;

	*cut = (struct cache_cut){ .dirty_bytes = cache_dirty_bytes(cache) };
	for (const struct entry *entry = cache->oldest; entry; entry = entry->newer)
		count++;
	if (count == 0)
		return 0;
	order = order_of_landing(cache, count, loss, &seed);
	if (!order)
		return -1;
	for (size_t n = 0; n < count; n++) {
		for (size_t p = 0; p < order[n]->piece_count; p++) {
			const struct piece *piece = &order[n]->pieces[p];
			uint8_t lost = piece->sectors & (uint8_t)~piece->landed;

			cut->lost_bytes += (uint64_t)__builtin_popcount(lost) * CACHE_SECTOR;
			cut->lost_sectors += lost_newest(piece);
		}
	}
	for (size_t n = 0; n < count; n++)
		if (write_entry(cache, order[n], true) < 0)
			failure = errno;
	free(order);
	while (cache->oldest)
		remove_entry(cache, cache->oldest);
	errno = failure;
	return failure ? -1 : 0;
}
