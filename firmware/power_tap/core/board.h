/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What a port gives the core in addition to samples: its switches, its marker inputs
 * and its calibration memory. Any function may be NULL: then the board lacks
 * that part, and commands for it are refused. All of them are called from where
 * the port runs sessions, but for markers, which tap_sample calls.
 */
#ifndef JOULERIG_BOARD_H
#define JOULERIG_BOARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct board {
	void *context;
	/* The load switch of a rail (0 .. TAP_RAILS - 1), with rail_is_on: both or
	 * neither. Returns when the switch has its command. */
	void (*set_rail)(void *context, unsigned rail, bool on);
	/* As the hardware reports it; where it cannot, as commanded. */
	bool (*rail_is_on)(void *context, unsigned rail);
	/* Of a port whose samples come some time after their window: the number of the
	 * sample in whose window the rail's switch was last set. NULL: that of the
	 * sample that comes next. */
	uint64_t (*switched_sample)(void *context, unsigned rail);
	/* Bits 0 and 1: the two digital marker inputs now. NULL for a port that
	 * fills in struct sample's markers itself. May be called in an interrupt. */
	uint8_t (*markers)(void *context);
	/* Calibration memory, always `length` bytes from its beginning; false when
	 * they could not be written, or were never. */
	bool (*store)(void *context, const void *data, size_t length);
	bool (*load)(void *context, void *data, size_t length);
	const char *name; /* of the board, for TAP:IDN?; without a comma; NULL: "unknown" */
};

#endif
