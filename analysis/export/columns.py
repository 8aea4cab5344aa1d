# SPDX-License-Identifier: GPL-3.0-or-later
"""What each exported table and each of its columns means, with units.

A column is (unit, meaning); the unit is empty where there is none. `COMMON` holds those that mean
the same in every table that has them.
"""

from __future__ import annotations

from typing import Any

from joulerig.analysis.coefficients.estimates import MEANINGS
from joulerig.analysis.drives.endurance import GIVEN_RATE
from joulerig.analysis.power_states.checks import Quantity, Verdict
from joulerig.analysis.results.columns import declared_columns
from joulerig.analysis.results.schema import (
    IoCount,
    Performance,
    Phase,
    RailEnergy,
    Result,
    RunRow,
    Status,
)
from joulerig.analysis.runs.modes import SCOPE
from joulerig.analysis.runs.quiescence import State
from joulerig.analysis.tables.runs_and_cells import RENAMED

Described = dict[str, tuple[str, str]]

ABOUT = {
    "runs": "One row a run, in order of execution.",
    "cells": "One row a cell: the runs of one combination that are ok and have joules, as ratios of sums.",
    "pairs": "One row a pair of cells of a drive and workload, the better one first.",
    "best": "One row a cell compared with the greatest of its drive and workload, blocks taken out.",
    "effects": "One row a source of variation of a drive and workload (type II, of logarithms).",
    "budget": "One row a source of uncertainty of a cell's AI.",
    "cemp": "One row an anchor of a comparison: change of energy over change of performance.",
    "elasticity": "One row a combination and factor that varies its load: how its energy follows its"
    " performance. A figure of this program, of no study.",
    "drift": "One row a comparison: how its runs drifted over the campaign, every cell its own control.",
    "outliers": "One row a run that lies far from the others of its cell.",
    "cross_talk": "One row a drive and quantity: what running alongside other drives of its host does to it.",
    "claims": "One row a claim of the study that the campaign repeats, with the verdict on it.",
    "quiescence": "One row a cell that has an AI: its rank by AI, and by AI to quiescence.",
    "processor": "One row a cell that has an AI: its rank by AI, and with the joules of the processors.",
    "temperature": "One row a comparison: how warm its runs began, and whether its quantity goes with that.",
    "audit": "One row a comparison of what a drive reports of its power with its rails, the verdict first.",
    "agreement": "One row two methods that read a drive's energies, where it reports its own.",
    "power_states": "One row a check of what a drive declares of a power state or of a rest, by setting.",
    "emerald": "One row a quantity that SNIA Emerald asks for, of a cell or a meter. No conformity.",
    "pts": "One row a quantity that SNIA SSS PTS asks for, of a drive or a load on it. No conformity.",
    "eehpcwg": "One row an aspect of the EEHPC WG's method, with the level that a rail meets.",
    "windows": "One row a run and window: the greatest mean power of its load over that long.",
    "endurance": "One row a cell: joules, bytes at each level and rated life of an operation.",
    "coefficients": "One row a coefficient of a drive, and of the fit that it comes from.",
    "series": "One row a run and quantity: its levels and its trend over the workload phase.",
    "phases": "One row a phase of a run.",
    "energy": "One row a phase and rail of a run: energy, its interval and what that is made of, the ledger.",
    "io": "One row a run and who counted: I/O of the workload phase.",
    "subjects": "One row a subject of power cuts: what its cuts did, and the verdict.",
    "cuts": "One row a power cut of a subject that could be checked.",
    "violations": "One row a promise that a power cut broke.",
    "power": "One row a point of a rail's power during a run, some before and after it; counters are of the"
    " meter's session.",
    "rounds": "One row a round of a precondition, with the run that it was made for.",
    "progress": "One row an instant at which a run's load reported its progress.",
    "waveforms": "One row a meter that was recorded at its full rate during a run.",
}

