/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The frames that srcap writes on stdout; their layout is in frames.md. */
#ifndef SRCAP_FRAME_H
#define SRCAP_FRAME_H

#include <stddef.h>
#include <stdint.h>

enum frame_type { FRAME_ANALOG = 1, FRAME_LOGIC = 2, FRAME_EVENT = 3, FRAME_RAIL = 4 };

#define FRAME_NO_CHANNEL 0xffffU

struct stamp {
	int64_t monotonic_ns;
	int64_t realtime_ns;
};

/* Both clocks at one moment. */
struct stamp stamp_now(void);

struct frame {
	enum frame_type type;
	uint16_t channel;
	uint32_t mq;
	uint32_t unit;
	uint32_t n;
	uint32_t length;
	uint64_t first;
	struct stamp at;
	const void *payload;
};

/* Ready stdout for large frames. */
void frame_init(void);

/* Write one frame whole. Ends the process when the reader has gone. */
void frame_write(const struct frame *f);

/* Write an event frame; `json` is one object. */
void frame_event(const char *json);

/* As frame_event, but gives up (0) where a frame is being written now. */
int frame_try_event(const char *json);

/* Let the reader of a ring know of frames that have waited long enough. */
void frame_flush_due(void);

/* Whether a write is under way: the reader is slow, not the instrument. */
int frame_is_writing(void);

/* `text` as a JSON string with its quotes; the caller frees it (g_free). */
char *json_quote(const char *text);

#endif
