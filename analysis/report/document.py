# SPDX-License-Identifier: GPL-3.0-or-later
"""A campaign as one self-contained HTML document, and that document as PDF."""

from __future__ import annotations

import base64
import contextlib
import gc
import logging
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import jinja2
import markupsafe
import yaml
from weasyprint import HTML
from weasyprint.urls import URLFetcher

from joulerig.analysis.compare import cells as comparison
from joulerig.analysis.compare import cemp, outliers
from joulerig.analysis.drawing import Svg
from joulerig.analysis.energy import meters, uncertainty
from joulerig.analysis.energy.interval import EnergyBudget
from joulerig.analysis.report import (
    answer,
    figures,
    fonts,
    over_campaign,
    over_run,
    powercut,
    preconditioning,
    sources,
    standings,
    study,
    text,
)
from joulerig.analysis.results import power_points
from joulerig.analysis.results.campaign import Campaign, ResultsError, Run
from joulerig.analysis.results.schema import FINISHED, PhaseName, RailEnergy, Status
from joulerig.analysis.runs import idle_baseline, loss_ledger, over_time, series
from joulerig.analysis.statistics import steady_state
from joulerig.analysis.tables import runs_and_cells

_HERE = Path(__file__).parent
_MOST_CELLS = 4  # listed by name
_MOST_VALUES = 6  # of one setting; beyond these the runs' own files are the place to look
_SHOWN_ELSEWHERE = ("calibration", "emulated", "subjects")  # of the provenance
MOST_RUNS = 200  # listed one by one; beyond these runs.csv is the place to look


def html(campaign: Campaign) -> str:
    """The report. The same campaign gives the same text. Raises analysis.results.campaign.ResultsError."""
    return rendered("report.html.j2", _content(campaign))


def rendered(template: str, content: Mapping[str, Any]) -> str:
    """A template of this folder as a self-contained document: style and fonts are inside it."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(
        text=text, combination=answer.combination, scaled=_scaled, EXPIRED=meters.EXPIRED
    )
    environment.filters["svg"] = _embedded
    filled = environment.get_template(template).render(content)
    style = (_HERE / "report.css").read_text(encoding="utf-8")
    return filled.replace("/* style */", fonts.css(filled + style) + "\n" + style, 1)


def pdf(document: str) -> bytes:
    """`html`'s document as PDF. Nothing outside it is fetched: it holds all it needs."""
    logging.getLogger("weasyprint").setLevel(logging.ERROR)  # it warns of CSS that is for screens
    fetcher = URLFetcher(allowed_protocols=["data"], fail_on_errors=True)
    with _nothing_collected():
        written = HTML(string=document, url_fetcher=fetcher).write_pdf()
    assert written is not None
    return written


