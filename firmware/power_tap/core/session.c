/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "session.h"

static const struct scpi_command *const tables[] = { rta4004_commands, native_commands, NULL };

void session_open(struct session *session, struct tap *tap, unsigned instrument)
{
	tap_view_open(&session->view, tap, instrument);
	scpi_init(&session->scpi, tables, session, session->out, sizeof session->out);
	session->channels_enabled = (1u << TAP_CHANNELS) - 1;
	session->channels_served = 0;
	session->lines_enabled = 0;
	session->samples_wanted = 0;
	session->format_is_real = true;
}
