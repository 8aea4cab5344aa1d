/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "write_log.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of the format. */
#define MAGIC UINT64_C(0x6a736677736872)
#define VERSION 1
static const uint64_t FLUSH = 1, FUA = 2, DISCARD = 4, MARK = 8;

struct write_log {
	pthread_mutex_t lock;
	FILE *file;
	uint64_t entries;
	int error; /* the first one */
};

/* A sector of numbers, little-endian, with text behind them. */
static void put_sector(struct write_log *log, const uint64_t numbers[4], const char *text)
{
	unsigned char sector[WRITE_LOG_SECTOR] = { 0 };

	for (unsigned byte = 0; byte < 4 * sizeof(uint64_t); byte++)
		sector[byte] = (unsigned char)(numbers[byte / 8] >> 8 * (byte % 8));
	memcpy(sector + 4 * sizeof(uint64_t), text, strlen(text));
	if (fwrite(sector, sizeof sector, 1, log->file) != 1 && !log->error)
		log->error = errno;
}

static void put_head(struct write_log *log)
{
	put_sector(log, (uint64_t[]){ MAGIC, VERSION, log->entries, WRITE_LOG_SECTOR }, "");
}

static void put_entry(struct write_log *log, uint64_t offset, uint64_t bytes, uint64_t flags, const char *mark,
		      const void *data)
{
	pthread_mutex_lock(&log->lock);
	put_sector(log, (uint64_t[]){ offset / WRITE_LOG_SECTOR, bytes / WRITE_LOG_SECTOR, flags, strlen(mark) },
		   mark);
	if (data && fwrite(data, 1, bytes, log->file) != bytes && !log->error)
		log->error = errno;
	log->entries++;
	pthread_mutex_unlock(&log->lock);
}

struct write_log *write_log_open(const char *path)
{
	struct write_log *log = calloc(1, sizeof *log);

	if (!log)
		return NULL;
	log->file = fopen(path, "wbe");
	if (!log->file) {
		free(log);
		return NULL;
	}
	pthread_mutex_init(&log->lock, NULL);
	put_head(log);
	return log;
}

void write_log_write(struct write_log *log, const void *data, uint64_t bytes, uint64_t offset, bool fua)
{
	put_entry(log, offset, bytes, (data ? 0 : DISCARD) | (fua ? FUA : 0), "", data);
}

void write_log_flush(struct write_log *log)
{
	put_entry(log, 0, 0, FLUSH, "", NULL);
}

bool write_log_mark(struct write_log *log, const char *text)
{
	if (*text == '\0' || strlen(text) > WRITE_LOG_MARK_BYTES)
		return false;
	put_entry(log, 0, 0, MARK, text, NULL);
	return true;
}

bool write_log_close(struct write_log *log)
{
	int error;

	if (!log)
		return true;
	rewind(log->file);
	put_head(log);
	error = log->error;
	if (fclose(log->file) != 0 && !error)
		error = errno;
	pthread_mutex_destroy(&log->lock);
	free(log);
	errno = error;
	return error == 0;
}
