/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "capture.h"

#include "frame.h"
#include "rails.h"
#include "tcp.h"
#include "watchdog.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

static int position(const struct capture *c, const struct sr_channel *ch)
{
	for (int i = 0; i < c->channels.count; i++)
		if (c->channels.at[i] == ch)
			return i;
	return -1;
}

/* What a multimeter may be left on, and believed: anything but the direct volts and amps of now. */
static const struct {
	enum sr_mqflag flag;
	const char *name;
} NOT_DIRECT[] = {
	{ SR_MQFLAG_AC, "AC" },
	{ SR_MQFLAG_DIODE, "diode test" },
	{ SR_MQFLAG_HOLD, "HOLD" },
	{ SR_MQFLAG_MAX, "MAX" },
	{ SR_MQFLAG_MIN, "MIN" },
	{ SR_MQFLAG_AVG, "AVG" },
	{ SR_MQFLAG_RELATIVE, "REL" },
	{ SR_MQFLAG_REFERENCE, "reference" },
};

/* Says once, where they begin, what flags make samples useless. */
static void report_flags(const struct capture *c, int channel, enum sr_mqflag shown)
{
	GString *names = g_string_new(NULL);

	for (size_t i = 0; i < G_N_ELEMENTS(NOT_DIRECT); i++)
		if (shown & NOT_DIRECT[i].flag)
			g_string_append_printf(names, "%s%s", names->len ? ", " : "", NOT_DIRECT[i].name);

	char *reason = g_strdup_printf("channel %s shows %s: its readings are not taken; switch it to direct current", c->channels.at[channel]->name,
				       names->str);
	char *quoted = json_quote(reason);
	char *name = json_quote(c->channels.at[channel]->name);
	char *json = g_strdup_printf("{\"event\":\"flags\",\"channel\":%s,\"reason\":%s}", name, quoted);

	fprintf(stderr, "srcap: %s\n", reason);
	frame_event(json);
	g_free(json);
	g_free(name);
	g_free(quoted);
	g_free(reason);
	g_string_free(names, TRUE);
}

/* The samples, or as many that are no numbers where the instrument shows something else than direct
 * current. */
static const float *believed(struct capture *c, int channel, enum sr_mqflag flags, const float *samples, uint32_t n)
{
	enum sr_mqflag shown = 0;

	for (size_t i = 0; i < G_N_ELEMENTS(NOT_DIRECT); i++)
		shown |= flags & NOT_DIRECT[i].flag;
	if (shown && shown != c->shows[channel])
		report_flags(c, channel, shown);
	c->shows[channel] = shown;
	if (!shown)
		return samples;
	if (c->none_floats < n) {
		c->none = g_renew(float, c->none, n);
		for (size_t i = c->none_floats; i < n; i++)
			c->none[i] = NAN;
		c->none_floats = n;
	}
	return c->none;
}

static void emit(struct capture *c, int channel, const struct sr_analog_meaning *meaning, struct stamp at, const float *samples, uint32_t n)
{
	struct frame f = {
		.type = FRAME_ANALOG,
		.channel = (uint16_t)channel,
		.mq = (uint32_t)meaning->mq,
		.unit = (uint32_t)meaning->unit,
		.n = n,
		.length = n * (uint32_t)sizeof(float),
		.first = c->next[channel],
		.at = at,
		.payload = believed(c, channel, meaning->mqflags, samples, n),
	};

	c->next[channel] += n;
	rails_write(&f);
}

/* Samples that need no conversion go out from where the driver left them. */
static int is_native(const struct sr_analog_encoding *e)
{
	return e->is_float && e->unitsize == sizeof(float) && !e->is_bigendian && e->scale.p == 1 && e->scale.q == 1 && e->offset.p == 0;
}

static void analog(struct capture *c, const struct sr_datafeed_analog *a, struct stamp at)
{
	guint width = g_slist_length(a->meaning->channels);
	size_t total = (size_t)a->num_samples * width;

	if (!total)
		return;
	if (width == 1 && is_native(a->encoding)) {
		int channel = position(c, a->meaning->channels->data);

		if (channel >= 0)
			emit(c, channel, a->meaning, at, a->data, a->num_samples);
		return;
	}

	/* Room for the converted samples, and after them for one channel's. */
	if (c->scratch_floats < total * 2) {
		c->scratch = g_renew(float, c->scratch, total * 2);
		c->scratch_floats = total * 2;
	}
	if (sr_analog_to_float(a, c->scratch) != SR_OK) {
		fprintf(stderr, "srcap: the driver sends samples that libsigrok cannot convert\n");
		_exit(EXIT_SIGROK);
	}
	guint column = 0;

	for (GSList *l = a->meaning->channels; l; l = l->next, column++) {
		int channel = position(c, l->data);
		float *one = c->scratch;

		if (channel < 0)
			continue;
		if (width > 1) {
			one = c->scratch + total;
			for (uint32_t i = 0; i < a->num_samples; i++)
				one[i] = c->scratch[(size_t)i * width + column];
		}
		emit(c, channel, a->meaning, at, one, a->num_samples);
	}
}

static void logic(struct capture *c, const struct sr_datafeed_logic *l, struct stamp at)
{
	struct frame f = {
		.type = FRAME_LOGIC,
		.channel = FRAME_NO_CHANNEL,
		.unit = l->unitsize,
		.n = (uint32_t)(l->length / l->unitsize),
		.length = (uint32_t)l->length,
		.first = c->next_logic,
		.at = at,
		.payload = l->data,
	};

	c->next_logic += f.n;
	frame_write(&f);
}

static void meta(const struct sr_datafeed_meta *m)
{
	for (GSList *l = m->config; l; l = l->next) {
		const struct sr_config *config = l->data;
		const struct sr_key_info *info = sr_key_info_get(SR_KEY_CONFIG, config->key);
		char *text = g_variant_print(config->data, FALSE);
		char *key = json_quote(info ? info->id : "unknown");
		char *value = json_quote(text);
		char *json = g_strdup_printf("{\"event\":\"meta\",\"key\":%s,\"value\":%s}", key, value);

		frame_event(json);
		g_free(json);
		g_free(value);
		g_free(key);
		g_free(text);
	}
}

/* Channels of one driver frame share their window: a channel that came short must not slide
 * against the others. */
static void align(struct capture *c)
{
	uint64_t furthest = c->next_logic;

	for (int i = 0; i < c->channels.count; i++)
		if (c->next[i] > furthest)
			furthest = c->next[i];
	for (int i = 0; i < c->channels.count; i++)
		c->next[i] = furthest;
	c->next_logic = furthest;
}

void capture_packet(const struct sr_dev_inst *sdi, const struct sr_datafeed_packet *packet, void *data)
{
	struct stamp at = tcp_arrival(stamp_now());
	struct capture *c = data;

	(void)sdi;
	switch (packet->type) {
	case SR_DF_ANALOG:
		watchdog_packet();
		analog(c, packet->payload, at);
		break;
	case SR_DF_LOGIC:
		watchdog_packet();
		logic(c, packet->payload, at);
		break;
	case SR_DF_FRAME_BEGIN:
		rails_release();
		align(c);
		break;
	case SR_DF_END:
		rails_release();
		break;
	case SR_DF_META:
		meta(packet->payload);
		break;
	case SR_DF_HEADER:
		frame_event("{\"event\":\"header\"}");
		break;
	default:
		break;
	}
}
