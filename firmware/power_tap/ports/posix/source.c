/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "source.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define NS_PER_SECOND 1000000000LL
#define RETRY_NS NS_PER_SECOND
/* A window that lies further ahead than this is not of our clock. */
#define MOST_AHEAD_NS NS_PER_SECOND
#define MAX_COLUMNS 16

void source_init(struct source *source, const char *path)
{
	memset(source, 0, sizeof *source);
	source->path = path;
	source->fd = -1;
}

static void drop(struct source *source, struct align *align, int64_t now_ns, const char *why)
{
	if (source->fd >= 0)
		close(source->fd);
	if (source->state == SOURCE_STREAM || !source->was_reported)
		fprintf(stderr, "power_tap: source %s: %s; its rails read 0 V, 0 A\n", source->path, why);
	source->was_reported = true;
	source->fd = -1;
	source->state = SOURCE_ABSENT;
	source->length = 0;
	source->ended = false;
	source->retry_ns = now_ns + RETRY_NS;
	for (unsigned r = 0; r < SAMPLER_RAILS; r++)
		if (source->rails[r].used)
			align_detach(align, r);
}

/* The two requests fit any socket buffer, so they go out at once or never. */
static bool say(struct source *source, const char *line)
{
	size_t length = strlen(line);

	return send(source->fd, line, length, MSG_NOSIGNAL) == (ssize_t)length;
}

void source_poll(struct source *source, struct align *align, int64_t now_ns)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	if (source->state != SOURCE_ABSENT || now_ns < source->retry_ns)
		return;
	strncpy(address.sun_path, source->path, sizeof address.sun_path - 1);
	source->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (source->fd < 0 ||
	    connect(source->fd, (const struct sockaddr *)&address, sizeof address) < 0 ||
	    !say(source, "state\n")) {
		drop(source, align, now_ns, strerror(errno));
		return;
	}
	source->state = SOURCE_NAMES;
	for (unsigned r = 0; r < SAMPLER_RAILS; r++)
		if (source->rails[r].used)
			align_attach(align, r);
}

/* A full queue waits for a rail of another source. What comes meanwhile is left
 * with the twin, which closes us if that takes too long. */
static bool has_room(const struct source *source, const struct align *align)
{
	for (unsigned r = 0; r < SAMPLER_RAILS; r++)
		if (source->rails[r].used && align_room(align, r) == 0)
			return false;
	return true;
}

bool source_wants_read(const struct source *source, const struct align *align)
{
	return source->state != SOURCE_ABSENT && !source->ended && source->length < SOURCE_BUFFER &&
	       has_room(source, align);
}

/* The names in the reply to `state`, in its order: "rails":[{"name":"12v",...},...].
 * Rail names have no quotes or escapes in them. */
static unsigned parse_names(const char *json, char names[][SOURCE_RAIL_NAME_SIZE], unsigned most)
{
	const char *at = strstr(json, "\"rails\":[");
	const char *end = at ? strchr(at, ']') : NULL;
	unsigned count = 0;

	if (!end)
		return 0;
	while (count < most) {
		size_t length;

		at = strstr(at, "\"name\":\"");
		if (!at || at > end)
			break;
		at += strlen("\"name\":\"");
		length = strcspn(at, "\"");
		if (length >= SOURCE_RAIL_NAME_SIZE)
			length = SOURCE_RAIL_NAME_SIZE - 1;
		memcpy(names[count], at, length);
		names[count][length] = '\0';
		count++;
	}
	return count;
}

