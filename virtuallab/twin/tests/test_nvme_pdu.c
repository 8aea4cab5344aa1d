/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "nvme/pdu.h"

#include "check.h"
#include "nvme/bytes.h"
#include "nvme/spec.h"

struct raw {
	uint8_t bytes[PDU_HEADER_BYTES];
};

static struct raw header_of(unsigned type, unsigned flags, unsigned header_bytes, unsigned data_at, uint32_t all)
{
	struct raw raw = { { (uint8_t)type, (uint8_t)flags, (uint8_t)header_bytes, (uint8_t)data_at } };

	put32(raw.bytes + 4, all);
	return raw;
}

static void check_blamed(const char *what, struct raw raw, bool greeted, enum pdu_fatal why, uint32_t at)
{
	struct pdu_header header;
	uint32_t found_at = 99;
	enum pdu_fatal found = pdu_read_header(raw.bytes, greeted, &header, &found_at);

	if (found != why || found_at != at) {
		printf("%s: %d at %u, expected %d at %u\n", what, found, found_at, why, at);
		failures++;
	}
}

static void what_a_host_sends_is_taken(void)
{
	struct pdu_header header;
	uint32_t at;

	CHECK(pdu_read_header(header_of(PDU_IC_REQUEST, 0, 128, 0, 128).bytes, false, &header, &at) == FATAL_NONE);
	CHECK(header.type == PDU_IC_REQUEST && header.header_bytes == 128 && header.data_bytes == 0);
	CHECK(pdu_read_header(header_of(PDU_COMMAND, 0, 72, 0, 72).bytes, true, &header, &at) == FATAL_NONE);
	CHECK(header.header_bytes == 72 && header.data_bytes == 0);
	CHECK(pdu_read_header(header_of(PDU_COMMAND, 0, 72, 72, 72 + 4096).bytes, true, &header, &at) ==
	      FATAL_NONE);
	CHECK(header.data_bytes == 4096);
	CHECK(pdu_read_header(header_of(PDU_HOST_DATA, PDU_LAST, 24, 24, 24 + 512).bytes, true, &header, &at) ==
	      FATAL_NONE);
	CHECK(header.flags == PDU_LAST && header.data_bytes == 512);
	CHECK(pdu_read_header(header_of(PDU_HOST_TERMINATES, 0, 24, 0, 24 + 128).bytes, true, &header, &at) ==
	      FATAL_NONE);
}

static void the_field_that_is_wrong_is_named(void)
{
	check_blamed("a type for hosts", header_of(PDU_RESPONSE, 0, 24, 0, 24), true, FATAL_HEADER, 0);
	check_blamed("no such type", header_of(0x7f, 0, 24, 0, 24), true, FATAL_HEADER, 0);
	check_blamed("a command before the greeting", header_of(PDU_COMMAND, 0, 72, 0, 72), false, FATAL_SEQUENCE,
		     0);
	check_blamed("a second greeting", header_of(PDU_IC_REQUEST, 0, 128, 0, 128), true, FATAL_SEQUENCE, 0);
	check_blamed("digests", header_of(PDU_COMMAND, 3, 72, 0, 72), true, FATAL_HEADER, 1);
	check_blamed("a last command", header_of(PDU_COMMAND, PDU_LAST, 72, 0, 72), true, FATAL_HEADER, 1);
	check_blamed("a short header", header_of(PDU_COMMAND, 0, 71, 0, 72), true, FATAL_HEADER, 2);
	check_blamed("data elsewhere", header_of(PDU_COMMAND, 0, 72, 76, 76 + 512), true, FATAL_HEADER, 3);
	check_blamed("shorter than its header", header_of(PDU_COMMAND, 0, 72, 0, 71), true, FATAL_HEADER, 4);
	check_blamed("a large capsule", header_of(PDU_COMMAND, 0, 72, 72, 72 + NVME_IN_CAPSULE_BYTES + 1), true,
		     FATAL_HEADER, 4);
	check_blamed("much data", header_of(PDU_HOST_DATA, 0, 24, 24, 24 + NVME_MAX_H2C_BYTES + 1), true,
		     FATAL_HEADER, 4);
	check_blamed("a large greeting", header_of(PDU_IC_REQUEST, 0, 128, 0, 0xffffffff), false, FATAL_HEADER, 4);
}

