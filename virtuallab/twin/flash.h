/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The time that an SSD takes. Pure: the caller gives arrival times (nanoseconds
 * of one monotonic clock, never falling) and holds one lock around all calls.
 *
 * Parts, each a server that takes one thing after the other: the host link (a
 * rate for reads and one for writes), and `channels` flash units that work side
 * by side. A page of page_bytes is read in page_read_ns and programmed in
 * program_ns by the unit that is free first; reads go before programs, which
 * they hold up on their unit.
 *   read    read_command_ns, the pages it touches, the link. The first part of a page is
 *           there after short_read_ns (not given: page_read_ns), and a read of less than
 *           half a page needs only that. Each further page of an operation begins
 *           next_page_ns later. The link takes what is there from the first part on,
 *           and the last page, or all of a shorter read, after its end.
 *   write   the link, room in the write cache, write_command_ns; programmed
 *           behind the acknowledgement, a full page at a time. A full cache takes
 *           more at the programs' pace.
 *   flush   with power-loss protection flush_ns; else until all is programmed,
 *           and flush_ns. Where nothing is to be made durable, write_command_ns.
 *   FUA     as a write and, without protection, until it is programmed
 * Without a write cache a write ends when it is programmed.
 *
 * Programs go to single-level cells (slc_program_ns) while these have room,
 * then at program_ns. Room is slc_fraction of the drive's bytes, and a program goes
 * there if all of it fits. After fold_delay_ns without an operation or a program,
 * single-level cells are folded (read, programmed at program_ns, on all units at once)
 * until they are empty: in pieces of 10 ms, at least a page each, at once after each
 * other. An operation in between ends it with the piece that goes on.
 *
 * What a write fills a page with counts in pages of FTL_PAGE_BYTES that it touches.
 * A page that is not full stays in the cache until a flush, a FUA or more writes.
 *
 * The mapping (ftl.h) says what each write makes garbage collection move: each
 * moved page is read and programmed, each erased block takes erase_ns of a unit,
 * all of it in the programs' way (pages that are moved are programmed as whole pages of
 * page_bytes, the rest with the next): sustained random writes on a full drive come to
 *   channels * page_bytes / (A program + (A - 1) page_read + A erase / pages of a block)
 * with A the write amplification.
 */
#ifndef JOULERIG_FLASH_H
#define JOULERIG_FLASH_H

#include "ftl.h"
#include "work.h"

#include <stdbool.h>
#include <stdint.h>

#define FLASH_MAX_CHANNELS 128

struct flash_config {
	uint64_t bytes; /* of the drive */
	int64_t channels;
	int64_t page_bytes; /* a multiple of FTL_PAGE_BYTES */
	int64_t read_command_ns;
	int64_t write_command_ns;
	int64_t flush_ns;
	int64_t page_read_ns;
	int64_t short_read_ns; /* 0: page_read_ns */
	int64_t next_page_ns;
	int64_t program_ns;
	int64_t slc_program_ns;
	int64_t erase_ns;
	int64_t fold_delay_ns;
	double read_bytes_per_second;
	double write_bytes_per_second;
	int64_t block_pages; /* of FTL_PAGE_BYTES, in what is erased at once; 0: by the drive's size */
	int64_t moved_apart; /* 1: garbage collection moves pages to blocks of their own */
	double overprovisioning; /* flash above the drive's bytes, as a fraction of them */
	double slc_fraction;	 /* of the drive's bytes that fits into single-level cells */
	int64_t write_cache_bytes; /* 0: none; else at least four pages */
	bool plp;
};

struct flash;

/* NULL when memory is short. Work goes to `work`, which must live as long. */
struct flash *flash_new(const struct flash_config *config, struct work_queue *work);
void flash_free(struct flash *flash);

/* Each returns the time at which the operation is complete. */
int64_t flash_read(struct flash *flash, int64_t arrival_ns, uint64_t offset, uint64_t bytes);
int64_t flash_write(struct flash *flash, int64_t arrival_ns, uint64_t offset, uint64_t bytes, bool fua);
int64_t flash_flush(struct flash *flash, int64_t arrival_ns);
int64_t flash_discard(struct flash *flash, int64_t arrival_ns, uint64_t offset, uint64_t bytes);

/* From now on the link goes at this fraction of its rates: above 0, 1 at first. */
void flash_set_rate(struct flash *flash, double rate);

/* Puts data there, as if long ago: no time, no wear. */
void flash_fill(struct flash *flash, uint64_t offset, uint64_t bytes);

/* The power is gone: what waits and what goes on is no more. */
void flash_reset(struct flash *flash, int64_t time_ns);

/* Does what is to be done in the background by time_ns, in short pieces. */
void flash_advance(struct flash *flash, int64_t time_ns);
/* When flash_advance is due next; INT64_MAX: no background work. */
int64_t flash_next_ns(const struct flash *flash);
/* When the last of what is under way is over. */
int64_t flash_busy_until_ns(const struct flash *flash);

struct flash_wear {
	uint64_t capacity_bytes; /* of the flash, spare included */
	uint64_t flash_bytes; /* programmed, folding included */
	uint64_t slc_bytes;   /* in single-level cells now */
	uint64_t dirty_bytes; /* accepted, and not programmed by then */
	struct ftl_wear ftl;
};
void flash_wear(struct flash *flash, int64_t time_ns, struct flash_wear *wear);

#endif
