# SPDX-License-Identifier: GPL-3.0-or-later
"""A run's energy by phase and rail from its power points, and work per joule.

These are the journal's `energy` and `result` rows. The campaign engine makes them by these
functions, and `rig verify` checks them by the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from joulerig.analysis.energy import indicator, meters, plausibility
from joulerig.analysis.energy.interval import CounterPoints, EnergyBudget, IntervalEnergy, Source, Supply
from joulerig.analysis.results import power_points
from joulerig.analysis.results.schema import Phase, PhaseName, ai_joules

Rail = tuple[str, str, str]  # drive, meter, rail
NO_POINTS = "no points"
DOUBTFUL = "doubtful: "
"""Begins each part of a run's reason that says why not to rely on what was measured."""


def phase_energies(
    frame: pl.DataFrame | None,
    phases: Sequence[Phase],
    rails: Sequence[Rail],
    *,
    host: str,
    lab: Mapping[str, Any],
    provenance: Mapping[str, Any],
    clock_steps: Sequence[str] = (),
) -> list[tuple[Phase, Rail, IntervalEnergy]]:
    """Compute the energy of each rail over each phase, phases first.

    Parameters
    ----------
    frame : DataFrame or None
        Power points, joulerig.analysis.results.power_points.points or read.
    rails : sequence of (drive, meter, rail)
        Those that ought to be there; one without points has no joules, and says so.
    lab, provenance : mappings
        As the campaign's journal has them: what was known of the meters and their calibration.
    clock_steps : sequence of str
        How clocks were set (joulerig.analysis.results.phases). The phases are not where their power
        is then, and no rail has joules.
    """
    absent = IntervalEnergy(None, clock_steps[0] if clock_steps else NO_POINTS)

    def products_of_means(drive: str, meter: str, rail: str) -> Supply | None:
        return meters.mean_products(lab, host, drive, meter, rail)

    def source(drive: str, meter: str, rail: str) -> Source:
        if "watt_hours" in meters.channels(lab, host, drive, rail):
            return "register"
        return "poll" if meters.declared(lab, meter).get("timing") == "poll" else "stream"

    found = []
    for phase in phases:
        errors = {meter: phase.clock_error_ns + meters.edge_error_ns(lab, meter) for _, meter, _ in rails}
        measured: Mapping[Rail, IntervalEnergy] = {}
        if frame is not None and frame.height and not clock_steps:
            measured = power_points.energy_by_rail(
                frame,
                phase.start_ns,
                phase.end_ns,
                edge_error_ns=errors,
                mean_products=products_of_means,
                source=source,
            )
        for drive, meter, rail in rails:
            interval = measured.get((drive, meter, rail), absent)
            budget = meters.budget(
                lab,
                provenance,
                host=host,
                drive=drive,
                rail=rail,
                meter=meter,
                joules=interval.joules,
                seconds=phase.seconds,
                volt_seconds=interval.volt_seconds,
                amp_seconds=interval.amp_seconds,
                at_ns=phase.start_ns,
            )
            found.append((phase, (drive, meter, rail), interval.with_meter(budget.expanded)))
    return found


