/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "disk.h"
#include "near.h"
#include "random.h"

#include <math.h>
#include <stdlib.h>

#define US 1000LL
#define MS 1000000LL
#define SECOND 1000000000LL
#define KIB 1024ULL
#define MIB (1ULL << 20)
#define START (5 * SECOND + 1234567)
#define REVOLUTION (60 * SECOND / 7200)

static struct work_queue work;

static const struct disk_config plain = {
	.bytes = 4096 * MIB,
	.rpm = 7200,
	.heads = 2,
	.zones = 16,
	.track_to_track_ns = 1 * MS,
	.average_seek_ns = 8500 * US,
	.full_stroke_ns = 17 * MS,
	.head_switch_ns = 800 * US,
	.command_ns = 100 * US,
	.outer_bytes_per_second = 72e6,
	.inner_bytes_per_second = 42e6,
	.link_bytes_per_second = 150e6,
	.write_cache_bytes = 2 * MIB,
	.read_ahead_bytes = 1 * MIB,
};

static struct disk *new_disk(const struct disk_config *config)
{
	work = (struct work_queue){ .count = 0 };
	return disk_new(config, &work);
}

static void submit(struct disk *disk, struct disk_operation *operation, enum disk_kind kind,
		   int64_t time_ns, uint64_t offset, uint64_t bytes)
{
	*operation = (struct disk_operation){
		.kind = kind, .offset = offset, .bytes = bytes, .arrival_ns = time_ns };
	disk_submit(disk, operation);
}

static int64_t await(struct disk *disk, const struct disk_operation *operation)
{
	while (operation->complete_ns == 0)
		disk_advance(disk, disk_next_ns(disk));
	return operation->complete_ns;
}

static int64_t one(struct disk *disk, enum disk_kind kind, int64_t time_ns, uint64_t offset, uint64_t bytes)
{
	struct disk_operation operation;

	submit(disk, &operation, kind, time_ns, offset, bytes);
	return await(disk, &operation);
}

static void the_seek_curve_meets_the_three_times_of_the_manual(void)
{
	struct disk *disk = new_disk(&plain);
	double sum = 0;
	uint64_t state = 1;
	unsigned pairs = 200000;

	check_near("to the next track", (double)disk_seek_ns(disk, 1e-12), 1e6, 1e-3);
	check_near("full stroke", (double)disk_seek_ns(disk, 1), 17e6, 1e-6);
	for (unsigned n = 0; n < pairs; n++) {
		double from = (double)random_below(&state, 1u << 30), to = (double)random_below(&state, 1u << 30);

		sum += (double)disk_seek_ns(disk, fabs(from - to) / (1u << 30));
	}
	check_near("mean over random pairs", sum / pairs, 8.5e6, 5e-3);
	CHECK(disk_seek_ns(disk, 0) == 0);
	for (unsigned n = 1; n < 1000; n++)
		CHECK(disk_seek_ns(disk, n / 1000.0) < disk_seek_ns(disk, (n + 1) / 1000.0));
	disk_free(disk);
}

static void seek_times_without_a_curve_are_reported(void)
{
	struct disk_config config = plain;

	CHECK(disk_seeks_fit(&config));
	config.average_seek_ns = 6 * MS; /* below a straight line */
	CHECK(!disk_seeks_fit(&config));
	config.average_seek_ns = 15 * MS; /* above a square root */
	CHECK(!disk_seeks_fit(&config));
}

static void random_reads_one_at_a_time_take_seek_half_a_revolution_and_transfer(void)
{
	struct disk *disk = new_disk(&plain);
	unsigned count = 20000;
	uint64_t state = 5;
	int64_t now_ns = START, took_ns = 0;
	struct work item;
	double seeks = 0;

	for (unsigned n = 0; n < count; n++) {
		int64_t end_ns = one(disk, DISK_READ, now_ns, random_below(&state, plain.bytes / 4096) * 4096, 4096);

		took_ns += end_ns - now_ns;
		now_ns = end_ns + (int64_t)random_below(&state, 5 * MS);
		while (work_take(&work, INT64_MAX, &item)) {
			CHECK(item.cause == WORK_SEEK);
			seeks += (double)item.duration_ns;
		}
	}
	/* Bytes are denser outside, so random bytes are a little nearer to each other than random
	 * cylinders. */
	check_near("mean seek", seeks / count, 8.5e6, 0.03);
	check_near("rotational latency and the rest", ((double)took_ns - seeks) / count,
		   (double)REVOLUTION / 2 + 4096 / 57e6 * 1e9 + 100e3 + 512 / 150e6 * 1e9, 0.02);
	disk_free(disk);
}

