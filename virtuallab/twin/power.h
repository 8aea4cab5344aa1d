/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The power model of a virtual drive: what its rails draw at every instant,
 * and the true joules. Pure: no clock, no thread, no input or output of its
 * own. The caller gives times (nanoseconds of one monotonic clock) and holds
 * one lock around all calls on a model.
 *
 * The rule. A rail draws idle_watts always. An operation costs each rail
 *   read     command_joules + bytes * read_joules_per_byte
 *   write    command_joules + bytes * write_joules_per_byte
 *   flush    command_joules + flush_joules
 *   discard  command_joules
 * and a forced unit access (FUA) adds flush_joules. That energy is spread
 * evenly over an activity that begins when the operation begins and lasts
 *   max(activity_ns, the longest over the rails of energy / active_watts)
 * the same on all rails. Activities that overlap add up, but not beyond
 * active_watts over idle on any rail: an operation that would exceed it has to
 * wait, as in a drive that is throttled to its power state. Power is therefore
 * piecewise constant and bounded.
 *
 * At the drive's terminals V = volts - ohms * I and P = V * I. Of the two
 * solutions the one with the higher voltage is the stable one:
 *   I = 2P / (volts + sqrt(volts^2 - 4 ohms P)).
 * Energy is counted at the terminals; what the source resistance burns is not
 * the drive's.
 *
 * A rail that is switched off draws nothing, and its volts fall in a straight line
 * that is at half of where it began after the hold-up: the drive's own capacitors,
 * whose energy no rail supplies. A drive that has stopped draws nothing from the
 * rails that are still on.
 */
#ifndef JOULERIG_POWER_H
#define JOULERIG_POWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define POWER_MAX_RAILS 4
#define POWER_RAIL_NAME_SIZE 16
#define POWER_HISTORY_SECONDS 660
/* The current that a rail's active_watts stands for where none is given: about
 * what the contacts of M.2 and SATA power connectors are rated for. */
#define POWER_DEFAULT_ACTIVE_AMPS 2.0

struct power_rail {
	char name[POWER_RAIL_NAME_SIZE];
	double volts; /* of the source, without load */
	double ohms;  /* source resistance */
	double idle_watts;
	double read_joules_per_byte;
	double write_joules_per_byte;
	double command_joules;
	double flush_joules;
	double active_watts; /* most that activities may add to idle_watts */
};

/* What a joule was for. */
enum power_cause {
	CAUSE_IDLE,
	CAUSE_READ,
	CAUSE_WRITE,
	CAUSE_FLUSH, /* also what a forced unit access adds to its write */
	CAUSE_DISCARD,
	CAUSE_GC,
	CAUSE_FOLD,
	CAUSE_SEEK,
	CAUSE_SPIN_UP,
	CAUSE_POWER_STATE,
	POWER_CAUSES
};

/* A part of what an operation costs. */
struct power_work {
	enum power_cause cause;
	double joules[POWER_MAX_RAILS];
};

enum power_operation { POWER_READ, POWER_WRITE, POWER_FLUSH, POWER_DISCARD };

struct power;

/* Reads "name,volts,ohms,idle_watts,read_joules_per_byte,write_joules_per_byte,
 * command_joules,flush_joules[,active_watts]". On failure false, with one line
 * in error that says which value is wrong and what is allowed. */
bool power_parse_rail(const char *text, struct power_rail *rail, char *error, size_t error_size);

/* Amps that a load of watts draws from a source of volts through ohms.
 * The load must not exceed volts^2 / (4 ohms). */
double power_amps(double volts, double ohms, double watts);

/* Its name on the control socket. */
const char *power_cause_name(enum power_cause cause);

/* A model whose energy counts from start_ns. holdup_ns: how long a rail that was
 * switched off stays above half of its volts. window_ns is the grid of the
 * window means: window k is [k * window_ns, (k + 1) * window_ns).
 * NULL when memory is short. */
struct power *power_new(const struct power_rail *rails, unsigned rail_count, int64_t window_ns,
			int64_t activity_ns, int64_t holdup_ns, int64_t start_ns);
void power_free(struct power *power);

unsigned power_rail_count(const struct power *power);
const char *power_rail_name(const struct power *power, unsigned rail);
int64_t power_window_ns(const struct power *power);

/* An operation that begins at time_ns. Returns 0 when it was taken, else the
 * time at which to try again because the drive draws all it may. What has been
 * settled is never changed: an operation from before the settled time counts
 * from the settled time, with its whole energy. */
int64_t power_submit(struct power *power, int64_t time_ns, enum power_operation operation,
		     uint64_t bytes, bool fua);

/* The same for what costs the given work and lasts at least least_ns. */
int64_t power_draw(struct power *power, int64_t time_ns, int64_t least_ns,
		   const struct power_work *works, unsigned work_count);

/* From time_ns on, or from the settled time where that is later: a rail's switch;
 * the drive stops (what it had begun is given up and draws nothing more) or runs.
 * A drive that has stopped takes operations and draws nothing for them. */
void power_switch(struct power *power, int64_t time_ns, unsigned rail, bool on);
void power_run(struct power *power, int64_t time_ns, bool running);

/* From time_ns on the rails draw idle_watts[] without operations, until something else is
 * planned, and operations may add active_watts[] at the most. What has begun goes on. */
void power_set_limits(struct power *power, int64_t time_ns, const double *idle_watts,
		      const double *active_watts);

/* What the rails draw without operations from time_ns on, instead of what was
 * planned before: idle_watts[] of the rails' own, then that of each step from its
 * time on, in order. At most POWER_MAX_STEPS. */
#define POWER_MAX_STEPS 8
struct power_step {
	int64_t time_ns;
	double idle_watts[POWER_MAX_RAILS];
};
void power_plan_idle(struct power *power, int64_t time_ns, const struct power_step *steps,
		     unsigned step_count);

/* Settles all up to time_ns; earlier times are a no-op. */
void power_advance(struct power *power, int64_t time_ns);
int64_t power_settled_ns(const struct power *power);

/* At the settled time: cumulative joules, and the volts and amps from then on. */
double power_joules(const struct power *power, unsigned rail);
/* Their parts; they add up to power_joules. */
double power_cause_joules(const struct power *power, unsigned rail, enum power_cause cause);
void power_now(const struct power *power, unsigned rail, double *volts, double *amps);

/* Window means. The windows that can be asked for are [first, end). */
void power_windows(const struct power *power, int64_t *first, int64_t *end);
/* Mean volts and amps of `count` windows from `window` on. False when one of
 * them is not held. */
bool power_mean(const struct power *power, int64_t window, int64_t count, unsigned rail,
		double *volts, double *amps);
/* The longest mean that is always available for as long as the ring promises. */
int64_t power_mean_max_windows(const struct power *power);

/* Cumulative joules of each rail at a past time, into joules[rail_count].
 * Exact on the history grid (the least multiple of the window that is at least
 * 1 ms); between its points linear, hence wrong by at most
 * (highest - lowest power in that grid cell) * cell / 4.
 * False when the time is before what is held or after the settled time. */
bool power_history(const struct power *power, int64_t time_ns, double *joules);
/* The same by cause. */
bool power_cause_history(const struct power *power, int64_t time_ns,
			 double joules[][POWER_CAUSES]);
void power_history_range(const struct power *power, int64_t *oldest_ns, int64_t *newest_ns);
int64_t power_history_step_ns(const struct power *power);

#endif
