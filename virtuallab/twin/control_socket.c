/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "control_socket.h"

#include "clock.h"
#include "control_commands.h"
#include "device.h"
#include "json_writer.h"
#include "window_stream.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define NS_PER_SECOND 1000000000
#define MAX_CLIENTS 32
#define MAX_LINE 65536
#define BATCH_NS 10000000
#define KEEP_HEALTH_NS (10LL * NS_PER_SECOND)

_Static_assert(CLOCK_RECORD_SECONDS >= POWER_HISTORY_SECONDS + 2,
	       "a time of the energy's record is known to the clock's record");

struct client {
	int fd;
	char *in;
	size_t in_length;
	char *out; /* of CONTROL_REPLY_SIZE bytes, of which [out_start, out_end) are to be sent */
	size_t out_start, out_end;
	struct window_stream stream;
};

struct control_socket {
	int listener;
	int stop_event;
	char path[sizeof ((struct sockaddr_un *)0)->sun_path];
	dev_t socket_device;
	ino_t socket_inode;
	pthread_t thread;
	bool running;
	struct control_context context;
	struct client clients[MAX_CLIENTS];
	unsigned client_count;
	int64_t keep_health_ns; /* the next time */
	int64_t next_batch_ns;
	bool works; /* the drive has internal work to do, such as garbage collection */
};

static bool send_pending(struct client *client)
{
	while (client->out_start < client->out_end) {
		ssize_t sent = send(client->fd, client->out + client->out_start,
				    client->out_end - client->out_start, MSG_NOSIGNAL);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0)
			return errno == EAGAIN || errno == EWOULDBLOCK;
		client->out_start += (size_t)sent;
	}
	client->out_start = client->out_end = 0;
	return true;
}

static void disconnect(struct control_socket *control, unsigned index)
{
	struct client *client = &control->clients[index];

	close(client->fd);
	free(client->in);
	free(client->out);
	*client = control->clients[--control->client_count];
}

static void accept_client(struct control_socket *control)
{
	struct client client = { .fd = accept4(control->listener, NULL, NULL,
					       SOCK_NONBLOCK | SOCK_CLOEXEC) };

	if (client.fd < 0)
		return;
	client.in = malloc(MAX_LINE);
	client.out = malloc(CONTROL_REPLY_SIZE);
	if (!client.in || !client.out || control->client_count == MAX_CLIENTS) {
		free(client.in);
		free(client.out);
		close(client.fd);
		return;
	}
	control->clients[control->client_count++] = client;
}

static bool execute(struct control_socket *control, struct client *client, const char *line)
{
	struct json_writer reply;

	json_init(&reply, client->out, CONTROL_REPLY_SIZE, 0);
	control_execute(&control->context, line, &reply, &client->stream);
	client->out_end = reply.length;
	return json_is_whole(&reply) && send_pending(client);
}

/* Carries out the complete lines in the buffer, one at a time: the next only when
 * the reply before it has left, so that replies are bounded. */
static bool serve_lines(struct control_socket *control, struct client *client)
{
	char *newline;

	while (!client->stream.active && client->out_end == 0 &&
	       (newline = memchr(client->in, '\n', client->in_length))) {
		size_t used = (size_t)(newline - client->in) + 1;
		bool alive;

		*newline = '\0';
		if (newline > client->in && newline[-1] == '\r')
			newline[-1] = '\0';
		alive = execute(control, client, client->in);
		client->in_length -= used;
		memmove(client->in, client->in + used, client->in_length);
		if (!alive)
			return false;
	}
	if (client->stream.active)
		client->in_length = 0;
	return true;
}

static bool read_client(struct control_socket *control, struct client *client)
{
	ssize_t got = recv(client->fd, client->in + client->in_length,
			   MAX_LINE - client->in_length, 0);

	if (got == 0)
		return false;
	if (got < 0)
		return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
	client->in_length += (size_t)got;
	if (!serve_lines(control, client))
		return false;
	/* A line that is longer than any request. */
	return client->in_length < MAX_LINE || client->out_end > 0;
}

static bool continue_stream(struct control_socket *control, struct client *client)
{
	struct json_writer out;

	if (client->out_start > 0) {
		memmove(client->out, client->out + client->out_start,
			client->out_end - client->out_start);
		client->out_end -= client->out_start;
		client->out_start = 0;
	}
	json_init(&out, client->out, CONTROL_REPLY_SIZE, client->out_end);
	if (!stream_fill(&client->stream, control->context.drive, &out))
		return false;
	client->out_end = out.length;
	return send_pending(client);
}

static void serve_streams(struct control_socket *control)
{
	int64_t now_ns = clock_monotonic_ns();

	if (now_ns < control->next_batch_ns)
		return;
	control->next_batch_ns = now_ns + BATCH_NS;
	for (unsigned n = control->client_count; n-- > 0;) {
		struct client *client = &control->clients[n];

		if (client->stream.active && !continue_stream(control, client))
			disconnect(control, n);
	}
}

/* For a twin that is killed. */
static void keep_health(struct control_socket *control)
{
	struct drive *drive = control->context.drive;
	int64_t now_ns = clock_monotonic_ns();
	struct health health;
	double celsius;

	if (now_ns < control->keep_health_ns)
		return;
	control->keep_health_ns = now_ns + KEEP_HEALTH_NS;
	device_health(drive, &health, &celsius);
	health_save(&health, drive->health_path, true);
}

/* Also without clients: the longer nothing settles the models, the longer the next
 * thread to do so would hold the lock that operations wait for. */
