/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "cache.h"
#include "backing.h"
#include "check.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SECTORS 96
#define VERSIONS 4096
#define MS 1000000LL

/* The reference: each sector's durable content and all volatile ones, oldest first. */
struct version {
	uint64_t ticket; /* 0: durable */
	unsigned char data[CACHE_SECTOR];
};

static struct {
	struct version versions[SECTORS][64];
	unsigned counts[SECTORS]; /* at least 1: the durable one */
} model;

static int backing;
static struct cache *cache;

static void begin(uint64_t capacity_bytes, int64_t destage_ns)
{
	backing = memfd_create("drive", MFD_CLOEXEC);
	CHECK(backing >= 0 && ftruncate(backing, SECTORS * CACHE_SECTOR) == 0);
	cache = cache_new(backing, capacity_bytes, destage_ns);
	memset(&model, 0, sizeof model);
	for (unsigned s = 0; s < SECTORS; s++)
		model.counts[s] = 1;
}

static void finish(void)
{
	cache_free(cache);
	close(backing);
}

static const unsigned char *newest_of(unsigned sector)
{
	return model.versions[sector][model.counts[sector] - 1].data;
}

/* The part of a write that lies in the sector at `at`, over what the sector held. */
static uint64_t overlay(struct version *version, const void *data, uint64_t at, uint64_t end,
			uint64_t offset)
{
	uint64_t sector_end = (at / CACHE_SECTOR + 1) * CACHE_SECTOR;

	if (sector_end < end)
		end = sector_end;
	if (data)
		memcpy(version->data + at % CACHE_SECTOR, (const char *)data + (at - offset), end - at);
	else
		memset(version->data + at % CACHE_SECTOR, 0, end - at);
	return end;
}

/* So that a version is known by its bytes. */
static bool makes_a_new_version_everywhere(const void *data, uint64_t bytes, uint64_t offset)
{
	for (uint64_t at = offset; at < offset + bytes;) {
		unsigned sector = (unsigned)(at / CACHE_SECTOR);
		struct version made = model.versions[sector][model.counts[sector] - 1];

		at = overlay(&made, data, at, offset + bytes, offset);
		for (unsigned v = 0; v < model.counts[sector]; v++)
			if (memcmp(made.data, model.versions[sector][v].data, CACHE_SECTOR) == 0)
				return false;
	}
	return true;
}

static uint64_t write_both(int64_t time_ns, const void *data, uint64_t bytes, uint64_t offset)
{
	/* Writes of whole sectors as the drive makes them, in two steps. */
	struct entry *entry = cache_prepare(data, bytes, offset);
	uint64_t ticket = entry ? cache_write_prepared(cache, time_ns, entry) :
				  cache_write(cache, time_ns, data, bytes, offset);

	for (uint64_t at = offset; at < offset + bytes;) {
		unsigned sector = (unsigned)(at / CACHE_SECTOR);
		struct version *version = &model.versions[sector][model.counts[sector]++];

		*version = version[-1];
		version->ticket = ticket;
		at = overlay(version, data, at, offset + bytes, offset);
	}
	return ticket;
}

/* All versions up to a ticket have become one durable. */
static void model_flush(uint64_t ticket)
{
	for (unsigned s = 0; s < SECTORS; s++) {
		unsigned keep = 0;

		while (keep + 1 < model.counts[s] && model.versions[s][keep + 1].ticket <= ticket)
			keep++;
		memmove(model.versions[s], model.versions[s] + keep,
			(model.counts[s] - keep) * sizeof(struct version));
		model.counts[s] -= keep;
		model.versions[s][0].ticket = 0;
	}
}

/* A write has become durable by itself, over all that were older. */
static void model_commit(uint64_t ticket)
{
	for (unsigned s = 0; s < SECTORS; s++) {
		for (unsigned v = 1; v < model.counts[s]; v++) {
			if (model.versions[s][v].ticket != ticket)
				continue;
			memmove(model.versions[s], model.versions[s] + v,
				(model.counts[s] - v) * sizeof(struct version));
			model.counts[s] -= v;
			model.versions[s][0].ticket = 0;
		}
	}
}

static uint64_t model_oldest_volatile(void)
{
	uint64_t oldest = UINT64_MAX;

	for (unsigned s = 0; s < SECTORS; s++)
		for (unsigned v = 1; v < model.counts[s]; v++)
			if (model.versions[s][v].ticket < oldest)
				oldest = model.versions[s][v].ticket;
	return oldest;
}

static uint64_t model_dirty_bytes(void)
{
	uint64_t bytes = 0;

	for (unsigned s = 0; s < SECTORS; s++)
		bytes += (model.counts[s] - 1) * (uint64_t)CACHE_SECTOR;
	return bytes;
}

