/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "tap.h"

static void load_calibration(struct tap *tap)
{
	uint8_t image[CALIBRATION_IMAGE_SIZE];
	const struct board *board = tap->board;

	calibration_none(&tap->calibrations[0]);
	atomic_init(&tap->calibration_in_use, 0);
	tap->calibration_state = TAP_CALIBRATION_NONE;
	if (!board || !board->load || !board->load(board->context, image, sizeof image) ||
	    calibration_is_blank(image))
		return;
	tap->calibration_state = calibration_unpack(&tap->calibrations[0], image) ?
					 TAP_CALIBRATION_STORED :
					 TAP_CALIBRATION_CORRUPT;
}

void tap_init(struct tap *tap, uint32_t rate_hz, const char *serial, const struct board *board)
{
	sampler_init(&tap->sampler, tap->ring, TAP_RING_SAMPLES);
	tap->rate_hz = rate_hz;
	tap->serial = serial;
	tap->board = board;
	for (unsigned n = 0; n < TAP_INSTRUMENTS; n++)
		tap->overruns[n] = 0;
	atomic_init(&tap->missed, 0);
	for (unsigned r = 0; r < TAP_RAILS; r++) {
		struct tap_switch *rail = &tap->switches[r];

		atomic_init(&tap->converter_errors[r], 0);
		rail->was_switched = false;
		rail->index = 0;
		rail->threshold = 0;
		holdup_init(&rail->holdup);
	}
	load_calibration(tap);
}

void tap_sample(struct tap *tap, const struct sample *sample)
{
	const struct calibration *calibration = tap_calibration(tap);
	struct sample stored;

	for (unsigned r = 0; r < TAP_RAILS; r++) {
		unsigned v = 2 * r, a = v + 1;

		stored.volts[r] = calibration->gain[v] * sample->volts[r] + calibration->offset[v];
		stored.amps[r] = calibration->gain[a] * sample->amps[r] + calibration->offset[a];
	}
	stored.markers = sample->markers;
	if (tap->board && tap->board->markers)
		stored.markers = tap->board->markers(tap->board->context);
	stored.markers &= TAP_MARKERS_MASK;
	for (unsigned r = 0; r < TAP_RAILS; r++)
		if (holdup_state(&tap->switches[r].holdup) == HOLDUP_RUNNING)
			holdup_sample(&tap->switches[r].holdup, sampler_written(&tap->sampler),
				      stored.volts[r]);
	sampler_write(&tap->sampler, &stored);
}

