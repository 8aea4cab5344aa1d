/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "ring.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define RING_MAGIC UINT64_C(0x31474e4952465253) /* "SRFRING1" */
#define SKIP_MAGIC 0x50494b53U /* "SKIP" */
#define DATA_OFFSET 4096
#define ALIGNMENT 16
#define WAIT_NS 1000000

struct ring_head {
	uint64_t magic;
	uint64_t size; /* bytes of data, a multiple of ALIGNMENT */
	_Alignas(64) _Atomic uint64_t written; /* bytes since the beginning, by srcap */
	_Alignas(64) _Atomic uint64_t read;    /* by the reader */
};

_Static_assert(sizeof(struct ring_head) <= DATA_OFFSET, "the data begin on their own page");
_Static_assert(offsetof(struct ring_head, written) == 64 && offsetof(struct ring_head, read) == 128, "as frames.md has it");

static struct ring_head *ring;
static unsigned char *data;
static uint64_t reserved; /* end of what is being filled */
static uint64_t kicked;	  /* `written` when the reader was last woken */
static int64_t kicked_ns;

const char *ring_open(int fd)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return strerror(errno);
	if (st.st_size <= DATA_OFFSET)
		return "too small for a ring";
	void *map = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (map == MAP_FAILED)
		return strerror(errno);
	ring = map;
	if (ring->magic != RING_MAGIC || ring->size % ALIGNMENT || ring->size + DATA_OFFSET > (uint64_t)st.st_size) {
		ring = NULL;
		return "not a ring of frames";
	}
	data = (unsigned char *)map + DATA_OFFSET;
	reserved = atomic_load(&ring->written);
	return NULL;
}

int ring_is_open(void)
{
	return ring != NULL;
}

static void kick(void)
{
	static const char byte = 'k';

	kicked = atomic_load_explicit(&ring->written, memory_order_relaxed);
	while (write(STDOUT_FILENO, &byte, 1) < 0) {
		if (errno == EINTR)
			continue;
		if (errno == EAGAIN)
			return; /* it has enough to wake up for */
		_exit(errno == EPIPE ? 0 : 5);
	}
}

/* Until `length` bytes are free. A reader that has gone is found by the write of its wake-up. */
static void wait_for_room(uint64_t from, uint64_t length)
{
	while (from + length - atomic_load_explicit(&ring->read, memory_order_acquire) > ring->size) {
		struct timespec pause = { 0, WAIT_NS };

		kick();
		nanosleep(&pause, NULL);
	}
}

unsigned char *ring_reserve(size_t length)
{
	uint64_t from = atomic_load_explicit(&ring->written, memory_order_relaxed);
	uint64_t whole = (length + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	uint64_t at = from % ring->size;

	if (whole > ring->size / 2) {
		fprintf(stderr, "srcap: a frame of %zu bytes does not fit a ring of %llu\n", length, (unsigned long long)ring->size);
		_exit(5);
	}
	if (at + whole > ring->size) {
		/* A record lies in one piece: the rest of the ring is skipped. */
		wait_for_room(from, ring->size - at);
		uint32_t skip = SKIP_MAGIC;

		memcpy(data + at, &skip, sizeof skip);
		from += ring->size - at;
		atomic_store_explicit(&ring->written, from, memory_order_release);
		at = 0;
	}
	wait_for_room(from, whole);
	reserved = from + whole;
	return data + at;
}

void ring_commit(void)
{
	atomic_store_explicit(&ring->written, reserved, memory_order_release);
}

void ring_kick(int64_t now_ns, int at_once)
{
	uint64_t written = atomic_load_explicit(&ring->written, memory_order_relaxed);

	if (written == kicked || (!at_once && now_ns - kicked_ns < RING_KICK_NS && written - kicked < ring->size / 2))
		return;
	kicked_ns = now_ns;
	kick();
}
