/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "port.h"
#include "registers.h"

/* Longer than any line; a power of two. */
#define RING_SIZE 512

static struct ring {
	uint8_t bytes[RING_SIZE];
	volatile uint32_t put; /* by the interrupt alone */
	volatile uint32_t got; /* by uart_get alone */
} rings[2];

void on_uart0(void);
void on_uart1(void);

static void receive(unsigned n)
{
	struct ring *ring = &rings[n];

	UART_INTERRUPT_CLEAR(n) = UART_INTERRUPT_RECEIVE;
	while (!(UART_FLAGS(n) & UART_FLAGS_RECEIVE_EMPTY)) {
		uint32_t data = UART_DATA(n);
		uint32_t put = ring->put;

		/* A damaged byte goes in as a control character, so that its line
		 * is refused as unknown, not taken for another. So does the byte
		 * behind which there is no room. */
		if (put - ring->got < RING_SIZE) {
			bool last = put - ring->got == RING_SIZE - 1;

			ring->bytes[put % RING_SIZE] =
				data & UART_DATA_ERRORS || last ? 0x18 : (uint8_t)data;
			ring->put = put + 1;
		}
	}
}

void on_uart0(void)
{
	receive(0);
}

void on_uart1(void)
{
	receive(1);
}

void uart_start(unsigned n)
{
	/* The divisor has six bits of fraction: data sheet, 11.2.2. */
	uint32_t divisor = (CORE_CLOCK_HZ * 8u / UART_BAUD + 1) / 2;
	unsigned port = n ? GPIO_D : GPIO_A;
	uint32_t pins = n ? 3u << 2 : 3u << 0;
	unsigned interrupt = n ? INTERRUPT_UART1 : INTERRUPT_UART0;

	SYSCTL_RCGC1 |= n ? SYSCTL_RCGC1_UART1 : SYSCTL_RCGC1_UART0;
	SYSCTL_RCGC2 |= SYSCTL_RCGC2_GPIO(port);
	GPIO_ALTERNATE(port) |= pins;
	GPIO_DIGITAL(port) |= pins;
	UART_CONTROL(n) = 0;
	UART_BAUD_INTEGER(n) = divisor / 64;
	UART_BAUD_FRACTION(n) = divisor % 64;
	UART_LINE(n) = UART_LINE_8_BITS | UART_LINE_FIFO;
	UART_INTERRUPT_MASK(n) = UART_INTERRUPT_RECEIVE;
	UART_CONTROL(n) = UART_CONTROL_ENABLE;
	NVIC_PRIORITY(interrupt) = PRIORITY_UART;
	NVIC_ENABLE = 1u << interrupt;
}

bool uart_get(unsigned n, uint8_t *byte)
{
	struct ring *ring = &rings[n];
	uint32_t got = ring->got;

	if (got == ring->put)
		return false;
	*byte = ring->bytes[got % RING_SIZE];
	ring->got = got + 1;
	return true;
}

bool uart_has_input(void)
{
	return rings[0].put != rings[0].got || rings[1].put != rings[1].got;
}

size_t uart_put(unsigned n, const uint8_t *bytes, size_t length)
{
	size_t put = 0;

	while (put < length && !(UART_FLAGS(n) & UART_FLAGS_TRANSMIT_FULL))
		UART_DATA(n) = bytes[put++];
	return put;
}
