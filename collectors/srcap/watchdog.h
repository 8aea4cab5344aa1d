/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * libsigrok waits forever, or spins at full CPU, when an instrument dies in the middle of an
 * exchange, and nothing in its API can interrupt that. So a separate thread watches for packets
 * and ends the process.
 */
#ifndef SRCAP_WATCHDOG_H
#define SRCAP_WATCHDOG_H

/* Start the thread: finding, opening and setting up the instrument may take so long. */
void watchdog_start(double open_seconds);

/* The acquisition begins: from now on no packet may be later than this after the one before it. */
void watchdog_acquiring(double silence_seconds);

/* A packet with samples came. */
void watchdog_packet(void);

/* The other end has closed the connection. Nonzero once there were packets: then there will be
 * none, and the process ends soon. */
int watchdog_connection_lost(void);

/* An end was asked for: leave with code 0 even where libsigrok cannot be stopped. */
void watchdog_stop_requested(void);
int watchdog_is_stopping(void);

#endif
