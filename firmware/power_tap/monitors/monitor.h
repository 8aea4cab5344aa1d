/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A rail's monitor chip: volts, amps, and, where the chip controls a MOSFET,
 * the switch. A driver's start function fills the structure in; after that the
 * port needs to know nothing of the chip.
 */
#ifndef JOULERIG_MONITOR_H
#define JOULERIG_MONITOR_H

#include <stdbool.h>
#include <stdint.h>

enum monitor_status {
	MONITOR_OK,
	MONITOR_NO_ANSWER,  /* the chip did not acknowledge, or the bus was lost */
	MONITOR_WRONG_CHIP, /* something else is at this address */
	MONITOR_OLD_VALUE,  /* no conversion has ended since the last reading */
	MONITOR_BAD_VALUE,  /* the chip says that its result overflowed */
	MONITOR_BAD_SETTING, /* start was asked for what the chip cannot do */
	MONITOR_NO_SWITCH,
};

struct monitor {
	/* Both values of the newest conversion, in volts and amps; on any status
	 * but MONITOR_OK they are left as they were, and must not be used. */
	enum monitor_status (*read)(struct monitor *monitor, float *volts, float *amps);
	/* NULL for a chip without a switch. */
	enum monitor_status (*set_switch)(struct monitor *monitor, bool on);
	enum monitor_status (*switch_is_on)(struct monitor *monitor, bool *on);
	uint32_t errors; /* readings that gave no values */
};

static inline enum monitor_status monitor_read(struct monitor *monitor, float *volts, float *amps)
{
	enum monitor_status status = monitor->read(monitor, volts, amps);

	if (status != MONITOR_OK)
		monitor->errors++;
	return status;
}

static inline enum monitor_status monitor_set_switch(struct monitor *monitor, bool on)
{
	return monitor->set_switch ? monitor->set_switch(monitor, on) : MONITOR_NO_SWITCH;
}

static inline enum monitor_status monitor_switch_is_on(struct monitor *monitor, bool *on)
{
	return monitor->switch_is_on ? monitor->switch_is_on(monitor, on) : MONITOR_NO_SWITCH;
}

#endif