_RAIL = declared_columns(RailEnergy)
COMMON: Described = {
    **{
        name: (_RAIL[name].unit, _RAIL[name].meaning)
        for name in (
            *("joules", "true_joules", "joules_low", "joules_high", "meter_joules", "samples", "expected"),
            *("lost", "duplicate", "repeated", "surplus", "over_range", "impossible", "gap_seconds"),
        )
    },
    "campaign": ("", "The campaign's id."),
    "run": ("", "The run's id: the campaign's and the ordinal."),
    "host": ("", "Test host, as the inventory names it."),
    "drive": ("", "Drive, as the inventory names it; in energy and power the member of an array."),
    "workload": ("", "Workload."),
    "filesystem": ("", "File system."),
    "scheduler": ("", "I/O scheduler."),
    "cell": ("", "drive/filesystem/scheduler/workload, then further factors: equal for replicates."),
    "factors_json": ("", "Levels of the factors, a JSON object."),
    "virtual_lab": ("", "Whether simulated drives and meters gave these figures."),
    "meter": ("", "Meter, as the inventory names it."),
    "rail": ("", "Supply rail of the drive."),
    "status": (
        "",
        f"{', '.join(Status)}; of a cell the worst of its runs'.",
    ),
    "calibration": (
        "",
        "The worst calibration of the meters used: expired, none, valid; blank: not recorded.",
    ),
    "unit": ("", "What one of the ops is."),
    "figure_name": ("", "Figure of merit by which an external program is known."),
    "figure_unit": ("", "The figure of merit's unit."),
    "figure": ("figure_unit", "The figure of merit; of a cell the mean of its runs'."),
    "figure_better": ("", "Whether a higher or a lower figure of merit is better."),
    "ops_per_second": ("1/s", "Operations per second; of a cell all operations over all seconds."),
    "mb_per_second": ("MB/s", "Bytes read and written per second, MB = 10^6 bytes."),
    "mean_watts": ("W", "Mean power of the workload phase, all rails of the drive."),
    "ai_ops_per_joule": ("1/J", "AI: operations per joule of the workload phase, all rails of the drive."),
    "ai_mb_per_joule": ("MB/J", "AI: megabytes read and written per joule."),
    "ai_ops_per_joule_energy_low": ("1/J", "The least AI by the energy's interval alone."),
    "ai_ops_per_joule_energy_high": ("1/J", "The greatest AI by the energy's interval alone."),
    "ai_mb_per_joule_energy_low": ("MB/J", "The least AI in MB/J by the energy's interval alone."),
    "ai_mb_per_joule_energy_high": ("MB/J", "The greatest AI in MB/J by the energy's interval alone."),
    "latency_p50_seconds": (
        "s",
        "Median latency: of the syncs where there are any; of a cell the median of the runs'.",
    ),
    "latency_p99_seconds": ("s", "99 % quantile of that latency; of a cell the median of the runs'."),
    "ai_ops_per_joule_to_quiescence": (
        "1/J",
        "AI to quiescence: operations over the joules of the load and joules_after_load; of a cell all over"
        " all; blank: of a run not known.",
    ),
    "joules_after_load": (
        "J",
        "Energy above idle after the load, until power is back at idle or the tail ends; of a cell the sum of"
        " its runs'.",
    ),
    "joules_after_load_low": ("J", "The least it can be, by the uncertainty of idle power."),
    "joules_after_load_high": ("J", "The most it can be, with what cannot be seen in idle power."),
    "idle_settled_seconds": ("s", "From the beginning of the idle phase until the drives were at rest."),
    "runs_at_rest": ("", "Runs whose drives were at rest in their idle phase."),
    "temperature_start_celsius": (
        "°C",
        "The warmest of the run's drives before mkfs, as it reports itself; of a cell the mean of its runs'.",
    ),
    "temperature_end_celsius": ("°C", "The same after the tail."),
    "runs_steady": ("", "Runs whose load was steady over its fifths."),
    "runs_not_steady": ("", "Runs whose load was not; the others could not be judged."),
    "runs_settled": ("", "Runs whose power was back at idle for 5 s before their tail ended."),
    "further": ("", "Levels of further factors, one comparison each."),
    "quantity": ("", "What is compared: ops/J, or ops/s where no rail is measured."),
    "source": ("", "Source of variation, of uncertainty, or of a count."),
    "share_percent": ("%", "Its share of the sum of squares, or of the variance."),
    "p": ("", "Probability of a difference at least as great where there is none."),
    "start_ns": ("ns", "Begin, UTC, on the controller's clock."),
    "end_ns": ("ns", "End, UTC, on the controller's clock."),
}

POWER_AND_IO: Described = {
    "peak_watts": (
        "W",
        "The greatest power of all rails together in a stored point (each the mean since the one"
        " before); of a cell the greatest of its runs'.",
    ),
    "idle_watts": (
        "W",
        "Power at rest: the level that the idle phase ends at, where it holds; blank where the drives were"
        " not at rest.",
    ),
    "idle_watts_low": ("W", "The least that it can be, the meters' uncertainty in it."),
    "idle_watts_high": ("W", "The most it can be."),
    "idle_unknown": ("", "Why power at rest is not known; of a cell of the first run of which it is not."),
    "base_load_fraction": (
        "",
        "Base load: what the drives would have drawn at rest, over the joules of the load.",
    ),
    "block_write_bytes": (
        "B",
        "What the block layer of the test host wrote in the workload phase; of a cell the sum of its runs'.",
    ),
    "device_write_bytes": (
        "B",
        "What reached the drive, as a virtual drive counts it; of a cell the sum of its runs'.",
    ),
    "joules_per_op": ("J", "Energy over operations: 1/AI."),
    "dynamic_joules_per_op": (
        "J",
        "Idle-subtracted energy over operations; blank where its interval reaches 0 or is not known.",
    ),
    "dynamic_joules_per_op_low": ("J", "The least it can be, by the intervals of the energies."),
    "dynamic_joules_per_op_high": ("J", "The most it can be."),
    "dynamic_joules_unknown": ("", "Why dynamic joules are blank."),
    "cpu_joules_per_op": ("J", "cpu_joules over operations."),
    "joules_per_sync": ("J", "Energy over syncs; blank where there are none."),
    "joules_per_durable_byte": ("J/B", "Energy over bytes that the workload wrote, where it synced."),
    "block_bytes_per_written_byte": ("", "Bytes that the block layer wrote over those of the workload."),
    "device_bytes_per_block_byte": ("", "Bytes that reached a virtual drive over those of the block layer."),
    "flushes_per_op": ("", "Flushes of the block layer over operations."),
    "journal_transactions_per_op": ("", "Transactions of ext4's journal over operations."),
    "iops_per_watt": ("1/J", "Block-layer reads and writes per second and watt."),
    "mib_per_second_per_watt": ("MiB/J", "Block-layer MiB per second and watt, MiB = 2^20 bytes."),
    "idle_gb_per_watt": ("GB/W", "Raw capacity, GB = 10^9 bytes, over idle watts."),
}