@contextlib.contextmanager
def _nothing_collected() -> Iterator[None]:
    """WeasyPrint keeps all its boxes to the end: to search them for garbage takes a tenth of its time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _scaled(value: float | None, by: float) -> float | None:
    return None if value is None else value * by


def _embedded(figure: Svg, description: str) -> markupsafe.Markup:
    # As an image, not inline: identifiers of several SVGs in one document would clash.
    data = base64.b64encode(figure.text.encode()).decode()
    return markupsafe.Markup('<img style="width: {}in" alt="{}" src="data:image/svg+xml;base64,{}">').format(
        round(figure.width_inches, 3), description, data
    )


def _content(campaign: Campaign) -> dict[str, Any]:
    compared = comparison.of_campaign(campaign)
    over, without_trace = over_time.of_campaign(campaign)
    cells = runs_and_cells.cells(campaign, compared, over).to_dicts()
    groups = answer.groups(compared, cells)
    runs = runs_and_cells.runs(campaign, over).to_dicts()
    settings, damaged = _settings(campaign)
    settlings, unreadable = preconditioning.of_campaign(campaign)
    return {
        "campaign": campaign,
        "unfinished": sum(run.status not in FINISHED for run in campaign.runs),
        "statuses": [(status, count) for status in Status if (count := _count(campaign, status))],
        "seconds": _elapsed(campaign),
        "answers": [answer.answer(group) for group in groups],
        "caveat": answer.caveat(groups),
        "power_cuts": powercut.chapter(campaign),
        "study": study.section(campaign),
        "heat_maps": [(group, _heat_map(campaign, group)) for group in groups],
        "standings": [
            (group, standings.figure(group, virtual=campaign.virtual))
            for group in groups
            if len(group.ranked) > 1
        ],
        "groups": groups,
        "effects": [group for group in groups if group.comparison.by_factor],
        "matters": sources.matters(compared),
        "budget_parts": sources.PARTS,
        "budgets": [(group, sources.budgets(group)) for group in groups if group.ranked],
        "changes": [(group, found) for group in groups if (found := cemp.changes(group.comparison.points))],
        "cemp_definition": cemp.DEFINITION,
        "merits": [cell for cell in cells if cell["figure"] is not None],
        "over_run": over_run.of_campaign(campaign, series.of_campaign(campaign, over)),
        "over_campaign": over_campaign.of_campaign(campaign, groups),
        "outlier_limit": outliers.FAR,
        "expired_runs": {run["run"] for run in runs if run["calibration"] == "expired"},
        "runs": _listed(runs),
        "most_runs": MOST_RUNS,
        "has_truth": any(run["true_joules"] is not None for run in runs),
        "trace": _trace(campaign, groups),
        "truth": _truth(campaign),
        "meter_ledger": loss_ledger.of_campaign(campaign),
        "rail_ledger": loss_ledger.of_rails(campaign),
        "intervals": _intervals(campaign),
        "baseline": idle_baseline.of_campaign(campaign),
        "expired": _expired(campaign),
        "is_expired": lambda meter, at_ns: meters.expired(campaign.provenance, meter, at_ns),
        "not_ok": _not_ok(campaign),
        "excluded": _excluded(campaign),
        "drives": _drives(campaign, settings),
        "meters": _meters(campaign),
        "versions": list(
            text.flat(
                {
                    k: v
                    for k, v in campaign.provenance.items()
                    if k not in ("calibration", "emulated", "subjects")
                }
            ).items()
        ),
        "settings": settings.rows,
        "damaged": damaged + unreadable + without_trace,
        "settlings": settlings,
        "steady_state": steady_state,
        "definition": yaml.safe_dump(
            campaign.definition, sort_keys=False, allow_unicode=True, width=90, default_flow_style=None
        ).rstrip(),
        "commands": _commands(campaign),
    }


def _listed(runs: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
    """The runs to list one by one: all, or of more than `MOST_RUNS` the first ones that want a look."""
    if len(runs) <= MOST_RUNS:
        return runs
    return [run for run in runs if run["status"] != Status.OK or run["truth_within"] is False][:MOST_RUNS]


def _count(campaign: Campaign, status: str) -> int:
    return sum(run.status == status for run in campaign.runs)


def _elapsed(campaign: Campaign) -> float | None:
    instants = [time for run in campaign.runs for time in (run.started_ns, run.ended_ns) if time is not None]
    return (max(instants) - min(instants)) * 1e-9 if instants else None


def _heat_map(campaign: Campaign, group: answer.Group) -> Svg:
    one = group.comparison
    of_both = [run for run in campaign.runs if (run.drive, run.workload) == (one.drive, one.workload)]
    return figures.heat_map(
        group.cells,
        comparison.levels(campaign, "filesystem", {run.filesystem for run in of_both}),
        comparison.levels(campaign, "scheduler", {run.scheduler for run in of_both}),
        virtual=campaign.virtual,
    )


@dataclass(frozen=True)
class _Trace:
    """The power trace that stands for the campaign; `figure` None where there is none, `note` says why."""

    run: Run | None
    note: str
    figure: Svg | None
    phases: list[dict[str, Any]]
    expired: bool = False  # whether it rests on a calibration past its date


def _trace(campaign: Campaign, groups: Sequence[answer.Group]) -> _Trace:
    """Of the first group's best cell, the run whose AI is the median one (the lower of two)."""
    order = [run for group in groups for cell in group.ranked for run in _by_ai(campaign, cell["cell"])]
    order += [run for run in campaign.runs if run.status == Status.PARTIAL]
    problem = ""
    for run in order:
        try:
            points = power_points.read(run.folder / "power.csv")
        except power_points.PowerFileError as error:
            problem = problem or f" ({error})"
            continue
        if points is None:
            continue
        if not points["watts"].count():
            problem = problem or f" ({run.folder / 'power.csv'}: no watts in it)"
            continue
        phases = sorted(run.phases.values(), key=lambda phase: phase.start_ns)
        figure = figures.power_trace(points, phases, virtual=campaign.virtual)
        why = _standing(campaign, run, order)
        expired = runs_and_cells.calibration(campaign, [run]) == "expired"
        return _Trace(run, why, figure, [_phase_row(run, phase.phase) for phase in phases], expired)
    if not order:
        return _Trace(None, "No power trace: no run ended with joules.", None, [])
    return _Trace(None, f"No power trace: no finished run kept its power.csv{problem}.", None, [])


