# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig results`: a campaign's results for a person's terminal and, as JSON, for a program."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer
from rich.table import Table

from joulerig.analysis import results
from joulerig.analysis.compare import cautions, cross_talk
from joulerig.analysis.compare import cells as comparison
from joulerig.analysis.compare.cross_talk import CrossTalk
from joulerig.analysis.energy import meters
from joulerig.analysis.energy.meters import EXPIRED
from joulerig.analysis.powercut import folder as powercut
from joulerig.analysis.powercut import tables
from joulerig.analysis.results import run_energy
from joulerig.analysis.results.campaign import Campaign, Run
from joulerig.analysis.results.columns import declared_columns
from joulerig.analysis.results.schema import CampaignKind, Result, Status, level_texts
from joulerig.analysis.runs import idle, idle_baseline, loss_ledger, modes, over_time, pace
from joulerig.analysis.statistics.ranking import ONE_RUN
from joulerig.analysis.tables import runs_and_cells
from joulerig.plural import counted
from joulerig.rig.campaign.journal import Journal
from joulerig.rig.cli import terminal, verdicts
from joulerig.rig.cli.options import CampaignArgument, JsonOption, out


def show(
    campaign: CampaignArgument = None,
    print_json: JsonOption = False,
    baseline: Annotated[
        bool, typer.Option("--baseline", help="Show each rail's power while its drive is idle.")
    ] = False,
) -> None:
    """Show a campaign's runs and its AI."""
    from joulerig.rig.campaign import journal
    from joulerig.rig.common import paths

    folder = journal.find(paths.results(), campaign, former=True)
    if print_json:
        print(json.dumps(as_json(folder), indent=1))
        return
    if baseline:
        out.print(baseline_text(folder, out.width))
        return
    out.print(summary_text(folder, out.width))


def summary_text(folder: Path, width: int = 110) -> str:
    """Return a campaign's AI table, or of power cuts the verdict on each subject."""
    if powercut.is_former(folder):
        return verdicts.text(powercut.load(folder), width)
    campaign = results.load(folder)
    if campaign.kind == CampaignKind.POWER_CUT:
        lines = [verdicts.text(powercut.from_campaign(campaign), width), *_foundations(campaign)]
        return "\n".join(lines)
    return ai_table_text(folder, width)


def not_ok(journal: Journal) -> list[dict[str, Any]]:
    """Return the runs that should have been done and are not ok; excluded ones are left out."""
    return [run for run in journal.runs() if run["status"] not in (Status.OK, Status.EXCLUDED)]


def broken_promises(folder: Path) -> list[str]:
    """Return the subjects that broke a promise; none of a campaign that cut no power."""
    campaign = results.load(folder)
    if campaign.kind != CampaignKind.POWER_CUT:
        return []
    return powercut.from_campaign(campaign).broken()


def write_tables(folder: Path) -> list[Path]:
    """Write the tables of a campaign as CSV into its report folder; return their files."""
    campaign, place = results.load(folder), folder / "report"
    written = runs_and_cells.write(campaign, place)
    if campaign.kind == CampaignKind.POWER_CUT:
        written += tables.write(powercut.from_campaign(campaign), place)
    return written


def as_json(folder: Path) -> dict[str, Any]:
    """Return every run: id, cell, status, phases, performance, joules and true joules, error, AI.

    Also the energy's and the AI's least and greatest (the AI's of the energy's alone), and the idle
    baseline.
    """
    if powercut.is_former(folder):
        return {"campaign": folder.name, "power_cuts": verdicts.as_json(powercut.load(folder))}
    campaign = results.load(folder)
    cuts = powercut.from_campaign(campaign) if campaign.kind == CampaignKind.POWER_CUT else None
    runs = []
    idles = idle.by_run(campaign)
    rows = {row["run"]: row for row in runs_and_cells.runs(campaign, idles=idles).iter_rows(named=True)}
    for run in campaign.runs:
        done, result, row = run.performance, run.result, rows[run.id]
        runs.append(
            {
                "id": run.id,
                "cell": run.cell,
                "host": run.host,
                "replicate": run.replicate,
                "status": run.status,
                "reason": run.reason,
                "precondition": run.precondition or None,
                "factors": run.factors,
                "emulated": campaign.emulated(run),
                "phases": [
                    {
                        "phase": p.phase,
                        "start_ns": p.start_ns,
                        "end_ns": p.end_ns,
                        "seconds": p.seconds,
                        "slowness": p.slowness,
                    }
                    for p in run.phases.values()
                ],
                "performance": vars(done) if done else None,
                **{name: getattr(result, name) if result else None for name in declared_columns(Result)},
                **{
                    name: row[name]
                    for name in (
                        "truth_within",
                        "ai_ops_per_joule_energy_low",
                        "ai_ops_per_joule_energy_high",
                        "ai_mb_per_joule_energy_low",
                        "ai_mb_per_joule_energy_high",
                        "calibration",
                        "ai_ops_per_joule_to_quiescence",
                        "joules_after_load",
                        "joules_after_load_low",
                        "joules_after_load_high",
                        "seconds_after_load",
                        "quiescence",
                        "quiescence_reason",
                        "steadiness",
                        "steadiness_reason",
                        "temperature_start_celsius",
                        "temperature_end_celsius",
                        "idle_watts",
                        "idle_watts_low",
                        "idle_watts_high",
                        "idle_unknown",
                        "idle_settled_seconds",
                    )
                },
                "energy": [vars(rail) for rail in run.energy],
                "io": [vars(count) for count in run.io.values()],
            }
        )
    return {
        "campaign": campaign.id,
        "question": campaign.question,
        "virtual_lab": campaign.virtual,
        "finished": campaign.finished_ns is not None,
        "runs": runs,
        "baseline": [
            vars(rail) | {"same_day": rail.same_day} for rail in idle_baseline.rail_baselines(campaign, idles)
        ],
        "ledger": [
            vars(meter) | {"balanced": meter.balanced} for meter in loss_ledger.meter_ledgers(campaign)
        ],
        "power_cuts": verdicts.as_json(cuts) if cuts else None,
    }