RUNS: Described = {
    **POWER_AND_IO,
    "dynamic_joules": (
        "J",
        "Joules less what the drives would have drawn at rest; blank where its interval reaches 0 or is not"
        " known.",
    ),
    "dynamic_joules_low": ("J", "The least it can be, by the intervals of the load's energy and idle power."),
    "dynamic_joules_high": ("J", "The most it can be."),
    "started_utc_ns": ("ns", "When the run began, UTC."),
    "ended_utc_ns": ("ns", "When the run ended, UTC."),
    "workload_seconds": ("s", "Length of the workload phase."),
    "expected_samples": ("", COMMON["expected"][1]),
    "lost_samples": ("", COMMON["lost"][1]),
    "duplicate_samples": ("", COMMON["duplicate"][1]),
    "repeated_samples": ("", COMMON["repeated"][1]),
    "surplus_samples": ("", COMMON["surplus"][1]),
    "over_range_samples": ("", COMMON["over_range"][1]),
    "impossible_samples": ("", COMMON["impossible"][1]),
    "truth_within": ("", "Whether the true joules lie from joules_low to joules_high."),
    "seconds_after_load": (
        "s",
        "From the end of the load until power was back at idle or, where it is not settled, to the end of the"
        " tail.",
    ),
    "quiescence": ("", f"{', '.join(State)}: whether power came back to idle before the tail ended."),
    "quiescence_reason": ("", "Why it is not settled, or not known."),
    "steadiness": (
        "",
        "Whether the load was steady by SNIA PTS' rule on its fifths: steady, not steady and which series,"
        " cannot tell and which series, not judged.",
    ),
    "steadiness_reason": (
        "",
        "Range and slope of each series, and why one is left open or could not be judged.",
    ),
    "mode": ("", "Mode of the drive that the run met, as far as its counts and levels show one."),
    "mode_evidence": ("", "The figures behind it."),
    **{
        f"fifths_{series}_{figure}_percent": ("%", f"{meaning} of the {noun} of the load's fifths, {of}.")
        for series, noun in (("ops", "operations per second"), ("watts", "watts"))
        for figure, meaning, of in (
            ("range", "Greatest less least", "over their mean"),
            (
                "slope",
                "What the least-squares line changes by",
                "from the first to the last, over their mean",
            ),
        )
    },
}

_SPREADS = {
    "ai_ops_per_joule": "1/J",
    "ai_mb_per_joule": "MB/J",
    "ops_per_second": "1/s",
    "mb_per_second": "MB/s",
    "mean_watts": "W",
}
_INTERVALS = {
    "interval": "Fieller's with what replicates do not average out",
    "fieller": "Fieller's alone",
    "bootstrap": "the bootstrap's (BCa) alone",
}
CELLS: Described = {
    **POWER_AND_IO,
    "write_bytes": ("B", "Bytes that the workload wrote in its runs; blank: a report does not tell."),
    "runs_planned": ("", "Runs of the cell."),
    "runs_counted": ("", "Runs of which the figures are."),
    **{
        name + suffix: (unit if suffix != "_relative_spread" else "", meaning)
        for name, unit in _SPREADS.items()
        for suffix, meaning in (
            ("_standard_deviation", "Standard deviation (n - 1) of the runs' own values; blank for one run."),
            ("_min", "The least of the runs' own values."),
            ("_max", "The greatest of the runs' own values."),
            ("_relative_spread", "Standard deviation over the magnitude of the cell's value."),
        )
    },
    "figure_standard_deviation": ("figure_unit", "Standard deviation (n - 1) of the runs' figures of merit."),
    **{
        f"ai_ops_per_joule_{name}_{end}": ("1/J", f"{which} end of the AI's 95 % interval, {by}.")
        for name, by in _INTERVALS.items()
        for end, which in (("low", "Lower"), ("high", "Upper"))
    },
    **{
        f"ai_mb_per_joule_interval_{end}": ("MB/J", f"{which} end of the AI's 95 % interval, likewise.")
        for end, which in (("low", "Lower"), ("high", "Upper"))
    },
    "letters": ("", "Cells of a drive and workload that share a letter are not separated."),
    "pareto": ("", "Whether no other cell beats it in performance and power; blank: one run."),
    "may_be_best": (
        "",
        "Whether the runs leave open that it is the best of its drive and workload; blank: nothing could be"
        " tested.",
    ),
    "winner": ("", f"Whether it is named the best {SCOPE}; blank: nothing could be tested."),
    "winner_withheld": ("", "Why it is not, although no other cell may be the best."),
    "modes": ("", "Modes of the drive that the runs met, with the number of runs."),
}