def _standing(campaign: Campaign, run: Run, order: Sequence[Run]) -> str:
    if run is not order[0]:
        return "the first run that kept its trace"
    if not run.counts:
        return "a run without joules"
    counted = sum(other.counts for other in campaign.runs if other.cell == run.cell)
    return (
        "the only run of its cell, the best one"
        if counted == 1
        else "the median run of its cell, the best one"
    )


def _by_ai(campaign: Campaign, cell: str) -> list[Run]:
    """The cell's runs that count, the median one by AI first."""
    runs = sorted(
        (run for run in campaign.runs if run.cell == cell and run.counts),
        key=lambda run: (run.result.ai_ops_per_joule or 0.0, run.ordinal),
    )
    middle = (len(runs) - 1) // 2
    return sorted(runs, key=lambda run: abs(runs.index(run) - middle))


def _phase_row(run: Run, phase: str) -> dict[str, Any]:
    rails = [rail for rail in run.energy if rail.phase == phase]
    seconds = run.phases[phase].seconds
    joules = None if not rails or any(rail.joules is None for rail in rails) else sum(r.joules for r in rails)
    true = (
        None if not rails or any(r.true_joules is None for r in rails) else sum(r.true_joules for r in rails)
    )
    return {
        "phase": phase,
        "seconds": seconds,
        "joules": joules,
        "true_joules": true,
        "low": _sum_of(rails, "joules_low"),
        "high": _sum_of(rails, "joules_high"),
        "watts": joules / seconds if joules is not None and seconds > 0 else None,
    }


def _sum_of(rails: Sequence[RailEnergy], name: str) -> float | None:
    values = [getattr(rail, name) for rail in rails]
    return sum(values) if values and None not in values else None


def _truth(campaign: Campaign) -> dict[str, Any] | None:
    runs = [run for run in campaign.runs if run.result and run.result.error_percent is not None]
    if not runs:
        return None
    worst = max(runs, key=lambda run: abs(run.result.error_percent))
    bound = [
        100 * run.result.device_bound_fraction for run in runs if run.result.device_bound_fraction is not None
    ]
    return {
        "bound": (min(bound), max(bound)) if bound else None,
        "figure": figures.measured_against_true(runs, virtual=campaign.virtual),
        "count": len(runs),
        "worst": worst,
        "mean": sum(run.result.error_percent for run in runs) / len(runs),
        "within": sum(abs(run.result.error_percent) <= 1 for run in runs),
        "bounded": sum(run.result.truth_within is not None for run in runs),
        "inside": sum(run.result.truth_within is True for run in runs),
        "outside": text.ranges([run.ordinal for run in runs if run.result.truth_within is False]),
    }


@dataclass(frozen=True)
class _Interval:
    """What the intervals of one rail's workload phases are made of; `budget` is in watts, at mean power."""

    drive: str
    meter: str
    rail: str
    runs: int
    watts: float
    low: float
    high: float
    shares: dict[str, float]
    budget: uncertainty.MeterBudget
    expired: bool


def _intervals(campaign: Campaign) -> list[_Interval]:
    """By rail, over the workload phases of all runs that have joules with low and high."""
    found: dict[tuple[str, str, str], list[tuple[Run, RailEnergy]]] = {}
    for run in campaign.runs:
        for rail in run.energy:
            if (
                rail.phase == PhaseName.WORKLOAD
                and rail.joules_low is not None
                and PhaseName.WORKLOAD in run.phases
            ):
                found.setdefault((rail.drive, rail.meter, rail.rail), []).append((run, rail))
    return [_interval(campaign, key, found[key]) for key in sorted(found)]


