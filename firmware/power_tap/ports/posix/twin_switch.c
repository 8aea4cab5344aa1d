/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "twin_switch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define REPLY_SIZE 512

/* One line there, one line back. */
static bool ask(const char *path, const char *request, char reply[REPLY_SIZE])
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct timeval longest = { .tv_sec = 1 };
	size_t length = 0;
	bool answered = false;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return false;
	strncpy(address.sun_path, path, sizeof address.sun_path - 1);
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &longest, sizeof longest) == 0 &&
	    connect(fd, (const struct sockaddr *)&address, sizeof address) == 0 &&
	    send(fd, request, strlen(request), MSG_NOSIGNAL) == (ssize_t)strlen(request)) {
		while (!answered && length < REPLY_SIZE - 1) {
			ssize_t got = recv(fd, reply + length, REPLY_SIZE - 1 - length, 0);

			if (got <= 0)
				break;
			length += (size_t)got;
			answered = reply[length - 1] == '\n';
		}
		reply[length] = '\0';
	}
	close(fd);
	return answered;
}

bool twin_switch(const char *path, const char *rail, bool on, int64_t *switched_ns)
{
	char request[128], reply[REPLY_SIZE];
	const char *at;

	snprintf(request, sizeof request, "rail %s %s\n", rail, on ? "on" : "off");
	if (!ask(path, request, reply) || !(at = strstr(reply, "\"switched_ns\":")))
		return false;
	*switched_ns = strtoll(at + strlen("\"switched_ns\":"), NULL, 10);
	return true;
}

bool twin_rail_is_on(const char *path, const char *rail, bool *on)
{
	char request[128], reply[REPLY_SIZE];

	snprintf(request, sizeof request, "rail %s\n", rail);
	if (!ask(path, request, reply) || !strstr(reply, "\"on\":"))
		return false;
	*on = strstr(reply, "\"on\":true") != NULL;
	return true;
}
