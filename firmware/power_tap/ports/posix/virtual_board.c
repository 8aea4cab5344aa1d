/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "virtual_board.h"
#include "twin_switch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define MAX_PATH 4096

static bool read_switch(const char *path, bool *on)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char text[16];
	ssize_t length;

	if (fd < 0)
		return false;
	length = read(fd, text, sizeof text - 1);
	close(fd);
	if (length <= 0)
		return false;
	text[length] = '\0';
	*on = strtol(text, NULL, 10) != 0;
	return true;
}

static bool write_switch(const char *path, bool on, int64_t *switched_ns)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC | O_TRUNC);
	struct timespec now;
	bool written, is_on;

	if (fd < 0)
		return false;
	written = write(fd, on ? "1\n" : "0\n", 2) == 2;
	clock_gettime(CLOCK_MONOTONIC, &now);
	*switched_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
	return close(fd) == 0 && written && read_switch(path, &is_on) && is_on == on;
}

/* False where nothing switches the rail: it stays as it is. */
static bool command(const struct virtual_board *board, unsigned rail, bool on, int64_t *switched_ns)
{
	if (board->rails[rail].is_measured)
		return board->rails[rail].switch_file &&
		       write_switch(board->rails[rail].switch_file, on, switched_ns);
	return twin_switch(board->rails[rail].twin_path, board->rails[rail].twin_rail, on, switched_ns);
}

static void set_rail(void *context, unsigned rail, bool on)
{
	struct virtual_board *board = context;
	int64_t switched_ns;

	board->rails[rail].switched_sample = board->next_sample;
	if (board->rails[rail].twin_path || board->rails[rail].is_measured) {
		if (!command(board, rail, on, &switched_ns)) {
			fprintf(stderr, "power_tap: rail %u: its switch does not switch it\n", rail + 1);
			if (board->rails[rail].is_measured)
				return;
		} else if (switched_ns / board->window_ns > board->next_window) {
			board->rails[rail].switched_sample +=
				(uint64_t)(switched_ns / board->window_ns - board->next_window);
		}
	}
	if (board->rails[rail].on && !on)
		board->rails[rail].samples_since_cut = 0;
	board->rails[rail].on = on;
}

/* A twin's rail may also be switched without the tap, and is on when it starts. */
static bool rail_is_on(void *context, unsigned rail)
{
	const struct virtual_board *board = context;
	bool on = board->rails[rail].on;

	if (board->rails[rail].twin_path)
		twin_rail_is_on(board->rails[rail].twin_path, board->rails[rail].twin_rail, &on);
	if (board->rails[rail].switch_file)
		read_switch(board->rails[rail].switch_file, &on);
	return on;
}

static uint64_t switched_sample(void *context, unsigned rail)
{
	return ((const struct virtual_board *)context)->rails[rail].switched_sample;
}

static bool write_whole(int fd, const uint8_t *data, size_t length)
{
	while (length) {
		ssize_t written = write(fd, data, length);

		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0)
			return false;
		data += written;
		length -= (size_t)written;
	}
	return fsync(fd) == 0;
}

/* The file is either as it was or new, never a part. */
static bool store(void *context, const void *data, size_t length)
{
	const char *path = ((const struct virtual_board *)context)->memory_path;
	char new_path[MAX_PATH];
	bool written;
	int fd;

	if ((size_t)snprintf(new_path, sizeof new_path, "%s.new", path) >= sizeof new_path)
		return false;
	fd = open(new_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0)
		return false;
	written = write_whole(fd, data, length);
	if (close(fd) < 0 || !written || rename(new_path, path) < 0) {
		unlink(new_path);
		return false;
	}
	return true;
}

static bool load(void *context, void *data, size_t length)
{
	const char *path = ((const struct virtual_board *)context)->memory_path;
	FILE *file = fopen(path, "rbe");
	bool whole;

	if (!file)
		return false;
	/* A file of another length is no image of ours: it must not pass for an
	 * empty memory. */
	memset(data, 0x55, length);
	whole = fread(data, 1, length, file) == length && fgetc(file) == EOF;
	if (!whole)
		memset(data, 0x55, length);
	fclose(file);
	return true;
}

void virtual_board_init(struct virtual_board *board, int64_t window_ns, const char *memory_path)
{
	memset(board, 0, sizeof *board);
	board->board.context = board;
	board->board.set_rail = set_rail;
	board->board.rail_is_on = rail_is_on;
	board->board.switched_sample = switched_sample;
	board->window_ns = window_ns;
	board->board.name = "posix";
	if (memory_path) {
		board->board.store = store;
		board->board.load = load;
	}
	board->memory_path = memory_path;
	board->markers_fd = -1;
	for (unsigned r = 0; r < SAMPLER_RAILS; r++)
		board->rails[r].on = true;
}

void virtual_board_attach(struct virtual_board *board, unsigned rail, const char *twin_path,
			  const char *twin_rail)
{
	board->rails[rail].twin_path = twin_path;
	board->rails[rail].twin_rail = twin_rail;
}

void virtual_board_measure(struct virtual_board *board, unsigned rail, const char *switch_file)
{
	board->rails[rail].is_measured = true;
	board->rails[rail].switch_file = switch_file;
	if (switch_file)
		read_switch(switch_file, &board->rails[rail].on);
}

bool virtual_board_listen(struct virtual_board *board, const char *path, char *error,
			  size_t error_size)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct stat existing;
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (strlen(path) >= sizeof address.sun_path) {
		snprintf(error, error_size, "--markers %s: allowed is a path of at most 107 characters", path);
		return false;
	}
	strcpy(address.sun_path, path);
	if (fd >= 0 && lstat(path, &existing) == 0) {
		if (!S_ISSOCK(existing.st_mode)) {
			snprintf(error, error_size, "--markers %s: exists and is not a socket", path);
			return false;
		}
		if (connect(fd, (const struct sockaddr *)&address, sizeof address) == 0) {
			snprintf(error, error_size, "--markers %s: another program listens there", path);
			return false;
		}
		unlink(path);
	}
	if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof address) < 0) {
		snprintf(error, error_size, "--markers %s: %s", path, strerror(errno));
		return false;
	}
	board->markers_fd = fd;
	return true;
}

void virtual_board_read_markers(struct virtual_board *board, int64_t now_window)
{
	uint8_t byte;

	/* With a full queue the rest is left in the socket, whose sender waits. */
	while (board->change_count < MARKER_QUEUE && recv(board->markers_fd, &byte, 1, 0) == 1) {
		uint32_t slot = (board->first_change + board->change_count++) % MARKER_QUEUE;

		board->changes[slot].window = now_window;
		board->changes[slot].lines = byte;
	}
}

void virtual_board_apply(struct virtual_board *board, int64_t window, uint32_t decay_samples,
			 struct sample *sample)
{
	while (board->change_count && board->changes[board->first_change].window <= window) {
		board->lines = board->changes[board->first_change].lines;
		board->first_change = (board->first_change + 1) % MARKER_QUEUE;
		board->change_count--;
	}
	if (board->markers_fd >= 0)
		sample->markers = board->lines;
	for (unsigned r = 0; r < SAMPLER_RAILS; r++) {
		uint64_t since = board->rails[r].samples_since_cut;

		if (board->rails[r].on || board->rails[r].twin_path || board->rails[r].is_measured)
			continue;
		sample->amps[r] = 0;
		sample->volts[r] *= since < decay_samples ?
					    (float)(decay_samples - since) / (float)decay_samples :
					    0;
		board->rails[r].samples_since_cut++;
	}
}
