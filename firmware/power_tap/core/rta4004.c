/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The part of the command set of a Rohde & Schwarz RTA4004 that libsigrok's
 * hameg-hmo driver uses, so that the tap works with the unmodified driver.
 * The tap is no oscilloscope: what it has not (vertical scale, trigger) is
 * answered with a fixed value that the driver accepts. Its two marker inputs are
 * the first two digital lines.
 */
#include "session.h"

#include <string.h>

#define NS_PER_SECOND 1000000000LL
/* A reply carries about 20 ms of samples. The driver reads, blocking, 50 ms
 * after it asked, so one that has any samples is not kept longer. */
#define FRAMES_PER_SECOND 50
#define LONGEST_WAIT_NS 40000000LL

static bool channel_of(struct scpi *scpi, const struct scpi_call *call, unsigned *channel)
{
	if (call->suffix[0] < 1 || call->suffix[0] > TAP_CHANNELS) {
		scpi_push_error(scpi, SCPI_HEADER_SUFFIX_OUT_OF_RANGE);
		return false;
	}
	*channel = call->suffix[0] - 1;
	return true;
}

static enum scpi_outcome identify(struct scpi *scpi, const struct scpi_call *call)
{
	struct session *session = call->instrument;

	/* libsigrok asks this first of all. On a line without connections nothing
	 * else shows that the client is a new one, whose stream starts over. */
	tap_view_open(&session->view, session->view.tap, session->view.instrument);
	session->channels_served = 0;
	scpi_write_text(scpi, "Rohde&Schwarz,RTA4004,");
	scpi_write_text(scpi, session->view.tap->serial);
	scpi_write_text(scpi, session->view.instrument ? "-B,01.600" : "-A,01.600");
	return SCPI_DONE;
}

static enum scpi_outcome reset(struct scpi *scpi, const struct scpi_call *call)
{
	struct session *session = call->instrument;

	(void)scpi;
	session->channels_enabled = (1u << TAP_CHANNELS) - 1;
	session->channels_served = 0;
	session->lines_enabled = 0;
	session->format_is_real = true;
	return SCPI_DONE;
}

static enum scpi_outcome clear_status(struct scpi *scpi, const struct scpi_call *call)
{
	(void)call;
	scpi->error_count = 0;
	return SCPI_DONE;
}

static enum scpi_outcome next_error(struct scpi *scpi, const struct scpi_call *call)
{
	static const struct {
		enum scpi_error error;
		const char *text;
	} texts[] = {
		{ SCPI_OK, "0,\"No error\"" },
		{ SCPI_DATA_TYPE_ERROR, "-104,\"Data type error\"" },
		{ SCPI_UNDEFINED_HEADER, "-113,\"Undefined header\"" },
		{ SCPI_HEADER_SUFFIX_OUT_OF_RANGE, "-114,\"Header suffix out of range\"" },
		{ SCPI_SETTINGS_CONFLICT, "-221,\"Settings conflict\"" },
		{ SCPI_RESPONSE_TOO_LONG, "-223,\"Too much data\"" },
		{ SCPI_DATA_OUT_OF_RANGE, "-222,\"Data out of range\"" },
		{ SCPI_ILLEGAL_PARAMETER, "-224,\"Illegal parameter value\"" },
		{ SCPI_HARDWARE_MISSING, "-241,\"Hardware missing\"" },
		{ SCPI_MEMORY_ERROR, "-311,\"Memory error\"" },
		{ SCPI_QUEUE_OVERFLOW, "-350,\"Queue overflow\"" },
		{ SCPI_INPUT_OVERRUN, "-363,\"Input buffer overrun\"" },
	};
	enum scpi_error error = scpi_pop_error(scpi);

	(void)call;
	for (unsigned n = 0; n < sizeof texts / sizeof *texts; n++)
		if (texts[n].error == error)
			scpi_write_text(scpi, texts[n].text);
	return SCPI_DONE;
}

static enum scpi_outcome nothing(struct scpi *scpi, const struct scpi_call *call)
{
	(void)scpi;
	(void)call;
	return SCPI_DONE;
}

/* Another set of channels begins another round. */
static void forget_round(struct session *session)
{
	session->channels_served = UINT8_MAX;
}

static enum scpi_outcome channel_state(struct scpi *scpi, const struct scpi_call *call)
{
	const struct session *session = call->instrument;
	unsigned channel;

	if (channel_of(scpi, call, &channel))
		scpi_write_text(scpi, session->channels_enabled >> channel & 1 ? "1" : "0");
	return SCPI_DONE;
}

static enum scpi_outcome set_channel_state(struct scpi *scpi, const struct scpi_call *call)
{
	struct session *session = call->instrument;
	unsigned channel;
	bool enabled;

