/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "backing.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

int backing_read(int fd, void *data, size_t bytes, uint64_t offset)
{
	char *to = data;

	for (size_t done = 0; done < bytes;) {
		ssize_t got = pread(fd, to + done, bytes - done, (off_t)(offset + done));

		if (got < 0 && errno == EINTR)
			continue;
		if (got == 0)
			errno = EIO;
		if (got <= 0)
			return -1;
		done += (size_t)got;
	}
	return 0;
}

int backing_write(int fd, const void *data, size_t bytes, uint64_t offset)
{
	const char *from = data;

	for (size_t done = 0; done < bytes;) {
		ssize_t put = pwrite(fd, from + done, bytes - done, (off_t)(offset + done));

		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0)
			return -1;
		done += (size_t)put;
	}
	return 0;
}

int backing_zero(int fd, uint64_t bytes, uint64_t offset)
{
	static const char zeroes[65536];

	if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)bytes) == 0)
		return 0;
	if (errno != EOPNOTSUPP)
		return -1;
	for (uint64_t done = 0; done < bytes;) {
		size_t chunk = bytes - done < sizeof zeroes ? (size_t)(bytes - done) : sizeof zeroes;

		if (backing_write(fd, zeroes, chunk, offset + done) < 0)
			return -1;
		done += chunk;
	}
	return 0;
}
