/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The protocol data units of NVMe/TCP: what the host's must be like, and how the
 * controller's are built. Pure. Digests are not negotiated.
 */
#ifndef JOULERIG_NVME_PDU_H
#define JOULERIG_NVME_PDU_H

#include <stdbool.h>
#include <stdint.h>

enum pdu_type {
	PDU_IC_REQUEST = 0x00,
	PDU_IC_RESPONSE = 0x01,
	PDU_HOST_TERMINATES = 0x02,
	PDU_CONTROLLER_TERMINATES = 0x03,
	PDU_COMMAND = 0x04,
	PDU_RESPONSE = 0x05,
	PDU_HOST_DATA = 0x06,
	PDU_CONTROLLER_DATA = 0x07,
	PDU_READY_TO_TRANSFER = 0x09,
};

#define PDU_HEADER_BYTES 8 /* that all have in common */
#define PDU_IC_BYTES 128
#define PDU_COMMAND_BYTES 72
#define PDU_RESPONSE_BYTES 24
#define PDU_DATA_BYTES 24
#define PDU_MOST_TERMINATE_BYTES 152
#define PDU_LAST 0x04
#define PDU_SUCCESS 0x08

/* Why a connection ends. */
enum pdu_fatal {
	FATAL_NONE = 0,
	FATAL_HEADER = 1,
	FATAL_SEQUENCE = 2,
	FATAL_OUT_OF_RANGE = 4,
	FATAL_LIMIT = 5,
	FATAL_UNSUPPORTED = 6,
};

struct pdu_header {
	enum pdu_type type;
	uint8_t flags;
	uint8_t header_bytes;
	uint32_t data_bytes; /* behind the header */
};

/* Reads the first PDU_HEADER_BYTES of what the host has sent; `greeted`: after its
 * ICReq. With anything but FATAL_NONE, *at is the offset of the field. */
enum pdu_fatal pdu_read_header(const uint8_t *raw, bool greeted, struct pdu_header *header, uint32_t *at);

/* ICReq: checked, and answered in response[PDU_IC_BYTES]; *align: what data of the
 * controller begin at a multiple of. */
enum pdu_fatal pdu_greet(const uint8_t *request, uint8_t *response, unsigned *align, uint32_t *at);

struct pdu_data {
	uint16_t command_id;
	uint16_t tag;
	uint32_t offset;
	uint32_t bytes;
};

/* H2CData's own header, PDU_DATA_BYTES with the common one. */
struct pdu_data pdu_read_data(const uint8_t *raw);

/* Each gives the bytes that it has put into `raw`, which has room for all of them and
 * for the padding. The data follow. */
unsigned pdu_put_data(uint8_t *raw, uint16_t command_id, uint32_t bytes, bool success, unsigned align);
unsigned pdu_put_ready(uint8_t *raw, const struct pdu_data *wanted);
unsigned pdu_put_response(uint8_t *raw, const uint8_t *completion);
/* `offender`: the header of the PDU that is to blame, of header_bytes. */
unsigned pdu_put_terminate(uint8_t *raw, enum pdu_fatal why, uint32_t at, const uint8_t *offender,
			   unsigned header_bytes);

#define PDU_ROOM 256

#endif
