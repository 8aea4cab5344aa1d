/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The power tap as a thing that measures, without any protocol: four rails
 * sampled together, offered on two instruments of two rails each. Whoever
 * converts calls tap_sample at the tap's rate; whoever talks to a client opens
 * a view and takes windows from it. No allocation, no operating system.
 */
#ifndef JOULERIG_TAP_H
#define JOULERIG_TAP_H

#include "board.h"
#include "sampler.h"

#include <stdbool.h>
#include <stdint.h>

#define TAP_RAILS SAMPLER_RAILS
#define TAP_INSTRUMENTS 2
#define TAP_RAILS_PER_INSTRUMENT (TAP_RAILS / TAP_INSTRUMENTS)
/* Channels of an instrument: volts and amps of its first rail, then of its
 * second. */
#define TAP_CHANNELS (2 * TAP_RAILS_PER_INSTRUMENT)

#define TAP_MARKERS_MASK 3 /* two inputs: bits 0 and 1 */

/* The ring has to cover the longest time that a client's host may stall. */
#ifndef TAP_RING_SAMPLES
#define TAP_RING_SAMPLES 65536
#endif
/* Longest window of one latch; a client that fell behind takes several. */
#ifndef TAP_WINDOW_SAMPLES
#define TAP_WINDOW_SAMPLES 1024
#endif

struct tap {
	struct sampler sampler;
	struct sample ring[TAP_RING_SAMPLES];
	uint32_t rate_hz;
	const char *serial;
	const struct board *board;
	/* Samples that clients of each instrument came too late for. */
	uint64_t overruns[TAP_INSTRUMENTS];
	_Atomic uint32_t converter_errors[TAP_RAILS];
};

/* One client's place in the samples of one instrument. */
struct tap_view {
	struct tap *tap;
	unsigned instrument;
	bool joined;
	struct sampler_reader reader;
	struct sample window[TAP_WINDOW_SAMPLES];
	uint32_t window_samples;
};

/* The serial and the board (NULL: none) stay the caller's and must outlive the tap. */
void tap_init(struct tap *tap, uint32_t rate_hz, const char *serial, const struct board *board);

/* Puts in one sample of raw converted volts and amps; to be called at the tap's
 * rate, in an interrupt or in the loop that runs sessions. A rail that could not
 * be read is NaN. */
void tap_sample(struct tap *tap, const struct sample *sample);

/* Counts a failure to read a rail's converter (I2C, SPI). */
void tap_converter_error(struct tap *tap, unsigned rail);

uint64_t tap_samples(const struct tap *tap);

void tap_view_open(struct tap_view *view, struct tap *tap, unsigned instrument);

/* Samples that the next latch would take. The first call joins the view to the
 * stream at its newest sample, so a client that took its time between
 * connecting and asking is not handed the past. */
uint32_t tap_view_available(struct tap_view *view);

/* Takes all samples since the last latch, at most TAP_WINDOW_SAMPLES, as the
 * view's window. With none available the old window stays. */
uint32_t tap_view_latch(struct tap_view *view);

/* Value of a channel (0 .. TAP_CHANNELS - 1) in sample n of the window. */
float tap_view_value(const struct tap_view *view, unsigned channel, uint32_t n);

#endif