void tap_missed(struct tap *tap, uint32_t samples)
{
	atomic_fetch_add_explicit(&tap->missed, samples, memory_order_relaxed);
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

uint8_t tap_markers(const struct tap *tap)
{
	struct sample newest;

	return sampler_newest(&tap->sampler, &newest) ? newest.markers : 0;
}

bool tap_rail_is_on(const struct tap *tap, unsigned rail)
{
	const struct board *board = tap->board;

	return !board || !board->rail_is_on || board->rail_is_on(board->context, rail);
}

bool tap_switch(struct tap *tap, unsigned rail, bool on)
{
	const struct board *board = tap->board;
	struct tap_switch *it = &tap->switches[rail];
	struct sample before = { .volts = { 0 } };
	bool was_on;

	if (!board || !board->set_rail || !board->rail_is_on)
		return false;
	was_on = tap_rail_is_on(tap, rail);
	sampler_newest(&tap->sampler, &before);
	board->set_rail(board->context, rail, on);
	if (on == was_on)
		return true;
	it->was_switched = true;
	it->index = board->switched_sample ? board->switched_sample(board->context, rail) :
					     tap_samples(tap);
	if (on)
		holdup_cancel(&it->holdup);
	else
		holdup_begin(&it->holdup, it->index, before.volts[rail],
			     it->threshold > 0 ? it->threshold : before.volts[rail] / 2);
	return true;
}

const struct calibration *tap_calibration(const struct tap *tap)
{
	return &tap->calibrations[atomic_load_explicit(&tap->calibration_in_use, memory_order_acquire)];
}

static void use(struct tap *tap, const struct calibration *calibration)
{
	uint32_t other = !atomic_load_explicit(&tap->calibration_in_use, memory_order_relaxed);

	tap->calibrations[other] = *calibration;
	atomic_store_explicit(&tap->calibration_in_use, other, memory_order_release);
}

void tap_calibrate(struct tap *tap, const struct calibration *calibration)
{
	use(tap, calibration);
	tap->calibration_state = TAP_CALIBRATION_CHANGED;
}

bool tap_calibration_save(struct tap *tap)
{
	uint8_t image[CALIBRATION_IMAGE_SIZE];
	const struct board *board = tap->board;

	if (!board || !board->store)
		return false;
	calibration_pack(tap_calibration(tap), image);
	if (!board->store(board->context, image, sizeof image))
		return false;
	tap->calibration_state = TAP_CALIBRATION_STORED;
	return true;
}

void tap_view_open(struct tap_view *view, struct tap *tap, unsigned instrument)
{
	view->tap = tap;
	view->instrument = instrument;
	view->joined = false;
	view->reader.next = 0;
	view->reader.overruns = 0;
	view->unreported = 0;
	view->window_lost = 0;
	view->window_samples = 0;
}

uint32_t tap_view_available(struct tap_view *view)
{
	uint32_t available;

	if (!view->joined) {
		sampler_join(&view->reader, &view->tap->sampler);
		view->joined = true;
	}
	available = sampler_available(&view->reader, &view->tap->sampler);
	return view->unreported > UINT32_MAX - available ? UINT32_MAX : view->unreported + available;
}

/* Of one loss, a second's worth at most is reported to the client: it could not
 * distinguish a longer one from a tap that has died. */
static void lose(struct tap_view *view, uint64_t samples)
{
	uint32_t reported = samples < view->tap->rate_hz ? (uint32_t)samples : view->tap->rate_hz;

	view->tap->overruns[view->instrument] += samples;
	view->unreported = reported > UINT32_MAX - view->unreported ? UINT32_MAX : view->unreported + reported;
}

static uint32_t take_unreported(struct tap_view *view, uint32_t most)
{
	uint32_t reported = view->unreported < most ? view->unreported : most;

	view->unreported -= reported;
	return reported;
}

uint32_t tap_view_latch(struct tap_view *view)
{
	const struct sampler *sampler = &view->tap->sampler;
	uint64_t overruns_before;
	uint32_t count, reported;

	if (tap_view_available(view) == 0)
		return 0;
	lose(view, sampler_skip(&view->reader, sampler));
	reported = take_unreported(view, TAP_WINDOW_SAMPLES);
	overruns_before = view->reader.overruns;
	count = sampler_copy(&view->reader, sampler, view->window, TAP_WINDOW_SAMPLES - reported);
	/* What was overwritten while this copied stood before what it got, and is
	 * reported before it: the window has room, as it was to have those samples. */
	lose(view, view->reader.overruns - overruns_before);
	reported += take_unreported(view, TAP_WINDOW_SAMPLES - reported - count);
	view->window_lost = reported;
	view->window_samples = reported + count;
	return view->window_samples;
}

float tap_view_value(const struct tap_view *view, unsigned channel, uint32_t n)
{
	unsigned rail = view->instrument * TAP_RAILS_PER_INSTRUMENT + channel / 2;
	const struct sample *sample;

	if (n < view->window_lost)
		return __builtin_nanf("");
	sample = &view->window[n - view->window_lost];
	return channel % 2 ? sample->amps[rail] : sample->volts[rail];
}

uint8_t tap_view_markers(const struct tap_view *view, uint32_t n)
{
	return n < view->window_lost ? 0 : view->window[n - view->window_lost].markers;
}
