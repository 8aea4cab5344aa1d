/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "flash.h"

#include <stdlib.h>

#define FOLD_SLICE_NS 10000000

/* Accepted data that leave the cache when they are programmed. */
struct program {
	int64_t done_ns;
	uint64_t bytes;
};

struct flash {
	struct flash_config config;
	struct work_queue *work;
	struct ftl *ftl;
	double rate;
	int64_t read_link_free_ns;
	int64_t write_link_free_ns;
	int64_t read_free_ns[FLASH_MAX_CHANNELS];
	int64_t program_free_ns[FLASH_MAX_CHANNELS];

	struct program *programs; /* a ring, in order of their ends */
	unsigned program_capacity, program_first, program_count;
	int64_t programmed_ns; /* end of the last */
	uint64_t cached_bytes; /* of the ring, and those that do not fill a page yet */
	uint64_t partial_bytes;
	uint64_t gc_pages; /* moved, and not yet a whole flash page */

	uint64_t slc_capacity;
	uint64_t slc_bytes;
	uint64_t folded_bytes;
	int64_t active_ns; /* the last operation's arrival */
	int64_t folded_until_ns;
};

static int64_t later(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

struct flash *flash_new(const struct flash_config *config, struct work_queue *work)
{
	struct flash *flash = calloc(1, sizeof *flash);

	if (!flash)
		return NULL;
	flash->config = *config;
	flash->work = work;
	flash->rate = 1;
	flash->slc_capacity = (uint64_t)(config->slc_fraction * (double)config->bytes);
	flash->program_capacity = (unsigned)(config->write_cache_bytes / config->page_bytes) + 16;
	flash->programs = calloc(flash->program_capacity, sizeof *flash->programs);
	flash->ftl = ftl_new(config->bytes / FTL_PAGE_BYTES, config->overprovisioning,
			     (uint32_t)config->block_pages, config->moved_apart != 0);
	if (!flash->programs || !flash->ftl) {
		flash_free(flash);
		return NULL;
	}
	return flash;
}

void flash_free(struct flash *flash)
{
	if (!flash)
		return;
	ftl_free(flash->ftl);
	free(flash->programs);
	free(flash);
}

void flash_set_rate(struct flash *flash, double rate)
{
	flash->rate = rate;
}

static unsigned free_first(const int64_t *free_ns, int64_t channels)
{
	unsigned best = 0;

	for (unsigned n = 1; n < channels; n++) {
		if (free_ns[n] < free_ns[best])
			best = n;
	}
	return best;
}

static int64_t transfer_ns(double bytes, double bytes_per_second)
{
	return (int64_t)(bytes * 1e9 / bytes_per_second);
}

/* End of reading one page, or as much of it as takes duration_ns, that may begin at time_ns. */
static int64_t read_page(struct flash *flash, int64_t time_ns, int64_t duration_ns)
{
	unsigned unit = free_first(flash->read_free_ns, flash->config.channels);
	int64_t start_ns = later(time_ns, flash->read_free_ns[unit]);

	flash->read_free_ns[unit] = start_ns + duration_ns;
	if (flash->program_free_ns[unit] > start_ns)
		flash->program_free_ns[unit] += duration_ns;
	return flash->read_free_ns[unit];
}

int64_t flash_read(struct flash *flash, int64_t arrival_ns, uint64_t offset, uint64_t bytes)
{
	const struct flash_config *config = &flash->config;
	uint64_t page_bytes = (uint64_t)config->page_bytes;
	uint64_t pages = bytes ? (offset + bytes - 1) / page_bytes - offset / page_bytes + 1 : 0;
	uint64_t tail_bytes = bytes < page_bytes ? bytes : page_bytes;
	int64_t begin_ns = arrival_ns + config->read_command_ns;
	int64_t short_ns = config->short_read_ns ? config->short_read_ns : config->page_read_ns;
	int64_t page_ns = bytes < page_bytes / 2 ? short_ns : config->page_read_ns;
	int64_t first_ns = begin_ns, last_ns = begin_ns;
	int64_t link_ns;

	flash->active_ns = later(flash->active_ns, arrival_ns);
	for (uint64_t n = 0; n < pages; n++) {
		last_ns = later(last_ns, read_page(flash, begin_ns + (int64_t)n * config->next_page_ns,
						   page_ns));
		if (n == 0)
			first_ns = last_ns - page_ns + short_ns;
	}
	link_ns = later(first_ns, flash->read_link_free_ns) +
		  transfer_ns((double)bytes, config->read_bytes_per_second * flash->rate);
	link_ns = later(link_ns,
			last_ns + transfer_ns((double)tail_bytes, config->read_bytes_per_second * flash->rate));
	flash->read_link_free_ns = link_ns;
	return link_ns;
}

static int64_t occupy(struct flash *flash, int64_t time_ns, int64_t duration_ns, int64_t *start_ns)
{
	unsigned unit = free_first(flash->program_free_ns, flash->config.channels);

	*start_ns = later(time_ns, flash->program_free_ns[unit]);
	flash->program_free_ns[unit] = *start_ns + duration_ns;
	return flash->program_free_ns[unit];
}

static void collect_garbage(struct flash *flash, int64_t time_ns, const struct ftl_cost *cost)
{
	const struct flash_config *config = &flash->config;
	uint64_t pages_per_program = (uint64_t)config->page_bytes / FTL_PAGE_BYTES;
	struct work work = { .cause = WORK_GC, .start_ns = INT64_MAX };
	int64_t end_ns = 0, start_ns;

	if (cost->erased_blocks == 0)
		return;
	work.bytes = cost->moved_pages * FTL_PAGE_BYTES;
	flash->gc_pages += cost->moved_pages;
	for (; flash->gc_pages >= pages_per_program; flash->gc_pages -= pages_per_program) {
		end_ns = later(end_ns, occupy(flash, time_ns, config->page_read_ns + config->program_ns,
					      &start_ns));
		work.start_ns = start_ns < work.start_ns ? start_ns : work.start_ns;
	}
	for (uint64_t n = 0; n < cost->erased_blocks; n++) {
		end_ns = later(end_ns, occupy(flash, time_ns, config->erase_ns, &start_ns));
		work.start_ns = start_ns < work.start_ns ? start_ns : work.start_ns;
	}
	work.duration_ns = end_ns - work.start_ns;
	work_put(flash->work, &work);
}

static void forget_programmed(struct flash *flash, int64_t time_ns)
{
	while (flash->program_count && flash->programs[flash->program_first].done_ns <= time_ns) {
		flash->cached_bytes -= flash->programs[flash->program_first].bytes;
		flash->program_first = (flash->program_first + 1) % flash->program_capacity;
		flash->program_count--;
	}
}

/* Programs what is in the cache and not yet on its way, as one page. */
static void program_page(struct flash *flash, int64_t time_ns)
{
	const struct flash_config *config = &flash->config;
	bool slc = flash->slc_bytes + flash->partial_bytes <= flash->slc_capacity;
	int64_t start_ns;
	int64_t done_ns = occupy(flash, time_ns, slc ? config->slc_program_ns : config->program_ns,
				 &start_ns);

	if (slc)
		flash->slc_bytes += flash->partial_bytes;
	flash->programmed_ns = later(flash->programmed_ns, done_ns);
	if (flash->program_count == flash->program_capacity)
		forget_programmed(flash, flash->programs[flash->program_first].done_ns);
	flash->programs[(flash->program_first + flash->program_count++) % flash->program_capacity] =
		(struct program){ .done_ns = flash->programmed_ns, .bytes = flash->partial_bytes };
	flash->partial_bytes = 0;
}

/* When `bytes` more fit into the cache, from time_ns on. */
static int64_t await_room(struct flash *flash, int64_t time_ns, uint64_t bytes)
{
	uint64_t capacity = (uint64_t)flash->config.write_cache_bytes;

	forget_programmed(flash, time_ns);
	while (flash->program_count && flash->cached_bytes + bytes > capacity) {
		time_ns = flash->programs[flash->program_first].done_ns;
		forget_programmed(flash, time_ns);
	}
	return time_ns;
}

int64_t flash_write(struct flash *flash, int64_t arrival_ns, uint64_t offset, uint64_t bytes, bool fua)
{
	const struct flash_config *config = &flash->config;
	uint64_t page = offset / FTL_PAGE_BYTES;
	uint64_t end_page = bytes ? (offset + bytes - 1) / FTL_PAGE_BYTES + 1 : page;
	double bytes_per_page = (double)bytes / (double)(end_page - page + (bytes == 0));
	bool cached = config->write_cache_bytes > 0;
	int64_t accepted_ns = later(arrival_ns, flash->write_link_free_ns);

	flash->active_ns = later(flash->active_ns, arrival_ns);
	while (page < end_page) {
		uint64_t room = ((uint64_t)config->page_bytes - flash->partial_bytes) / FTL_PAGE_BYTES;
		uint64_t count = end_page - page < room ? end_page - page : room;
		struct ftl_cost cost = { 0, 0 };

		accepted_ns += transfer_ns((double)count * bytes_per_page, config->write_bytes_per_second * flash->rate);
		if (cached)
			accepted_ns = await_room(flash, accepted_ns, count * FTL_PAGE_BYTES);
		flash->partial_bytes += count * FTL_PAGE_BYTES;
		flash->cached_bytes += count * FTL_PAGE_BYTES;
		ftl_write(flash->ftl, page, count, &cost);
		collect_garbage(flash, accepted_ns, &cost);
		if (flash->partial_bytes == (uint64_t)config->page_bytes)
			program_page(flash, accepted_ns);
		page += count;
	}
	flash->write_link_free_ns = accepted_ns;
	if (cached && (!fua || config->plp))
		return accepted_ns + config->write_command_ns;
	if (flash->partial_bytes)
		program_page(flash, accepted_ns);
	return later(accepted_ns, flash->programmed_ns) + config->write_command_ns;
}

int64_t flash_flush(struct flash *flash, int64_t arrival_ns)
{
	const struct flash_config *config = &flash->config;

	flash->active_ns = later(flash->active_ns, arrival_ns);
	forget_programmed(flash, arrival_ns);
	if (flash->cached_bytes == 0)
		return arrival_ns + config->write_command_ns;
	if (config->plp)
		return arrival_ns + config->flush_ns;
	if (flash->partial_bytes)
		program_page(flash, arrival_ns);
	return later(arrival_ns, flash->programmed_ns) + config->flush_ns;
}

/* Only whole pages are unmapped, as in a drive. */
int64_t flash_discard(struct flash *flash, int64_t arrival_ns, uint64_t offset, uint64_t bytes)
{
	uint64_t first = (offset + FTL_PAGE_BYTES - 1) / FTL_PAGE_BYTES;
	uint64_t end = (offset + bytes) / FTL_PAGE_BYTES;

	flash->active_ns = later(flash->active_ns, arrival_ns);
	if (end > first)
		ftl_trim(flash->ftl, first, end - first);
	return arrival_ns + flash->config.write_command_ns;
}

void flash_fill(struct flash *flash, uint64_t offset, uint64_t bytes)
{
	uint64_t first_page = offset / FTL_PAGE_BYTES;
	struct ftl_cost cost = { 0, 0 };

	if (bytes)
		ftl_write(flash->ftl, first_page, (offset + bytes - 1) / FTL_PAGE_BYTES - first_page + 1,
			  &cost);
	ftl_forget_wear(flash->ftl);
}

void flash_reset(struct flash *flash, int64_t time_ns)
{
	for (unsigned unit = 0; unit < FLASH_MAX_CHANNELS; unit++)
		flash->read_free_ns[unit] = flash->program_free_ns[unit] = time_ns;
	flash->read_link_free_ns = flash->write_link_free_ns = flash->programmed_ns = time_ns;
	flash->program_count = 0;
	flash->cached_bytes = flash->partial_bytes = 0;
	flash->active_ns = flash->folded_until_ns = time_ns;
}

int64_t flash_busy_until_ns(const struct flash *flash)
{
	return later(later(flash->programmed_ns, flash->folded_until_ns),
		     later(flash->read_link_free_ns, flash->write_link_free_ns));
}

int64_t flash_next_ns(const struct flash *flash)
{
	int64_t idle_ns = later(flash->active_ns, flash->programmed_ns) + flash->config.fold_delay_ns;

	return flash->slc_bytes ? later(flash->folded_until_ns, idle_ns) : INT64_MAX;
}

void flash_advance(struct flash *flash, int64_t time_ns)
{
	const struct flash_config *config = &flash->config;
	uint64_t slice_pages = (uint64_t)(FOLD_SLICE_NS * config->channels /
					  (config->page_read_ns + config->program_ns));

	if (slice_pages == 0)
		slice_pages = 1;
	while (flash_next_ns(flash) <= time_ns) {
		uint64_t pages = (flash->slc_bytes + (uint64_t)config->page_bytes - 1) /
				 (uint64_t)config->page_bytes;
		struct work work = { .cause = WORK_FOLD, .start_ns = flash_next_ns(flash) };

		if (pages > slice_pages)
			pages = slice_pages;
		work.bytes = pages * (uint64_t)config->page_bytes;
		if (work.bytes > flash->slc_bytes)
			work.bytes = flash->slc_bytes;
		work.duration_ns = (int64_t)pages * (config->page_read_ns + config->program_ns) /
				   config->channels;
		flash->slc_bytes -= work.bytes;
		flash->folded_bytes += work.bytes;
		flash->folded_until_ns = work.start_ns + work.duration_ns;
		for (unsigned unit = 0; unit < config->channels; unit++)
			flash->program_free_ns[unit] =
				later(flash->program_free_ns[unit], flash->folded_until_ns);
		work_put(flash->work, &work);
	}
}

void flash_wear(struct flash *flash, int64_t time_ns, struct flash_wear *wear)
{
	forget_programmed(flash, time_ns);
	ftl_wear(flash->ftl, &wear->ftl);
	wear->flash_bytes = wear->ftl.flash_pages * FTL_PAGE_BYTES + flash->folded_bytes;
	wear->capacity_bytes = ftl_flash_pages(flash->ftl) * FTL_PAGE_BYTES;
	wear->slc_bytes = flash->slc_bytes;
	wear->dirty_bytes = flash->cached_bytes;
}
