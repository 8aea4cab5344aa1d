/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The switch of a twin's rail, by the twin's control socket (docs/reference/protocols/twin.md,
 * "Twin"): each call opens a separate connection, so that it does not wait behind
 * a stream. At most a second.
 */
#ifndef JOULERIG_TWIN_SWITCH_H
#define JOULERIG_TWIN_SWITCH_H

#include <stdbool.h>
#include <stdint.h>

/* False where the twin does not answer, or has no such rail. switched_ns: when, on
 * CLOCK_MONOTONIC; of a rail that is so already, now. */
bool twin_switch(const char *path, const char *rail, bool on, int64_t *switched_ns);
bool twin_rail_is_on(const char *path, const char *rail, bool *on);

#endif
