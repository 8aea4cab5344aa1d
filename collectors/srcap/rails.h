/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Rails: a channel of volts and a channel of amps that belong together. What the reader wants of
 * them is sums of their products, and those are cheapest where the samples have just been: here.
 * A window that is not whole in both channels, not of numbers alone, or over range, goes on as it
 * came, and so does all while a reader wants the samples themselves.
 */
#ifndef SRCAP_RAILS_H
#define SRCAP_RAILS_H

#include "device.h"
#include "frame.h"

/* Take `text`, "volts,amps,volts_gain,volts_offset,amps_gain,amps_offset[,full_volts,full_amps]",
 * as the next rail. Readings of full_volts, full_amps or more are over range ("Inf": not known).
 * Returns NULL, or what is wrong. */
const char *rails_add(const char *text, const struct channels *channels);

/* Sums end at indices that are multiples of `samples`. */
void rails_set_point(uint64_t samples);

/* Whether samples are wanted instead of sums, from the next window on. */
void rails_set_raw(int raw);

/* Take an analog frame on its way out. */
void rails_write(const struct frame *f);

/* Nothing more comes to what waits for its partner: it goes out as it came. */
void rails_release(void);

#endif
