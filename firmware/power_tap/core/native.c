/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The tap's own commands, under TAP: (PROTOCOL.md). */
#include "number.h"
#include "session.h"

#include <string.h>

#define PROTOCOL_VERSION "2"
#define FIRMWARE_VERSION "0.2.0"
#define NS_PER_SECOND 1000000000ULL

static struct tap *tap_of(const struct scpi_call *call)
{
	return ((const struct session *)call->instrument)->view.tap;
}

/* Rails are numbered as the tap's, whichever instrument the client is on: with one
 * client per port, the one that switches is not the one that samples. */
static bool rail_of(struct scpi *scpi, const struct scpi_call *call, unsigned *rail)
{
	if (call->suffix[0] < 1 || call->suffix[0] > TAP_RAILS) {
		scpi_push_error(scpi, SCPI_HEADER_SUFFIX_OUT_OF_RANGE);
		return false;
	}
	*rail = call->suffix[0] - 1;
	return true;
}

/* A count of samples as seconds, to the nanosecond below. */
static void write_seconds(struct scpi *scpi, uint64_t samples, uint32_t rate_hz)
{
	uint64_t ns = samples % rate_hz * NS_PER_SECOND / rate_hz;
	char digits[] = ".000000000";

	for (size_t n = sizeof digits - 1; --n > 0; ns /= 10)
		digits[n] = (char)('0' + ns % 10);
	scpi_write_unsigned(scpi, samples / rate_hz);
	scpi_write_text(scpi, digits);
}

static enum scpi_outcome identify(struct scpi *scpi, const struct scpi_call *call)
{
	const struct tap *tap = tap_of(call);

	scpi_write_text(scpi, "Joulerig,power tap,");
	scpi_write_text(scpi, tap->serial);
	scpi_write_text(scpi, "," PROTOCOL_VERSION "," FIRMWARE_VERSION ",");
	scpi_write_text(scpi, tap->board && tap->board->name ? tap->board->name : "unknown");
	return SCPI_DONE;
}

static enum scpi_outcome count(struct scpi *scpi, const struct scpi_call *call)
{
	const struct session *session = call->instrument;
	const struct tap *tap = tap_of(call);
	uint32_t missed = atomic_load_explicit(&tap->missed, memory_order_relaxed);

	scpi_write_unsigned(scpi, tap_samples(tap));
	scpi_write_text(scpi, ",");
	scpi_write_unsigned(scpi, tap->overruns[session->view.instrument]);
	if (missed) {
		scpi_write_text(scpi, ",");
		scpi_write_unsigned(scpi, missed);
	}
	return SCPI_DONE;
}

static enum scpi_outcome errors(struct scpi *scpi, const struct scpi_call *call)
{
	const struct tap *tap = tap_of(call);

	for (unsigned r = 0; r < TAP_RAILS; r++) {
		if (r)
			scpi_write_text(scpi, ",");
		scpi_write_unsigned(scpi, atomic_load_explicit(&tap->converter_errors[r],
							       memory_order_relaxed));
	}
	return SCPI_DONE;
}

static enum scpi_outcome rate(struct scpi *scpi, const struct scpi_call *call)
{
	scpi_write_unsigned(scpi, tap_of(call)->rate_hz);
	return SCPI_DONE;
}

static enum scpi_outcome uptime(struct scpi *scpi, const struct scpi_call *call)
{
	const struct tap *tap = tap_of(call);

	write_seconds(scpi, tap_samples(tap), tap->rate_hz);
	return SCPI_DONE;
}

static enum scpi_outcome markers(struct scpi *scpi, const struct scpi_call *call)
{
	scpi_write_unsigned(scpi, tap_markers(tap_of(call)));
	return SCPI_DONE;
}

static enum scpi_outcome output(struct scpi *scpi, const struct scpi_call *call)
{
	unsigned rail;

	if (rail_of(scpi, call, &rail))
		scpi_write_text(scpi, tap_rail_is_on(tap_of(call), rail) ? "1" : "0");
	return SCPI_DONE;
}

static enum scpi_outcome set_output(struct scpi *scpi, const struct scpi_call *call)
{
	unsigned rail;
	bool on;

	if (!rail_of(scpi, call, &rail))
		return SCPI_DONE;
	if (!scpi_parse_bool(call->parameter, &on))
		scpi_push_error(scpi, SCPI_DATA_TYPE_ERROR);
	else if (!tap_switch(tap_of(call), rail, on))
		scpi_push_error(scpi, SCPI_HARDWARE_MISSING);
	return SCPI_DONE;
}

