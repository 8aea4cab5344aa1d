/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "disk.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SECTOR_BYTES 512
/* Rounding must not make the next sector in line look just missed. */
#define MISS_NS 1000
/* The cache's table of segments, and how many of them near the head are
 * compared when one is chosen. */
#define MAX_SEGMENTS 4096
#define COMPARED_SEGMENTS 32
#define MAX_SEGMENT_BYTES (1 << 20)

struct zone {
	uint64_t start; /* offset of its first byte */
	uint64_t track_bytes;
};

/* Written by the host, not on the platter. */
struct segment {
	uint64_t offset;
	uint64_t bytes;
	uint64_t number; /* of its first write: a flush waits for it */
	int64_t ready_ns;
};

struct position {
	uint64_t cylinder;
	uint64_t track;	   /* counted over all cylinders */
	int64_t angle_ns;  /* time from the index mark, 0 <= angle_ns < a revolution */
	uint64_t left_bytes; /* to the end of the track */
	uint64_t track_bytes;
};

/* What the head reads on after a read: offset `anchor` passes it at anchor_ns. */
struct stream {
	bool known;
	bool running;
	uint64_t from, limit; /* what is or will be in the buffer */
	uint64_t anchor;
	int64_t anchor_ns;
};

struct disk {
	struct disk_config config;
	struct work_queue *work;
	int64_t revolution_ns;
	double seek_root_ns, seek_linear_ns;
	struct zone zones[DISK_MAX_ZONES + 1];
	uint64_t zone_cylinders;
	uint64_t cylinders;

	uint64_t cylinder; /* where the head is when it is free */
	uint64_t track;
	int64_t busy_until_ns;
	int64_t link_free_ns;
	struct stream stream;

	struct disk_operation *queue;	/* for the platter */
	struct disk_operation *flushes;
	struct disk_operation *waiting; /* writes that wait for room in the cache */
	struct segment *segments;	/* ordered by offset */
	unsigned segment_count;
	uint64_t dirty_bytes;
	uint64_t leaving_bytes; /* on their way to the platter until busy_until_ns */
	uint64_t next_number;
};