def ai_table_text(folder: Path, width: int = 110) -> str:
    """Return the AI table: file systems down, schedulers across, for each drive and workload.

    Each AI with the least and the greatest of its energy's interval; below, what the figures rest
    on.
    """
    campaign = results.load(folder)
    compared, (over, _) = comparison.compare_cells(campaign), over_time.power_by_run(campaign)
    idles = idle.by_run(campaign)
    cells = runs_and_cells.cells(campaign, compared, over, idles)
    console = terminal.page(width)
    for caution in cautions.of_campaign(campaign, compared, over, idles):
        console.print(f"WARNING: {caution}", soft_wrap=True)
    mark = _virtual(campaign)
    further = {cell: " · ".join(level_texts(runs[0].key.further)) for cell, runs in campaign.cells().items()}
    cells = cells.with_columns(further=pl.col("cell").replace_strict(further, return_dtype=pl.String))
    emulated = {run.drive: by for run in campaign.runs for by in [_emulated(campaign, run)] if by}
    for (drive, workload, further), block in cells.group_by(
        "drive", "workload", "further", maintain_order=True
    ):
        schedulers = _in_order(campaign.definition["factors"]["scheduler"], block["scheduler"])
        which = " · ".join(part for part in (drive, workload, further) if part)
        note = f" · {emulated[drive]}" if drive in emulated else ""
        filesystems = _in_order(campaign.definition["factors"]["filesystem"], block["filesystem"])
        unit = block["unit"].drop_nulls()[:1].to_list()
        op = f" · an op is a {unit[0]}" if unit and unit != ["operation"] else ""
        console.print(f"AI in ops/J [low, high by energy] · {which}{mark}{note}{op}", soft_wrap=True)
        console.print(_matrix(block, filesystems, schedulers, _cell))
        if title := _figure_title(block):
            console.print(f"{title} · {which}{mark}{note}", soft_wrap=True)
            console.print(_matrix(block, filesystems, schedulers, _figure))
    runs = runs_and_cells.runs(campaign, over, idles)
    errors = runs["error_percent"].drop_nulls()
    if len(errors):
        within = runs["truth_within"].drop_nulls()
        inside = f"; true joules within [low, high] in {within.sum()} of {len(within)}" if len(within) else ""
        console.print(
            f"measured against true joules, {counted(len(errors), 'run')}:"
            f" worst {errors.abs().max():.3f} %, mean {errors.mean():+.3f} %{inside}",
            soft_wrap=True,
        )
    if found := pace.of_campaign(campaign):
        console.print(found.sentence, soft_wrap=True)
    uneven = [f"WARNING: {one.name}: {one.uneven_losses}" for one in compared if one.uneven_losses]
    withheld = [f"{one.name}: {one.ranking.withheld}" for one in compared if one.ranking.withheld]
    for line in [
        *_foundations(campaign),
        *_doubts(campaign),
        *_preconditions(campaign),
        *_cross_talk(campaign),
        *uneven,
        *withheld,
    ]:
        console.print(line, soft_wrap=True)
    counts = ", ".join(
        f"{count} {status}" for status, count in runs["status"].value_counts(sort=True).iter_rows()
    )
    console.print(
        f"{campaign.id}: {counts}"
        + (f"; {ONE_RUN}" if cells["runs_counted"].max() == 1 else "")
        + (f"; * may be the best of its table, {modes.SCOPE}" if cells["may_be_best"].count() else "")
        + ("; ± is half of the 95 % interval" if cells["ai_ops_per_joule_interval_low"].count() else "")
        + ("; cells of a table that share a letter are not separated" if cells["letters"].count() else "")
        + _legend_of_quiescence(cells),
        soft_wrap=True,
    )
    return console.export_text().rstrip()