/* On the outermost and the innermost zone: a track a revolution, and the change to the next. */
static void sequential_reads_run_at_the_zones_rate(void)
{
	double rates[] = { 72e6, 42e6 };

	for (unsigned inner = 0; inner < 2; inner++) {
		struct disk *disk = new_disk(&plain);
		uint64_t offset = inner ? plain.bytes - 64 * MIB : 0, from = 0;
		int64_t now_ns = START, from_ns = 0;
		double track = rates[inner] * (double)REVOLUTION * 1e-9;
		double switch_seconds = (0.8e-3 + 1e-3) / 2; /* head, cylinder, in turn */

		for (unsigned n = 0; n < 400; n++) {
			if (n == 40) {
				from = offset;
				from_ns = now_ns;
			}
			now_ns = one(disk, DISK_READ, now_ns + 30 * US, offset, 128 * KIB);
			offset += 128 * KIB;
		}
		check_near("sequential bytes a second",
			   (double)(offset - from) / ((double)(now_ns - from_ns) * 1e-9),
			   track / ((double)REVOLUTION * 1e-9 + switch_seconds), 0.03);
		disk_free(disk);
	}
}

static void a_reader_that_pauses_finds_what_was_read_ahead(void)
{
	struct disk *disk = new_disk(&plain);
	int64_t now_ns = one(disk, DISK_READ, START, 0, 64 * KIB), end_ns;

	/* 1 MiB is read in 17 ms; at 100 ms it lies in the buffer. */
	end_ns = one(disk, DISK_READ, now_ns + 100 * MS, 64 * KIB, 64 * KIB);
	CHECK(end_ns - now_ns - 100 * MS == 100 * US + (int64_t)(65536 * 1e9 / 150e6));
	/* What lies elsewhere does not. */
	CHECK(one(disk, DISK_READ, now_ns + 200 * MS, 2048 * MIB, 64 * KIB) - now_ns - 200 * MS > 3 * MS);
	disk_free(disk);
}

static double rate_at_depth(unsigned depth)
{
	struct disk *disk = new_disk(&plain);
	struct disk_operation operations[32];
	uint64_t state = 3;
	unsigned done = 0, count = 6000;
	int64_t now_ns = START;

	for (unsigned n = 0; n < depth; n++)
		submit(disk, &operations[n], DISK_READ, now_ns, random_below(&state, plain.bytes / 4096) * 4096, 4096);
	while (done < count) {
		unsigned first = depth;

		/* The next thing that happens: an end, or else a decision. */
		for (unsigned n = 0; n < depth; n++) {
			if (operations[n].complete_ns &&
			    (first == depth || operations[n].complete_ns < operations[first].complete_ns))
				first = n;
		}
		if (first == depth) {
			now_ns = disk_next_ns(disk);
			disk_advance(disk, now_ns);
			continue;
		}
		now_ns = operations[first].complete_ns;
		submit(disk, &operations[first], DISK_READ, now_ns,
		       random_below(&state, plain.bytes / 4096) * 4096, 4096);
		done++;
	}
	disk_free(disk);
	return count / ((double)(now_ns - START) * 1e-9);
}

static void a_queue_lets_the_nearest_go_first(void)
{
	double alone = rate_at_depth(1), queued = rate_at_depth(16);

	printf("random reads a second: %.0f alone, %.0f of 16\n", alone, queued);
	check_near("alone", alone, 1 / (8.5e-3 + (double)REVOLUTION / 2 * 1e-9 + 0.17e-3), 0.03);
	/* NCQ gives about twice as much at 16. */
	CHECK(queued > 1.6 * alone);
	CHECK(queued < 3 * alone);
}

static void no_request_waits_for_ever(void)
{
	struct disk *disk = new_disk(&plain);
	struct disk_operation far, near[4];
	uint64_t state = 3;
	int64_t now_ns = START;

	for (unsigned n = 0; n < 4; n++)
		submit(disk, &near[n], DISK_READ, now_ns, random_below(&state, 16384) * 4096, 4096);
	submit(disk, &far, DISK_READ, now_ns, plain.bytes - 4096, 4096);
	while (far.complete_ns == 0) {
		for (unsigned n = 0; n < 4; n++) {
			if (near[n].complete_ns && near[n].complete_ns <= now_ns)
				submit(disk, &near[n], DISK_READ, now_ns,
				       random_below(&state, 16384) * 4096, 4096);
		}
		now_ns += 100 * US;
		disk_advance(disk, now_ns);
	}
	CHECK(far.complete_ns - START < DISK_PATIENCE_NS + 100 * MS);
	disk_free(disk);
}

