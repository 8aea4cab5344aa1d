/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The operations of a virtual drive, whatever protocol they come by: each takes the
 * time and the power that the models give it, and is counted when it has succeeded.
 * Any thread may call any of them. Each gives 0, or -1 with errno: EIO where the drive
 * has no power, or loses it before the operation ends.
 *
 * An operation is put into the models before its I/O begins, under the drive's lock,
 * so no energy is lost or counted twice however operations interleave; it is counted,
 * likewise in one call, when it has succeeded and its time has come.
 */
#ifndef JOULERIG_BLOCK_H
#define JOULERIG_BLOCK_H

#include "drive.h"

#include <stdbool.h>
#include <stdint.h>

int block_read(struct drive *drive, void *data, uint32_t bytes, uint64_t offset);
int block_write(struct drive *drive, const void *data, uint32_t bytes, uint64_t offset, bool fua);
/* Durable is what lies in the backing file, in the kernel's hands: it outlives this
 * process. That it should also outlive a power cut of the machine under it would
 * cost the time of that machine's disk. */
int block_flush(struct drive *drive);
int block_discard(struct drive *drive, uint64_t bytes, uint64_t offset, bool fua);
/* A write without data. Where the client lets the drive unmap, it costs what a
 * discard costs, else what writing the zeroes costs. */
int block_zero(struct drive *drive, uint32_t bytes, uint64_t offset, bool may_unmap, bool fua);

#endif