	if (!channel_of(scpi, call, &channel))
		return SCPI_DONE;
	if (!scpi_parse_bool(call->parameter, &enabled)) {
		scpi_push_error(scpi, SCPI_DATA_TYPE_ERROR);
		return SCPI_DONE;
	}
	if (enabled)
		session->channels_enabled |= (uint8_t)(1u << channel);
	else
		session->channels_enabled &= (uint8_t)~(1u << channel);
	forget_round(session);
	return SCPI_DONE;
}

static enum scpi_outcome channel_text(struct scpi *scpi, const struct scpi_call *call,
				      const char *text)
{
	unsigned channel;

	if (channel_of(scpi, call, &channel))
		scpi_write_text(scpi, text);
	return SCPI_DONE;
}

static enum scpi_outcome vertical_scale(struct scpi *scpi, const struct scpi_call *call)
{
	return channel_text(scpi, call, "1.00E-01");
}

static enum scpi_outcome vertical_position(struct scpi *scpi, const struct scpi_call *call)
{
	return channel_text(scpi, call, "0.00E+00");
}

static enum scpi_outcome coupling(struct scpi *scpi, const struct scpi_call *call)
{
	return channel_text(scpi, call, "DCL");
}

static enum scpi_outcome probe_unit(struct scpi *scpi, const struct scpi_call *call)
{
	return channel_text(scpi, call, call->suffix[0] % 2 ? "V" : "A");
}

static enum scpi_outcome set_byte_order(struct scpi *scpi, const struct scpi_call *call)
{
	if (!scpi_equal(call->parameter, "LSBFirst"))
		scpi_push_error(scpi, SCPI_ILLEGAL_PARAMETER);
	return SCPI_DONE;
}

static enum scpi_outcome set_format(struct scpi *scpi, const struct scpi_call *call)
{
	struct session *session = call->instrument;

	if (scpi_equal(call->parameter, "REAL,32"))
		session->format_is_real = true;
	else if (scpi_equal(call->parameter, "UINT,8"))
		session->format_is_real = false;
	else
		scpi_push_error(scpi, SCPI_ILLEGAL_PARAMETER);
	return SCPI_DONE;
}

static void put_float(uint8_t *place, float value)
{
	uint32_t bits;

	_Static_assert(sizeof bits == sizeof value, "IEEE 754 single precision");
	memcpy(&bits, &value, sizeof bits);
	for (unsigned n = 0; n < 4; n++)
		place[n] = (uint8_t)(bits >> 8 * n);
}

/* A round of requests reads the channels of one window: the first enabled
 * channel takes the samples since the last round, the others give the same. A
 * channel that the window has already given also begins a round, for a client
 * need not have declared which channels it will ask for. The driver asks for pods
 * last, so a pod begins a round only by that. */
static bool begins_round(const struct session *session, unsigned channel)
{
	unsigned first = 0;

	if (session->channels_served >> channel & 1 || session->view.window_samples == 0)
		return true;
	while (first < TAP_CHANNELS && !(session->channels_enabled >> first & 1))
		first++;
	return first < TAP_CHANNELS && channel == first;
}

/* Takes the window that a request for the channel is to be answered from. False
 * when the request has to wait. */
static bool take_window(struct session *session, unsigned channel, int64_t waiting_ns)
{
	struct tap_view *view = &session->view;

	if (begins_round(session, channel)) {
		uint32_t wanted = view->tap->rate_hz / FRAMES_PER_SECOND;
		uint32_t available = tap_view_available(view);

		if (wanted < 1)
			wanted = 1;
		if (wanted > TAP_WINDOW_SAMPLES)
			wanted = TAP_WINDOW_SAMPLES;
		session->samples_wanted = available < wanted ? wanted - available : 1;
		/* An empty block crashes the driver: never without a sample. */
		if (available == 0 || (available < wanted && waiting_ns < LONGEST_WAIT_NS))
			return false;
		if (tap_view_latch(view) == 0)
			return false;
		session->channels_served = 0;
	}
	session->channels_served |= (uint8_t)(1u << channel);
	return true;
}

static enum scpi_outcome channel_data(struct scpi *scpi, const struct scpi_call *call)
{
	struct session *session = call->instrument;
	struct tap_view *view = &session->view;
	unsigned channel;
	uint8_t *place;

	if (!channel_of(scpi, call, &channel))
		return SCPI_DONE;
	if (!session->format_is_real) {
		scpi_push_error(scpi, SCPI_SETTINGS_CONFLICT);
		return SCPI_DONE;
	}
	if (!take_window(session, channel, call->waiting_ns))
		return SCPI_LATER;
	place = scpi_write_block(scpi, (size_t)view->window_samples * 4);
	for (uint32_t n = 0; place && n < view->window_samples; n++)
		put_float(place + 4 * n, tap_view_value(view, channel, n));
	return SCPI_DONE;
}

/* Pod 1 has the markers as its lines 0 and 1; nothing is connected to its other
 * lines and to pod 2, which read 0. */
