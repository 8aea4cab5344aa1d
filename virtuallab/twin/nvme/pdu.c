/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "nvme/pdu.h"

#include "nvme/bytes.h"
#include "nvme/spec.h"

#define MOST_ALIGN_CODE 31 /* in units of 4 bytes, less one */

static enum pdu_fatal blame(uint32_t *at, uint32_t offset)
{
	*at = offset;
	return FATAL_HEADER;
}

static unsigned header_bytes_of(enum pdu_type type)
{
	switch (type) {
	case PDU_IC_REQUEST:
		return PDU_IC_BYTES;
	case PDU_COMMAND:
		return PDU_COMMAND_BYTES;
	case PDU_HOST_DATA:
	case PDU_HOST_TERMINATES:
		return PDU_DATA_BYTES;
	default:
		return 0; /* a host sends no such */
	}
}

static uint32_t most_data(enum pdu_type type)
{
	switch (type) {
	case PDU_COMMAND:
		return NVME_IN_CAPSULE_BYTES;
	case PDU_HOST_DATA:
		return NVME_MAX_H2C_BYTES;
	case PDU_HOST_TERMINATES:
		return PDU_MOST_TERMINATE_BYTES - PDU_DATA_BYTES;
	default:
		return 0;
	}
}

enum pdu_fatal pdu_read_header(const uint8_t *raw, bool greeted, struct pdu_header *header, uint32_t *at)
{
	uint32_t bytes = get32(raw + 4);
	uint8_t allowed_flags;

	header->type = (enum pdu_type)raw[0];
	header->flags = raw[1];
	header->header_bytes = (uint8_t)header_bytes_of(header->type);
	if (header->header_bytes == 0)
		return blame(at, 0);
	*at = 0;
	if (greeted == (header->type == PDU_IC_REQUEST))
		return FATAL_SEQUENCE;
	allowed_flags = header->type == PDU_HOST_DATA ? PDU_LAST : 0;
	if (header->flags & ~allowed_flags)
		return blame(at, 1);
	if (raw[2] != header->header_bytes)
		return blame(at, 2);
	if (bytes < header->header_bytes || bytes - header->header_bytes > most_data(header->type))
		return blame(at, 4);
	header->data_bytes = bytes - header->header_bytes;
	/* Without digests, and with the alignment that was asked for, data begin at once. */
	if (header->data_bytes && header->type != PDU_HOST_TERMINATES && raw[3] != header->header_bytes)
		return blame(at, 3);
	return FATAL_NONE;
}

enum pdu_fatal pdu_greet(const uint8_t *request, uint8_t *response, unsigned *align, uint32_t *at)
{
	*at = 8;
	if (get16(request + 8) != 0) /* the only version of the format */
		return FATAL_UNSUPPORTED;
	if (request[10] > MOST_ALIGN_CODE)
		return blame(at, 10);
	*align = (request[10] + 1u) * 4;
	memset(response, 0, PDU_IC_BYTES);
	response[0] = PDU_IC_RESPONSE;
	response[2] = PDU_IC_BYTES;
	put32(response + 4, PDU_IC_BYTES);
	put32(response + 12, NVME_MAX_H2C_BYTES);
	return FATAL_NONE;
}

struct pdu_data pdu_read_data(const uint8_t *raw)
{
	return (struct pdu_data){ .command_id = get16(raw + 8), .tag = get16(raw + 10),
				  .offset = get32(raw + 12), .bytes = get32(raw + 16) };
}

static void put_header(uint8_t *raw, enum pdu_type type, uint8_t flags, unsigned header_bytes,
		       uint32_t all_bytes)
{
	memset(raw, 0, header_bytes);
	raw[0] = (uint8_t)type;
	raw[1] = flags;
	raw[2] = (uint8_t)header_bytes;
	put32(raw + 4, all_bytes);
}

static void put_data(uint8_t *raw, const struct pdu_data *data)
{
	put16(raw + 8, data->command_id);
	put16(raw + 10, data->tag);
	put32(raw + 12, data->offset);
	put32(raw + 16, data->bytes);
}

unsigned pdu_put_data(uint8_t *raw, uint16_t command_id, uint32_t bytes, bool success, unsigned align)
{
	struct pdu_data data = { .command_id = command_id, .bytes = bytes };
	unsigned begin = (PDU_DATA_BYTES + align - 1) / align * align;

	put_header(raw, PDU_CONTROLLER_DATA, success ? PDU_LAST | PDU_SUCCESS : PDU_LAST, PDU_DATA_BYTES,
		   begin + bytes);
	raw[3] = (uint8_t)begin;
	put_data(raw, &data);
	memset(raw + PDU_DATA_BYTES, 0, begin - PDU_DATA_BYTES);
	return begin;
}

unsigned pdu_put_ready(uint8_t *raw, const struct pdu_data *wanted)
{
	put_header(raw, PDU_READY_TO_TRANSFER, 0, PDU_DATA_BYTES, PDU_DATA_BYTES);
	put_data(raw, wanted);
	return PDU_DATA_BYTES;
}

unsigned pdu_put_response(uint8_t *raw, const uint8_t *completion)
{
	put_header(raw, PDU_RESPONSE, 0, PDU_RESPONSE_BYTES, PDU_RESPONSE_BYTES);
	memcpy(raw + PDU_HEADER_BYTES, completion, NVME_COMPLETION_BYTES);
	return PDU_RESPONSE_BYTES;
}

unsigned pdu_put_terminate(uint8_t *raw, enum pdu_fatal why, uint32_t at, const uint8_t *offender,
			   unsigned header_bytes)
{
	put_header(raw, PDU_CONTROLLER_TERMINATES, 0, PDU_DATA_BYTES, PDU_DATA_BYTES + header_bytes);
	put16(raw + 8, why);
	put32(raw + 10, at);
	memcpy(raw + PDU_DATA_BYTES, offender, header_bytes);
	return PDU_DATA_BYTES + header_bytes;
}
