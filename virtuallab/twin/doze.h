/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The power states that an idle drive enters without a command:
 * NVMe's autonomous transitions to PS3 and PS4, a hard disk's standby. Pure.
 *
 * A drive without work since T leaves state 0 at T + idle_ns of the deepest state
 * whose time has come; it draws that state's power once entry_ns have passed. An
 * operation that finds it there waits for the end of the entry, then exit_ns. Until the
 * power of a state is drawn it is that of the state before.
 * From the arrival of the operation on, idle_watts are drawn, and in addition what
 * leaving costs for exit_ns: of any state the same, `wake`, or a hard disk's `spin_up`.
 * Folding (flash.h) ends the state when it begins, at no cost; T is then its end.
 * T is the latest of: an operation's end, the end of the last program, of folding, of
 * what is on the link.
 */
#ifndef JOULERIG_DOZE_H
#define JOULERIG_DOZE_H

#include <stdbool.h>
#include <stdint.h>

#define DOZE_MAX_STATES 6

struct doze_state {
	int64_t idle_ns;
	int64_t entry_ns;
	int64_t exit_ns;
};

/* State 0 is awake; states[n - 1] describes state n, ordered by idle_ns. */
struct doze {
	struct doze_state states[DOZE_MAX_STATES];
	unsigned state_count;
	int64_t idle_since_ns;
};

/* Work until time_ns; earlier times are a no-op. */
void doze_busy(struct doze *doze, int64_t time_ns);

/* The state whose idle time has come at time_ns. */
unsigned doze_state(const struct doze *doze, int64_t time_ns);

/* When a drive that is called at time_ns can work; *exit_ns: how much of the
 * time up to then it spends on leaving its state. */
int64_t doze_wake(const struct doze *doze, int64_t time_ns, int64_t *exit_ns);

/* When the power of state `state` is drawn from, if nothing comes before. */
int64_t doze_entered_ns(const struct doze *doze, unsigned state);

#endif
