/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "ftl.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX
#define MOST_BLOCK_PAGES 256
#define LEAST_BLOCK_PAGES 16
#define LEAST_BLOCKS 1024
#define LEAST_BLOCKS_OF_GIVEN_SIZE 256
/* Where the host's pages go, and those that are moved. */
enum frontier { HOST, MOVED };

struct block {
	uint32_t valid;
	uint32_t erases;
	/* In the list of closed blocks with as many valid pages, or of free ones. */
	uint32_t previous, next;
	bool closed;
};

struct ftl {
	uint64_t logical_pages;
	uint32_t block_pages;
	uint32_t block_count;
	uint32_t frontiers; /* 2 where moved pages have their own, else 1 */
	uint32_t *flash_of;   /* by logical page */
	uint32_t *logical_of; /* by flash page */
	struct block *blocks;
	uint32_t *by_valid; /* first closed block with that many valid pages */
	uint32_t least_valid; /* no closed block has fewer */
	uint32_t free_first;
	uint32_t free_count;
	uint32_t frontier[2];
	uint32_t frontier_used[2];
	uint64_t host_pages;
	uint64_t flash_pages;
	uint64_t valid_pages;
	uint64_t erases;
	uint32_t erases_max;
};

struct ftl *ftl_new(uint64_t logical_pages, double overprovisioning, uint32_t block_pages,
		    bool moved_apart)
{
	struct ftl *ftl = calloc(1, sizeof *ftl);
	uint32_t least_blocks = block_pages ? LEAST_BLOCKS_OF_GIVEN_SIZE : LEAST_BLOCKS;
	uint64_t pages;

	if (!ftl)
		return NULL;
	ftl->logical_pages = logical_pages;
	ftl->frontiers = moved_apart ? 2 : 1;
	ftl->block_pages = block_pages ? block_pages : MOST_BLOCK_PAGES;
	while (ftl->block_pages > LEAST_BLOCK_PAGES && logical_pages / ftl->block_pages < least_blocks)
		ftl->block_pages /= 2;
	pages = (uint64_t)ceil((double)logical_pages * (1 + overprovisioning));
	ftl->block_count = (uint32_t)((pages + ftl->block_pages - 1) / ftl->block_pages) +
			   2 * ftl->frontiers;
	pages = (uint64_t)ftl->block_count * ftl->block_pages;

	ftl->flash_of = malloc(logical_pages * sizeof *ftl->flash_of);
	ftl->logical_of = malloc(pages * sizeof *ftl->logical_of);
	ftl->blocks = calloc(ftl->block_count, sizeof *ftl->blocks);
	ftl->by_valid = malloc((ftl->block_pages + 1) * sizeof *ftl->by_valid);
	if (!ftl->flash_of || !ftl->logical_of || !ftl->blocks || !ftl->by_valid) {
		ftl_free(ftl);
		return NULL;
	}
	memset(ftl->flash_of, 0xff, logical_pages * sizeof *ftl->flash_of);
	memset(ftl->logical_of, 0xff, pages * sizeof *ftl->logical_of);
	memset(ftl->by_valid, 0xff, (ftl->block_pages + 1) * sizeof *ftl->by_valid);
	for (uint32_t b = ftl->frontiers; b < ftl->block_count; b++)
		ftl->blocks[b].next = b + 1 < ftl->block_count ? b + 1 : NONE;
	ftl->frontier[MOVED] = ftl->frontiers - 1;
	ftl->free_first = ftl->frontiers;
	ftl->free_count = ftl->block_count - ftl->frontiers;
	return ftl;
}

void ftl_free(struct ftl *ftl)
{
	if (!ftl)
		return;
	free(ftl->flash_of);
	free(ftl->logical_of);
	free(ftl->blocks);
	free(ftl->by_valid);
	free(ftl);
}

static void list_closed(struct ftl *ftl, uint32_t number)
{
	struct block *block = &ftl->blocks[number];
	uint32_t *head = &ftl->by_valid[block->valid];

	block->closed = true;
	block->previous = NONE;
	block->next = *head;
	if (*head != NONE)
		ftl->blocks[*head].previous = number;
	*head = number;
	if (block->valid < ftl->least_valid)
		ftl->least_valid = block->valid;
}

static void unlist_closed(struct ftl *ftl, uint32_t number)
{
	struct block *block = &ftl->blocks[number];

	if (block->previous == NONE)
		ftl->by_valid[block->valid] = block->next;
	else
		ftl->blocks[block->previous].next = block->next;
	if (block->next != NONE)
		ftl->blocks[block->next].previous = block->previous;
	block->closed = false;
}

