/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The power tap on an LM3S6965 (Cortex-M3): an ADM1272 per rail on I2C 0, a
 * serial line per instrument. Interrupts, from the most urgent: the sample
 * clock, bytes that come in, conversions (PendSV). Sessions run in main.
 */
#include "port.h"
#include "registers.h"
#include "session.h"

struct line {
	struct session session;
	const uint8_t *reply;
	size_t reply_length;
	uint8_t byte; /* taken from the UART, and not yet by the session */
	bool has_byte;
};

static struct tap tap;
static struct line lines[TAP_INSTRUMENTS];

void on_conversion(void);

void on_conversion(void)
{
	static uint32_t converted;
	uint32_t ticks;

	while ((ticks = clock_ticks()) != converted) {
		for (; converted + 1 != ticks; converted++)
			rails_miss(&tap);
		rails_convert(&tap);
		converted++;
	}
}

/* Feeds input and sends replies until there is nothing to be done but wait. True
 * when that is for room in the UART, for which there is no interrupt. */
static bool work(unsigned n)
{
	struct line *line = &lines[n];
	struct scpi *scpi = &line->session.scpi;

	for (;;) {
		if (line->reply_length) {
			size_t put = uart_put(n, line->reply, line->reply_length);

			line->reply += put;
			line->reply_length -= put;
			if (line->reply_length)
				return true;
		}
		line->reply = scpi_run(scpi, clock_now_ns(), &line->reply_length);
		if (line->reply)
			continue;
		line->reply_length = 0;
		if (scpi_is_waiting(scpi))
			return false;
		if (!line->has_byte)
			line->has_byte = uart_get(n, &line->byte);
		if (!line->has_byte)
			return false;
		line->has_byte = !scpi_put(scpi, line->byte);
	}
}

/* The serial number is the board's MAC address, which its maker has written into
 * the two user registers. */
static const char *serial_number(void)
{
	static const char digits[] = "0123456789ABCDEF";
	static char text[13];
	uint32_t users[2] = { REGISTER(0x400fe1e0), REGISTER(0x400fe1e4) };

	for (unsigned n = 0; n < 6; n++) {
		uint8_t byte = (uint8_t)(users[n / 3] >> 8 * (n % 3));

		text[2 * n] = digits[byte >> 4];
		text[2 * n + 1] = digits[byte & 15];
	}
	return text;
}

int main(void)
{
	i2c_start();
	rails_start();
	tap_init(&tap, TAP_RATE_HZ, serial_number(), &lm3s6965_board);
	for (unsigned n = 0; n < TAP_INSTRUMENTS; n++) {
		session_open(&lines[n].session, &tap, n);
		uart_start(n);
	}
	clock_start();
	for (;;) {
		uint32_t ticks = clock_ticks();
		bool busy = rails_stay_awake();

		for (unsigned n = 0; n < TAP_INSTRUMENTS; n++)
			busy = work(n) || busy;
		/* With interrupts held back, one that comes after this test still
		 * ends the sleep. */
		__asm__ volatile("cpsid i" : : : "memory");
		if (!busy && ticks == clock_ticks() && !uart_has_input())
			__asm__ volatile("wfi" : : : "memory");
		__asm__ volatile("cpsie i" : : : "memory");
	}
}
