/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _POSIX_C_SOURCE 200809L /* mkstemp */

#include "write_log.h"
#include "check.h"

#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

static char path[] = "/tmp/write-log-XXXXXX";
static unsigned char found[16 * WRITE_LOG_SECTOR];
static size_t sectors;

static void read_back(struct write_log *log)
{
	FILE *file;

	CHECK(write_log_close(log));
	file = fopen(path, "rb");
	sectors = fread(found, WRITE_LOG_SECTOR, 16, file);
	fclose(file);
}

/* One of the four numbers that a sector begins with, whatever this machine's order. */
static uint64_t number(unsigned sector, unsigned which)
{
	uint64_t value = 0;

	for (unsigned byte = 8; byte-- > 0;)
		value = value << 8 | found[sector * WRITE_LOG_SECTOR + which * 8 + byte];
	return value;
}

static void an_entry_has_its_sectors_flags_and_data(void)
{
	unsigned char data[2 * WRITE_LOG_SECTOR];
	struct write_log *log = write_log_open(path);

	memset(data, 7, sizeof data);
	write_log_write(log, data, sizeof data, 3 * WRITE_LOG_SECTOR, true);
	read_back(log);
	CHECK(sectors == 4);
	CHECK(number(1, 0) == 3 && number(1, 1) == 2 && number(1, 2) == 2 && number(1, 3) == 0);
	CHECK(memcmp(found + 2 * WRITE_LOG_SECTOR, data, sizeof data) == 0);
}

static void the_head_counts_the_entries(void)
{
	struct write_log *log = write_log_open(path);

	write_log_flush(log);
	CHECK(write_log_mark(log, "commit 1"));
	write_log_write(log, NULL, 8 * WRITE_LOG_SECTOR, 0, false);
	read_back(log);
	CHECK(sectors == 4);
	CHECK(number(0, 0) == 0x6a736677736872 && number(0, 1) == 1 && number(0, 2) == 3);
	CHECK(number(0, 3) == WRITE_LOG_SECTOR);
	CHECK(number(1, 2) == 1 && number(2, 2) == 8 && number(3, 2) == 4);
	CHECK(number(3, 1) == 8);
	CHECK(number(2, 3) == 8 && memcmp(found + 2 * WRITE_LOG_SECTOR + 32, "commit 1", 8) == 0);
}

static void a_mark_that_has_no_room_is_refused(void)
{
	char text[WRITE_LOG_MARK_BYTES + 2];
	struct write_log *log = write_log_open(path);

	memset(text, 'x', sizeof text);
	text[WRITE_LOG_MARK_BYTES + 1] = '\0';
	CHECK(!write_log_mark(log, text) && !write_log_mark(log, ""));
	text[WRITE_LOG_MARK_BYTES] = '\0';
	CHECK(write_log_mark(log, text));
	read_back(log);
	CHECK(sectors == 2);
}

static void what_could_not_be_written_is_reported_at_the_end(void)
{
	struct write_log *log = write_log_open("/dev/full");

	write_log_flush(log);
	CHECK(!write_log_close(log));
	CHECK(!write_log_open("/nowhere/log"));
	CHECK(write_log_close(NULL));
}

int main(void)
{
	int file = mkstemp(path);

	if (file < 0)
		return 1;
	close(file);
	an_entry_has_its_sectors_flags_and_data();
	the_head_counts_the_entries();
	a_mark_that_has_no_room_is_refused();
	what_could_not_be_written_is_reported_at_the_end();
	unlink(path);
	return report("write_log");
}
