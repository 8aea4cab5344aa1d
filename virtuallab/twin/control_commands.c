/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "control_commands.h"

#include <string.h>

/* "W" alone, or what begins no stream. */
static void begin_stream(const struct control_context *context, const char *arguments,
			 struct json_writer *reply, struct window_stream *stream)
{
	int64_t window_ns;

	if (!control_parse_ns(&arguments, &window_ns) || arguments[strspn(arguments, " ")] != '\0')
		window_ns = 0;
	stream_begin(stream, context->drive, window_ns, reply);
}

/* Puts a mark into the log of writes: what a client knows once everything before it is done. */
static void mark(const struct control_context *context, const char *text, struct json_writer *reply)
{
	if (!context->drive->writes) {
		json_error_line(reply, "mark: the twin has no log of writes");
		return;
	}
	if (!write_log_mark(context->drive->writes, text)) {
		json_error_line(reply, "mark: allowed are 1 to %d bytes", WRITE_LOG_MARK_BYTES);
		return;
	}
	json_open(reply, NULL, '{');
	json_text(reply, "mark", text);
	json_close(reply, '}');
	json_raw(reply, "\n");
}

void control_execute(const struct control_context *context, const char *line,
		     struct json_writer *reply, struct window_stream *stream)
{
	if (strcmp(line, "state") == 0)
		control_state(context, reply);
	else if (strcmp(line, "latency") == 0)
		control_latency(context, reply);
	else if (strncmp(line, "history ", 8) == 0)
		control_history(context, line + 8, reply);
	else if (strncmp(line, "stream ", 7) == 0)
		begin_stream(context, line + 7, reply, stream);
	else if (strcmp(line, "power off") == 0)
		control_power_off(context, "", reply);
	else if (strncmp(line, "power off ", 10) == 0)
		control_power_off(context, line + 10, reply);
	else if (strcmp(line, "power on") == 0)
		control_power_on(context, reply);
	else if (strncmp(line, "mark ", 5) == 0)
		mark(context, line + 5, reply);
	else if (strncmp(line, "rail ", 5) == 0)
		control_rail(context, line + 5, reply);
	else
		json_error_line(reply, "allowed are: state, latency, history T1 T2 ..., stream W, "
				       "power off [SEED MODE], power on, rail NAME [off|on], mark TEXT");
}
