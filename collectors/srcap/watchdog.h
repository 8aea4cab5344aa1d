/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * libsigrok waits for ever, or spins at full CPU, when an instrument dies in the middle of an exchange, and nothing in its
 * API can interrupt that. So a thread of its own watches for packets and ends the process.
 */
#ifndef SRCAP_WATCHDOG_H
#define SRCAP_WATCHDOG_H

/* Start the thread; silence is counted from now, so that scan and open are covered too. */
void watchdog_start(double silence_seconds);

/* A packet with samples came. */
void watchdog_packet(void);

/* An end was asked for: leave with code 0 even where libsigrok cannot be stopped. */
void watchdog_stop_requested(void);
int watchdog_is_stopping(void);

#endif
