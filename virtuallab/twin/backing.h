/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Whole reads and writes of the file that holds a virtual drive's durable data. */
#ifndef JOULERIG_BACKING_H
#define JOULERIG_BACKING_H

#include <stddef.h>
#include <stdint.h>

/* All of them: 0, or -1 with errno (EIO where the file ends too early). */
int backing_read(int fd, void *data, size_t bytes, uint64_t offset);
int backing_write(int fd, const void *data, size_t bytes, uint64_t offset);
/* Gives the space back where the file system can, else writes zeroes. */
int backing_zero(int fd, uint64_t bytes, uint64_t offset);

#endif