static int64_t later(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static void solve_seek_curve(const struct disk_config *config, double *root, double *linear)
{
	double settle = (double)config->track_to_track_ns;
	double mean = (double)config->average_seek_ns - settle;
	double full = (double)config->full_stroke_ns - settle;

	/* 8/15 a + 1/3 b = mean, a + b = full */
	*root = (mean - full / 3) * 5;
	*linear = full - *root;
}

bool disk_seeks_fit(const struct disk_config *config)
{
	double root, linear;

	solve_seek_curve(config, &root, &linear);
	return root >= 0 && linear >= 0;
}

struct disk *disk_new(const struct disk_config *config, struct work_queue *work)
{
	struct disk *disk = calloc(1, sizeof *disk);
	uint64_t heads = (uint64_t)config->heads, bytes_of_a_set = 0, start = 0;

	if (!disk)
		return NULL;
	disk->config = *config;
	disk->work = work;
	disk->revolution_ns = 60000000000LL / config->rpm;
	solve_seek_curve(config, &disk->seek_root_ns, &disk->seek_linear_ns);
	for (int64_t z = 0; z < config->zones; z++) {
		double inwards = config->zones > 1 ? (double)z / (double)(config->zones - 1) : 0;
		double rate = config->outer_bytes_per_second +
			      inwards * (config->inner_bytes_per_second - config->outer_bytes_per_second);
		uint64_t sectors = (uint64_t)(rate * (double)disk->revolution_ns * 1e-9 / SECTOR_BYTES);

		disk->zones[z].track_bytes = (sectors ? sectors : 1) * SECTOR_BYTES;
		bytes_of_a_set += disk->zones[z].track_bytes * heads;
	}
	/* One cylinder in each zone makes a set; the drive has as many sets as hold its bytes. */
	disk->zone_cylinders = (config->bytes + bytes_of_a_set - 1) / bytes_of_a_set;
	disk->cylinders = disk->zone_cylinders * (uint64_t)config->zones;
	for (int64_t z = 0; z <= config->zones; z++) {
		disk->zones[z].start = start;
		start += disk->zones[z].track_bytes * heads * disk->zone_cylinders;
	}
	disk->segments = calloc(MAX_SEGMENTS, sizeof *disk->segments);
	if (!disk->segments) {
		free(disk);
		return NULL;
	}
	return disk;
}

void disk_free(struct disk *disk)
{
	if (!disk)
		return;
	free(disk->segments);
	free(disk);
}

int64_t disk_seek_ns(const struct disk *disk, double fraction)
{
	if (fraction <= 0)
		return 0;
	return (int64_t)((double)disk->config.track_to_track_ns + disk->seek_root_ns * sqrt(fraction) +
			 disk->seek_linear_ns * fraction);
}

static struct position locate(const struct disk *disk, uint64_t offset)
{
	uint64_t heads = (uint64_t)disk->config.heads, zone = 0, track_in_zone, in_track;
	struct position position;
	int64_t skew_ns;

	while (zone + 1 < (uint64_t)disk->config.zones && offset >= disk->zones[zone + 1].start)
		zone++;
	position.track_bytes = disk->zones[zone].track_bytes;
	track_in_zone = (offset - disk->zones[zone].start) / position.track_bytes;
	in_track = (offset - disk->zones[zone].start) % position.track_bytes;
	position.track = zone * disk->zone_cylinders * heads + track_in_zone;
	position.cylinder = position.track / heads;
	skew_ns = (int64_t)(position.track - position.cylinder) * disk->config.head_switch_ns +
		  (int64_t)position.cylinder * disk->config.track_to_track_ns;
	position.angle_ns = ((int64_t)((double)in_track * (double)disk->revolution_ns /
				    (double)position.track_bytes) + skew_ns) % disk->revolution_ns;
	position.left_bytes = position.track_bytes - in_track;
	return position;
}

int64_t disk_transfer_ns(const struct disk *disk, uint64_t offset, uint64_t bytes)
{
	double passed_ns = 0;

	while (bytes) {
		struct position position = locate(disk, offset);
		uint64_t part = bytes < position.left_bytes ? bytes : position.left_bytes;

		passed_ns += (double)part * (double)disk->revolution_ns / (double)position.track_bytes;
		if (part == position.left_bytes)
			passed_ns += (double)((position.track + 1) % (uint64_t)disk->config.heads ?
						      disk->config.head_switch_ns :
						      disk->config.track_to_track_ns);
		offset += part;
		bytes -= part;
	}
	return (int64_t)passed_ns;
}

static int64_t move_ns(const struct disk *disk, const struct position *position)
{
	uint64_t distance = position->cylinder > disk->cylinder ? position->cylinder - disk->cylinder :
							       disk->cylinder - position->cylinder;

	if (distance)
		return disk_seek_ns(disk, (double)(distance - 1) / (double)disk->cylinders + 1e-12);
	return position->track != disk->track ? disk->config.head_switch_ns : 0;
}

static int64_t rotation_ns(const struct disk *disk, int64_t time_ns, const struct position *position)
{
	int64_t wait_ns = (position->angle_ns - time_ns % disk->revolution_ns + disk->revolution_ns) %
			  disk->revolution_ns;

	return wait_ns > disk->revolution_ns - MISS_NS ? 0 : wait_ns;
}

/* From start_ns until the head is over the first sector. */
static int64_t access_ns(const struct disk *disk, int64_t start_ns, uint64_t offset)
{
	struct position position = locate(disk, offset);
	int64_t arm_ns = move_ns(disk, &position);

	return arm_ns + rotation_ns(disk, start_ns + arm_ns, &position);
}

static void place_head(struct disk *disk, uint64_t end)
{
	/* At the end of a track the head goes on to the next, which the transfer has paid. */
	struct position position = locate(disk, end < disk->config.bytes ? end : disk->config.bytes - 1);

	disk->cylinder = position.cylinder;
	disk->track = position.track;
}

/* How far a running stream has come by time_ns. */
static uint64_t stream_reached(const struct disk *disk, int64_t time_ns)
{
	struct position position = locate(disk, disk->stream.anchor);
	double tracks = (double)(time_ns - disk->stream.anchor_ns) /
			(double)(disk->revolution_ns + disk->config.head_switch_ns);

	return tracks <= 0 ? disk->stream.anchor :
			     disk->stream.anchor + (uint64_t)(tracks * (double)position.track_bytes);
}

/* Moves `bytes` at `offset` under the head, from start_ns on; gives the end. */
static int64_t use_platter(struct disk *disk, int64_t start_ns, uint64_t offset, uint64_t bytes)
{
	struct position position = locate(disk, offset);
	struct work seek = { .cause = WORK_SEEK, .start_ns = start_ns,
			     .duration_ns = move_ns(disk, &position) };

	if (disk->stream.running) {
		uint64_t reached = stream_reached(disk, start_ns);

		disk->stream.running = false;
		if (reached < disk->stream.limit)
			disk->stream.limit = reached;
	}
	if (position.cylinder != disk->cylinder)
		work_put(disk->work, &seek);
	disk->busy_until_ns = start_ns + access_ns(disk, start_ns, offset) +
			      disk_transfer_ns(disk, offset, bytes);
	place_head(disk, offset + bytes);
	return disk->busy_until_ns;
}

static int64_t link_ns(struct disk *disk, int64_t ready_ns, uint64_t bytes)
{
	return ready_ns + (int64_t)((double)bytes * 1e9 / disk->config.link_bytes_per_second);
}

/* A read of what the head has read on, or is about to. */
static bool read_from_stream(struct disk *disk, struct disk_operation *read)
{
	struct stream *stream = &disk->stream;
	uint64_t end = read->offset + read->bytes;
	int64_t ready_ns = read->arrival_ns + disk->config.command_ns, passed_ns;

	if (!stream->known || read->offset < stream->from || read->offset > stream->limit)
		return false;
	if (!stream->running) {
		if (end > stream->limit)
			return false;
	} else {
		int64_t full_ns = stream->anchor_ns +
				  disk_transfer_ns(disk, stream->anchor, stream->limit - stream->anchor);

		/* The buffer was full and the head waited: it takes up again when
		 * the next sector comes round. */
		if (full_ns < read->arrival_ns) {
			struct position position = locate(disk, stream->limit);

			stream->anchor_ns = read->arrival_ns +
					    rotation_ns(disk, read->arrival_ns, &position);
			stream->anchor = stream->limit;
		}
		stream->limit = end + (uint64_t)disk->config.read_ahead_bytes;
		if (stream->limit > disk->config.bytes)
			stream->limit = disk->config.bytes;
		if (end > stream->anchor) {
			passed_ns = stream->anchor_ns +
				    disk_transfer_ns(disk, stream->anchor, end - stream->anchor);
			ready_ns = later(ready_ns, passed_ns);
			disk->busy_until_ns = later(disk->busy_until_ns, passed_ns);
			place_head(disk, end);
		}
	}
	stream->from = read->offset;
	read->complete_ns = link_ns(disk, ready_ns, read->bytes);
	return true;
}

static void append_to(struct disk_operation **list, struct disk_operation *operation)
{
	operation->next = NULL;
	while (*list)
		list = &(*list)->next;
	*list = operation;
}

static unsigned segment_after(const struct disk *disk, uint64_t offset)
{
	unsigned low = 0, high = disk->segment_count;

	while (low < high) {
		unsigned middle = (low + high) / 2;

		if (disk->segments[middle].offset < offset)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool has_room(const struct disk *disk, uint64_t bytes)
{
	return disk->segment_count < MAX_SEGMENTS &&
	       (disk->dirty_bytes == 0 ||
		disk->dirty_bytes + bytes <= (uint64_t)disk->config.write_cache_bytes);
}

/* Takes a write into the cache at time_ns, when it has room. */
static void cache_write(struct disk *disk, struct disk_operation *write, int64_t time_ns)
{
	unsigned position = segment_after(disk, write->offset);
	struct segment *segments = disk->segments;
	int64_t in_ns = link_ns(disk, later(time_ns, disk->link_free_ns), write->bytes);

	disk->link_free_ns = in_ns;
	write->complete_ns = in_ns + disk->config.command_ns;
	disk->dirty_bytes += write->bytes;
	if (position < disk->segment_count && segments[position].offset == write->offset &&
	    segments[position].bytes == write->bytes) {
		disk->dirty_bytes -= write->bytes; /* replaces what is there */
		return;
	}
	if (position > 0 && segments[position - 1].offset + segments[position - 1].bytes == write->offset &&
	    segments[position - 1].bytes + write->bytes <= MAX_SEGMENT_BYTES) {
		segments[position - 1].bytes += write->bytes;
		return;
	}
	memmove(&segments[position + 1], &segments[position],
		(disk->segment_count - position) * sizeof *segments);
	segments[position] = (struct segment){ .offset = write->offset, .bytes = write->bytes,
					       .number = disk->next_number++, .ready_ns = in_ns };
	disk->segment_count++;
}

static bool is_dirty_before(const struct disk *disk, uint64_t number)
{
	for (unsigned n = 0; n < disk->segment_count; n++) {
		if (disk->segments[n].number < number)
			return true;
	}
	return false;
}

static void end_flushes(struct disk *disk)
{
	for (struct disk_operation **link = &disk->flushes; *link;) {
		struct disk_operation *flush = *link;

		if (is_dirty_before(disk, flush->before)) {
			link = &flush->next;
			continue;
		}
		*link = flush->next;
		flush->complete_ns = later(flush->arrival_ns, disk->leaving_bytes ? disk->busy_until_ns : 0) +
				     disk->config.command_ns;
	}
}

static void admit_waiting(struct disk *disk, int64_t time_ns)
{
	while (disk->waiting && has_room(disk, disk->waiting->bytes)) {
		struct disk_operation *write = disk->waiting;

		disk->waiting = write->next;
		cache_write(disk, write, later(time_ns, write->arrival_ns));
	}
}

struct choice {
	struct disk_operation **operation; /* the link that leads to it */
	unsigned segment;
	int64_t access_ns;
	bool found, is_segment;
};

static void consider(struct choice *best, const struct choice *candidate)
{
	if (!best->found || candidate->access_ns < best->access_ns)
		*best = *candidate;
}

static struct choice choose(struct disk *disk, int64_t start_ns)
{
	bool pressed = !disk->queue || disk->flushes || disk->waiting;
	struct choice best = { .found = false };

	for (struct disk_operation **link = &disk->queue; *link; link = &(*link)->next) {
		struct choice candidate = { .operation = link, .found = true,
					    .access_ns = access_ns(disk, start_ns, (*link)->offset) };

		if (start_ns - (*link)->arrival_ns > DISK_PATIENCE_NS)
			return candidate;
		consider(&best, &candidate);
	}
	if (pressed && disk->segment_count) {
		uint64_t heads = (uint64_t)disk->config.heads;
		uint64_t zone = disk->track / heads / disk->zone_cylinders;
		uint64_t here = disk->zones[zone].start +
				(disk->track - zone * disk->zone_cylinders * heads) *
					disk->zones[zone].track_bytes;
		unsigned middle = segment_after(disk, here);
		unsigned first = middle > COMPARED_SEGMENTS / 2 ? middle - COMPARED_SEGMENTS / 2 : 0;

		for (unsigned n = first; n < disk->segment_count && n < first + COMPARED_SEGMENTS; n++) {
			struct choice candidate = { .segment = n, .is_segment = true, .found = true };

			candidate.access_ns = access_ns(disk, start_ns, disk->segments[n].offset);
			consider(&best, &candidate);
		}
	}
	return best;
}

/* The time from which something can go to the platter; INT64_MAX: nothing waits. */
static int64_t first_ready_ns(const struct disk *disk)
{
	int64_t ready_ns = INT64_MAX;

	for (const struct disk_operation *operation = disk->queue; operation; operation = operation->next)
		ready_ns = operation->arrival_ns < ready_ns ? operation->arrival_ns : ready_ns;
	for (unsigned n = 0; n < disk->segment_count && !disk->queue; n++)
		ready_ns = disk->segments[n].ready_ns < ready_ns ? disk->segments[n].ready_ns : ready_ns;
	return ready_ns;
}

static void settle_leaving(struct disk *disk)
{
	disk->dirty_bytes -= disk->leaving_bytes;
	disk->leaving_bytes = 0;
}

static void serve(struct disk *disk, int64_t start_ns)
{
	struct choice choice = choose(disk, start_ns);

	settle_leaving(disk);
	if (choice.is_segment) {
		struct segment segment = disk->segments[choice.segment];

		disk->segment_count--;
		memmove(&disk->segments[choice.segment], &disk->segments[choice.segment + 1],
			(disk->segment_count - choice.segment) * sizeof segment);
		use_platter(disk, start_ns, segment.offset, segment.bytes);
		disk->leaving_bytes = segment.bytes;
	} else {
		struct disk_operation *operation = *choice.operation;
		int64_t end_ns;

		*choice.operation = operation->next;
		end_ns = use_platter(disk, start_ns, operation->offset, operation->bytes) +
			 disk->config.command_ns;
		operation->complete_ns = operation->kind == DISK_READ ?
						 link_ns(disk, end_ns, SECTOR_BYTES) : end_ns;
		if (operation->kind == DISK_READ) {
			uint64_t end = operation->offset + operation->bytes;

			disk->stream = (struct stream){
				.known = true, .running = true, .from = end, .anchor = end,
				.limit = end + (uint64_t)disk->config.read_ahead_bytes,
				.anchor_ns = disk->busy_until_ns };
			if (disk->stream.limit > disk->config.bytes)
				disk->stream.limit = disk->config.bytes;
		}
	}
	end_flushes(disk);
}

void disk_advance(struct disk *disk, int64_t time_ns)
{
	while (disk->busy_until_ns <= time_ns) {
		int64_t ready_ns;

		settle_leaving(disk);
		admit_waiting(disk, disk->busy_until_ns);
		ready_ns = first_ready_ns(disk);
		if (ready_ns > time_ns)
			break;
		serve(disk, later(disk->busy_until_ns, ready_ns));
	}
}

void disk_hold(struct disk *disk, int64_t time_ns)
{
	disk->busy_until_ns = later(disk->busy_until_ns, time_ns);
	disk->stream.known = false;
}

void disk_submit(struct disk *disk, struct disk_operation *operation)
{
	disk_advance(disk, operation->arrival_ns);
	operation->complete_ns = 0;
	switch (operation->kind) {
	case DISK_READ:
		if (!disk->queue && read_from_stream(disk, operation))
			return;
		append_to(&disk->queue, operation);
		break;
	case DISK_WRITE:
		if (operation->fua || disk->config.write_cache_bytes == 0)
			append_to(&disk->queue, operation);
		else if (!disk->waiting && has_room(disk, operation->bytes))
			cache_write(disk, operation, operation->arrival_ns);
		else
			append_to(&disk->waiting, operation);
		break;
	case DISK_FLUSH:
		operation->before = disk->next_number;
		append_to(&disk->flushes, operation);
		end_flushes(disk);
		break;
	}
	disk_advance(disk, operation->arrival_ns);
}

static void remove_from(struct disk_operation **list, const struct disk_operation *operation)
{
	while (*list && *list != operation)
		list = &(*list)->next;
	if (*list)
		*list = operation->next;
}

void disk_cancel(struct disk *disk, const struct disk_operation *operation)
{
	remove_from(&disk->queue, operation);
	remove_from(&disk->flushes, operation);
	remove_from(&disk->waiting, operation);
}

void disk_reset(struct disk *disk, int64_t time_ns)
{
	disk->segment_count = 0;
	disk->dirty_bytes = disk->leaving_bytes = 0;
	disk->stream.known = false;
	disk->busy_until_ns = disk->link_free_ns = time_ns;
}

int64_t disk_next_ns(const struct disk *disk)
{
	int64_t ready_ns = first_ready_ns(disk);

	if (ready_ns == INT64_MAX)
		return disk->waiting ? disk->busy_until_ns : INT64_MAX;
	return later(disk->busy_until_ns, ready_ns);
}

int64_t disk_busy_until_ns(const struct disk *disk)
{
	return disk->busy_until_ns;
}

uint64_t disk_dirty_bytes(const struct disk *disk)
{
	return disk->dirty_bytes;
}