def doubts(
    frame: pl.DataFrame | None,
    phases: Sequence[Phase],
    rows: Sequence[Mapping[str, Any]],
    *,
    ops: int,
    host: str,
    lab: Mapping[str, Any],
) -> list[str]:
    """Return what contradicts itself in a run's power points, one line a rail and contradiction.

    A run with such a line has a result; the line says why not to rely on it. `rows`: its `energy`
    rows; `ops`: the load's operations; `lab` as in `phase_energies`. Volts and amps that are not
    samples of one moment are not compared.
    """
    load = next((phase for phase in phases if phase.phase == PhaseName.WORKLOAD), None)
    if frame is None or frame.is_empty() or load is None:
        return []
    quiet = [(one.start_ns, one.end_ns) for one in phases if one.phase in (PhaseName.IDLE, PhaseName.TAIL)]
    found = []
    for (drive, meter, rail), points in frame.group_by("drive", "meter", "rail", maintain_order=True):
        spec = meters.declared(lab, meter)
        rate = spec.get("sample_rate_hz")
        if not rate:
            continue
        said = []
        if spec.get("timing") != "poll" and "volts" in meters.channels(lab, host, drive, rail):
            feeds = meters.subtree(lab, "hosts", host, "drives", drive, "rails", rail, "supply")
            said = plausibility.describe(
                CounterPoints.from_frame(points),
                (load.start_ns, load.end_ns),
                quiet,
                sample_rate_hz=rate,
                clock_ppm=spec.get("clock_ppm") or plausibility.CLOCK_PPM,
                supply_volts=feeds.get("volts"),
                supply_ohms=feeds.get("ohms"),
                volts_step=meters.subtree(spec, "accuracy", "volts").get("resolution"),
            )
        for one in rows:
            of_load = one["phase"] == PhaseName.WORKLOAD and one["joules_low"] is not None
            if of_load and (one["drive"], one["meter"], one["rail"]) == (drive, meter, rail):
                unseen = one["product_joules"]
                if not meters.declared_sees_all(lab, meter):  # nor what was drawn between samples
                    unseen += one["gap_high_joules"] - one["gap_low_joules"]
                said.append(plausibility.faster_than_samples(ops, load.seconds, rate, one["joules"], unseen))
        found += [f"{DOUBTFUL}{drive} {rail} of meter {meter}: {text}" for text in said if text]
    return found


def row(phase: Phase, rail: Rail, found: IntervalEnergy) -> dict[str, Any]:
    """Return the journal's `energy` row, without `run` and the truth."""
    drive, meter, name = rail
    return {
        "phase": phase.phase,
        "meter": meter,
        "rail": name,
        "drive": drive,
        "joules": found.joules,
        "true_joules": None,
        "samples": found.samples,
        "expected": found.expected,
        "lost": found.lost,
        "gap_seconds": found.gap_seconds,
        "joules_low": found.joules_low,
        "joules_high": found.joules_high,
        "gap_low_joules": found.budget.gap_low,
        "gap_high_joules": found.budget.gap_high,
        "interpolation_joules": found.budget.interpolation,
        "alignment_joules": found.budget.alignment,
        "product_joules": found.budget.product,
        "meter_joules": found.budget.meter,
        "volt_seconds": found.volt_seconds,
        "amp_seconds": found.amp_seconds,
        "duplicate": found.duplicate,
        "repeated": found.repeated,
        "surplus": found.surplus,
        "over_range": found.over_range,
        "worst_gap_seconds": found.worst_gap_seconds,
        "spread_watts": found.spread_watts,
        "impossible": found.impossible,
        "sampled_joules": found.sampled_joules,
    }


def _budget(row: Mapping[str, Any]) -> EnergyBudget:
    return EnergyBudget(row["gap_low_joules"], row["gap_high_joules"], product=row["product_joules"])


def result(
    rows: Sequence[Mapping[str, Any]], done: Mapping[str, Any], *, corrected_too: bool = True
) -> dict[str, Any]:
    """Return the journal's `result` row, without `run`, device_bound_fraction and cpu_joules.

    `rows`: `energy` rows of all rails of the drive, or none, as a part would pass for all; `done`:
    the `performance` row. `corrected_too`: false for a journal of before, whose mean_watts and AI
    are of the joules as measured.
    """
    load = [one for one in rows if one["phase"] == PhaseName.WORKLOAD]

    def total(key: str) -> float | None:
        return indicator.total([one[key] for one in load])

    joules, true = total("joules"), total("true_joules")
    corrected = None
    if joules is not None and corrected_too:
        corrected = joules + sum(_budget(one).correction for one in load)
    ai = indicator.run_indicator(
        ops=done["ops"],
        bytes_moved=indicator.moved(done["read_bytes"], done["write_bytes"]),
        seconds=done["seconds"],
        joules=ai_joules(joules, corrected),
    )
    return {
        "joules": joules,
        "true_joules": true,
        "error_percent": 100 * (joules - true) / true if joules is not None and true else None,
        "mean_watts": ai.mean_watts,
        "ai_ops_per_joule": ai.ops_per_joule,
        "ai_mb_per_joule": ai.mb_per_joule,
        "joules_low": total("joules_low"),
        "joules_high": total("joules_high"),
        "corrected_joules": corrected,
        "sampled_joules": total("sampled_joules"),
    }