static void readers_see_the_newest(void)
{
	static unsigned char all[SECTORS * CACHE_SECTOR];
	unsigned char part[3000];
	uint64_t offset = (uint64_t)(rand() % (SECTORS * CACHE_SECTOR - (int)sizeof part));

	CHECK(cache_read(cache, all, sizeof all, 0) == 0);
	for (unsigned s = 0; s < SECTORS; s++)
		CHECK(memcmp(all + s * CACHE_SECTOR, newest_of(s), CACHE_SECTOR) == 0);
	CHECK(cache_read(cache, part, sizeof part, offset) == 0);
	CHECK(memcmp(part, all + offset, sizeof part) == 0);
	CHECK(cache_dirty_bytes(cache) == model_dirty_bytes());
}

/* What the drive holds of each sector after a cut: the number of the version. */
static void versions_after_cut(unsigned held[SECTORS])
{
	unsigned char data[CACHE_SECTOR];

	for (unsigned s = 0; s < SECTORS; s++) {
		unsigned v = model.counts[s];

		CHECK(backing_read(backing, data, sizeof data, s * (uint64_t)CACHE_SECTOR) == 0);
		while (v > 0 && memcmp(data, model.versions[s][v - 1].data, sizeof data) != 0)
			v--;
		CHECK(v > 0); /* else it is none of its versions */
		held[s] = v ? v - 1 : 0;
	}
}

/* Each write is there or not, as a whole, and what is there is in order. */
static void whole_writes_in_order(const unsigned held[SECTORS])
{
	static signed char fate[VERSIONS]; /* by ticket: 1 landed, -1 lost */

	memset(fate, 0, sizeof fate);
	for (unsigned s = 0; s < SECTORS; s++) {
		for (unsigned v = held[s]; v < model.counts[s]; v++) {
			uint64_t ticket = model.versions[s][v].ticket;
			signed char found = v == held[s] ? 1 : -1;

			if (ticket == 0)
				continue;
			CHECK(fate[ticket] == 0 || fate[ticket] == found);
			fate[ticket] = found;
		}
	}
}

static void cut_and_check(uint64_t seed, enum cache_loss loss)
{
	struct cache_cut cut;
	unsigned held[SECTORS], lost = 0;
	uint64_t dirty = model_dirty_bytes();

	CHECK(cache_cut(cache, seed, loss, &cut) == 0);
	versions_after_cut(held);
	for (unsigned s = 0; s < SECTORS; s++) {
		lost += held[s] + 1 != model.counts[s];
		if (loss == CACHE_LOSE_NONE)
			CHECK(held[s] + 1 == model.counts[s]);
		if (loss == CACHE_LOSE_ALL)
			CHECK(held[s] == 0);
	}
	if (loss == CACHE_LOSE_RANDOM)
		whole_writes_in_order(held);
	CHECK(cut.dirty_bytes == dirty);
	CHECK(cut.lost_sectors == lost);
	CHECK(cut.lost_bytes <= dirty && (cut.lost_bytes > 0 || lost == 0 || loss == CACHE_LOSE_REORDERED));
	CHECK(cache_dirty_bytes(cache) == 0);
	for (unsigned s = 0; s < SECTORS; s++) {
		model.versions[s][0] = model.versions[s][held[s]];
		model.versions[s][0].ticket = 0;
		model.counts[s] = 1;
	}
	readers_see_the_newest();
}

static void random_write(int64_t time_ns)
{
	static unsigned char data[16 * CACHE_SECTOR];
	bool aligned = rand() % 4 != 0, zeroes;
	uint64_t bytes = aligned ? (uint64_t)(1 + rand() % 16) * CACHE_SECTOR :
				   (uint64_t)(1 + rand() % (int)sizeof data);
	uint64_t offset = (uint64_t)(rand() % (int)(SECTORS * CACHE_SECTOR - bytes + 1));

	if (aligned)
		offset -= offset % CACHE_SECTOR;
	for (uint64_t n = 0; n < bytes; n++)
		data[n] = (unsigned char)rand();
	zeroes = rand() % 12 == 0 && makes_a_new_version_everywhere(NULL, bytes, offset);
	if (zeroes || makes_a_new_version_everywhere(data, bytes, offset))
		write_both(time_ns, zeroes ? NULL : data, bytes, offset);
	if (rand() % 8 == 0) {
		uint64_t newest = cache_newest(cache), back = (uint64_t)(rand() % 5);
		uint64_t ticket = newest > back ? newest - back : newest;

		CHECK(cache_commit(cache, ticket) == 0);
		model_commit(ticket);
	}
}

