/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The requests of the control socket, one function each: it writes one line of
 * JSON (docs/reference/protocols/twin.md). Called by the control socket's thread
 * alone; each takes the locks of the drive (drive.h), one after another.
 */
#ifndef JOULERIG_CONTROL_REQUESTS_H
#define JOULERIG_CONTROL_REQUESTS_H

#include "clock.h"
#include "drive.h"
#include "json_writer.h"

#include <stdbool.h>
#include <stdint.h>

/* Room for the longest reply: `history` with all rails. */
#define CONTROL_REPLY_SIZE (1 << 23)

struct control_context {
	struct drive *drive;
	struct clock_record clocks;
};

/* control_state.c */
void control_state(const struct control_context *context, struct json_writer *reply);
void control_latency(const struct control_context *context, struct json_writer *reply);

/* control_history.c: `arguments` are the times, real. */
void control_history(const struct control_context *context, const char *arguments,
		     struct json_writer *reply);
/* Reads a decimal number of nanoseconds, and moves *text behind it. False where
 * there is none. */
bool control_parse_ns(const char **text, int64_t *value);

/* control_power.c: `arguments` are "" or "SEED MODE"; "NAME", "NAME on", "NAME off". */
void control_power_off(const struct control_context *context, const char *arguments,
		       struct json_writer *reply);
void control_power_on(const struct control_context *context, struct json_writer *reply);
void control_rail(const struct control_context *context, const char *arguments,
		  struct json_writer *reply);
/* What `power off` reports, under a key or NULL. */
void control_write_cut(struct json_writer *reply, const char *key, const struct cut_report *report);

#endif