static void a_greeting_is_answered_without_digests(void)
{
	uint8_t request[PDU_IC_BYTES] = { 0 }, response[PDU_IC_BYTES];
	unsigned align;
	uint32_t at;

	request[11] = 3; /* both digests */
	CHECK(pdu_greet(request, response, &align, &at) == FATAL_NONE && align == 4);
	CHECK(response[0] == PDU_IC_RESPONSE && response[2] == 128 && get32(response + 4) == 128);
	CHECK(get16(response + 8) == 0 && response[10] == 0 && response[11] == 0);
	CHECK(get32(response + 12) == NVME_MAX_H2C_BYTES);
	request[10] = 31;
	CHECK(pdu_greet(request, response, &align, &at) == FATAL_NONE && align == 128);
	request[10] = 32;
	CHECK(pdu_greet(request, response, &align, &at) == FATAL_HEADER && at == 10);
	request[8] = 1;
	CHECK(pdu_greet(request, response, &align, &at) == FATAL_UNSUPPORTED && at == 8);
}

static void data_begin_where_the_host_wants_them(void)
{
	uint8_t raw[PDU_ROOM];

	memset(raw, 0xff, sizeof raw);
	CHECK(pdu_put_data(raw, 7, 4096, true, 4) == 24);
	CHECK(raw[0] == PDU_CONTROLLER_DATA && raw[1] == (PDU_LAST | PDU_SUCCESS) && raw[2] == 24 && raw[3] == 24);
	CHECK(get32(raw + 4) == 24 + 4096 && get16(raw + 8) == 7 && get32(raw + 12) == 0 &&
	      get32(raw + 16) == 4096);
	CHECK(pdu_put_data(raw, 7, 512, false, 128) == 128);
	CHECK(raw[1] == PDU_LAST && raw[2] == 24 && raw[3] == 128 && get32(raw + 4) == 128 + 512);
	CHECK(raw[127] == 0);
}

static void what_the_controller_sends_has_its_fields(void)
{
	struct pdu_data wanted = { .command_id = 3, .tag = 5, .offset = 0, .bytes = 65536 };
	uint8_t raw[PDU_ROOM], completion[NVME_COMPLETION_BYTES], offender[PDU_COMMAND_BYTES];

	CHECK(pdu_put_ready(raw, &wanted) == 24);
	CHECK(raw[0] == PDU_READY_TO_TRANSFER && get32(raw + 4) == 24);
	wanted = pdu_read_data(raw);
	CHECK(wanted.command_id == 3 && wanted.tag == 5 && wanted.offset == 0 && wanted.bytes == 65536);
	memset(completion, 0xab, sizeof completion);
	CHECK(pdu_put_response(raw, completion) == 24);
	CHECK(raw[0] == PDU_RESPONSE && raw[2] == 24 && memcmp(raw + 8, completion, sizeof completion) == 0);
	memset(offender, 0xcd, sizeof offender);
	CHECK(pdu_put_terminate(raw, FATAL_OUT_OF_RANGE, 12, offender, sizeof offender) == 24 + 72);
	CHECK(raw[0] == PDU_CONTROLLER_TERMINATES && get32(raw + 4) == 96 && get16(raw + 8) == 4 &&
	      get32(raw + 10) == 12 && memcmp(raw + 24, offender, sizeof offender) == 0);
}

int main(void)
{
	what_a_host_sends_is_taken();
	the_field_that_is_wrong_is_named();
	a_greeting_is_answered_without_digests();
	data_begin_where_the_host_wants_them();
	what_the_controller_sends_has_its_fields();
	return report("nvme_pdu");
}
