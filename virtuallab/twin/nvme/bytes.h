/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Little-endian numbers in a buffer, as NVMe has them. */
#ifndef JOULERIG_NVME_BYTES_H
#define JOULERIG_NVME_BYTES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t get_bytes(const uint8_t *at, unsigned count)
{
	uint64_t value = 0;

	for (unsigned n = 0; n < count; n++)
		value |= (uint64_t)at[n] << (8 * n);
	return value;
}

static inline uint16_t get16(const uint8_t *at)
{
	return (uint16_t)get_bytes(at, 2);
}

static inline uint32_t get32(const uint8_t *at)
{
	return (uint32_t)get_bytes(at, 4);
}

static inline uint64_t get64(const uint8_t *at)
{
	return get_bytes(at, 8);
}

static inline void put_bytes(uint8_t *at, uint64_t value, unsigned count)
{
	for (unsigned n = 0; n < count; n++)
		at[n] = (uint8_t)(value >> (8 * n));
}

static inline void put16(uint8_t *at, uint64_t value)
{
	put_bytes(at, value, 2);
}

static inline void put32(uint8_t *at, uint64_t value)
{
	put_bytes(at, value, 4);
}

static inline void put64(uint8_t *at, uint64_t value)
{
	put_bytes(at, value, 8);
}

/* Text in a field that blanks fill up. */
static inline void put_text(uint8_t *at, const char *text, size_t size)
{
	const char *end = memchr(text, 0, size);
	size_t length = end ? (size_t)(end - text) : size;

	memcpy(at, text, length);
	memset(at + length, ' ', size - length);
}

#endif