def _legend_of_quiescence(cells: pl.DataFrame) -> str:
    shown = [text for row in cells.iter_rows(named=True) if (text := _to_quiescence(row))]
    if not shown:
        return ""
    unsettled = any(text.endswith("?") for text in shown)
    mark = ", ? where a tail ended before the drive was idle" if unsettled else ""
    return f"; > is AI to quiescence{mark}"


def _to_quiescence(cell: Mapping[str, Any]) -> str:
    """Return a cell's AI to quiescence; empty: not known, or no run came back to idle."""
    if cell["ai_ops_per_joule_to_quiescence"] is None or not cell["runs_settled"]:
        return ""
    unsettled = "" if cell["runs_settled"] == cell["runs_counted"] else "?"
    return f"{cell['ai_ops_per_joule_to_quiescence']:.1f}{unsettled}"


def _matrix(
    cells: pl.DataFrame, filesystems: list[str], schedulers: list[str], text: Callable[[pl.DataFrame], str]
) -> Table:
    """Return a table of file systems (rows) and schedulers (columns), each cell's `text` in it."""
    table = Table()
    table.add_column("file system")
    for scheduler in schedulers:
        table.add_column(scheduler, justify="right")
    for filesystem in filesystems:
        row = cells.filter(pl.col("filesystem") == filesystem)
        table.add_row(filesystem, *(text(row.filter(pl.col("scheduler") == s)) for s in schedulers))
    return table


def _figure_title(cells: pl.DataFrame) -> str:
    """Return the title of the cells' figure of merit: "notpm in 1/min, higher is better"; or ""."""
    with_one = cells.filter(pl.col("figure").is_not_null())
    if with_one.is_empty():
        return ""
    cell = with_one.row(0, named=True)
    return f"{cell['figure_name']} in {cell['figure_unit']}, {cell['figure_better']} is better"


def _figure(cell: pl.DataFrame) -> str:
    if cell.is_empty() or cell["figure"][0] is None:
        return "–"
    deviation = cell["figure_standard_deviation"][0]
    return f"{cell['figure'][0]:.4g}" + (f" ± {deviation:.2g}" if deviation is not None else "")


def _foundations(campaign: Campaign) -> list[str]:
    """Return what the figures rest on, a line each: samples, calibrations and classes of meters."""
    lines = []
    for meter in loss_ledger.meter_ledgers(campaign):
        balance = {True: "balanced", False: f"{meter.unaccounted} unaccounted for", None: "balance not known"}
        over = f" {meter.over_range} over range," if meter.over_range else ""
        over += f" {meter.impossible} impossible," if meter.impossible else ""
        lines.append(
            f"meter {meter.meter}: {meter.samples} of {meter.expected} samples, {meter.lost} lost,{over}"
            f" worst gap {meter.worst_gap_seconds or 0.0:.3g} s, {balance[meter.balanced]};"
            f" {meters.standing(campaign.lab, campaign.provenance, meter.meter, meter.last_ns)}"
        )
    return lines


def _doubts(campaign: Campaign) -> list[str]:
    """Return what contradicts itself in runs' measurements, a line for the same words."""
    found: dict[str, list[int]] = {}
    for run in campaign.runs:
        for part in run.reason.split("; "):
            if part.startswith(run_energy.DOUBTFUL):
                found.setdefault(part.removeprefix(run_energy.DOUBTFUL), []).append(run.ordinal)
    return [
        f"DOUBTFUL, {counted(len(runs), 'run')} from {runs[0]} on: {words}" for words, runs in found.items()
    ]


def _preconditions(campaign: Campaign) -> list[str]:
    """Return the results of the drives' preconditions, a line each."""
    by_drive: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for run in campaign.runs:
        if run.precondition:
            by_drive.setdefault((run.host, run.drive), []).append(run.precondition)
    lines = []
    for (host, drive), found in by_drive.items():
        made = sum(not one["reused"] for one in found)
        steady = sum(one["verdict"]["steady"] for one in found)
        lines.append(
            f"drive {host}/{drive}: preconditioned {counted(made, 'time')},"
            f" steady in {steady} of {counted(len(found), 'run')};"
            f" {found[-1]['verdict']['reason']}"
        )
    return lines


