/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "tap.h"

void tap_init(struct tap *tap, uint32_t rate_hz, const char *serial, const struct board *board)
{
	sampler_init(&tap->sampler, tap->ring, TAP_RING_SAMPLES);
	tap->rate_hz = rate_hz;
	tap->serial = serial;
	tap->board = board;
	for (unsigned n = 0; n < TAP_INSTRUMENTS; n++)
		tap->overruns[n] = 0;
	for (unsigned r = 0; r < TAP_RAILS; r++)
		atomic_init(&tap->converter_errors[r], 0);
}

void tap_sample(struct tap *tap, const struct sample *sample)
{
	struct sample stored = *sample;

	if (tap->board && tap->board->markers)
		stored.markers = tap->board->markers(tap->board->context);
	stored.markers &= TAP_MARKERS_MASK;
	sampler_write(&tap->sampler, &stored);
}

void tap_converter_error(struct tap *tap, unsigned rail)
{
	if (rail < TAP_RAILS)
		atomic_fetch_add_explicit(&tap->converter_errors[rail], 1, memory_order_relaxed);
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