def _interval(
    campaign: Campaign, key: tuple[str, str, str], measured: Sequence[tuple[Run, RailEnergy]]
) -> _Interval:
    drive, meter, rail = key
    seconds = sum(run.phases[PhaseName.WORKLOAD].seconds for run, _ in measured)

    def mean(name: str) -> float | None:
        values = [getattr(energy, name) for _, energy in measured]
        return None if None in values or seconds <= 0 else sum(values) / seconds

    parts = {
        field.name: mean(_GAPS.get(field.name, f"{field.name}_joules")) for field in fields(EnergyBudget)
    }
    last = max(run.phases[PhaseName.WORKLOAD].start_ns for run, _ in measured)
    return _Interval(
        drive,
        meter,
        rail,
        runs=len(measured),
        watts=mean("joules"),
        low=mean("joules_low"),
        high=mean("joules_high"),
        shares=EnergyBudget(**parts).shares(),
        budget=meters.budget(
            campaign.lab,
            campaign.provenance,
            host=measured[0][0].host,
            drive=drive,
            rail=rail,
            meter=meter,
            joules=mean("joules"),
            seconds=1.0,
            volt_seconds=mean("volt_seconds"),
            amp_seconds=mean("amp_seconds"),
            at_ns=last,
        ),
        expired=meters.expired(campaign.provenance, meter, last),
    )


_GAPS = {"gap_low": "gap_low_joules", "gap_high": "gap_high_joules"}


def _expired(campaign: Campaign) -> str:
    """Which calibrations that the figures rest on are past their date; empty where none is."""
    found = []
    for meter in loss_ledger.of_campaign(campaign):
        if meters.expired(campaign.provenance, meter.meter, meter.last_ns):
            record = meters.calibration(campaign.provenance, meter.meter)
            found.append(
                f"calibration of {meter.meter} expired {record.get('expires', 'on an unknown date')}"
            )
    return f"{meters.EXPIRED} {'; '.join(found)}." if found else ""


def _not_ok(campaign: Campaign) -> list[dict[str, Any]]:
    """Runs that are not ok, together where status and reason are the same."""
    found: dict[tuple[str, str], list[Run]] = {}
    for run in campaign.runs:
        if run.status != Status.OK:
            found.setdefault((run.status, run.reason), []).append(run)
    order = sorted(found, key=lambda key: (list(Status).index(key[0]), found[key][0].ordinal))
    return [
        {
            "status": status,
            "reason": reason or ("not finished yet" if status not in FINISHED else "no reason was recorded"),
            "runs": text.ranges([run.ordinal for run in found[status, reason]]),
            "count": len(found[status, reason]),
            "cells": _which(found[status, reason]),
        }
        for status, reason in order
    ]


def _which(runs: Sequence[Run]) -> list[str]:
    """The runs' cells by name where they are few, else the levels that they have."""
    cells = list(dict.fromkeys(run.cell for run in runs))
    if len(cells) <= _MOST_CELLS:
        return cells
    named = {
        noun: sorted({getattr(run, name) for run in runs})
        for noun, name in (
            ("drive", "drive"),
            ("file system", "filesystem"),
            ("scheduler", "scheduler"),
            ("workload", "workload"),
        )
    }
    return [f"{noun} {', '.join(levels)}" for noun, levels in named.items()]


def _excluded(campaign: Campaign) -> list[tuple[str, str]]:
    """What the campaign's definition leaves out, with its reason: (what, why)."""
    listed = campaign.definition.get("exclude") or []
    rows = []
    for entry in listed if isinstance(listed, list) else [listed]:
        levels = text.flat(entry) if isinstance(entry, dict) else {"": str(entry)}
        why = levels.pop("reason", text.DASH)
        rows.append((", ".join(f"{name} {level}".strip() for name, level in levels.items()), why))
    return rows


@dataclass(frozen=True)
class _Settings:
    """Settings in effect over the runs. `rows`: (setting, [(value, in how many runs)], runs that tell)."""

    rows: list[tuple[str, list[tuple[str, int]], int]]
    by_drive: dict[tuple[str, str], dict[str, str]]  # by host and drive


