/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "frame.h"

#include "ring.h"

#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define FRAME_MAGIC 0x31465253U
#define HEADER_BYTES 48
#define PIPE_BYTES (1 << 20)

_Static_assert(sizeof(float) == 4, "frames carry IEEE 754 binary32");
_Static_assert(G_BYTE_ORDER == G_LITTLE_ENDIAN, "payload is written as it lies in memory");

static pthread_mutex_t out_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int writing;

static int64_t clock_ns(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

struct stamp stamp_now(void)
{
	struct stamp best = { 0, 0 };
	int64_t best_width = INT64_MAX;

	for (int i = 0; i < 3 && best_width > 2000; i++) {
		int64_t before = clock_ns(CLOCK_MONOTONIC);
		int64_t real = clock_ns(CLOCK_REALTIME);
		int64_t width = clock_ns(CLOCK_MONOTONIC) - before;

		if (width < best_width) {
			best_width = width;
			best.monotonic_ns = before + width / 2;
			best.realtime_ns = real;
		}
	}
	return best;
}

void frame_init(void)
{
	/* A larger pipe rides out a reader that is not scheduled for a while; a plain file or a
	 * refused size is no harm. */
	(void)fcntl(STDOUT_FILENO, F_SETPIPE_SZ, PIPE_BYTES);
}

static void put(unsigned char *at, uint64_t value, int bytes)
{
	for (int i = 0; i < bytes; i++)
		at[i] = (unsigned char)(value >> (8 * i));
}

static void fill_header(unsigned char *header, const struct frame *f)
{
	put(header + 0, FRAME_MAGIC, 4);
	put(header + 4, f->type, 2);
	put(header + 6, f->channel, 2);
	put(header + 8, f->mq, 4);
	put(header + 12, f->unit, 4);
	put(header + 16, f->n, 4);
	put(header + 20, f->length, 4);
	put(header + 24, f->first, 8);
	put(header + 32, (uint64_t)f->at.monotonic_ns, 8);
	put(header + 40, (uint64_t)f->at.realtime_ns, 8);
}

static void write_to_ring(const struct frame *f)
{
	unsigned char *record = ring_reserve(HEADER_BYTES + f->length);

	fill_header(record, f);
	if (f->length)
		memcpy(record + HEADER_BYTES, f->payload, f->length);
	ring_commit();
	ring_kick(f->at.monotonic_ns, f->type == FRAME_EVENT);
}

static void write_to_stdout(const struct frame *f)
{
	unsigned char header[HEADER_BYTES];
	struct iovec iov[2] = {
		{ header, sizeof header },
		{ (void *)(uintptr_t)f->payload, f->length },
	};
	struct iovec *v = iov;
	int count = f->length ? 2 : 1;

	fill_header(header, f);
	while (count > 0) {
		ssize_t done = writev(STDOUT_FILENO, v, count);

		if (done < 0) {
			if (errno == EINTR)
				continue;
			if (errno != EPIPE)
				fprintf(stderr, "srcap: stdout: %s\n", strerror(errno));
			/* The reader is gone: as good as a stop. */
			_exit(errno == EPIPE ? 0 : 5);
		}
		while (count > 0 && (size_t)done >= v->iov_len) {
			done -= (ssize_t)v->iov_len;
			v++;
			count--;
		}
		if (count > 0) {
			v->iov_base = (char *)v->iov_base + done;
			v->iov_len -= (size_t)done;
		}
	}
}

static void write_locked(const struct frame *f)
{
	if (ring_is_open())
		write_to_ring(f);
	else
		write_to_stdout(f);
}

void frame_write(const struct frame *f)
{
	atomic_store(&writing, 1);
	pthread_mutex_lock(&out_lock);
	write_locked(f);
	pthread_mutex_unlock(&out_lock);
	atomic_store(&writing, 0);
}

static struct frame event_frame(const char *json)
{
	return (struct frame){
		.type = FRAME_EVENT,
		.channel = FRAME_NO_CHANNEL,
		.length = (uint32_t)strlen(json),
		.at = stamp_now(),
		.payload = json,
	};
}

void frame_event(const char *json)
{
	struct frame f = event_frame(json);

	frame_write(&f);
}

int frame_try_event(const char *json)
{
	struct frame f = event_frame(json);

	if (pthread_mutex_trylock(&out_lock) != 0)
		return 0;
	write_locked(&f);
	pthread_mutex_unlock(&out_lock);
	return 1;
}

void frame_flush_due(void)
{
	if (!ring_is_open() || pthread_mutex_trylock(&out_lock) != 0)
		return;
	ring_kick(clock_ns(CLOCK_MONOTONIC), 0);
	pthread_mutex_unlock(&out_lock);
}

int frame_is_writing(void)
{
	return atomic_load(&writing);
}

char *json_quote(const char *text)
{
	/* Instruments send what they like in their identity; JSON must be UTF-8. */
	char *valid = g_utf8_make_valid(text ? text : "", -1);
	GString *out = g_string_new("\"");

	for (const char *p = valid; *p; p++) {
		if (*p == '"' || *p == '\\')
			g_string_append_printf(out, "\\%c", *p);
		else if ((unsigned char)*p < 0x20)
			g_string_append_printf(out, "\\u%04x", (unsigned)*p);
		else
			g_string_append_c(out, *p);
	}
	g_free(valid);
	g_string_append_c(out, '"');
	return g_string_free(out, FALSE);
}