static enum scpi_outcome pod_data(struct scpi *scpi, const struct scpi_call *call)
{
	struct session *session = call->instrument;
	struct tap_view *view = &session->view;
	uint32_t pod = call->suffix[0];
	uint8_t *place;

	if (pod < 1 || pod > SESSION_PODS) {
		scpi_push_error(scpi, SCPI_HEADER_SUFFIX_OUT_OF_RANGE);
		return SCPI_DONE;
	}
	if (session->format_is_real) {
		scpi_push_error(scpi, SCPI_SETTINGS_CONFLICT);
		return SCPI_DONE;
	}
	if (!take_window(session, TAP_CHANNELS + pod - 1, call->waiting_ns))
		return SCPI_LATER;
	place = scpi_write_block(scpi, view->window_samples);
	for (uint32_t n = 0; place && n < view->window_samples; n++)
		place[n] = pod == 1 ? tap_view_markers(view, n) : 0;
	return SCPI_DONE;
}

/* The driver names the digital lines (0 to 15) and the pods (1 and 2) by the same
 * command, so that 1 and 2 are both; their state is kept for it, and does no more. */
static bool line_of(struct scpi *scpi, const struct scpi_call *call, unsigned *line)
{
	if (call->suffix[0] >= 8 * SESSION_PODS) {
		scpi_push_error(scpi, SCPI_HEADER_SUFFIX_OUT_OF_RANGE);
		return false;
	}
	*line = call->suffix[0];
	return true;
}

static enum scpi_outcome line_state(struct scpi *scpi, const struct scpi_call *call)
{
	const struct session *session = call->instrument;
	unsigned line;

	if (line_of(scpi, call, &line))
		scpi_write_text(scpi, session->lines_enabled >> line & 1 ? "1" : "0");
	return SCPI_DONE;
}

static enum scpi_outcome set_line_state(struct scpi *scpi, const struct scpi_call *call)
{
	struct session *session = call->instrument;
	unsigned line;
	bool enabled;

	if (!line_of(scpi, call, &line))
		return SCPI_DONE;
	if (!scpi_parse_bool(call->parameter, &enabled)) {
		scpi_push_error(scpi, SCPI_DATA_TYPE_ERROR);
		return SCPI_DONE;
	}
	if (enabled)
		session->lines_enabled |= (uint16_t)(1u << line);
	else
		session->lines_enabled &= (uint16_t)~(1u << line);
	forget_round(session);
	return SCPI_DONE;
}

static enum scpi_outcome sample_rate(struct scpi *scpi, const struct scpi_call *call)
{
	const struct session *session = call->instrument;

	scpi_write_unsigned(scpi, session->view.tap->rate_hz);
	return SCPI_DONE;
}

#define FIXED(name, text) \
	static enum scpi_outcome name(struct scpi *scpi, const struct scpi_call *call) \
	{ \
		(void)call; \
		scpi_write_text(scpi, text); \
		return SCPI_DONE; \
	}

FIXED(one, "1")
FIXED(zero, "0")
FIXED(off, "OFF")
FIXED(threshold, "TTL")
FIXED(time_scale, "1.00E-03")
FIXED(time_divisions, "12")
FIXED(trigger_source, "CH1")
FIXED(trigger_slope, "POS")
FIXED(trigger_pattern, "\"0\"")

const struct scpi_command rta4004_commands[] = {
	{ "CHANnel#:DATA?", channel_data }, /* first: what has to be fast */
	{ "LOGic#:DATA?", pod_data },
	{ "FORMat:BORDer", set_byte_order },
	{ "FORMat", set_format },
	{ "*IDN?", identify },
	{ "*OPC?", one },
	{ "*RST", reset },
	{ "*CLS", clear_status },
	{ "SYSTem:ERRor?", next_error },
	{ "SYSTem:LOCal", nothing },
	{ "SYSTem:REMote", nothing },
	{ "CHANnel#:STATe?", channel_state },
	{ "CHANnel#:STATe", set_channel_state },
	{ "CHANnel#:SCALe?", vertical_scale },
	{ "CHANnel#:POSition?", vertical_position },
	{ "CHANnel#:COUPling?", coupling },
	{ "PROBe#:SETup:ATTenuation:UNIT?", probe_unit },
	{ "LOGic#:STATe?", line_state },
	{ "LOGic#:STATe", set_line_state },
	{ "DIGital#:TECHnology?", threshold },
	{ "TIMebase:SCALe?", time_scale },
	{ "TIMebase:DIVisions?", time_divisions },
	{ "TIMebase:POSition?", zero },
	{ "TRIGger:A:SOURce?", trigger_source },
	{ "TRIGger:A:EDGE:SLOPe?", trigger_slope },
	{ "TRIGger:A:PATTern:SOURce?", trigger_pattern },
	{ "ACQuire:HRESolution?", off },
	{ "ACQuire:PEAKdetect?", off },
	{ "ACQuire:SRATe?", sample_rate },
	{ NULL, NULL },
};
