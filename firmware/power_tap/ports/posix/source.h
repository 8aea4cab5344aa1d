/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A twin's control socket as the converter of one or more rails of the tap
 * (docs/reference/protocols/twin.md, "Twin"): connects, finds its rails by name in `state`,
 * then feeds `stream` into the aligner; when the twin is gone, tries again once
 * a second.
 */
#ifndef JOULERIG_SOURCE_H
#define JOULERIG_SOURCE_H

#include "align.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SOURCE_BUFFER 65536
#define SOURCE_RAIL_NAME_SIZE 32

enum source_state { SOURCE_ABSENT, SOURCE_NAMES, SOURCE_STREAM };

struct source {
	const char *path;
	enum source_state state;
	int fd;
	int64_t retry_ns;
	bool was_reported;
	bool ended; /* at its end, but not all of it is used */
	struct {
		bool used;
		char name[SOURCE_RAIL_NAME_SIZE];
		unsigned column; /* of the stream: which pair of volts and amps */
	} rails[SAMPLER_RAILS];
	char buffer[SOURCE_BUFFER];
	size_t length;
};

void source_init(struct source *source, const char *path);

/* Connects, when it is absent and the time has come. */
void source_poll(struct source *source, struct align *align, int64_t now_ns);

/* Whether its descriptor is to be waited on for reading. */
bool source_wants_read(const struct source *source, const struct align *align);

/* Takes what there is to read, without waiting, as far as the aligner has room;
 * to be called after each wait and after samples were taken. False when the
 * configuration is wrong (a rail the twin has not, a rate that does not fit its
 * window): one line in error. */
bool source_work(struct source *source, struct align *align, int64_t window_ns, int64_t now_ns,
		 char *error, size_t error_size);

#endif