/* Only off: rails come up one by one, in the order that a drive wants. */
static enum scpi_outcome set_outputs(struct scpi *scpi, const struct scpi_call *call)
{
	const struct session *session = call->instrument;
	unsigned first = session->view.instrument * TAP_RAILS_PER_INSTRUMENT;
	bool on, switched = true;

	if (!scpi_parse_bool(call->parameter, &on) || on) {
		scpi_push_error(scpi, SCPI_ILLEGAL_PARAMETER);
		return SCPI_DONE;
	}
	for (unsigned r = first; r < first + TAP_RAILS_PER_INSTRUMENT; r++)
		switched = tap_switch(tap_of(call), r, false) && switched;
	if (!switched)
		scpi_push_error(scpi, SCPI_HARDWARE_MISSING);
	return SCPI_DONE;
}

static enum scpi_outcome cut_index(struct scpi *scpi, const struct scpi_call *call)
{
	unsigned rail;

	if (!rail_of(scpi, call, &rail))
		return SCPI_DONE;
	if (tap_of(call)->switches[rail].was_switched)
		scpi_write_unsigned(scpi, tap_of(call)->switches[rail].index);
	else
		scpi_write_text(scpi, "NONE");
	return SCPI_DONE;
}

static enum scpi_outcome holdup(struct scpi *scpi, const struct scpi_call *call)
{
	const struct tap *tap = tap_of(call);
	const struct holdup *it;
	uint64_t ended = 0;
	unsigned rail;

	if (!rail_of(scpi, call, &rail))
		return SCPI_DONE;
	it = &tap->switches[rail].holdup;
	switch (holdup_state(it)) {
	case HOLDUP_NONE:
		scpi_write_text(scpi, "NONE");
		return SCPI_DONE;
	case HOLDUP_RUNNING:
		scpi_write_text(scpi, "RUNNING,");
		ended = tap_samples(tap);
		break;
	case HOLDUP_DONE:
		scpi_write_text(scpi, "DONE,");
		ended = it->ended;
		break;
	}
	write_seconds(scpi, ended > it->began ? ended - it->began : 0, tap->rate_hz);
	scpi_write_text(scpi, ",");
	scpi_write_float(scpi, it->volts);
	scpi_write_text(scpi, ",");
	scpi_write_float(scpi, it->threshold);
	return SCPI_DONE;
}

static enum scpi_outcome holdup_threshold(struct scpi *scpi, const struct scpi_call *call)
{
	unsigned rail;

	if (rail_of(scpi, call, &rail))
		scpi_write_float(scpi, tap_of(call)->switches[rail].threshold);
	return SCPI_DONE;
}

static enum scpi_outcome set_holdup_threshold(struct scpi *scpi, const struct scpi_call *call)
{
	unsigned rail;
	float volts;

	if (!rail_of(scpi, call, &rail))
		return SCPI_DONE;
	if (!scpi_parse_float(call->parameter, &volts))
		scpi_push_error(scpi, SCPI_DATA_TYPE_ERROR);
	else if (volts < 0 || volts > 100)
		scpi_push_error(scpi, SCPI_DATA_OUT_OF_RANGE);
	else
		tap_of(call)->switches[rail].threshold = volts;
	return SCPI_DONE;
}

static bool calibrated_channel_of(struct scpi *scpi, const struct scpi_call *call, unsigned *channel)
{
	if (call->suffix[0] < 1 || call->suffix[0] > CALIBRATION_CHANNELS) {
		scpi_push_error(scpi, SCPI_HEADER_SUFFIX_OUT_OF_RANGE);
		return false;
	}
	*channel = call->suffix[0] - 1;
	return true;
}

static enum scpi_outcome calibration(struct scpi *scpi, const struct scpi_call *call)
{
	const struct calibration *in_use = tap_calibration(tap_of(call));
	unsigned channel;

	if (!calibrated_channel_of(scpi, call, &channel))
		return SCPI_DONE;
	scpi_write_float(scpi, in_use->gain[channel]);
	scpi_write_text(scpi, ",");
	scpi_write_float(scpi, in_use->offset[channel]);
	return SCPI_DONE;
}