def _settings(campaign: Campaign) -> tuple[_Settings, list[str]]:
    values: dict[str, Counter[str]] = {}
    by_drive: dict[tuple[str, str], dict[str, str]] = {}
    damaged = []
    for run in campaign.runs:
        try:
            settings = run.settings
        except ResultsError as error:
            damaged.append(str(error))
            continue
        found = settings.get("drive")
        if isinstance(found, dict):  # one drive's, or by drive
            several = all(isinstance(value, dict) for value in found.values())
            for drive, of_it in found.items() if several else [(run.drive, found)]:
                by_drive.setdefault((run.host, drive), {}).update(text.flat(of_it))
        for name, value in text.flat({k: v for k, v in settings.items() if k != "drive"}).items():
            values.setdefault(name, Counter())[value] += 1
    rows = [(name, sorted(counter.items()), counter.total()) for name, counter in sorted(values.items())]
    few = [(name, found if len(found) <= _MOST_VALUES else [], total) for name, found, total in rows]
    return _Settings(few, by_drive), damaged


def _drives(campaign: Campaign, settings: _Settings) -> list[dict[str, Any]]:
    """The drives that the campaign used: from the lab model, model and firmware as the host found them."""
    used = {(run.host, run.drive): run for run in campaign.runs}
    used |= {
        (run.host, run.factors["journal"]): run
        for run in campaign.runs
        if run.factors.get("journal", "internal") != "internal"
    }
    rows = []
    for (host, name), run in sorted(used.items()):
        model = meters.subtree(campaign.lab, "hosts", host)
        array = meters.subtree(model, "arrays", name)
        for member in array.get("members", []) if array else [name]:
            spec = meters.subtree(model, "drives", member)
            found = settings.by_drive.get((host, member), {})
            by = campaign.emulated(run).get(member)
            rails = [
                f"{rail} on {wiring.get('meter', '?')} {_channels(wiring)}"
                for rail, wiring in meters.subtree(spec, "rails").items()
                if isinstance(wiring, dict)
            ]
            rows.append(
                {
                    "host": host,
                    "name": f"{name} ({member})" if array else name,
                    "interface": f"{spec.get('interface', text.DASH)}{f', emulated by {by}' if by else ''}",
                    "model": found.get("model", text.DASH),
                    "firmware": found.get("firmware", text.DASH),
                    "serial": found.get("serial") or spec.get("serial", text.DASH),
                    "size": text.size(spec.get("size_bytes")),
                    "plp": {True: "yes", False: "no"}.get(spec.get("plp"), text.DASH),
                    "rails": ", ".join(rails) or "none measured",
                }
            )
    return rows


def _channels(wiring: dict[str, Any]) -> str:
    return "/".join(str(wiring[kind]) for kind in uncertainty.QUANTITIES if wiring.get(kind)) or "?"


def _meters(campaign: Campaign) -> list[dict[str, Any]]:
    """The meters that measured, as the journal and the lab model tell them."""
    return [
        {
            "name": used.meter,
            "standing": meters.standing(campaign.lab, campaign.provenance, used.meter, used.last_ns),
            "settings": [
                (key, value)
                for key, value in text.flat(meters.declared(campaign.lab, used.meter)).items()
                if value != text.DASH and not key.startswith("accuracy")
            ],
        }
        for used in loss_ledger.of_campaign(campaign)
    ]


def _commands(campaign: Campaign) -> list[tuple[str, str]]:
    """What to type to do it again: (command, what it does)."""
    playbook = next(
        (
            str(source[key])
            for source in (campaign.provenance, campaign.definition)
            for key in ("playbook",)
            if source.get(key)
        ),
        f"playbooks/{campaign.name}.yml",
    )
    revision = campaign.revision
    commands = [(f"git checkout {shlex.quote(revision)}", "the code that ran")] if revision else []
    commands.append(("make setup", "packages, programs, Python environment"))
    lab = "the virtual lab and " if campaign.virtual else ""
    commands.append(("rig up", f"{lab}the controller's services; provisions the test hosts"))
    commands.append((f"rig plan {shlex.quote(playbook)}", "what it will do and which drives it wipes"))
    commands.append((f"rig run {shlex.quote(playbook)}", "a new campaign with the definition below"))
    commands.append(
        (f"rig report {shlex.quote(campaign.id)}", "this report again, from the results of this campaign")
    )
    return commands