static void agrees_with_the_reference_in_any_order_of_calls(void)
{
	for (unsigned seed = 1; seed <= 100; seed++) {
		int64_t now = 0;

		srand(seed);
		begin(64 * CACHE_SECTOR, 50 * MS);
		for (unsigned step = 0; step < 60; step++) {
			now += MS;
			if (cache_newest(cache) + 2 >= VERSIONS)
				break;
			switch (rand() % 16) {
			case 0: {
				uint64_t newest = cache_newest(cache), back = (uint64_t)(rand() % 3);
				uint64_t ticket = newest > back ? newest - back : newest;

				CHECK(cache_flush(cache, ticket) == 0);
				model_flush(ticket);
				break;
			}
			case 1: {
				uint64_t most = (uint64_t)(rand() % 40) * CACHE_SECTOR;

				CHECK(cache_evict(cache, most) == 0);
				while (model_dirty_bytes() > most)
					model_flush(model_oldest_volatile());
				break;
			}
			case 2:
				cut_and_check((uint64_t)rand(), (enum cache_loss)(rand() % CACHE_LOSSES));
				break;
			default:
				random_write(now);
			}
			readers_see_the_newest();
		}
		for (unsigned loss = 0; loss < CACHE_LOSSES; loss++) {
			for (unsigned n = 0; n < 8; n++)
				random_write(now);
			cut_and_check(seed, (enum cache_loss)loss);
		}
		finish();
	}
}

static void sector_of(unsigned char *data, unsigned char value)
{
	memset(data, value, CACHE_SECTOR);
}

static void what_is_older_than_the_destage_age_is_durable(void)
{
	unsigned char data[CACHE_SECTOR];
	struct cache_cut cut;

	begin(1 << 20, 100 * MS);
	sector_of(data, 1);
	write_both(0, data, sizeof data, 0);
	sector_of(data, 2);
	write_both(60 * MS, data, sizeof data, CACHE_SECTOR);
	CHECK(cache_destage(cache, 99 * MS) == 0 && cache_dirty_bytes(cache) == 2 * CACHE_SECTOR);
	CHECK(cache_destage(cache, 100 * MS) == 0 && cache_dirty_bytes(cache) == CACHE_SECTOR);
	CHECK(cache_cut(cache, 1, CACHE_LOSE_ALL, &cut) == 0 && cut.lost_sectors == 1);
	CHECK(backing_read(backing, data, sizeof data, 0) == 0 && data[0] == 1);
	CHECK(backing_read(backing, data, sizeof data, CACHE_SECTOR) == 0 && data[0] == 0);
	finish();
}

static void what_is_over_the_capacity_is_durable_oldest_first(void)
{
	unsigned char data[CACHE_SECTOR];

	begin(4 * CACHE_SECTOR, 0);
	for (unsigned n = 0; n < 6; n++) {
		sector_of(data, (unsigned char)(n + 1));
		write_both(0, data, sizeof data, n * (uint64_t)CACHE_SECTOR);
	}
	CHECK(cache_destage(cache, 0) == 0 && cache_dirty_bytes(cache) == 4 * CACHE_SECTOR);
	for (unsigned n = 0; n < 6; n++) {
		CHECK(backing_read(backing, data, sizeof data, n * (uint64_t)CACHE_SECTOR) == 0);
		CHECK(data[0] == (n < 2 ? n + 1 : 0));
	}
	finish();
}

static void zeroes_of_more_than_the_cache_holds_are_durable_and_stay_over_what_was_older(void)
{
	static unsigned char data[CACHE_SECTOR];
	struct cache_cut cut;
	uint64_t bytes = 4 * (uint64_t)CACHE_ZERO_MAX;

	begin(8 * CACHE_SECTOR, 0);
	CHECK(ftruncate(backing, (off_t)bytes) == 0);
	sector_of(data, 7);
	CHECK(cache_write(cache, 0, data, sizeof data, 0) && cache_write(cache, 0, NULL, bytes, 0));
	CHECK(cache_dirty_bytes(cache) == 0);
	CHECK(cache_cut(cache, 1, CACHE_LOSE_NONE, &cut) == 0);
	CHECK(cache_read(cache, data, sizeof data, 0) == 0 && data[0] == 0);
	finish();
}

/* What lands of `writes` writes of 8 sectors each, next to one another, as bits. */
static void landing(uint64_t seed, enum cache_loss loss, unsigned writes, unsigned char *landed)
{
	unsigned char data[8 * CACHE_SECTOR];
	struct cache_cut cut;

	begin(1 << 20, 0);
	for (unsigned n = 0; n < writes; n++) {
		memset(data, (int)n + 1, sizeof data);
		CHECK(cache_write(cache, 0, data, sizeof data, n * sizeof data));
	}
	CHECK(cache_cut(cache, seed, loss, &cut) == 0);
	for (unsigned n = 0; n < writes; n++) {
		CHECK(backing_read(backing, data, sizeof data, n * sizeof data) == 0);
		landed[n] = 0;
		for (unsigned s = 0; s < 8; s++)
			landed[n] |= (unsigned char)((data[s * CACHE_SECTOR] == n + 1) << s);
	}
	finish();
}

