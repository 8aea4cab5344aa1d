/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * One client on one instrument of the tap: its view of the samples, its SCPI
 * state, and the two command sets it may use (rta4004.c, native.c).
 */
#ifndef JOULERIG_SESSION_H
#define JOULERIG_SESSION_H

#include "scpi.h"
#include "tap.h"

#define SESSION_PODS 2

#define SESSION_OUT_SIZE (TAP_WINDOW_SAMPLES * 4 + 64) /* a window, its header */

struct session {
	struct tap_view view;
	struct scpi scpi;
	/* Bit n is channel n: shown, and already read out of the window held. The
	 * pods come after the channels. */
	uint8_t channels_enabled;
	uint8_t channels_served;
	uint16_t lines_enabled; /* bit n is digital line n, as the client set it */
	bool format_is_real;
	/* While the session waits: samples that it still wants, for a port that
	 * knows when they will be there. */
	uint32_t samples_wanted;
	uint8_t out[SESSION_OUT_SIZE];
};

void session_open(struct session *session, struct tap *tap, unsigned instrument);

extern const struct scpi_command rta4004_commands[];
extern const struct scpi_command native_commands[];

#endif
