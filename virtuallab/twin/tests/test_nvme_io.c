/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "nvme/connect.h"
#include "nvme_drive.h"

#define FUA (1u << 30)

static uint16_t io(struct command command, bool write_cache, uint32_t bytes)
{
	return nvme_io(&facts, &drive, write_cache, command.raw, data, bytes);
}

static void reads_and_writes_reach_the_drive(void)
{
	begin();
	CHECK(io(command_of(IO_READ, 1, 8, 0, 7), true, 4096) == 0);
	CHECK(noted.reads == 1 && noted.offset == 4096 && noted.bytes == 4096 && data[4095] == 0x5a);
	CHECK(io(command_of(IO_WRITE, 1, BLOCKS - 1, 0, 0), true, 512) == 0);
	CHECK(noted.writes == 1 && noted.offset == DRIVE_BYTES - 512 && noted.bytes == 512 && !noted.fua);
}

static void a_forced_write_is_forced(void)
{
	begin();
	io(command_of(IO_WRITE, 1, 0, 0, FUA), true, 512);
	CHECK(noted.fua);
	io(command_of(IO_WRITE, 1, 0, 0, 0), true, 512);
	CHECK(!noted.fua);
	io(command_of(IO_WRITE, 1, 0, 0, 0), false, 512); /* without a cache each is */
	CHECK(noted.fua);
	io(command_of(IO_WRITE_ZEROES, 1, 0, 0, FUA | 7), true, 0);
	CHECK(noted.fua && noted.zeroes == 1 && noted.bytes == 4096 && !noted.may_unmap);
	io(command_of(IO_WRITE_ZEROES, 1, 0, 0, 1 << 25 | 0xffff), true, 0);
	CHECK(!noted.fua && noted.may_unmap && noted.bytes == 65536 * 512);
}

static void a_flush_may_be_of_all_namespaces(void)
{
	begin();
	CHECK(io(command_of(IO_FLUSH, 1, 0, 0, 0), true, 0) == 0);
	CHECK(io(command_of(IO_FLUSH, 0xffffffff, 0, 0, 0), true, 0) == 0 && noted.flushes == 2);
	CHECK(code(io(command_of(IO_FLUSH, 0, 0, 0, 0), true, 0)) == STATUS_INVALID_NAMESPACE);
	CHECK(code(io(command_of(IO_READ, 0xffffffff, 0, 0, 0), true, 512)) == STATUS_INVALID_NAMESPACE);
	CHECK(noted.flushes == 2 && noted.reads == 0);
}

static void nothing_lies_beyond_the_end(void)
{
	begin();
	CHECK(code(io(command_of(IO_READ, 1, BLOCKS - 1, 0, 1), true, 1024)) == STATUS_LBA_RANGE);
	CHECK(code(io(command_of(IO_WRITE, 1, BLOCKS, 0, 0), true, 512)) == STATUS_LBA_RANGE);
	CHECK(code(io(command_of(IO_WRITE, 1, 0xffffffff, 0xffffffff, 0), true, 512)) == STATUS_LBA_RANGE);
	CHECK(code(io(command_of(IO_WRITE_ZEROES, 1, BLOCKS - 1, 0, 0xffff), true, 0)) == STATUS_LBA_RANGE);
	CHECK(noted.reads + noted.writes + noted.zeroes == 0);
}

static void lengths_must_agree(void)
{
	begin();
	CHECK(code(io(command_of(IO_READ, 1, 0, 0, 7), true, 512)) == STATUS_DATA_LENGTH);
	CHECK(code(io(command_of(IO_WRITE, 1, 0, 0, 0), true, 0)) == STATUS_DATA_LENGTH);
	CHECK(code(io(command_of(IO_WRITE, 1, 0, 0, 0xffff), true, 512)) == STATUS_INVALID_FIELD);
	CHECK(code(io(command_of(0x05, 1, 0, 0, 0), true, 512)) == STATUS_INVALID_OPCODE);
	CHECK(noted.reads + noted.writes == 0);
}

static void ranges_are_deallocated_all_or_none(void)
{
	begin();
	memset(data, 0, sizeof data);
	put32(data + 4, 8);
	put64(data + 8, 16);
	put32(data + 20, 1);
	put64(data + 24, BLOCKS - 1);
	CHECK(io(command_of(IO_DATASET_MANAGEMENT, 1, 1, 4, 0), true, 32) == 0);
	CHECK(noted.discards == 2 && noted.offset == DRIVE_BYTES - 512 && noted.bytes == 512);
	CHECK(io(command_of(IO_DATASET_MANAGEMENT, 1, 1, 0, 0), true, 32) == 0 && noted.discards == 2);
	put64(data + 24, BLOCKS);
	CHECK(code(io(command_of(IO_DATASET_MANAGEMENT, 1, 1, 4, 0), true, 32)) == STATUS_LBA_RANGE);
	CHECK(code(io(command_of(IO_DATASET_MANAGEMENT, 1, 1, 4, 0), true, 31)) == STATUS_DATA_LENGTH);
	CHECK(noted.discards == 2);
	CHECK(io(command_of(IO_DATASET_MANAGEMENT, 1, 0, 4, 0), true, 16) == 0 && noted.offset == 8192 &&
	      noted.bytes == 4096);
}