PAIRS: Described = {
    "first": ("", "The better cell."),
    "second": ("", "The other cell."),
    "less_percent": ("%", "How much less the second gives, of the first."),
    "less_percent_low": ("%", "Lower end of its interval, all pairs of the campaign at once 95 %."),
    "less_percent_high": ("%", "Upper end of its interval."),
    "less_percent_meter": ("%", "How far the meter alone can make the two differ; in the interval."),
    "p": ("", "p of the pair, adjusted for all pairs of the campaign."),
    "separated": ("", "Whether p is at most 5 %."),
    "method": ("", "Test; blank: none was possible."),
    "why_untested": ("", "Why there is no test."),
}
BEST: Described = {
    "best": ("", "The cell of the greatest work per joule, by the mean logarithm with blocks taken out."),
    "less_percent": ("%", "How much less the cell gives, relative to that one."),
    "less_percent_low": ("%", "Lower end of its interval, all comparisons with the best at once 95 %."),
    "less_percent_high": ("%", "Upper end of it."),
    "less_percent_meter": ("%", "How far the meter alone can make the two differ; in the interval."),
    "less_percent_detectable": (
        "%",
        "How much less the cell would have to give for 9 of 10 such campaigns to separate the two;"
        " blank in a race.",
    ),
    "may_be_best": ("", "Whether the interval leaves open that the cell is the best."),
}
EFFECTS: Described = {
    "degrees_of_freedom": ("", "Degrees of freedom of the source."),
    "f": ("", "F: mean square of the source over that between runs of a cell."),
    "deviation_percent": ("%", "Relative standard deviation between blocks, or between runs of a cell."),
}
BUDGET: Described = {
    "standard_uncertainty_percent": ("%", "Relative standard uncertainty of the AI by this source."),
    "unknown": ("", "Why the source has no figure."),
}
CEMP: Described = {
    "definition": ("", "The definition of Cemp that was used."),
    "anchor": ("", "What the cell was chosen by."),
    "energy_change_percent": ("%", "dE: energy of the anchor's cell, from the mean over all cells."),
    "performance_change_percent": ("%", "dP: its performance, from the mean over all cells."),
    "cemp": ("", "dE over dP; blank where dP is within its uncertainty."),
    "energy_quantity": ("", "What dE is of: W, or J where all loads do the same work."),
    **{
        f"{name}_{end}": (unit, f"{which} end of its 95 % interval.")
        for name, unit in (("energy_change_percent", "%"), ("performance_change_percent", "%"), ("cemp", ""))
        for end, which in (("low", "Lower"), ("high", "Upper"))
    },
    "why": ("", "Why there is no Cemp."),
}
ELASTICITY: Described = {
    "held": ("", "Levels of the other factors."),
    "factor": ("", "The factor that varies the load."),
    "levels": ("", "Its levels that have an AI."),
    "elasticity": (
        "",
        "d ln E / d ln P over the levels, E in W, or in J where all loads do the same work.",
    ),
    "elasticity_low": ("", "Lower end of its 95 % interval."),
    "elasticity_high": ("", "Upper end of it."),
    "watts_variation_percent": ("%", "Standard deviation (n - 1) of the levels' mean watts over their mean."),
    "why": ("", "Why it is not known."),
}
DRIFT: Described = {
    "runs": ("", "Runs in cells that have two or more."),
    "cells": ("", "Cells that have two or more runs."),
    "span_seconds": ("s", "From the first of these runs to the last."),
    "drift_percent": ("%", "Change over the span, by the slope of the logarithms (Theil and Sen, by cell)."),
    "drift_percent_low": ("%", "Lower end of its 95 % interval."),
    "drift_percent_high": ("%", "Upper end of its 95 % interval."),
    "drift_percent_per_hour": ("%", "What that slope comes to in an hour."),
    "p": ("", "Probability of so much without drift (Kendall, cells as seasons)."),
    "why": ("", "Why drift cannot be judged."),
}

CROSS_TALK: Described = {
    "quantity": ("", "ops/s, W, or ops/J."),
    "pairs": ("", "Control runs that have the same cell's other run in their block."),
    "alongside_percent": (
        "%",
        "Difference of the run alongside others from the one alone, mean of the pairs.",
    ),
    "alongside_percent_low": ("%", "Lower end of its interval: 95 % for all rows together."),
    "alongside_percent_high": ("%", "Upper end of its interval."),
    "seen": ("", "Whether the interval excludes zero."),
    "shared_percent": ("%", "Fraction of the loads alongside others during which others were at work."),
    "why": ("", "Why it cannot be judged."),
}

OUTLIERS: Described = {
    "ordinal": ("", "Position in the order of execution, from 1."),
    "off_percent": (
        "%",
        "The run over the geometric mean of its cell's others without outliers, less 1.",
    ),
    "modified_z": ("", "Modified z-score of its logarithm (Iglewicz and Hoaglin)."),
}