static void invalidate(struct ftl *ftl, uint64_t page)
{
	uint32_t flash_page = ftl->flash_of[page], number;

	if (flash_page == NONE)
		return;
	number = flash_page / ftl->block_pages;
	ftl->flash_of[page] = NONE;
	ftl->logical_of[flash_page] = NONE;
	ftl->valid_pages--;
	if (ftl->blocks[number].closed) {
		unlist_closed(ftl, number);
		ftl->blocks[number].valid--;
		list_closed(ftl, number);
	} else {
		ftl->blocks[number].valid--;
	}
}

static void next_block(struct ftl *ftl, enum frontier which)
{
	list_closed(ftl, ftl->frontier[which]);
	ftl->frontier[which] = ftl->free_first;
	ftl->free_first = ftl->blocks[ftl->frontier[which]].next;
	ftl->free_count--;
	ftl->frontier_used[which] = 0;
}

static void append(struct ftl *ftl, uint32_t page, enum frontier which)
{
	uint32_t flash_page = ftl->frontier[which] * ftl->block_pages + ftl->frontier_used[which]++;

	ftl->flash_of[page] = flash_page;
	ftl->logical_of[flash_page] = page;
	ftl->blocks[ftl->frontier[which]].valid++;
	ftl->valid_pages++;
	ftl->flash_pages++;
}

/* Frees the block with the fewest valid pages. Into the host's frontier, which is empty
 * then, these always fit: with spare space no block can be all valid while
 * every other one is too. One of their own goes on in the next free block, of which there is
 * one then. */
static void collect(struct ftl *ftl, struct ftl_cost *cost)
{
	enum frontier which = ftl->frontiers == 2 ? MOVED : HOST;
	uint32_t victim;
	struct block *block;

	while (ftl->by_valid[ftl->least_valid] == NONE)
		ftl->least_valid++;
	victim = ftl->by_valid[ftl->least_valid];
	block = &ftl->blocks[victim];
	unlist_closed(ftl, victim);
	for (uint32_t n = 0; n < ftl->block_pages && block->valid > 0; n++) {
		uint32_t page = ftl->logical_of[victim * ftl->block_pages + n];

		if (page == NONE)
			continue;
		invalidate(ftl, page);
		if (which == MOVED && ftl->frontier_used[which] == ftl->block_pages)
			next_block(ftl, which);
		append(ftl, page, which);
		cost->moved_pages++;
	}
	block->erases++;
	ftl->erases++;
	if (block->erases > ftl->erases_max)
		ftl->erases_max = block->erases;
	cost->erased_blocks++;
	block->next = ftl->free_first;
	ftl->free_first = victim;
	ftl->free_count++;
}

static void open_frontier(struct ftl *ftl, struct ftl_cost *cost)
{
	next_block(ftl, HOST);
	while (ftl->free_count < ftl->frontiers)
		collect(ftl, cost);
}

void ftl_write(struct ftl *ftl, uint64_t first_page, uint64_t count, struct ftl_cost *cost)
{
	for (uint64_t page = first_page; page < first_page + count && page < ftl->logical_pages; page++) {
		invalidate(ftl, page);
		if (ftl->frontier_used[HOST] == ftl->block_pages)
			open_frontier(ftl, cost);
		append(ftl, (uint32_t)page, HOST);
		ftl->host_pages++;
	}
}

void ftl_trim(struct ftl *ftl, uint64_t first_page, uint64_t count)
{
	for (uint64_t page = first_page; page < first_page + count && page < ftl->logical_pages; page++)
		invalidate(ftl, page);
}

void ftl_forget_wear(struct ftl *ftl)
{
	for (uint32_t b = 0; b < ftl->block_count; b++)
		ftl->blocks[b].erases = 0;
	ftl->host_pages = ftl->flash_pages = ftl->erases = ftl->erases_max = 0;
}

unsigned ftl_block_pages(const struct ftl *ftl)
{
	return ftl->block_pages;
}

uint64_t ftl_flash_pages(const struct ftl *ftl)
{
	return (uint64_t)(ftl->block_count - 2 * ftl->frontiers + 1) * ftl->block_pages;
}

void ftl_wear(const struct ftl *ftl, struct ftl_wear *wear)
{
	wear->host_pages = ftl->host_pages;
	wear->flash_pages = ftl->flash_pages;
	wear->valid_pages = ftl->valid_pages;
	wear->erases_max = ftl->erases_max;
	wear->erases_mean = (double)ftl->erases / ftl->block_count;
}
