/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "rails.h"

#include "../internal/energy/kernel.h"

#include <glib.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define MOST_RAILS 64
#define MOST_MARKS 64

/* As they lie in a frame (frames.md). */
struct stretch {
	uint64_t n;
	struct energy_sums sums;
	double first_watts, last_watts;
};

_Static_assert(sizeof(struct stretch) == 64, "as frames.md has it");

struct rail {
	uint16_t volts, amps;
	struct energy_scale scale;
	double full_volts, full_amps; /* from there on a sample is over range */
	struct frame held; /* waits for its partner; n is 0 where nothing does */
	float *samples;	   /* of the held frame */
	size_t capacity;
};

static struct rail rails[MOST_RAILS];
static int rail_count;
static uint64_t point = UINT64_MAX;
static int raw;
static unsigned char *payload;
static size_t payload_bytes;

static int find(const struct channels *channels, const char *name, uint16_t *position)
{
	for (int i = 0; i < channels->count; i++) {
		if (!strcmp(channels->at[i]->name, name)) {
			*position = (uint16_t)i;
			return 1;
		}
	}
	return 0;
}

static struct rail *find_rail(uint16_t channel)
{
	for (int i = 0; i < rail_count; i++)
		if (rails[i].volts == channel || rails[i].amps == channel)
			return &rails[i];
	return NULL;
}

const char *rails_add(const char *text, const struct channels *channels)
{
	struct rail rail = { .full_volts = INFINITY, .full_amps = INFINITY };
	double *numbers[] = { &rail.scale.volts_gain, &rail.scale.volts_offset, &rail.scale.amps_gain, &rail.scale.amps_offset, &rail.full_volts, &rail.full_amps };
	char **word = g_strsplit(text, ",", -1);
	const char *problem = NULL;

	guint words = g_strv_length(word);

	if (words != 6 && words != 8)
		problem = "not six words, or eight";
	else if (!find(channels, word[0], &rail.volts) || !find(channels, word[1], &rail.amps) || rail.volts == rail.amps)
		problem = "not two of the channels";
	else if (find_rail(rail.volts) || find_rail(rail.amps))
		problem = "a channel of another rail";
	else if (rail_count == MOST_RAILS)
		problem = "too many";
	for (guint i = 0; !problem && i < words - 2; i++) {
		char *end;

		*numbers[i] = g_ascii_strtod(word[2 + i], &end);
		if (end == word[2 + i] || *end || (i < 4 ? !isfinite(*numbers[i]) : !(*numbers[i] > 0)))
			problem = "not a number";
	}
	g_strfreev(word);
	if (!problem)
		rails[rail_count++] = rail;
	return problem;
}

void rails_set_point(uint64_t samples)
{
	point = samples;
}

void rails_set_raw(int on)
{
	rails_release();
	raw = on;
}

static void release(struct rail *rail)
{
	if (rail->held.n)
		frame_write(&rail->held);
	rail->held.n = 0;
}

void rails_release(void)
{
	for (int i = 0; i < rail_count; i++)
		release(&rails[i]);
}

static void hold(struct rail *rail, const struct frame *f)
{
	if (rail->capacity < f->n) {
		rail->samples = g_renew(float, rail->samples, f->n);
		rail->capacity = f->n;
	}
	memcpy(rail->samples, f->payload, f->length);
	rail->held = *f;
	rail->held.payload = rail->samples;
}

static int is_volts(const struct frame *f)
{
	return f->mq == SR_MQ_VOLTAGE && f->unit == SR_UNIT_VOLT;
}

static int is_amps(const struct frame *f)
{
	return f->mq == SR_MQ_CURRENT && f->unit == SR_UNIT_AMPERE;
}

/* Whether a sample is over range. */
static int reaches(const float *samples, uint32_t n, double limit)
{
	return isfinite(limit) && energy_reaches(samples, n, (float)limit);
}

static double watts(const struct energy_scale *scale, float volts, float amps)
{
	return (volts * scale->volts_gain + scale->volts_offset) * (amps * scale->amps_gain + scale->amps_offset);
}

/* A few samples of the window, by which the reader knows it again. */
static uint32_t put_marks(unsigned char *at, const float *volts, const float *amps, uint32_t n)
{
	uint32_t step = n / MOST_MARKS ? n / MOST_MARKS : 1, marks = 0;

	for (uint32_t k = 0; k < n && marks < MOST_MARKS; k += step, marks++) {
		float pair[2] = { volts[k], amps[k] };

		memcpy(at + marks * sizeof pair, pair, sizeof pair);
	}
	return marks;
}

/* Write the window's sums. Returns 0, and writes nothing, where a sample is no number or over
 * range. */
static int write_sums(const struct rail *rail, const struct frame *volts_frame, const struct frame *amps_frame, struct stamp at)
{
	const float *volts = volts_frame->payload, *amps = amps_frame->payload;
	uint32_t n = volts_frame->n, done = 0, stretches = 0;
	uint64_t first = volts_frame->first;
	size_t need = 8 + MOST_MARKS * 2 * sizeof(float) + (n / point + 2) * sizeof(struct stretch);

	if (reaches(volts, n, rail->full_volts) || reaches(amps, n, rail->full_amps))
		return 0;
	if (payload_bytes < need) {
		payload = g_realloc(payload, need);
		payload_bytes = need;
	}
	uint32_t marks = put_marks(payload + 8, volts, amps, n);
	unsigned char *next = payload + 8 + marks * 2 * sizeof(float);

	while (done < n) {
		uint64_t room = point - (first + done) % point;
		struct stretch s = { .n = room < n - done ? room : n - done };
		const float *v = volts + done, *a = amps + done;

		energy_sums(v, a, s.n, &rail->scale, &s.sums);
		if (!energy_sums_are_of_numbers(&s.sums))
			return 0;
		s.first_watts = watts(&rail->scale, v[0], a[0]);
		s.last_watts = watts(&rail->scale, v[s.n - 1], a[s.n - 1]);
		memcpy(next, &s, sizeof s);
		next += sizeof s;
		done += (uint32_t)s.n;
		stretches++;
	}
	memcpy(payload, &stretches, sizeof stretches);
	memcpy(payload + 4, &marks, sizeof marks);
	frame_write(&(struct frame){
		.type = FRAME_RAIL,
		.channel = (uint16_t)(rail - rails),
		.n = n,
		.length = (uint32_t)(next - payload),
		.first = first,
		.at = at,
		.payload = payload,
	});
	return 1;
}

void rails_write(const struct frame *f)
{
	struct rail *rail = find_rail(f->channel);

	if (!rail || raw) {
		frame_write(f);
		return;
	}
	const struct frame *held = &rail->held;

	if (held->n == f->n && held->first == f->first && held->channel != f->channel) {
		const struct frame *volts = f->channel == rail->volts ? f : held, *amps = f->channel == rail->amps ? f : held;

		if (is_volts(volts) && is_amps(amps) && write_sums(rail, volts, amps, held->at)) {
			rail->held.n = 0;
			return;
		}
		release(rail);
		frame_write(f);
		return;
	}
	release(rail);
	hold(rail, f);
}
