/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What stands for the board's other parts on a host: switches that act on a rail's twin, on
 * a file of a rail that a monitor measures, or where it has neither on the samples; marker inputs
 * that a UNIX datagram socket sets; and a file as the calibration memory. A window is one period of
 * CLOCK_MONOTONIC, as in align.h.
 */
#ifndef JOULERIG_VIRTUAL_BOARD_H
#define JOULERIG_VIRTUAL_BOARD_H

#include "board.h"
#include "sampler.h"

#include <stdbool.h>
#include <stdint.h>

#define MARKER_QUEUE 4096

struct virtual_board {
	struct board board; /* for tap_init; its context is this */
	struct {
		bool on;
		uint64_t samples_since_cut;
		uint64_t switched_sample;
		/* The twin that the rail is of; NULL: none. */
		const char *twin_path, *twin_rail;
		/* Of a rail that a monitor measures: the file of its switch; NULL: it has none. */
		const char *switch_file;
		bool is_measured;
	} rails[SAMPLER_RAILS];
	int64_t window_ns;
	/* The sample that comes next: its number and its window. */
	uint64_t next_sample;
	int64_t next_window;
	const char *memory_path; /* NULL: no memory */
	int markers_fd;		 /* -1: no socket; the lines are low */
	uint8_t lines;
	/* Changes of the lines that samples have not come to yet. */
	struct {
		int64_t window;
		uint8_t lines;
	} changes[MARKER_QUEUE];
	uint32_t first_change, change_count;
};

void virtual_board_init(struct virtual_board *board, int64_t window_ns, const char *memory_path);

/* The rail's switch is that of a twin's rail; the texts stay the caller's. */
void virtual_board_attach(struct virtual_board *board, unsigned rail, const char *twin_path,
			  const char *twin_rail);

/* The rail is measured by a monitor, and its switch is a file that has 0 while it is off, such as
 * the brightness of an LED of the kernel's; NULL: nothing switches it. */
void virtual_board_measure(struct virtual_board *board, unsigned rail, const char *switch_file);

/* Binds the datagram socket, instead of one that no process listens on. False: one
 * line in error. */
bool virtual_board_listen(struct virtual_board *board, const char *path, char *error,
			  size_t error_size);

/* Takes what came on the socket; it is of the window that is running now. */
void virtual_board_read_markers(struct virtual_board *board, int64_t now_window);

/* Makes of the sources' sample of a window what the board's converters see: the
 * lines as they were at the end of the window, and rails without twin or monitor that are
 * switched off. Such a rail draws nothing; its volts are those of the source times
 * the part that is left: 1 falling to 0 in a straight line over decay_samples, at
 * once for 0. */
void virtual_board_apply(struct virtual_board *board, int64_t window, uint32_t decay_samples,
			 struct sample *sample);

#endif
