/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * An NBD client that never sleeps: it looks at its socket until the reply is there,
 * so that no wake-up of its own is in what it measures of a server.
 *
 * nbd_probe URI read|write random|sequential BLOCK DEPTH SECONDS EXTENT SEED
 * prints one line of JSON: operations and bytes a second, latencies in microseconds
 * from the call to the completion.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <libnbd.h>

#define MOST_DEPTH 64
#define MOST_LATENCIES (1 << 24)

struct slot {
	char *buffer;
	int64_t began_ns;
	bool busy;
};

static struct slot slots[MOST_DEPTH];
static uint32_t *latencies_ns;
static size_t count;
static int failure;

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void die(const char *what)
{
	fprintf(stderr, "nbd_probe: %s: %s\n", what, nbd_get_error() ? nbd_get_error() : "failed");
	exit(1);
}

static int completed(void *user, int *error)
{
	struct slot *slot = user;

	if (*error)
		failure = *error;
	if (count < MOST_LATENCIES)
		latencies_ns[count] = (uint32_t)(now_ns() - slot->began_ns);
	count++;
	slot->busy = false;
	return 1; /* retire it */
}

/* Vigna's splitmix64. */
static uint64_t next_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static int by_size(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	struct nbd_handle *nbd;
	uint64_t block, places, random, place = 0;
	unsigned depth, busy = 0;
	bool is_read, is_random;
	int64_t began_ns, end_ns;
	double seconds, sum_ns = 0;
	size_t kept;

	if (argc != 9) {
		fprintf(stderr, "nbd_probe: eight words are wanted\n");
		return 2;
	}
	is_read = strcmp(argv[2], "read") == 0;
	is_random = strcmp(argv[3], "random") == 0;
	block = strtoull(argv[4], NULL, 10);
	depth = (unsigned)strtoul(argv[5], NULL, 10);
	places = strtoull(argv[7], NULL, 10) / block;
	random = strtoull(argv[8], NULL, 10);
	latencies_ns = malloc(MOST_LATENCIES * sizeof *latencies_ns);
	nbd = nbd_create();
	if (!nbd || !latencies_ns || depth == 0 || depth > MOST_DEPTH || places == 0)
		die("beginning");
	if (nbd_connect_uri(nbd, argv[1]) < 0)
		die(argv[1]);
	for (unsigned n = 0; n < depth; n++) {
		slots[n].buffer = malloc(block);
		memset(slots[n].buffer, (int)n + 1, block);
	}
	began_ns = now_ns();
	end_ns = began_ns + (int64_t)(strtod(argv[6], NULL) * 1e9);
	do {
		bool more = now_ns() < end_ns;

		busy = 0;
		for (unsigned n = 0; n < depth; n++) {
			struct slot *slot = &slots[n];
			nbd_completion_callback done = { .callback = completed, .user_data = slot };
			uint64_t offset;

			if (!slot->busy && more) {
				offset = (is_random ? next_random(&random) : place++) % places * block;
				slot->busy = true;
				slot->began_ns = now_ns();
				if ((is_read ? nbd_aio_pread(nbd, slot->buffer, block, offset, done, 0) :
					       nbd_aio_pwrite(nbd, slot->buffer, block, offset, done, 0)) < 0)
					die("submitting");
			}
			busy += slot->busy;
		}
		if (busy && nbd_poll(nbd, 0) < 0)
			die("waiting");
	} while (busy);
	seconds = (double)(now_ns() - began_ns) / 1e9;
	nbd_shutdown(nbd, 0);
	nbd_close(nbd);
	if (failure || count == 0) {
		fprintf(stderr, "nbd_probe: an operation failed: %s\n", strerror(failure));
		return 1;
	}
	kept = count < MOST_LATENCIES ? count : MOST_LATENCIES;
	for (size_t n = 0; n < kept; n++)
		sum_ns += latencies_ns[n];
	qsort(latencies_ns, kept, sizeof *latencies_ns, by_size);
	printf("{\"iops\":%.3f,\"bytes_per_second\":%.1f,\"mean_us\":%.3f,\"median_us\":%.3f,"
	       "\"least_us\":%.3f,\"count\":%zu}\n",
	       (double)count / seconds, (double)count * (double)block / seconds,
	       sum_ns / (double)kept / 1e3, latencies_ns[kept / 2] / 1e3, latencies_ns[0] / 1e3, count);
	return 0;
}