static void a_medium_that_fails_says_so(void)
{
	begin();
	noted.fails = true;
	CHECK(code(io(command_of(IO_READ, 1, 0, 0, 0), true, 512)) == STATUS_READ_ERROR);
	CHECK(code(io(command_of(IO_WRITE, 1, 0, 0, 0), true, 512)) == STATUS_WRITE_FAULT);
	CHECK(code(io(command_of(IO_FLUSH, 1, 0, 0, 0), true, 0)) == STATUS_WRITE_FAULT);
	CHECK(io(command_of(IO_FLUSH, 1, 0, 0, 0), true, 0) & NVME_DO_NOT_RETRY);
}

static struct command connect_of(uint16_t queue, uint16_t entries)
{
	struct command command = { { ADMIN_FABRICS } };

	put16(command.raw + 42, queue);
	put16(command.raw + 44, entries - 1u);
	put32(command.raw + 48, 5000);
	memset(data, 0, sizeof data);
	memset(data, 9, 16);
	put16(data + 16, queue ? 1 : 0xffff);
	memcpy(data + 256, "nqn.test:drive", 15);
	memcpy(data + 512, "nqn.test:host", 14);
	return command;
}

static void check_connect(struct command command, uint32_t bytes, uint16_t status, uint64_t at)
{
	struct nvme_connect connect;
	uint64_t result = 1;

	CHECK(code(nvme_read_connect(&facts, command.raw, data, bytes, &connect, &result)) == status);
	CHECK(result == at);
}

static void a_connect_says_who_and_what(void)
{
	struct command command = connect_of(0, 32);
	struct nvme_connect connect;
	uint64_t result;

	command.raw[46] = 4;
	CHECK(nvme_read_connect(&facts, command.raw, data, 1024, &connect, &result) == 0);
	CHECK(connect.queue == 0 && connect.entries == 32 && connect.flow_is_off && connect.keep_alive_ms == 5000);
	CHECK(connect.controller == 0xffff && connect.host_id[15] == 9);
	CHECK_TEXT(connect.host_name, "nqn.test:host");
}

static void a_wrong_connect_is_pointed_at(void)
{
	struct command command = connect_of(0, 32);

	check_connect(command, 1023, STATUS_DATA_LENGTH, 0);
	command.raw[40] = 1;
	check_connect(command, 1024, STATUS_CONNECT_FORMAT, 0);
	check_connect(connect_of(0, 1), 1024, STATUS_CONNECT_INVALID, 44);
	check_connect(connect_of(0, 129), 1024, STATUS_CONNECT_INVALID, 44);
	command = connect_of(0, 32);
	data[256 + 13] = 'x';
	check_connect(command, 1024, STATUS_CONNECT_INVALID, 1 << 16 | 256);
	command = connect_of(0, 32);
	memset(data + 512, 'x', 256); /* has no end */
	check_connect(command, 1024, STATUS_CONNECT_INVALID, 1 << 16 | 512);
	command = connect_of(0, 32);
	put16(data + 16, 1); /* a controller that is to be made has no number */
	check_connect(command, 1024, STATUS_CONNECT_INVALID, 1 << 16 | 16);
}

static void a_queue_belongs_to_its_host(void)
{
	struct command command = connect_of(1, 128);
	struct nvme_connect connect;
	uint64_t result;

	begin();
	CHECK(nvme_read_connect(&facts, command.raw, data, 1024, &connect, &result) == 0);
	CHECK(code(nvme_check_queue(NULL, &connect, &result)) == STATUS_CONNECT_INVALID && result == (1 << 16 | 16));
	CHECK(code(nvme_check_queue(&controller, &connect, &result)) == STATUS_CONNECT_INVALID);
	memcpy(controller.host_id, connect.host_id, 16);
	strcpy(controller.host_name, "nqn.test:hos");
	CHECK(code(nvme_check_queue(&controller, &connect, &result)) == STATUS_CONNECT_INVALID &&
	      result == (1 << 16 | 512));
	strcpy(controller.host_name, "nqn.test:host");
	CHECK(nvme_check_queue(&controller, &connect, &result) == 0);
	connect.queue = NVME_MAX_QUEUES + 1;
	CHECK(code(nvme_check_queue(&controller, &connect, &result)) == STATUS_CONNECT_INVALID && result == 42);
	connect.queue = NVME_MAX_QUEUES;
	CHECK(nvme_check_queue(&controller, &connect, &result) == 0);
	nvme_set_property(&controller, PROPERTY_CC, false, 0);
	CHECK(code(nvme_check_queue(&controller, &connect, &result)) == STATUS_SEQUENCE);
}

int main(void)
{
	reads_and_writes_reach_the_drive();
	a_forced_write_is_forced();
	a_flush_may_be_of_all_namespaces();
	nothing_lies_beyond_the_end();
	lengths_must_agree();
	ranges_are_deallocated_all_or_none();
	a_medium_that_fails_says_so();
	a_connect_says_who_and_what();
	a_wrong_connect_is_pointed_at();
	a_queue_belongs_to_its_host();
	return report("nvme_io");
}
