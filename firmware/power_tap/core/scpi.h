/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A small SCPI interpreter (SCPI-99, IEEE 488.2): lines of program messages
 * separated by ';', headers in short or long form in any case, numeric suffixes,
 * an error queue, definite-length blocks. Every header counts from the root.
 * Bytes go in one by one; a complete reply comes out in one piece, for clients
 * take a segment for a reply. A command may ask to be called again later, so
 * that a reply can wait for samples. No allocation, no operating system.
 */
#ifndef JOULERIG_SCPI_H
#define JOULERIG_SCPI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SCPI_LINE_SIZE 256
#define SCPI_ERRORS 8
#define SCPI_MAX_SUFFIXES 2

enum scpi_error {
	SCPI_OK = 0,
	SCPI_DATA_TYPE_ERROR = -104,
	SCPI_UNDEFINED_HEADER = -113,
	SCPI_HEADER_SUFFIX_OUT_OF_RANGE = -114,
	SCPI_INPUT_OVERRUN = -363,
	SCPI_SETTINGS_CONFLICT = -221,
	SCPI_DATA_OUT_OF_RANGE = -222,
	SCPI_ILLEGAL_PARAMETER = -224,
	SCPI_HARDWARE_MISSING = -241,
	SCPI_RESPONSE_TOO_LONG = -223,
	SCPI_MEMORY_ERROR = -311,
	SCPI_QUEUE_OVERFLOW = -350,
};

enum scpi_outcome {
	SCPI_DONE,
	SCPI_LATER, /* nothing was written; call again */
};

struct scpi;

struct scpi_call {
	void *instrument;
	const char *parameter; /* what follows the header, without blanks around */
	uint32_t suffix[SCPI_MAX_SUFFIXES]; /* of each '#' in the pattern; 1 where absent */
	int64_t now_ns;	      /* the port's monotonic clock */
	int64_t waiting_ns;   /* for how long this command has been asked for */
};

typedef enum scpi_outcome scpi_handler(struct scpi *scpi, const struct scpi_call *call);

/* Pattern: "CHANnel#:DATA?"; capitals are the short form, '#' takes a number. */
struct scpi_command {
	const char *pattern;
	scpi_handler *handler;
};

struct scpi {
	/* Tables, each ended by a NULL pattern; the list by NULL. */
	const struct scpi_command *const *tables;
	void *instrument;
	uint8_t *out;
	size_t out_size;
	size_t out_length;
	bool out_is_block; /* a block ends by its length, and takes no newline */
	bool out_overflowed;
	char line[SCPI_LINE_SIZE];
	size_t line_length;
	bool line_overflowed;
	bool line_complete;
	size_t unit; /* where in the line the command under way begins */
	size_t unit_length;
	bool waiting;
	int64_t wait_began_ns;
	int16_t errors[SCPI_ERRORS];
	unsigned error_count;
};

void scpi_init(struct scpi *scpi, const struct scpi_command *const *tables, void *instrument,
	       uint8_t *out, size_t out_size);

/* Takes a byte; false while the line before it is not done with. */
bool scpi_put(struct scpi *scpi, uint8_t byte);

/* Works on a complete line. Returns the reply (its length in *length) once it
 * is whole, else NULL: because there is no line, because it has no reply, or
 * because it waits (scpi_is_waiting). The reply stays valid until the next
 * byte is put. */
const uint8_t *scpi_run(struct scpi *scpi, int64_t now_ns, size_t *length);

bool scpi_is_waiting(const struct scpi *scpi);

/* For handlers. */
void scpi_write_text(struct scpi *scpi, const char *text);
void scpi_write_unsigned(struct scpi *scpi, uint64_t value);
void scpi_write_float(struct scpi *scpi, float value); /* number_format's */
/* Begins a definite-length block of length bytes, which must be above 0; its
 * content is written to the returned place. NULL when it does not fit. */
uint8_t *scpi_write_block(struct scpi *scpi, size_t length);
void scpi_push_error(struct scpi *scpi, enum scpi_error error);
enum scpi_error scpi_pop_error(struct scpi *scpi);
/* The whole of text is a number (number_parse). */
bool scpi_parse_float(const char *text, float *value);
bool scpi_parse_bool(const char *text, bool *value);
bool scpi_equal(const char *text, const char *pattern);

#endif
