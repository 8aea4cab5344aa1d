/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The flash translation layer: which flash page holds each logical page of
 * 4 KiB, and the garbage collection that keeps blocks free to write to. Pure.
 *
 * One write frontier takes the host's pages and those that are moved. When it
 * is full, the next free block becomes it; when none is free then, the block
 * with the fewest valid pages (greedy) is moved to the frontier and erased; of several
 * the one that came to have so few last. With moved_apart a second frontier takes the pages
 * that are moved, and goes on in the next free block when it is full; then blocks
 * are collected one after the other until two are free.
 * Under uniform random writes of U logical pages on T flash pages, the greedy
 * policy's write amplification comes to 1 / (1 - x) with x = exp(-T/U (1 - x)) as
 * blocks get large (P. Desnoyers, ACM TOS 10(2), 2014; B. Van Houdt, SIGMETRICS 2013).
 *
 * Blocks are 256 pages, fewer on a small drive, so that it has at least a
 * thousand and its spare space is still many of them: halved from 256 on down to at
 * least 16; where block_pages is given, halved from that until the drive has 256. Of blocks
 * there are as many as hold the logical pages and the spare space, rounded up, and two for each
 * frontier: it and one to move pages to. Memory: about 8.6 bytes a logical page,
 * 0.2 % of the drive.
 *
 * On a drive that was filled in order and is then written at random, each page once, a block
 * of the fill has w/U of its pages invalid after w writes. With blocks so large that they hardly
 * differ, A is U/w from the w0 at which the spare blocks are used up until all of the
 * fill's blocks are collected; of these A dw is collected meanwhile, so that is at e w0.
 */
#ifndef JOULERIG_FTL_H
#define JOULERIG_FTL_H

#include <stdbool.h>
#include <stdint.h>

#define FTL_PAGE_BYTES 4096

struct ftl;

/* What writing has caused. */
struct ftl_cost {
	uint64_t moved_pages;
	uint64_t erased_blocks;
};

struct ftl_wear {
	uint64_t host_pages;  /* written by the host */
	uint64_t flash_pages; /* programmed: the host's and those that were moved */
	uint64_t valid_pages; /* that hold data now */
	uint32_t erases_max;  /* of one block */
	double erases_mean;
};

/* A drive of logical_pages that has held nothing. Its flash is larger by the
 * fraction overprovisioning. block_pages: of a block, a power of two; 0: by the drive's
 * size. moved_apart: moved pages have a frontier of their own. NULL when memory is short. */
struct ftl *ftl_new(uint64_t logical_pages, double overprovisioning, uint32_t block_pages,
		    bool moved_apart);
void ftl_free(struct ftl *ftl);

/* Pages beyond the drive's end are ignored. The cost is added to *cost. */
void ftl_write(struct ftl *ftl, uint64_t first_page, uint64_t count, struct ftl_cost *cost);
void ftl_trim(struct ftl *ftl, uint64_t first_page, uint64_t count);

/* What is mapped stays; the counts restart at 0. */
void ftl_forget_wear(struct ftl *ftl);

unsigned ftl_block_pages(const struct ftl *ftl);
/* Flash pages that take part in garbage collection: all but the frontier's. */
uint64_t ftl_flash_pages(const struct ftl *ftl);
void ftl_wear(const struct ftl *ftl, struct ftl_wear *wear);

#endif