static void a_seed_repeats_its_loss_and_another_does_not(void)
{
	unsigned char first[12], again[12], other[12];
	unsigned alike = 0;

	for (unsigned loss = CACHE_LOSE_RANDOM; loss < CACHE_LOSSES; loss++) {
		for (uint64_t seed = 0; seed < 20; seed++) {
			landing(seed, (enum cache_loss)loss, 12, first);
			landing(seed, (enum cache_loss)loss, 12, again);
			landing(seed + 1, (enum cache_loss)loss, 12, other);
			CHECK(memcmp(first, again, sizeof first) == 0);
			alike += memcmp(first, other, sizeof first) == 0;
		}
	}
	CHECK(alike <= 2);
}

static void only_the_torn_loss_parts_a_write_and_each_loses_about_its_share(void)
{
	for (unsigned loss = CACHE_LOSE_RANDOM; loss < CACHE_LOSSES; loss++) {
		unsigned whole = 0, none = 0, parted = 0;

		for (uint64_t seed = 0; seed < 100; seed++) {
			unsigned char landed[12];

			landing(seed, (enum cache_loss)loss, 12, landed);
			for (unsigned n = 0; n < 12; n++) {
				whole += landed[n] == 0xff;
				none += landed[n] == 0;
				parted += landed[n] != 0 && landed[n] != 0xff;
			}
		}
		if (loss == CACHE_LOSE_TORN)
			CHECK(parted > 1100);
		else
			CHECK(parted == 0 && whole > 450 && none > 450);
	}
}

static void only_the_reordered_loss_lets_an_older_write_land_over_a_newer(void)
{
	for (unsigned loss = CACHE_LOSE_NONE; loss < CACHE_LOSSES; loss++) {
		unsigned swapped = 0;

		for (uint64_t seed = 0; seed < 200; seed++) {
			unsigned char data[2 * CACHE_SECTOR];
			struct cache_cut cut;

			/* The newer is there, by its second sector, and the older over it. */
			begin(1 << 20, 0);
			memset(data, 1, sizeof data);
			cache_write(cache, 0, data, CACHE_SECTOR, 0);
			memset(data, 2, sizeof data);
			cache_write(cache, 0, data, sizeof data, 0);
			memset(data, 3, sizeof data);
			cache_write(cache, 0, data, CACHE_SECTOR, 8 * CACHE_SECTOR);
			CHECK(cache_cut(cache, seed, (enum cache_loss)loss, &cut) == 0);
			CHECK(backing_read(backing, data, sizeof data, 0) == 0);
			if (loss != CACHE_LOSE_TORN)
				swapped += data[0] == 1 && data[CACHE_SECTOR] == 2;
			finish();
		}
		CHECK((swapped > 0) == (loss == CACHE_LOSE_REORDERED));
	}
}

static void a_write_that_the_file_cannot_take_is_given_up_and_the_others_stay(void)
{
	unsigned char data[CACHE_SECTOR];
	uint64_t ticket;

	sector_of(data, 5);
	cache = cache_new(-1, 1 << 20, 0);
	cache_write(cache, 0, data, sizeof data, 0);
	ticket = cache_write(cache, 0, data, sizeof data, CACHE_SECTOR);
	CHECK(cache_commit(cache, ticket) < 0 && errno == EBADF);
	CHECK(cache_dirty_bytes(cache) == CACHE_SECTOR);
	CHECK(cache_flush(cache, ticket) < 0 && cache_dirty_bytes(cache) == CACHE_SECTOR);
	cache_free(cache);
}

static void losses_have_names(void)
{
	enum cache_loss loss;

	for (unsigned n = 0; n < CACHE_LOSSES; n++)
		CHECK(cache_loss_named(cache_loss_name((enum cache_loss)n), &loss) && loss == n);
	CHECK(!cache_loss_named("some", &loss));
}

int main(void)
{
	agrees_with_the_reference_in_any_order_of_calls();
	what_is_older_than_the_destage_age_is_durable();
	what_is_over_the_capacity_is_durable_oldest_first();
	zeroes_of_more_than_the_cache_holds_are_durable_and_stay_over_what_was_older();
	a_seed_repeats_its_loss_and_another_does_not();
	only_the_torn_loss_parts_a_write_and_each_loses_about_its_share();
	only_the_reordered_loss_lets_an_older_write_land_over_a_newer();
	a_write_that_the_file_cannot_take_is_given_up_and_the_others_stay();
	losses_have_names();
	return report("cache");
}
