/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The power tap as an instrument, without any protocol: four rails
 * sampled together and corrected by the tap's calibration, offered on two
 * instruments of two rails each, with a switch and its hold-up per rail. The
 * converter's side calls tap_sample at the tap's rate; a client's side opens a view
 * and takes windows from it. No allocation, no operating system.
 */
#ifndef JOULERIG_TAP_H
#define JOULERIG_TAP_H

#include "board.h"
#include "calibration.h"
#include "holdup.h"
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

_Static_assert(CALIBRATION_CHANNELS == 2 * TAP_RAILS, "volts and amps of every rail");

enum tap_calibration_state {
	TAP_CALIBRATION_NONE,	 /* nothing is stored, or there is no memory */
	TAP_CALIBRATION_STORED,	 /* in use is what is stored */
	TAP_CALIBRATION_CHANGED, /* in use is what was set since, and not stored */
	TAP_CALIBRATION_CORRUPT, /* what is stored is damaged; none is in use */
};

struct tap_switch {
	bool was_switched;
	uint64_t index; /* of the sample that the last change of the switch lies in */
	float threshold; /* of the hold-up, in volts; 0: half of the volts at the cut */
	struct holdup holdup;
};

struct tap {
	struct sampler sampler;
	struct sample ring[TAP_RING_SAMPLES];
	uint32_t rate_hz;
	const char *serial;
	const struct board *board;
	/* Samples that clients of each instrument came too late for. */
	uint64_t overruns[TAP_INSTRUMENTS];
	/* By tap_sample's side, which may be an interrupt. */
	_Atomic uint32_t converter_errors[TAP_RAILS];
	_Atomic uint32_t missed;
	/* Two, so that one is changed while the other is in use. */
	struct calibration calibrations[2];
	_Atomic uint32_t calibration_in_use;
	enum tap_calibration_state calibration_state;
	struct tap_switch switches[TAP_RAILS];
};

/* One client's position in the samples of one instrument. A window begins with the
 * samples that were lost before the others, reported to the client as NaN, so
 * that it can rely on the number of a sample. */
struct tap_view {
	struct tap *tap;
	unsigned instrument;
	bool joined;
	struct sampler_reader reader;
	uint32_t unreported; /* lost samples that no window has reported yet */
	struct sample window[TAP_WINDOW_SAMPLES]; /* those of the window that are not lost */
	uint32_t window_lost;
	uint32_t window_samples; /* with the lost */
};

/* The serial and the board (NULL: none) stay the caller's and must outlive the tap. */
void tap_init(struct tap *tap, uint32_t rate_hz, const char *serial, const struct board *board);

/* Puts in one sample of raw converted volts and amps; to be called at the tap's
 * rate, in an interrupt or in the loop that runs sessions. A rail that could not
 * be read is NaN. */
void tap_sample(struct tap *tap, const struct sample *sample);

/* Counts samples that the port knows it should have put in, and has not. */
void tap_missed(struct tap *tap, uint32_t samples);

/* Counts a failure to read a rail's converter (I2C, SPI). */
void tap_converter_error(struct tap *tap, unsigned rail);

uint64_t tap_samples(const struct tap *tap);

/* The marker inputs in the newest sample. */
uint8_t tap_markers(const struct tap *tap);

/* Switches a rail. A change from on to off begins a hold-up measurement, one from
 * off to on ends it without a result. False where the board has no switches. */
bool tap_switch(struct tap *tap, unsigned rail, bool on);
bool tap_rail_is_on(const struct tap *tap, unsigned rail);

/* The calibration in use. A change of it is in effect with a whole sample. */
const struct calibration *tap_calibration(const struct tap *tap);
void tap_calibrate(struct tap *tap, const struct calibration *calibration);
/* False where the board has no memory, or it failed. */
bool tap_calibration_save(struct tap *tap);

void tap_view_open(struct tap_view *view, struct tap *tap, unsigned instrument);

/* Samples that the next latch would take. The first call joins the view to the
 * stream at its newest sample, so a client that took its time between
 * connecting and asking is not handed the past. */
uint32_t tap_view_available(struct tap_view *view);

/* Takes all samples since the last latch, at most TAP_WINDOW_SAMPLES, as the
 * view's window. With none available the old window stays. Of samples that were
 * overwritten before this, the window reports up to a second's. */
uint32_t tap_view_latch(struct tap_view *view);

/* Value of a channel (0 .. TAP_CHANNELS - 1) in sample n of the window; NaN for a
 * lost one. */
float tap_view_value(const struct tap_view *view, unsigned channel, uint32_t n);

/* The marker inputs in sample n of the window; 0 for a lost one. */
uint8_t tap_view_markers(const struct tap_view *view, uint32_t n);

#endif