static bool parse_pair(const char *text, float *first, float *second)
{
	if (!number_parse(&text, first))
		return false;
	while (*text == ' ')
		text++;
	if (*text++ != ',')
		return false;
	while (*text == ' ')
		text++;
	return scpi_parse_float(text, second);
}

static enum scpi_outcome set_calibration(struct scpi *scpi, const struct scpi_call *call)
{
	struct calibration changed = *tap_calibration(tap_of(call));
	unsigned channel;
	float gain, offset;

	if (!calibrated_channel_of(scpi, call, &channel))
		return SCPI_DONE;
	if (!parse_pair(call->parameter, &gain, &offset)) {
		scpi_push_error(scpi, SCPI_DATA_TYPE_ERROR);
		return SCPI_DONE;
	}
	if (!calibration_allows(gain, offset)) {
		scpi_push_error(scpi, SCPI_DATA_OUT_OF_RANGE);
		return SCPI_DONE;
	}
	changed.gain[channel] = gain;
	changed.offset[channel] = offset;
	tap_calibrate(tap_of(call), &changed);
	return SCPI_DONE;
}

static enum scpi_outcome calibration_date(struct scpi *scpi, const struct scpi_call *call)
{
	scpi_write_text(scpi, "\"");
	scpi_write_text(scpi, tap_calibration(tap_of(call))->date);
	scpi_write_text(scpi, "\"");
	return SCPI_DONE;
}

static enum scpi_outcome set_calibration_date(struct scpi *scpi, const struct scpi_call *call)
{
	struct calibration changed = *tap_calibration(tap_of(call));
	const char *text = call->parameter;
	size_t length = strlen(text);

	if (length < 2 || length - 2 >= CALIBRATION_DATE_SIZE || text[0] != '"' ||
	    text[length - 1] != '"') {
		scpi_push_error(scpi, SCPI_ILLEGAL_PARAMETER);
		return SCPI_DONE;
	}
	for (size_t n = 1; n < length - 1; n++)
		if (text[n] < ' ' || text[n] > '~' || text[n] == '"') {
			scpi_push_error(scpi, SCPI_ILLEGAL_PARAMETER);
			return SCPI_DONE;
		}
	memset(changed.date, 0, sizeof changed.date);
	memcpy(changed.date, text + 1, length - 2);
	tap_calibrate(tap_of(call), &changed);
	return SCPI_DONE;
}

static enum scpi_outcome calibration_state(struct scpi *scpi, const struct scpi_call *call)
{
	static const char *const names[] = {
		[TAP_CALIBRATION_NONE] = "NONE",
		[TAP_CALIBRATION_STORED] = "STORED",
		[TAP_CALIBRATION_CHANGED] = "CHANGED",
		[TAP_CALIBRATION_CORRUPT] = "CORRUPT",
	};

	scpi_write_text(scpi, names[tap_of(call)->calibration_state]);
	return SCPI_DONE;
}

static enum scpi_outcome save_calibration(struct scpi *scpi, const struct scpi_call *call)
{
	const struct board *board = tap_of(call)->board;

	if (!board || !board->store)
		scpi_push_error(scpi, SCPI_HARDWARE_MISSING);
	else if (!tap_calibration_save(tap_of(call)))
		scpi_push_error(scpi, SCPI_MEMORY_ERROR);
	return SCPI_DONE;
}

const struct scpi_command native_commands[] = {
	{ "TAP:IDN?", identify },
	{ "TAP:COUNt?", count },
	{ "TAP:ERRors?", errors },
	{ "TAP:RATE?", rate },
	{ "TAP:UPTime?", uptime },
	{ "TAP:MARKers?", markers },
	{ "TAP:OUTPut#?", output },
	{ "TAP:OUTPut#", set_output },
	{ "TAP:OUTPut:ALL", set_outputs },
	{ "TAP:OUTPut#:CUT?", cut_index },
	{ "TAP:HOLDup#?", holdup },
	{ "TAP:HOLDup#:THReshold?", holdup_threshold },
	{ "TAP:HOLDup#:THReshold", set_holdup_threshold },
	{ "TAP:CALibration#?", calibration },
	{ "TAP:CALibration#", set_calibration },
	{ "TAP:CALibration:DATE?", calibration_date },
	{ "TAP:CALibration:DATE", set_calibration_date },
	{ "TAP:CALibration:STATe?", calibration_state },
	{ "TAP:CALibration:SAVE", save_calibration },
	{ NULL, NULL },
};
