/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "iio.h"

#include "check.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WINDOW_NS 1000000
#define CHIP "1-0040"

static struct iio iio;
static struct align align;
static char root[64], error[512];
static int writer;

static void put(const char *name, const char *text)
{
	char path[256];
	FILE *file;

	snprintf(path, sizeof path, "%s/%s", root, name);
	file = fopen(path, "w");
	CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

static void folder(const char *name)
{
	char path[256];

	snprintf(path, sizeof path, "%s/%s", root, name);
	CHECK(mkdir(path, 0755) == 0);
}

#define DEVICE CHIP "/iio:device0/"

/* An INA226 as ina2xx-adc has it: shunt and bus volts, watts, amps, time. */
static void make_tree(void)
{
	char path[256], chip[256];

	strcpy(root, "/tmp/test_iio.XXXXXX");
	CHECK(mkdtemp(root));
	folder("bus");
	folder("bus/iio");
	folder("bus/iio/devices");
	folder(CHIP);
	folder(DEVICE);
	folder(DEVICE "scan_elements");
	folder(DEVICE "buffer");
	snprintf(chip, sizeof chip, "%s/" CHIP "/iio:device0", root);
	snprintf(path, sizeof path, "%s/bus/iio/devices/iio:device0", root);
	CHECK(symlink(chip, path) == 0);
	put(DEVICE "buffer/enable", "0\n");
	put(DEVICE "buffer/length", "2\n");
	put(DEVICE "current_timestamp_clock", "realtime\n");
	put(DEVICE "in_sampling_frequency", "1506\n");
	put(DEVICE "in_voltage1_scale", "1.25\n");
	put(DEVICE "in_current3_scale", "0.5\n");
	put(DEVICE "scan_elements/in_voltage0_en", "1\n");
	put(DEVICE "scan_elements/in_voltage1_en", "0\n");
	put(DEVICE "scan_elements/in_voltage1_index", "1\n");
	put(DEVICE "scan_elements/in_voltage1_type", "le:u16/16>>0\n");
	put(DEVICE "scan_elements/in_current3_en", "0\n");
	put(DEVICE "scan_elements/in_current3_index", "3\n");
	put(DEVICE "scan_elements/in_current3_type", "le:s16/16>>0\n");
	put(DEVICE "scan_elements/in_timestamp_en", "0\n");
	put(DEVICE "scan_elements/in_timestamp_index", "4\n");
	put(DEVICE "scan_elements/in_timestamp_type", "le:s64/64>>0\n");
	snprintf(path, sizeof path, "%s/iio:device0", root);
	CHECK(mkfifo(path, 0644) == 0);
	writer = open(path, O_RDWR);
	CHECK(writer >= 0);
	CHECK(setenv("JOULERIG_SYSFS", root, 1) == 0 && setenv("JOULERIG_DEV", root, 1) == 0);
	align_init(&align);
}

static void remove_tree(void)
{
	char command[128];

	close(writer);
	snprintf(command, sizeof command, "rm -rf %s", root);
	CHECK(system(command) == 0);
}

static bool is_close(double found, double expected)
{
	return fabs(found - expected) <= 1e-6 * fmax(1, fabs(expected));
}

static bool has(const char *name, const char *text)
{
	char path[256], found[64] = "";
	FILE *file;

	snprintf(path, sizeof path, "%s/%s", root, name);
	file = fopen(path, "r");
	CHECK(file && fgets(found, sizeof found, file) && fclose(file) == 0);
	found[strcspn(found, "\n")] = '\0';
	return strcmp(found, text) == 0;
}

static void reading(int64_t ns, uint16_t volts, int16_t amps)
{
	struct {
		uint16_t volts;
		int16_t amps;
		uint32_t none;
		int64_t ns;
	} scan = { volts, amps, 0, ns };

	CHECK(write(writer, &scan, sizeof scan) == sizeof scan);
}

static bool is_opened(uint32_t rate_hz)
{
	CHECK(iio_parse(&iio, 0, CHIP));
	return iio_open(&iio, rate_hz, &align, error, sizeof error);
}

static void a_device_is_named_by_its_number_or_its_chips_place(void)
{
	CHECK(iio_parse(&iio, 2, "device0:voltage0,current1"));
	CHECK(iio.rail == 2 && strcmp(iio.device, "device0") == 0);
	CHECK(strcmp(iio.volts, "voltage0") == 0 && strcmp(iio.amps, "current1") == 0);
	CHECK(iio_parse(&iio, 0, "1-0040") && strcmp(iio.volts, "voltage1") == 0);
	CHECK(!iio_parse(&iio, 0, "") && !iio_parse(&iio, 0, "a:b") && !iio_parse(&iio, 0, "a:,b"));
	CHECK(!iio_parse(&iio, 0, "a:b,c,d") && !iio_parse(&iio, 0, "../x") && !iio_parse(&iio, 0, "a:b,c/d"));
}

static void elements_are_decoded_as_their_type_says(void)
{
	const uint8_t scan[] = { 0xff, 0xf0, 0x12, 0x34, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80 };
	struct iio_element element = { .scale = 1 };

	CHECK(iio_parse_type(&element, "be:s12/16>>4") && element.bits == 12 && element.shift == 4);
	CHECK(is_close(iio_decode(&element, scan), -1));
	CHECK(iio_parse_type(&element, "be:u16/16"));
	CHECK(is_close(iio_decode(&element, scan), 0xfff0));
	element.place = 2;
	CHECK(iio_parse_type(&element, "le:u16/16>>0") && is_close(iio_decode(&element, scan), 0x3412));
	element.scale = 0.5;
	element.offset = -2;
	CHECK(is_close(iio_decode(&element, scan), 0.5 * (0x3412 - 2)));
	element = (struct iio_element){ .scale = 1, .place = 8 };
	CHECK(iio_parse_type(&element, "le:s64/64>>0"));
	CHECK(is_close(iio_decode(&element, scan), -9223372036854775808.0));
	CHECK(!iio_parse_type(&element, "le:s16/24>>0") && !iio_parse_type(&element, "s16/16"));
	CHECK(!iio_parse_type(&element, "le:f32/32>>0") && !iio_parse_type(&element, "le:s17/16>>0"));
	CHECK(!iio_parse_type(&element, "le:s16/16X2>>0"));
}

static void opening_starts_the_buffer_of_volts_amps_and_time_alone(void)
{
	make_tree();
	CHECK(is_opened(1000));
	CHECK(has(DEVICE "scan_elements/in_voltage0_en", "0") && has(DEVICE "scan_elements/in_voltage1_en", "1"));
	CHECK(has(DEVICE "scan_elements/in_current3_en", "1") && has(DEVICE "scan_elements/in_timestamp_en", "1"));
	CHECK(has(DEVICE "current_timestamp_clock", "monotonic") && has(DEVICE "buffer/enable", "1"));
	CHECK(iio.scan_bytes == 16);
	close(iio.fd);
	put(DEVICE "scan_elements/in_current3_index", "0\n"); /* amps come first */
	CHECK(is_opened(1000) && iio.scan_bytes == 16);
	CHECK(iio.elements[1].place == 0 && iio.elements[0].place == 2 && iio.elements[2].place == 8);
	close(iio.fd);
	remove_tree();
}

static void what_cannot_be_measured_is_refused_in_one_line(void)
{
	make_tree();
	CHECK(!is_opened(2000) && strstr(error, "--rail 1=iio:1-0040: converts 1506 times a second"));
	CHECK(iio_parse(&iio, 0, "1-0041") && !iio_open(&iio, 1000, &align, error, sizeof error));
	CHECK(strstr(error, "no such device"));
	CHECK(iio_parse(&iio, 0, "device0:voltage7,current3"));
	CHECK(!iio_open(&iio, 1000, &align, error, sizeof error) && strstr(error, "not all of voltage7"));
	remove_tree();
}

static void a_sample_is_the_mean_of_its_windows_readings(void)
{
	struct sample sample;

	make_tree();
	CHECK(is_opened(1000));
	reading(100 * WINDOW_NS + 100000, 9600, 1000);
	reading(100 * WINDOW_NS + 700000, 9600, -500);
	reading(101 * WINDOW_NS, 4000, 2000);
	reading(102 * WINDOW_NS + 999999, 4000, 2000);
	CHECK(iio_work(&iio, &align, WINDOW_NS, error, sizeof error));
	CHECK(align_take(&align, 0, &sample) && is_close(sample.volts[0], 12) && is_close(sample.amps[0], 0.125));
	CHECK(align_take(&align, 0, &sample) && is_close(sample.volts[0], 5) && is_close(sample.amps[0], 1));
	CHECK(!align_take(&align, 0, &sample)); /* window 102 is not over */
	close(iio.fd);
	remove_tree();
}

static void a_window_without_a_reading_is_not_a_number(void)
{
	struct sample sample;

	make_tree();
	CHECK(is_opened(1000));
	reading(100 * WINDOW_NS, 9600, 1000);
	reading(103 * WINDOW_NS, 9600, 1000);
	reading(102 * WINDOW_NS, 9600, 1000); /* late: that window was taken */
	reading(104 * WINDOW_NS, 9600, 1000);
	CHECK(iio_work(&iio, &align, WINDOW_NS, error, sizeof error));
	CHECK(align_take(&align, 0, &sample) && is_close(sample.volts[0], 12));
	CHECK(align_take(&align, 0, &sample) && isnan(sample.volts[0]) && isnan(sample.amps[0]));
	CHECK(align_take(&align, 0, &sample) && isnan(sample.volts[0]));
	CHECK(align_take(&align, 0, &sample) && is_close(sample.volts[0], 12));
	CHECK(!align_take(&align, 0, &sample));
	close(iio.fd);
	remove_tree();
}

static void a_device_that_stood_still_or_has_gone_is_an_error(void)
{
	make_tree();
	CHECK(is_opened(1000));
	reading(100 * WINDOW_NS, 9600, 1000);
	CHECK(iio_work(&iio, &align, WINDOW_NS, error, sizeof error));
	reading(100000LL * WINDOW_NS, 9600, 1000);
	CHECK(!iio_work(&iio, &align, WINDOW_NS, error, sizeof error) && strstr(error, "stood still"));
	close(writer);
	iio.length = 0;
	CHECK(!iio_work(&iio, &align, WINDOW_NS, error, sizeof error) && strstr(error, "has ended"));
	close(iio.fd);
	remove_tree();
}

static void a_queue_that_is_full_leaves_the_rest_to_the_kernel(void)
{
	make_tree();
	CHECK(is_opened(1000));
	for (int64_t window = 0; window < 3000; window++)
		reading((100 + window) * WINDOW_NS, 9600, 1000);
	for (int n = 0; n < 100; n++)
		CHECK(iio_work(&iio, &align, WINDOW_NS, error, sizeof error));
	CHECK(align_room(&align, 0) == ALIGN_QUEUE - 2999);
	for (int64_t window = 3000; window < 6000; window++) {
		reading((100 + window) * WINDOW_NS, 9600, 1000);
		CHECK(iio_work(&iio, &align, WINDOW_NS, error, sizeof error));
		if (!iio_wants_read(&iio, &align))
			break;
	}
	CHECK(!iio_wants_read(&iio, &align) && align_room(&align, 0) == ALIGN_QUEUE / 2);
	close(iio.fd);
	remove_tree();
}

int main(void)
{
	a_device_is_named_by_its_number_or_its_chips_place();
	elements_are_decoded_as_their_type_says();
	opening_starts_the_buffer_of_volts_amps_and_time_alone();
	what_cannot_be_measured_is_refused_in_one_line();
	a_sample_is_the_mean_of_its_windows_readings();
	a_window_without_a_reading_is_not_a_number();
	a_device_that_stood_still_or_has_gone_is_an_error();
	a_queue_that_is_full_leaves_the_rest_to_the_kernel();
	return report("iio");
}
