/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Which request a line of the control socket is. Called by its thread alone. */
#ifndef JOULERIG_CONTROL_COMMANDS_H
#define JOULERIG_CONTROL_COMMANDS_H

#include "control_requests.h"
#include "json_writer.h"
#include "window_stream.h"

/* Carries out the request `line`, writes its reply; `stream W` begins the client's
 * stream instead. */
void control_execute(const struct control_context *context, const char *line,
		     struct json_writer *reply, struct window_stream *stream);

#endif
