/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The log of writes: everything that changes the drive, with its data, and the
 * flushes between, in the format of Linux's dm-log-writes (version 1): a sector
 * of 512 bytes at the beginning, then for each entry a sector and its data.
 *
 * An entry is in the place at which the write came into the drive's cache, a
 * flush where it was asked for. Marks are a client's, who says what it knows at
 * that point. Each function locks for itself. The file is whole after
 * write_log_close; an error is kept until then.
 */
#ifndef JOULERIG_WRITE_LOG_H
#define JOULERIG_WRITE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#define WRITE_LOG_SECTOR 512
#define WRITE_LOG_MARK_BYTES (WRITE_LOG_SECTOR - 32) /* the most that a mark has */

struct write_log;

/* NULL: errno says why. */
struct write_log *write_log_open(const char *path);
/* Offset and bytes in whole sectors. data NULL: zeroes, logged as a discard. */
void write_log_write(struct write_log *log, const void *data, uint64_t bytes, uint64_t offset, bool fua);
void write_log_flush(struct write_log *log);
/* False where the text is empty or too long. */
bool write_log_mark(struct write_log *log, const char *text);
/* False, and errno, where not everything was written. NULL is allowed. */
bool write_log_close(struct write_log *log);

#endif
