/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "tap.h"

void tap_init(struct tap *tap, uint32_t rate_hz, const char *serial)
{
	sampler_init(&tap->sampler, tap->ring, TAP_RING_SAMPLES);
	tap->rate_hz = rate_hz;
	tap->serial = serial;
	for (unsigned n = 0; n < TAP_INSTRUMENTS; n++)
		tap->overruns[n] = 0;
}

void tap_sample(struct tap *tap, const struct sample *sample)
{
	sampler_write(&tap->sampler, sample);
}

uint64_t tap_samples(const struct tap *tap)
{
	return sampler_written(&tap->sampler);
}

void tap_view_open(struct tap_view *view, struct tap *tap, unsigned instrument)
{
	view->tap = tap;
	view->instrument = instrument;
	view->joined = false;
	view->reader.next = 0;
	view->reader.overruns = 0;
	view->window_samples = 0;
}

uint32_t tap_view_available(struct tap_view *view)
{
	if (!view->joined) {
		sampler_join(&view->reader, &view->tap->sampler);
		view->joined = true;
	}
	return sampler_available(&view->reader, &view->tap->sampler);
}

uint32_t tap_view_latch(struct tap_view *view)
{
	uint64_t overruns_before = view->reader.overruns;
	uint32_t count;

	if (tap_view_available(view) == 0)
		return 0;
	count = sampler_read(&view->reader, &view->tap->sampler, view->window, TAP_WINDOW_SAMPLES);
	view->tap->overruns[view->instrument] += view->reader.overruns - overruns_before;
	view->window_samples = count;
	return count;
}

float tap_view_value(const struct tap_view *view, unsigned channel, uint32_t n)
{
	unsigned rail = view->instrument * TAP_RAILS_PER_INSTRUMENT + channel / 2;

	return channel % 2 ? view->window[n].amps[rail] : view->window[n].volts[rail];
}
