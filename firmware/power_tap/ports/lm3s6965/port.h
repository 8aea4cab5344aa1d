/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What this port's files have for one another. */
#ifndef JOULERIG_LM3S6965_PORT_H
#define JOULERIG_LM3S6965_PORT_H

#include "bus.h"
#include "tap.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* uart.c: two serial lines, 8 bits, no parity, one stop bit. Bytes that come in
 * are kept by interrupt until they are asked for. */
#define UART_BAUD 921600
void uart_start(unsigned n);
bool uart_get(unsigned n, uint8_t *byte);
bool uart_has_input(void); /* of either */
/* Hands over as many bytes as there is room for without waiting; returns how many. */
size_t uart_put(unsigned n, const uint8_t *bytes, size_t length);

/* i2c.c: I2C controller 0 at 400 kHz. Waits for each byte. */
extern const struct i2c_bus i2c0;
void i2c_start(void);

/* clock.c: the sample clock. Each tick asks, by the PendSV exception, for a
 * conversion. */
void clock_start(void);
/* Ticks that have passed. */
uint32_t clock_ticks(void);
int64_t clock_now_ns(void);
/* Between these two no conversion begins, so that the bus is the caller's. */
void clock_hold_conversions(void);
void clock_release_conversions(void);

/* rails.c: the monitors of the four rails, their switches, the marker inputs. */
void rails_start(void);
/* Whether the core must not sleep, for debuggers, which lose sight of one that
 * does, and for emulators that take instructions for time. */
bool rails_stay_awake(void);
/* A conversion of all rails, into the tap, with the marker lines as they are.
 * Where a rail's monitor gives no value, the sample has NaN and the tap counts an error. */
void rails_convert(struct tap *tap);
/* A sample whose moment passed before it could be converted. */
void rails_miss(struct tap *tap);
extern const struct board lm3s6965_board;

#endif