SERIES: Described = {
    "ordinal": ("", "Position in the order of execution, from 1."),
    "quantity": ("", "watts, ops_per_second or ops_per_joule."),
    "steps": ("", "Steps of the workload phase."),
    "steps_measured": ("", "Steps in which the quantity was measured."),
    "step_seconds": ("s", "Length of a step."),
    "changes": ("", "Changes of level; blank: too short, or with too much memory, to tell."),
    "change_seconds": ("s", "When they were, since the phase began, with ; between."),
    "levels": ("", "Means before, between and after them, in the quantity's unit, with ; between."),
    "slope_percent_per_minute": ("%", "Trend relative to the mean (Theil and Sen)."),
    "slope_p": ("", "Probability of so much without a trend (Mann and Kendall, corrected for memory)."),
}

PROGRESS: Described = {
    "time_ns": ("ns", "Instant on the controller's clock, UTC."),
    "ops": ("", "Operations since the row before, of the first since the load began."),
    "read_bytes": ("B", "Bytes read since then."),
    "write_bytes": ("B", "Bytes written since then."),
}

PHASES: Described = {
    "seconds": ("s", "Length of the phase."),
}
POWER: Described = {
    "joules": ("J", "The counter of the meter's session."),
    "time_ns": ("ns", "End of the point's last sample, UTC."),
    "watts": ("W", "Mean power since the point before; blank where a stream of samples begins."),
    "watts_min": ("W", "Least power of a sample since then."),
    "watts_max": ("W", "Greatest power of a sample since then."),
    "volts": ("V", "Mean voltage since then."),
    "amps": ("A", "Mean current since then."),
    "session": ("", "The meter's session: counters begin at 0 with each."),
    "unbounded_seconds": ("s", "Time in which nothing bounds the power."),
    "clock_residual_seconds": ("s", "How well the sample times fit the controller's clock."),
}
ROUNDS: Described = {
    "stretch": ("", "Stretch of rounds that was asked for at once."),
    "round": ("", "Number of the round, over all stretches."),
    "iops": ("1/s", "Operations per second of the round."),
    "watts": ("W", "Mean power of the round; blank: not measured."),
}
WAVEFORMS: Described = {
    "file": ("", "The Parquet file, from the results folder; blank: there is none."),
    "bytes": ("B", "Its size."),
    "sample_rate_hz": ("Hz", "Samples per second."),
    "recorded": ("", "Samples in the file."),
    "dropped": ("", "Samples there was no room for."),
    "cut": ("", "Samples after the file had reached its bound."),
    "error": ("", "Why there is no file, or what is wrong with it."),
}
QUIESCENCE: Described = {
    "rank": ("", "Place of the cell by AI, among those it is compared with."),
    "rank_to_quiescence": ("", "Place by AI to quiescence; blank: of a run that is not known."),
    "may_be_best": ("", "Whether the runs leave open that it is the best by AI; blank: not tested."),
    "may_be_best_to_quiescence": ("", "The same by AI to quiescence."),
    "runs_counted": ("", "Runs of which the figures are."),
    "ranks_differ": ("", "How the two rankings of its drive and workload differ; empty: they do not."),
}
PROCESSOR: Described = {
    "rank": ("", "Place among the cells of its drive and workload by AI, 1 the most."),
    "rank_with_processor": ("", "The same by work over all joules, with the processors'; blank: not known."),
    "may_be_best": ("", "Whether no other cell is better by AI, as far as the runs tell; blank: no tests."),
    "may_be_best_with_processor": ("", "The same with the processors' joules."),
    "ops_per_joule_with_processor": (
        "1/J",
        "Operations over the joules of drives and processors together; blank: a run has no RAPL.",
    ),
    "cpu_joules": ("J", "Energy of the host's processor packages (RAPL), sum of the runs'."),
    "cpu_joules_per_op": ("J", "The same over operations."),
    "runs_counted": ("", "Runs that are in AI."),
    "ranks_differ": ("", "How the two rankings differ; blank: they do not."),
}
TEMPERATURE: Described = {
    "runs": ("", "Runs whose drive reports its temperature."),
    "start_least_celsius": ("°C", "The coolest that a run began."),
    "start_greatest_celsius": ("°C", "The warmest that a run began."),
    "cells_differ_kelvin": ("K", "The warmest cell's mean less the coolest one's."),
    "coolest_cell": ("", "The cell whose runs began coolest, on average."),
    "warmest_cell": ("", "The cell whose runs began warmest."),
    "percent_per_kelvin": ("%/K", "Change of the quantity in the same cell (Theil and Sen, by cell)."),
    "percent_per_kelvin_low": ("%/K", "Lower end of its 95 % interval."),
    "percent_per_kelvin_high": ("%/K", "Upper end of it."),
    "p": (
        "",
        "Probability of so much without a relation (Kendall, by cell), all comparisons at once.",
    ),
    "seen": ("", "Whether p is below 5 %."),
    "why": ("", "Why it cannot be judged."),
}
AUDIT: Described = {
    "quantity": (
        "",
        "drive: the verdict; interval: power that the drive measured over a phase; second: over its last"
        " second; histogram; lifetime: its lifetime energy.",
    ),
    "condition": ("", "idle, or the workload."),
    "runs_compared": ("", "Phases of runs that were compared."),
    "rails_watts": ("W", "Mean power of the drive's rails in the seconds that it reports."),
    "reported_watts": ("W", "Mean power that the drive reports."),
    "ratio": ("", "Reported over the rails', mean of the runs."),
    "ratio_low": ("", "Lower end of its 95 % interval, with the meters' limit; blank: a single run."),
    "ratio_high": ("", "Upper end of it."),
    "meter_limit_percent": ("%", "Limit of the error of the rails' power, k = 2."),
    "stated_error_percent": ("%", "The error that the drive states; blank: none."),
    "reported_watt_hours": ("Wh", "By which the drive's lifetime energy grew, without its falls."),
    "rails_watt_hours_low": ("Wh", "The least that its rails gave meanwhile."),
    "rails_watt_hours_high": ("Wh", "The most that they can have given; blank: not known."),
    "verdict": ("", "holds, contradicted, undecided, no error stated, or not reported."),
    "finding": ("", "What is wrong."),
}
AGREEMENT: Described = {
    "method": ("", "Whose readings: meters, the drive itself, a virtual drive's truth."),
    "other_method": ("", "Whose they are compared with."),
    "pairs": ("", "Energies of phases that both read."),
    "bias_percent": ("%", "By how much the first reads more than the other, of the mean of both."),
    "bias_percent_low": ("%", "Lower end of its 95 % interval; blank: too few cells."),
    "bias_percent_high": ("%", "Upper end of it."),
    "agreement_percent_low": ("%", "From here on 95 % of single differences lie."),
    "agreement_percent_high": ("%", "Up to here."),
    "beyond_percent": ("%", "Pairs that differ by more than both uncertainties; blank: one is not known."),
    "verdict": ("", "agree, differ, undecided, or not known."),
    "why": ("", "Why."),
}
POWER_STATES: Described = {
    "factor": ("", "The factor by which the drive may rest, or works in a state."),
    "level": ("", "Its level."),
    "condition": ("", "What else the runs' cell has."),
    "quantity": ("", f"{', '.join(Quantity)}."),
    "unit": ("", "The unit of `value`, its ends, `declared` and `bound`."),
    "state": ("", "The power state that the drive declares to be in; blank: it declares none."),
    "runs_measured": ("", "Runs that it rests on."),
    "value": ("unit", "Mean of the runs; blank: the drive never rested."),
    "value_low": ("unit", "Lower end of its 95 % interval, with the meters' limit; blank: a single run."),
    "value_high": ("unit", "Upper end of it."),
    "declared": ("unit", "What the drive declares; blank: nothing."),
    "bound": ("unit", "Up to where it obeys: what it declares, with what is left to the host."),
    "rests_a_run": ("", "Rests that a load's power shows, mean of the runs; blank: none."),
    "verdict": ("", f"{', '.join(Verdict)}."),
    "reason": ("", "Why nothing was measured of it."),
}
ASKED: Described = {
    "subject": ("", "What it is of: a cell, a meter, a drive, a load on a drive, a rail."),
    "section": ("", "Part of the standard."),
    "quantity": ("", "What the standard asks for."),
    "number": ("unit", "What the campaign has of it, where that is a number."),
    "unit": ("", "The number's unit."),
    "text": ("", 'What it has in words, or how it is to be read; "not measured" where it has nothing.'),
}
WINDOWS: Described = {
    "window": ("", "Length of the window, for people."),
    "window_seconds": ("s", "Length of the window."),
    "watts": ("W", "Greatest mean of all rails together; blank: not measured."),
    "watts_low": ("W", "Least that it can be by the meter (k = 2); blank: its class is not stated."),
    "watts_high": ("W", "Most that it can be, likewise."),
    "begins_seconds": ("s", "When the window begins, since the load began."),
    "observed_seconds": ("s", "Length of the load, in which the window was looked for."),
    "missing": ("", "Why there is no figure."),
}
ENDURANCE: Described = {
    "runs_counted": ("", "Runs of which the figures are."),
    "joules_per_op": ("J", "Joules of the load over its operations."),
    "joules_per_op_low": ("J", "Lower end of its 95 % interval; blank: one run."),
    "joules_per_op_high": ("J", "Upper end of it."),
    "written_bytes_per_op": ("B", "Bytes that the workload wrote."),
    "durable_bytes_per_op": ("B", "Those of a workload that syncs; blank: it does not."),
    "host_bytes_per_op": ("B", "Bytes that the block layer wrote to the drive."),
    "nand_bytes_per_host_byte": ("", "Write amplification of the runs, by the drive's own counts."),
    "nand_bytes_per_host_byte_low": (
        "",
        "Lower end of its 95 % interval: the runs' scatter, and the counts' last units; blank: one run.",
    ),
    "nand_bytes_per_host_byte_high": ("", "Upper end of it."),
    "nand_bytes_per_op": ("B", "Host bytes times the amplification."),
    "nand_missing": ("", "Why there is no count of NAND bytes."),
    "rated_bytes": ("B", "Bytes that the host may write over the drive's life, as declared."),
    "ops_of_rated_life": ("", "Operations until these are written."),
    "years_at_load": ("year", "Years until then, if the load went on all the time."),
    "years_at_given_rate": ("year", f"Years until then at {GIVEN_RATE:g} operations a second."),
    "life_missing": ("", "Why there is no life."),
    "pareto": (
        "",
        "Whether no cell of its drive and workload beats it in joules and wear; blank: one run.",
    ),
}
COEFFICIENTS: Described = {
    "cell": ("", "The cell that it is of, where it is one cell's."),
    "coefficient": (
        "",
        "; ".join(f"{name}: {text.rstrip('.')}" for name, text in MEANINGS.items()) + ".",
    ),
    "value": ("unit", "Estimate; blank: there is none."),
    "value_low": ("unit", "Lower end of its 95 % interval, with the meter's error where that is known."),
    "value_high": ("unit", "Upper end of it."),
    "unit": ("", "The value's unit."),
    "runs": ("", "Runs that it rests on."),
    "exported": ("", "Whether `rig export --coefficients` gives it away."),
    "withheld": ("", "Why it does not."),
    "condition_number": ("", "Of the fit's design; blank: not of full rank, or nothing checks it."),
    "residual_percent": (
        "%",
        "Root mean square of the fit's relative residuals; blank: as many unknowns as loads.",
    ),
    "held_out_percent": ("%", "The same of loads that were predicted from all others."),
}
CLAIMS: Described = {
    "study": ("", "The study, by the name that the campaign gives it."),
    "claim": ("", "The claim's name."),
    "where": ("", "What the verdict is about: the drive, and the workload or another factor's level."),
    "verdict": ("", "holds, does not hold, or can't tell; of a virtual drive: the profile gives it, or not."),
    "effect": ("", "A ratio; the claim's text and `expected` say of what."),
    "effect_low": ("", "Lower end of its interval (95 % of all claims at once); blank: too few blocks."),
    "effect_high": ("", "Upper end of it."),
    "blocks": ("", "Blocks that have runs of both sides."),
    "expected": ("", "What the effect is where the claim holds."),
    "why": ("", "Why the verdict is open, and what is behind the effect."),
    "text": ("", "The claim in one sentence."),
    "origin": ("", "published, or inferred from what was."),
}
_OF_CUTS: Described = {
    "promised_writes": ("", "Writes, or transactions, that were promised when the power went."),
    "broken_promises": ("", "Writes, names or transactions whose promise was broken."),
    "reordered": ("", "Acknowledged, unflushed writes that are not there while a later one is."),
}
SUBJECTS: Described = {
    **_OF_CUTS,
    "drive": ("", "Drive, as the inventory names it."),
    "filesystem": ("", "File system; empty: the bare drive."),
    "mount_options": ("", "Mount options in addition to the file system's own."),
    "application": ("", "Application whose transactions are judged; empty: writes of durawriter."),
    "plp": ("", "Whether the inventory says that the drive has power-loss protection."),
    "cuts": ("", "Cuts in which something had been promised."),
    "void_cuts": ("", "Cuts in which nothing had been."),
    "failed_cuts": ("", "Cuts that could not be read back."),
    "broken_cuts": ("", "Cuts that broke a promise."),
    "flushes": ("", "Acknowledged flushes and durable writes, whose word was at risk."),
    "broken_by_fate": ("", "Broken promises, by what became of them."),
    "acknowledged_lost": ("", "Acknowledged, unflushed writes that are gone, or stale."),
    "acknowledged_torn": ("", "Acknowledged, unflushed writes that are there in part."),
    "acknowledged_corrupt": ("", "Those with a sector that holds what was never written there."),
    "beyond": ("", "What the file system lost that it had not promised to keep."),
    "repaired_to_mount": ("", "Cuts after which it had to be repaired to be mounted."),
    "checked": ("", "Cuts after which the file system's own checker looked at it."),
    "check_complaints": ("", "Those at which that checker found a fault."),
    "loss_probability_low": ("", "Lower end of the probability that a cut breaks a promise (95 %)."),
    "loss_probability_high": ("", "Upper end of it; one-sided where no cut did."),
    "joules_per_durable_write": ("J", "Energy between promises over the writes promised there, all cuts."),
    "statement": ("", "The verdict in words."),
}
CUTS: Described = {
    **_OF_CUTS,
    "subject": ("", "Subject."),
    "cut": ("", "Its number among those of the subject."),
    "aimed": ("", "What the moment of the cut was aimed at."),
    "phase": ("", "What was in flight when the power went."),
    **{
        f"acknowledged_{fate}": ("", f"Acknowledged, unflushed writes that are {meaning}.")
        for fate, meaning in (
            ("kept", "there"),
            ("superseded", "covered by later ones"),
            ("lost", "gone"),
            ("torn", "there in part"),
            ("stale", "older than what an earlier promise covered"),
            ("corrupt", "there with what was never written to them"),
        )
    },
    "durable_writes": ("", "Writes promised between the first and the last promise."),
    "joules": ("J", "Energy of the drive's rails between these promises; blank: not measured."),
    "true_joules": ("J", "The same as the twin drew it (virtual lab)."),
    "mount_problem": ("", "Why it could not be mounted before a repair."),
    "mount_seconds": ("s", "What the mount after the cut took."),
    "check_exit": ("", "Exit code of the file system's own checker."),
    "longest_hold_up_seconds": ("s", "The longest that a rail held up after it was switched off."),
    "hold_up_joules": ("J", "What the rails delivered meanwhile."),
}
VIOLATIONS: Described = {
    "subject": ("", "Subject."),
    "cut": ("", "Number of the cut among those of the subject."),
    "what": ("", "What became of what was promised."),
    "target": ("", "File or name; empty: the bare drive; of a transaction the application."),
    "sequence": ("", "Number of the write, name or transaction."),
    "offset": ("B", "Where the write begins."),
    "bytes": ("B", "Its length."),
    "harmed_sectors": ("", "Sectors of it that are not as promised."),
    "promised_by": ("", "Number of the operation that promised it; 0: data at rest."),
    "reordered": ("", "Whether a later write is there."),
    "is_transaction": ("", "Whether it is a transaction of an application."),
}

