/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A reader's stream of window means (request `stream W`): a line for each window
 * of the power model, in order and without gaps. The functions take the drive's
 * lock; a stream belongs to one thread.
 */
#ifndef JOULERIG_WINDOW_STREAM_H
#define JOULERIG_WINDOW_STREAM_H

#include "drive.h"
#include "json_writer.h"

#include <stdbool.h>
#include <stdint.h>

struct window_stream {
	bool active;
	int64_t windows_per_line;
	int64_t next_line;
};

/* Begins with the window that is running, or writes an error to `reply` where the
 * power model has no such window. */
void stream_begin(struct window_stream *stream, struct drive *drive, int64_t window_ns,
		  struct json_writer *reply);

/* Appends what is due, as long as it fits. False when a window that the reader has
 * not had is no longer held: then it must be disconnected, for a gap would look
 * like a stream without one. */
bool stream_fill(struct window_stream *stream, struct drive *drive, struct json_writer *out);

#endif
