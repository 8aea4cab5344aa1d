/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Frames by shared memory: at 16 MB/s two copies through a pipe, and a wake-up of the reader for
 * each frame, cost more than all that is done with the samples. The layout is in frames.md. One
 * writer at a time (the caller's lock), one reader.
 */
#ifndef SRCAP_RING_H
#define SRCAP_RING_H

#include <stddef.h>
#include <stdint.h>

/* Map the reader's ring. Returns NULL, or what is wrong with it. */
const char *ring_open(int fd);

/* Whether frames go to a ring. */
int ring_is_open(void);

/* Room for a record of `length` bytes, waiting for the reader where there is none. ring_commit
 * makes it the reader's. */
unsigned char *ring_reserve(size_t length);
void ring_commit(void);

/* Wake the reader, if there is anything that it was not woken for: at once, or when RING_KICK_NS
 * have passed since the last time or half of the ring is full. */
#define RING_KICK_NS 1000000000
void ring_kick(int64_t now_ns, int at_once);

#endif
