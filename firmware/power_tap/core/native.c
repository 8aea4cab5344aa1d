/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The tap's own commands, under TAP: (PROTOCOL.md). */
#include "session.h"

static const struct tap *tap_of(const struct scpi_call *call)
{
	return ((const struct session *)call->instrument)->view.tap;
}

static enum scpi_outcome identify(struct scpi *scpi, const struct scpi_call *call)
{
	scpi_write_text(scpi, "Joulerig,power tap,");
	scpi_write_text(scpi, tap_of(call)->serial);
	scpi_write_text(scpi, ",1");
	return SCPI_DONE;
}

static enum scpi_outcome count(struct scpi *scpi, const struct scpi_call *call)
{
	const struct session *session = call->instrument;
	const struct tap *tap = tap_of(call);

	scpi_write_unsigned(scpi, tap_samples(tap));
	scpi_write_text(scpi, ",");
	scpi_write_unsigned(scpi, tap->overruns[session->view.instrument]);
	return SCPI_DONE;
}

static enum scpi_outcome rate(struct scpi *scpi, const struct scpi_call *call)
{
	scpi_write_unsigned(scpi, tap_of(call)->rate_hz);
	return SCPI_DONE;
}

const struct scpi_command native_commands[] = {
	{ "TAP:IDN?", identify },
	{ "TAP:COUNt?", count },
	{ "TAP:RATE?", rate },
	{ NULL, NULL },
};