def _cross_talk(campaign: Campaign) -> list[str]:
    """Return what runs side by side do to each other, a line a drive, a warning first."""
    found = cross_talk.estimate(campaign)
    by_drive: dict[tuple[str, str], list[CrossTalk]] = {}
    for one in found:
        by_drive.setdefault((one.host, one.drive), []).append(one)
    lines = [f"WARNING: {text}" for text in [cross_talk.warning(found)] if text]
    for (host, drive), of_drive in by_drive.items():
        figures = "; ".join(f"{one.quantity} {cross_talk.describe(one)}" for one in of_drive)
        lines.append(f"drive {host}/{drive} side by side: {figures}")
    return lines


def baseline_text(folder: Path, width: int = 110) -> str:
    """Return what each rail draws at rest over a campaign's runs; it is in no AI."""
    campaign = results.load(folder)
    console = terminal.page(width)
    console.print(f"idle watts, at rest; in no AI · {campaign.id}{_virtual(campaign)}")
    table = Table()
    for name in ("host", "drive", "rail (meter)"):
        table.add_column(name)
    for name in ("W", "±", "[low, high]", "settled, s", "runs"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("when (UTC)")
    baselines = idle_baseline.rail_baselines(campaign, idle.by_run(campaign))
    for rail in baselines:
        reach = f"[{rail.low:.4f}, {rail.high:.4f}]" if rail.low is not None else "–"
        watts = f"{rail.watts:.4f}" if rail.watts is not None else "–"
        if meters.expired(campaign.provenance, rail.meter, rail.last_ns):
            watts += EXPIRED
        table.add_row(
            rail.host,
            rail.drive,
            f"{rail.rail} ({rail.meter})",
            watts,
            f"{rail.standard_deviation:.4f}" if rail.standard_deviation is not None else "–",
            reach,
            f"{rail.settled_seconds:.2f}" if rail.settled_seconds is not None else "–",
            str(rail.n) + (f" of {rail.n + rail.left_out}" if rail.left_out else ""),
            _when(rail.first_ns, rail.last_ns),
        )
    console.print(table)
    if table.row_count == 0:
        console.print("no run has an idle phase with energy")
    for why in dict.fromkeys(f"{one.drive}: {one.why}" for one in baselines if one.why):
        console.print(f"not known of every run: {why}", soft_wrap=True)
    for line in _foundations(campaign):
        if EXPIRED in line:
            console.print(line, soft_wrap=True)
    return console.export_text().rstrip()


def _when(first_ns: int | None, last_ns: int | None) -> str:
    if first_ns is None or last_ns is None:
        return "–"
    first, last = (datetime.fromtimestamp(at // 1_000_000_000, UTC) for at in (first_ns, last_ns))
    until = "%H:%M" if first.date() == last.date() else "%Y-%m-%d %H:%M"
    return f"{first:%Y-%m-%d %H:%M}–{last:{until}}"


def _virtual(campaign: Campaign) -> str:
    return " · VIRTUAL LAB" if campaign.virtual else ""


def _in_order(wanted: list[str], present: pl.Series) -> list[str]:
    return [level for level in wanted if level in set(present)]


def _emulated(campaign: Campaign, run: Run) -> str:
    """Return what emulates the drives of a run: "emulated by scsi_debug, 8 ms a request"; or ""."""
    by = sorted(set(campaign.emulated(run).values()))
    return f"emulated by {'; '.join(by)}" if by else ""


def _cell(cell: pl.DataFrame) -> str:
    if cell.is_empty():
        return "–"
    row = cell.row(0, named=True)
    if row["ai_ops_per_joule"] is None:
        if row["status"] == Status.OK and row["ops_per_second"] is not None:
            return f"{row['ops_per_second']:.1f} ops/s, no rail"
        return row["status"]
    text = f"{row['ai_ops_per_joule']:.1f}"
    if row["ai_ops_per_joule_interval_low"] is not None:
        half = (row["ai_ops_per_joule_interval_high"] - row["ai_ops_per_joule_interval_low"]) / 2
        text += f" ± {half:.1f}"
    if row["letters"] is not None:
        text += f" {row['letters']}"
    if row["calibration"] == "expired":
        text += EXPIRED
    text += " *" if row["may_be_best"] else "  "
    if row["ai_ops_per_joule_energy_low"] is not None:
        low, high = row["ai_ops_per_joule_energy_low"], row["ai_ops_per_joule_energy_high"]
        text += f"\n[{low:.1f}, {high:.1f}]  "
    if quiet := _to_quiescence(row):
        text += f"\n>{quiet}  "
    return text
