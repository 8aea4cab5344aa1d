/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "log.h"

#include <libsigrok/libsigrok.h>
#include <stdio.h>
#include <time.h>

/* So many lines a second; a reader of stderr that is slower would stop the capture, and its
 * watchdog with it. */
#define LINES_PER_SECOND 5

static int said(void *data, int level, const char *format, va_list args)
{
	static time_t second;
	static int lines;
	struct timespec now;

	(void)data;
	(void)level;
	clock_gettime(CLOCK_MONOTONIC, &now);
	if (now.tv_sec != second) {
		if (lines > LINES_PER_SECOND)
			fprintf(stderr, "libsigrok: and %d more of this\n", lines - LINES_PER_SECOND);
		second = now.tv_sec;
		lines = 0;
	}
	if (++lines > LINES_PER_SECOND)
		return SR_OK;
	fputs("libsigrok: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	return SR_OK;
}

void log_init(void)
{
	sr_log_loglevel_set(SR_LOG_ERR);
	sr_log_callback_set(said, NULL);
}