OWN = {
    "runs": RUNS,
    "cells": CELLS,
    "pairs": PAIRS,
    "best": BEST,
    "effects": EFFECTS,
    "budget": BUDGET,
    "cemp": CEMP,
    "elasticity": ELASTICITY,
    "drift": DRIFT,
    "outliers": OUTLIERS,
    "cross_talk": CROSS_TALK,
    "claims": CLAIMS,
    "quiescence": QUIESCENCE,
    "processor": PROCESSOR,
    "temperature": TEMPERATURE,
    "audit": AUDIT,
    "agreement": AGREEMENT,
    "power_states": POWER_STATES,
    **dict.fromkeys(("emerald", "pts", "eehpcwg"), ASKED),
    "windows": WINDOWS,
    "endurance": ENDURANCE,
    "coefficients": COEFFICIENTS,
    "series": SERIES,
    "phases": PHASES,
    "energy": {},
    "io": {},
    "subjects": SUBJECTS,
    "cuts": CUTS,
    "violations": VIOLATIONS,
    "power": POWER,
    "rounds": ROUNDS,
    "progress": PROGRESS,
    "waveforms": WAVEFORMS,
}


# Computed columns, in no journal, that tables made by earlier programs lack: by table, in the order
# in which they came. `rig verify` does not miss them there.
LATER: dict[str, tuple[str, ...]] = {
    "runs": (
        "over_range_samples",
        "impossible_samples",
        "ai_ops_per_joule_to_quiescence",
        "joules_after_load",
        "seconds_after_load",
        "quiescence",
        "quiescence_reason",
        "steadiness",
        "steadiness_reason",
        "fifths_ops_range_percent",
        "fifths_ops_slope_percent",
        "fifths_watts_range_percent",
        "fifths_watts_slope_percent",
        "temperature_start_celsius",
        "temperature_end_celsius",
        "idle_watts_low",
        "idle_watts_high",
        "base_load_fraction",
        "joules_after_load_low",
        "joules_after_load_high",
        "idle_unknown",
        "idle_settled_seconds",
        "mode",
        "mode_evidence",
    ),
    "cells": (
        "may_be_best",
        "ai_ops_per_joule_to_quiescence",
        "joules_after_load",
        "runs_settled",
        "runs_steady",
        "runs_not_steady",
        "temperature_start_celsius",
        "temperature_end_celsius",
        "idle_watts_low",
        "idle_watts_high",
        "base_load_fraction",
        "joules_after_load_low",
        "joules_after_load_high",
        "idle_unknown",
        "runs_at_rest",
        "winner",
        "winner_withheld",
        "modes",
    ),
    "quiescence": ("joules_after_load_low", "joules_after_load_high"),
    "power_states": ("reason",),
    "pairs": ("less_percent_meter",),
    "best": ("less_percent_meter", "less_percent_detectable"),
    "endurance": ("nand_bytes_per_host_byte_low", "nand_bytes_per_host_byte_high"),
}

# The journal's own tables and what `runs` has of them describe themselves.
DECLARED: dict[str, tuple[type[Any], ...]] = {
    "runs": (RunRow, Performance, Result),
    "phases": (Phase,),
    "energy": (RailEnergy,),
    "io": (IoCount,),
}


def own(table: str) -> Described:
    """Return the columns that are described for this table, by name; others are in `COMMON`."""
    declared = {
        name: (one.unit, one.meaning)
        for record in DECLARED.get(table, ())
        for name, one in declared_columns(record).items()
        if table != "runs" or name not in RENAMED
    }
    return declared | OWN.get(table, {})


def described(table: str, column: str) -> tuple[str, str]:
    """Return unit and meaning of a column. Raises KeyError for one that is described nowhere."""
    return own(table).get(column) or COMMON[column]
