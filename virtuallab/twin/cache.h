/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The data of a virtual drive's volatile write cache: writes that lie in memory
 * over the backing file until they are made durable, or are lost in a power cut.
 * No clock, no thread: the caller gives the times, and holds a lock around all
 * calls (several cache_read may run at once).
 *
 * Every write is kept as it came, also where a newer one lies over it: after a
 * cut, a sector of CACHE_SECTOR bytes may hold any version from the last durable
 * one to the newest. A write that is not acknowledged yet is kept like the others.
 */
#ifndef JOULERIG_CACHE_H
#define JOULERIG_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CACHE_SECTOR 512

/* Which of the volatile writes a cut loses. */
enum cache_loss {
	CACHE_LOSE_NONE,
	CACHE_LOSE_ALL,
	CACHE_LOSE_RANDOM,    /* each write by a coin; the others land in their order */
	CACHE_LOSE_TORN,      /* each sector of each write by a coin */
	CACHE_LOSE_REORDERED, /* some land, in an order that is not theirs: also an older over a newer */
	CACHE_LOSSES
};

struct cache_cut {
	uint64_t dirty_bytes;  /* of writes that were volatile, every version counted */
	uint64_t lost_bytes;   /* of those that did not land */
	uint64_t lost_sectors; /* of the drive, that do not hold their newest version */
};

struct cache;
struct entry;

/* Its name in the request `power off`; NULL for an invalid one. */
const char *cache_loss_name(enum cache_loss loss);
/* False where no loss is called that. */
bool cache_loss_named(const char *name, enum cache_loss *loss);

/* A cache over the file `backing`, which is a whole number of sectors long and
 * stays the caller's. Of more than capacity_bytes the oldest are made durable;
 * of any older than destage_ns too (0: of no age). NULL when memory is short. */
struct cache *cache_new(int backing, uint64_t capacity_bytes, int64_t destage_ns);
/* Forgets what is volatile. */
void cache_free(struct cache *cache);

uint64_t cache_capacity_bytes(const struct cache *cache);
uint64_t cache_dirty_bytes(const struct cache *cache);

/* What a reader sees: the newest version of each byte. 0, or -1 with errno. */
int cache_read(const struct cache *cache, void *data, size_t bytes, uint64_t offset);

/* A write that came at time_ns, of zeroes where data is NULL. Gives its ticket,
 * which grows from write to write; 0 on failure, with errno. Zeroes of more than
 * the capacity (but at least CACHE_ZERO_MAX) bytes are durable at once. */
#define CACHE_ZERO_MAX (1 << 20)
uint64_t cache_write(struct cache *cache, int64_t time_ns, const void *data, uint64_t bytes,
		     uint64_t offset);
/* The same in two steps, the first of which needs no lock: a write of whole sectors
 * with its own copy of the data. NULL where it is none of these or memory is short:
 * then cache_write is the way. */
struct entry *cache_prepare(const void *data, uint64_t bytes, uint64_t offset);
uint64_t cache_write_prepared(struct cache *cache, int64_t time_ns, struct entry *entry);
void cache_forget(struct entry *entry);
/* The newest ticket given. */
uint64_t cache_newest(const struct cache *cache);

/* Make durable: the one write of a ticket, with what it covers of older ones, and
 * nothing else; all up to a ticket; the oldest until at most most_bytes are
 * volatile; those that are too old or too many at now_ns. 0, or -1 with errno;
 * then what could not be written stays volatile, but for cache_commit, whose
 * write is given up: it may have landed in part. */
int cache_commit(struct cache *cache, uint64_t ticket);
int cache_flush(struct cache *cache, uint64_t ticket);
int cache_evict(struct cache *cache, uint64_t most_bytes);
int cache_destage(struct cache *cache, int64_t now_ns);

/* The power is cut: what is volatile lands or is lost, as `loss` and the seed
 * decide; the same writes and seed give the same. The cache is empty then. -1
 * with errno where the file could not take all that was to land. */
int cache_cut(struct cache *cache, uint64_t seed, enum cache_loss loss, struct cache_cut *cut);

#endif