static void keep_up(struct control_socket *control)
{
	const struct clock_offset offset = clock_offset_now();
	struct drive *drive = control->context.drive;

	device_catch_up(drive);
	pthread_mutex_lock(&drive->lock);
	control->works = timing_next_ns(drive->timing) != INT64_MAX ||
			 timing_work_ns(drive->timing) != INT64_MAX;
	pthread_mutex_unlock(&drive->lock);
	keep_health(control);
	clock_note(&control->context.clocks, &offset);
}

/* Until one of the descriptors is ready, or something is due. False when the
 * thread is to end. */
static bool wait_for_something(struct control_socket *control, struct pollfd *polled)
{
	int64_t now_ns = clock_monotonic_ns();
	int64_t due_ns = cut_tick(control->context.drive->cut);
	int64_t wait_ns = control->works && due_ns > now_ns + BATCH_NS ? BATCH_NS : due_ns - now_ns;
	struct timespec timeout;

	polled[0] = (struct pollfd){ .fd = control->stop_event, .events = POLLIN };
	polled[1] = (struct pollfd){ .fd = control->listener, .events = POLLIN };
	for (unsigned n = 0; n < control->client_count; n++) {
		const struct client *client = &control->clients[n];

		polled[2 + n] = (struct pollfd){
			.fd = client->fd,
			.events = (short)((client->out_end > 0 ? POLLOUT : 0) |
					  (client->in_length < MAX_LINE ? POLLIN : 0)) };
		if (client->stream.active && control->next_batch_ns - now_ns < wait_ns)
			wait_ns = control->next_batch_ns - now_ns;
	}
	if (wait_ns < 0)
		wait_ns = 0;
	timeout.tv_sec = wait_ns / NS_PER_SECOND;
	timeout.tv_nsec = wait_ns % NS_PER_SECOND;
	if (ppoll(polled, 2 + control->client_count, &timeout, NULL) < 0 && errno != EINTR)
		return false;
	return !polled[0].revents;
}

static bool serve_client(struct control_socket *control, struct client *client, short revents)
{
	if (revents & POLLIN) {
		if (!read_client(control, client))
			return false;
	} else if (revents & (POLLERR | POLLHUP | POLLNVAL)) {
		return false;
	}
	return !(revents & POLLOUT) || (send_pending(client) && serve_lines(control, client));
}

static void *serve(void *argument)
{
	struct control_socket *control = argument;
	struct pollfd polled[2 + MAX_CLIENTS];

	while (wait_for_something(control, polled)) {
		keep_up(control);
		/* From the back: a client that goes is replaced by the last one. */
		for (unsigned n = control->client_count; n-- > 0;)
			if (!serve_client(control, &control->clients[n], polled[2 + n].revents))
				disconnect(control, n);
		if (polled[1].revents)
			accept_client(control);
		serve_streams(control);
	}
	while (control->client_count)
		disconnect(control, 0);
	return NULL;
}

static bool is_in_use(const struct sockaddr_un *address)
{
	int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool used = probe >= 0 &&
		    connect(probe, (const struct sockaddr *)address, sizeof *address) == 0;

	if (probe >= 0)
		close(probe);
	return used;
}

/* Fills in the address, and removes a socket that no process listens on. */
static bool free_path(const char *path, struct sockaddr_un *address, char *error, size_t error_size)
{
	struct stat existing;

	if (strlen(path) >= sizeof address->sun_path) {
		snprintf(error, error_size, "control=%s: %zu characters: allowed are at most %zu", path,
			 strlen(path), sizeof address->sun_path - 1);
		return false;
	}
	strcpy(address->sun_path, path);
	if (lstat(path, &existing) < 0)
		return true;
	if (!S_ISSOCK(existing.st_mode)) {
		snprintf(error, error_size, "control=%s: exists and is not a socket", path);
		return false;
	}
	if (is_in_use(address)) {
		snprintf(error, error_size, "control=%s: another twin listens there", path);
		return false;
	}
	unlink(path);
	return true;
}

struct control_socket *control_socket_listen(const char *path, char *error, size_t error_size)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct control_socket *control;
	struct stat made;

	if (!free_path(path, &address, error, error_size))
		return NULL;
	control = calloc(1, sizeof *control);
	if (!control) {
		snprintf(error, error_size, "control=%s: %s", path, strerror(errno));
		return NULL;
	}
	strcpy(control->path, path);
	control->stop_event = eventfd(0, EFD_CLOEXEC);
	control->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (control->stop_event < 0 || control->listener < 0 ||
	    bind(control->listener, (const struct sockaddr *)&address, sizeof address) < 0 ||
	    listen(control->listener, MAX_CLIENTS) < 0 || lstat(path, &made) < 0) {
		snprintf(error, error_size, "control=%s: %s", path, strerror(errno));
		if (control->listener >= 0)
			close(control->listener);
		if (control->stop_event >= 0)
			close(control->stop_event);
		free(control);
		return NULL;
	}
	control->socket_device = made.st_dev;
	control->socket_inode = made.st_ino;
	return control;
}

int control_socket_start(struct control_socket *control, struct drive *drive)
{
	const struct clock_offset offset = clock_offset_now();
	int failure;

	control->context.drive = drive;
	clock_note(&control->context.clocks, &offset);
	failure = pthread_create(&control->thread, NULL, serve, control);
	control->running = failure == 0;
	return failure;
}

void control_socket_stop(struct control_socket *control)
{
	uint64_t one = 1;
	struct stat existing;

	if (!control)
		return;
	if (control->running && write(control->stop_event, &one, sizeof one) == sizeof one)
		pthread_join(control->thread, NULL);
	close(control->listener);
	close(control->stop_event);
	/* Not one that a successor has put there. */
	if (lstat(control->path, &existing) == 0 && existing.st_dev == control->socket_device &&
	    existing.st_ino == control->socket_inode)
		unlink(control->path);
	free(control);
}