static void writes_end_in_the_cache_and_reach_the_platter_by_themselves(void)
{
	struct disk *disk = new_disk(&plain);
	int64_t end_ns = one(disk, DISK_WRITE, START, 1024 * MIB, 4096);

	CHECK(end_ns - START == 100 * US + (int64_t)(4096 * 1e9 / 150e6));
	CHECK(disk_dirty_bytes(disk) == 4096);
	disk_advance(disk, START + 100 * MS);
	CHECK(disk_dirty_bytes(disk) == 0);
	CHECK(disk_next_ns(disk) == INT64_MAX);
	disk_free(disk);
}

static void a_flush_ends_when_all_before_it_is_on_the_platter(void)
{
	struct disk *disk = new_disk(&plain);
	struct disk_operation flush;
	uint64_t state = 8;
	int64_t now_ns = START;

	for (unsigned n = 0; n < 50; n++)
		now_ns = one(disk, DISK_WRITE, now_ns, random_below(&state, plain.bytes / 4096) * 4096, 4096);
	submit(disk, &flush, DISK_FLUSH, now_ns, 0, 0);
	CHECK(flush.complete_ns == 0);
	now_ns = await(disk, &flush);
	CHECK(disk_busy_until_ns(disk) + 100 * US == now_ns);
	disk_advance(disk, now_ns);
	CHECK(disk_dirty_bytes(disk) == 0);
	/* With nothing to write it ends at once, with one write behind another it does not. */
	CHECK(one(disk, DISK_FLUSH, now_ns + SECOND, 0, 0) == now_ns + SECOND + 100 * US);
	now_ns = one(disk, DISK_WRITE, now_ns + 2 * SECOND, 4096000, 4096);
	now_ns = one(disk, DISK_WRITE, now_ns, plain.bytes / 2 / 4096 * 4096, 4096);
	submit(disk, &flush, DISK_FLUSH, now_ns, 0, 0);
	CHECK(flush.complete_ns == 0);
	now_ns = await(disk, &flush);
	CHECK(disk_busy_until_ns(disk) + 100 * US == now_ns);
	disk_advance(disk, now_ns);
	CHECK(disk_dirty_bytes(disk) == 0);
	disk_free(disk);
}

static void a_full_cache_takes_writes_at_the_platters_pace(void)
{
	struct disk *disk = new_disk(&plain);
	int64_t now_ns = START;
	uint64_t offset = 0;
	double track = 72e6 * (double)REVOLUTION * 1e-9;

	while (now_ns < START + SECOND) { /* the cache is full in 30 ms */
		now_ns = one(disk, DISK_WRITE, now_ns, offset, 128 * KIB);
		offset += 128 * KIB;
	}
	check_near("sequential writes", (double)offset / ((double)(now_ns - START) * 1e-9),
		   track / ((double)REVOLUTION * 1e-9 + 0.9e-3), 0.08);
	disk_free(disk);
}

static void a_forced_write_goes_to_the_platter(void)
{
	struct disk *disk = new_disk(&plain);
	struct disk_operation write = { .kind = DISK_WRITE, .offset = 1024 * MIB, .bytes = 4096, .fua = true,
					.arrival_ns = START };

	disk_submit(disk, &write);
	CHECK(await(disk, &write) - START > 3 * MS);
	CHECK(disk_dirty_bytes(disk) == 0);
	disk_free(disk);
}

static void a_power_cut_forgets_what_waits(void)
{
	struct disk *disk = new_disk(&plain);
	struct disk_operation read, other;

	one(disk, DISK_WRITE, START, 0, 4096);
	submit(disk, &other, DISK_READ, START + MS, 2048 * MIB, 4096);
	submit(disk, &read, DISK_READ, START + MS, 1024 * MIB, 4096);
	disk_cancel(disk, &read);
	disk_cancel(disk, &other);
	disk_reset(disk, START + 2 * MS);
	CHECK(disk_dirty_bytes(disk) == 0);
	CHECK(disk_next_ns(disk) == INT64_MAX);
	disk_hold(disk, START + 8 * SECOND);
	CHECK(one(disk, DISK_READ, START + 3 * MS, 1024 * MIB, 4096) > START + 8 * SECOND);
	disk_free(disk);
}

int main(void)
{
	the_seek_curve_meets_the_three_times_of_the_manual();
	seek_times_without_a_curve_are_reported();
	random_reads_one_at_a_time_take_seek_half_a_revolution_and_transfer();
	sequential_reads_run_at_the_zones_rate();
	a_reader_that_pauses_finds_what_was_read_ahead();
	a_queue_lets_the_nearest_go_first();
	no_request_waits_for_ever();
	writes_end_in_the_cache_and_reach_the_platter_by_themselves();
	a_flush_ends_when_all_before_it_is_on_the_platter();
	a_full_cache_takes_writes_at_the_platters_pace();
	a_forced_write_goes_to_the_platter();
	a_power_cut_forgets_what_waits();
	return report("hard disk");
}
