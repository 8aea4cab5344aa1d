/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What a program of the lab asks of its clock, apart from the time. */
#ifndef JOULERIG_LAB_CLOCK_H
#define JOULERIG_LAB_CLOCK_H

/*
 * How many seconds of the machine a second of the lab lasts now; 1 without a page. What takes the
 * machine some time takes as much less of the lab's. NULL where the library is not preloaded.
 */
double lab_clock_slowness(void) __attribute__((weak));

#endif