static bool find_columns(struct source *source, const char *json, char *error, size_t error_size)
{
	char names[MAX_COLUMNS][SOURCE_RAIL_NAME_SIZE];
	unsigned count = parse_names(json, names, MAX_COLUMNS);

	for (unsigned r = 0; r < SAMPLER_RAILS; r++) {
		unsigned column = 0;

		if (!source->rails[r].used)
			continue;
		while (column < count && strcmp(names[column], source->rails[r].name) != 0)
			column++;
		if (column == count) {
			int length = snprintf(error, error_size, "--rail %u=%s:%s: no such rail; allowed are",
					      r + 1, source->path, source->rails[r].name);

			for (unsigned n = 0; n < count && length > 0 && (size_t)length < error_size; n++)
				length += snprintf(error + length, error_size - (size_t)length, "%s %s",
						   n ? "," : "", names[n]);
			return false;
		}
		source->rails[r].column = column;
	}
	return true;
}

/* "K V0 I0 V1 I1 ..." */
static bool take_window(struct source *source, struct align *align, const char *line,
			int64_t most_window)
{
	float values[2 * MAX_COLUMNS];
	unsigned count = 0;
	char *end;
	int64_t window = strtoll(line, &end, 10);

	if (end == line || window > most_window)
		return false;
	while (*end == ' ' && count < 2 * MAX_COLUMNS) {
		const char *start = end + 1;

		values[count] = strtof(start, &end);
		if (end == start)
			return false;
		count++;
	}
	if (*end != '\0')
		return false;
	for (unsigned r = 0; r < SAMPLER_RAILS; r++) {
		unsigned column = source->rails[r].column;

		if (!source->rails[r].used)
			continue;
		if (2 * column + 1 >= count)
			return false;
		align_put(align, r, window, values[2 * column], values[2 * column + 1]);
	}
	return true;
}

static bool take_line(struct source *source, struct align *align, const char *line,
		      int64_t window_ns, int64_t now_ns, char *error, size_t error_size)
{
	if (source->state == SOURCE_NAMES) {
		char request[64];

		if (!find_columns(source, line, error, error_size))
			return false;
		snprintf(request, sizeof request, "stream %" PRId64 "\n", window_ns);
		if (!say(source, request)) {
			drop(source, align, now_ns, strerror(errno));
			return true;
		}
		source->state = SOURCE_STREAM;
		if (source->was_reported)
			fprintf(stderr, "power_tap: source %s: connected\n", source->path);
		source->was_reported = false;
		return true;
	}
	if (*line == '{') {
		snprintf(error, error_size, "--rate: source %s refuses a window of %" PRId64 " ns: %s",
			 source->path, window_ns, line);
		return false;
	}
	if (!take_window(source, align, line, (now_ns + MOST_AHEAD_NS) / window_ns))
		drop(source, align, now_ns, "sent a line that is no window of this clock");
	return true;
}

static bool has_line(const struct source *source)
{
	return memchr(source->buffer, '\n', source->length) != NULL;
}

bool source_work(struct source *source, struct align *align, int64_t window_ns, int64_t now_ns,
		 char *error, size_t error_size)
{
	size_t used = 0;
	char *newline;

	if (source->state == SOURCE_ABSENT)
		return true;
	if (!source->ended && source->length < SOURCE_BUFFER) {
		ssize_t got = recv(source->fd, source->buffer + source->length,
				   SOURCE_BUFFER - source->length, 0);

		if (got > 0)
			source->length += (size_t)got;
		else if (got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
			source->ended = true;
	}
	while (has_room(source, align) &&
	       (newline = memchr(source->buffer + used, '\n', source->length - used))) {
		const char *line = source->buffer + used;

		*newline = '\0';
		used = (size_t)(newline - source->buffer) + 1;
		if (!take_line(source, align, line, window_ns, now_ns, error, error_size))
			return false;
		if (source->state == SOURCE_ABSENT)
			return true;
	}
	source->length -= used;
	memmove(source->buffer, source->buffer + used, source->length);
	/* What it sent before it went counts: first that, then the end. */
	if (!has_line(source)) {
		if (source->ended)
			drop(source, align, now_ns, "closed");
		else if (source->length == SOURCE_BUFFER)
			drop(source, align, now_ns, "sent a line that does not end");
	}
	return true;
}
