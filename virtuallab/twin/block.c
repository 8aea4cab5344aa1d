/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "block.h"

#include "clock.h"
#include "device.h"

#include <errno.h>

/* The time is taken under the lock, so that the record's times never fall. */
static void served(struct drive *drive, const struct device_operation *operation,
		   const uint64_t amounts[COUNTERS])
{
	int64_t now_ns;

	pthread_mutex_lock(&drive->lock);
	now_ns = clock_monotonic_ns();
	device_served(drive, operation, now_ns, amounts);
	pthread_mutex_unlock(&drive->lock);
}

/* An operation that had begun: its time and its energy are spent, it is counted nowhere. */
static int given_up(struct drive *drive)
{
	int failure = errno;

	pthread_mutex_lock(&drive->lock);
	device_failed(drive, clock_monotonic_ns());
	pthread_mutex_unlock(&drive->lock);
	errno = failure;
	return -1;
}

int block_read(struct drive *drive, void *data, uint32_t bytes, uint64_t offset)
{
	struct device_operation operation;
	uint64_t cycle;

	if (cut_enter(drive->cut, &cycle) < 0 ||
	    device_begin(drive, &operation, cycle, PACE_READ, offset, bytes, false) < 0)
		return -1;
	if (cut_read(drive->cut, cycle, data, bytes, offset) < 0 || device_wait(drive, &operation) < 0 ||
	    cut_finish_read(drive->cut, cycle) < 0)
		return given_up(drive);
	served(drive, &operation, (uint64_t[COUNTERS]){ [COUNTER_READS] = 1, [COUNTER_READ_BYTES] = bytes });
	return 0;
}

/* Of zeroes where there are no data. */
static int write_through_cut(struct drive *drive, enum pace_kind kind, const void *data, uint64_t bytes,
			     uint64_t offset, bool fua, const uint64_t amounts[COUNTERS])
{
	struct device_operation operation;
	uint64_t cycle, ticket;

	if (cut_enter(drive->cut, &cycle) < 0 ||
	    device_begin(drive, &operation, cycle, kind, offset, bytes, fua) < 0)
		return -1;
	if (cut_write(drive->cut, cycle, data, bytes, offset, &ticket) < 0)
		return given_up(drive);
	if (drive->writes)
		write_log_write(drive->writes, data, bytes, offset, fua);
	if (device_wait(drive, &operation) < 0 ||
	    cut_finish_write(drive->cut, cycle, ticket, fua) < 0)
		return given_up(drive);
	served(drive, &operation, amounts);
	return 0;
}

int block_write(struct drive *drive, const void *data, uint32_t bytes, uint64_t offset, bool fua)
{
	return write_through_cut(drive, PACE_WRITE, data, bytes, offset, fua, (uint64_t[COUNTERS]){
		[COUNTER_WRITES] = 1, [COUNTER_WRITE_BYTES] = bytes, [COUNTER_FUA_WRITES] = fua });
}

int block_flush(struct drive *drive)
{
	struct device_operation operation;
	uint64_t cycle, ticket;

	if (cut_enter(drive->cut, &cycle) < 0 || cut_flush(drive->cut, cycle, &ticket) < 0 ||
	    device_begin(drive, &operation, cycle, PACE_FLUSH, 0, 0, false) < 0)
		return -1;
	if (drive->writes)
		write_log_flush(drive->writes);
	if (device_wait(drive, &operation) < 0 || cut_finish_flush(drive->cut, cycle, ticket) < 0)
		return given_up(drive);
	served(drive, &operation, (uint64_t[COUNTERS]){ [COUNTER_FLUSHES] = 1 });
	return 0;
}

int block_discard(struct drive *drive, uint64_t bytes, uint64_t offset, bool fua)
{
	return write_through_cut(drive, PACE_DISCARD, NULL, bytes, offset, fua, (uint64_t[COUNTERS]){
		[COUNTER_DISCARDS] = 1, [COUNTER_DISCARD_BYTES] = bytes });
}

int block_zero(struct drive *drive, uint32_t bytes, uint64_t offset, bool may_unmap, bool fua)
{
	return write_through_cut(drive, may_unmap ? PACE_DISCARD : PACE_WRITE, NULL, bytes, offset, fua,
				 (uint64_t[COUNTERS]){
		[COUNTER_WRITES] = 1, [COUNTER_WRITE_BYTES] = bytes, [COUNTER_ZEROES] = 1,
		[COUNTER_ZERO_BYTES] = bytes, [COUNTER_FUA_WRITES] = fua });
}
