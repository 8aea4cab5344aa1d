/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "window_stream.h"

#include "clock.h"
#include "device.h"

#include <inttypes.h>

#define LINE_MAX_BYTES (24 + POWER_MAX_RAILS * 2 * 24)

void stream_begin(struct window_stream *stream, struct drive *drive, int64_t window_ns,
		  struct json_writer *reply)
{
	struct power *power = drive->power;
	int64_t own_ns = power_window_ns(power);
	int64_t longest_ns = power_mean_max_windows(power) * own_ns;
	int64_t now_ns, first, end;

	if (window_ns <= 0 || window_ns % own_ns != 0 || window_ns > longest_ns) {
		json_error_line(reply,
				"stream: the window is a multiple of %" PRId64 " ns, at most %" PRId64 " ns",
				own_ns, longest_ns);
		return;
	}
	pthread_mutex_lock(&drive->lock);
	now_ns = clock_monotonic_ns();
	device_advance(drive, now_ns);
	power_windows(power, &first, &end);
	pthread_mutex_unlock(&drive->lock);
	stream->active = true;
	stream->windows_per_line = window_ns / own_ns;
	/* The window that is running now, or the next if the twin began in it. */
	stream->next_line = now_ns / window_ns;
	if (stream->next_line * stream->windows_per_line < first)
		stream->next_line++;
}

bool stream_fill(struct window_stream *stream, struct drive *drive, struct json_writer *out)
{
	struct power *power = drive->power;
	unsigned rail_count = power_rail_count(power);
	int64_t first, end;
	bool held = true;

	pthread_mutex_lock(&drive->lock);
	power_windows(power, &first, &end);
	while ((stream->next_line + 1) * stream->windows_per_line <= end &&
	       out->length + LINE_MAX_BYTES < out->size) {
		int64_t window = stream->next_line * stream->windows_per_line;

		held = window >= first;
		if (!held)
			break;
		json_raw(out, "%" PRId64, stream->next_line);
		for (unsigned r = 0; r < rail_count; r++) {
			double volts, amps;

			power_mean(power, window, stream->windows_per_line, r, &volts, &amps);
			json_raw(out, " %.9g %.9g", volts, amps);
		}
		json_raw(out, "\n");
		stream->next_line++;
	}
	pthread_mutex_unlock(&drive->lock);
	return held;
}
