/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * connect(), send() and recv() in place of the C library's, for libsigrok's SCPI over TCP, which
 *  - takes what one recv() gives for a whole reply: a reply in two segments is read as two
 *    replies, and from then on each answer is taken for that of the request after (amps for
 *    volts);
 *  - takes bytes that are left from before for the answer to a new request, with the same effect;
 *  - reads a reply that is empty as the number zero;
 *  - goes on reading a connection that is closed, as fast as it can;
 *  - leaves Nagle's algorithm on: a command that is followed by a query costs 40 ms.
 *
 * Here a reply of text is whole when it ends with a newline, an empty one is made what is no
 * number, a request is answered by what came after it, and small packets go out at once. Blocks
 * of data (#...) carry their length, which libsigrok minds, and pass unchanged.
 *
 * The kernel's stamp of when bytes arrived is kept: a process that gets its turn late would take
 * them for late.
 */
#define _GNU_SOURCE
#include "tcp.h"

#include "watchdog.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* How long the rest of a reply may take; what is there then is all there is. */
#define REST_MS 1000
#define MAX_FD 1024
/* A stamp that is older belongs to other clocks: the real one was set meanwhile. */
#define MAX_AGE_NS 1000000000

/* Whether a reply has yet to begin. libsigrok talks to an instrument from one thread. */
static unsigned char expected[MAX_FD];

/* CLOCK_REALTIME of the bytes that were received last; 0 where the kernel gave none. */
static int64_t arrived_ns;

int connect(int fd, const struct sockaddr *address, socklen_t length)
{
	int one = 1;

	/* Of no use to a socket that is not TCP's, and no harm. */
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof one);
	return (int)syscall(SYS_connect, fd, address, length);
}

struct stamp tcp_arrival(struct stamp now)
{
	int64_t age = now.realtime_ns - arrived_ns;

	if (!arrived_ns || age < 0 || age > MAX_AGE_NS)
		return now;
	return (struct stamp){ now.monotonic_ns - age, arrived_ns };
}

static ssize_t receive(int fd, void *buffer, size_t size, int flags)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(struct timespec))];
	} control;
	struct iovec data = { .iov_base = buffer, .iov_len = size };
	struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control };
	ssize_t got = recvmsg(fd, &message, flags);

	if (got <= 0)
		return got;
	arrived_ns = 0;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
		struct timespec at;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_TIMESTAMPNS)
			continue;
		memcpy(&at, CMSG_DATA(c), sizeof at);
		arrived_ns = (int64_t)at.tv_sec * 1000000000 + at.tv_nsec;
	}
	return got;
}

ssize_t send(int fd, const void *data, size_t size, int flags)
{
	if (fd >= 0 && fd < MAX_FD) {
		char old[4096];

		while (recvfrom(fd, old, sizeof old, MSG_DONTWAIT, NULL, NULL) > 0)
			;
		expected[fd] = 1;
	}
	return sendto(fd, data, size, flags, NULL, 0);
}

/* Only the last line answers the request: what stands before it is from an earlier one. */
static size_t last_line(char *text, size_t length)
{
	size_t start = length - 1;

	while (start > 0 && text[start - 1] != '\n')
		start--;
	if (start == 0 || start == length - 1)
		return length;
	memmove(text, text + start, length - start);
	return length - start;
}

static int is_empty(const char *text, size_t length)
{
	while (length > 0 && (text[length - 1] == '\n' || text[length - 1] == '\r'))
		length--;
	return length == 0;
}

ssize_t recv(int fd, void *buffer, size_t size, int flags)
{
	char *text = buffer;
	ssize_t got = receive(fd, buffer, size, flags);

	if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
		if (watchdog_connection_lost())
			sleep(1);
		return got;
	}
	if (got < 0 || fd < 0 || fd >= MAX_FD || !expected[fd])
		return got;
	expected[fd] = 0;
	if (text[0] == '#')
		return got;
	size_t length = (size_t)got;
	/* What is left from before may also stand in front of a block. */
	char *block = memmem(text, length, "\n#", 2);

	if (block) {
		length -= (size_t)(block + 1 - text);
		memmove(text, block + 1, length);
		return (ssize_t)length;
	}
	while (text[length - 1] != '\n' && length < size) {
		struct pollfd wait = { .fd = fd, .events = POLLIN };

		if (poll(&wait, 1, REST_MS) <= 0)
			return (ssize_t)length;
		got = receive(fd, text + length, size - length, flags);
		if (got <= 0)
			return (ssize_t)length;
		length += (size_t)got;
	}
	if (text[length - 1] == '\n')
		length = last_line(text, length);
	if (size >= 2 && is_empty(text, length)) {
		memcpy(text, "?\n", 2);
		length = 2;
	}
	return (ssize_t)length;
}
