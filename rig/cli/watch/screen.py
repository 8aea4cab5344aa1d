# SPDX-License-Identifier: GPL-3.0-or-later
"""What was received, as a screen of text."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from joulerig.analysis.results.schema import Status
from joulerig.plural import counted
from joulerig.rig.cli.watch.received import Received

NEWEST_RUNS = 8
SYMBOLS: dict[str, str] = {
    Status.PLANNED: "○", Status.RUNNING: "▶", Status.OK: "✓", Status.PARTIAL: "◐", Status.FAILED: "✕",
    Status.LOST: "⊘", Status.REFUSED: "!", Status.NOT_RUN: "–", Status.EXCLUDED: "·",
}  # fmt: skip
NOTICES = {"bad": ("✕", "red"), "warn": ("▲", "yellow"), "info": ("·", "dim")}
WELL: dict[str, str] = {
    Status.OK: "green",
    Status.RUNNING: "bold",
    Status.PLANNED: "dim",
    Status.EXCLUDED: "dim",
}
DASH = "–"


def render(received: Received) -> RenderableType:
    """Return the screen: campaign, current runs, what is wrong, drives, newest runs, meters."""
    parts: list[RenderableType] = [_head(received), *_current(received)]
    parts += [_notice(kind, text) for kind, text in received.notices]
    parts.append(_drives(received))
    if received.campaign["found"]:
        parts.append(_runs(received.campaign))
    parts.append(_meters(received.live["powerd"]))
    return Group(*parts)


def _head(received: Received) -> Text:
    campaign = received.campaign
    if not campaign["found"]:
        return Text("no campaign", "bold")
    head = Text(campaign["name"], "bold")
    if campaign["virtual"]:
        head.append("  VIRTUAL LAB", "yellow")
    head.append(f"  {campaign['state']}, {campaign['done']} of {campaign['total']} runs")
    head.append(f", elapsed {duration(_elapsed(received))}, left {_left(received)}")
    counts = [f"{SYMBOLS[status]} {count} {status}" for status, count in campaign["counts"].items() if count]
    return Text("\n").join([head, Text(campaign["question"], "dim"), Text("  ".join(counts))])


def _elapsed(received: Received) -> float | None:
    campaign = received.campaign
    if not campaign["started_ns"]:
        return None
    end = campaign["finished_ns"] / 1e9 if campaign["finished_ns"] else received.now_seconds
    return float(end - campaign["started_ns"] / 1e9)


def _left(received: Received) -> str:
    campaign = received.campaign
    if campaign["finished_ns"]:
        return "nothing"
    if campaign["eta_ns"] is None:
        return DASH
    most = "at most " if campaign["eta_at_most"] else ""
    return most + duration(max(campaign["eta_ns"] / 1e9 - received.now_seconds, 0))


def _current(received: Received) -> list[Text]:
    """Return a line for each host: its run, the phase that this is in, and for how long."""
    lines = []
    for host in received.campaign["hosts"] if received.campaign["found"] else ():
        line = Text(f"{host['host']}  ", "bold")
        if run := host["run"]:
            line.append(f"{run['cell']}  ", "")
            bands = [band for band in received.live["bands"] if band["run"] == run["id"]]
            if open_bands := [band for band in bands if band["end_ns"] is None]:
                phase = max(open_bands, key=lambda band: band["start_ns"])
                line.append(f"{phase['phase']} ", "bold")
                line.append(duration(received.now_seconds - phase["start_ns"] / 1e9))
        else:
            line.append("all runs done" if host["done"] == host["total"] else "between runs", "dim")
        lines.append(line)
    return lines


def _notice(kind: str, text: str) -> Text:
    symbol, style = NOTICES.get(kind, NOTICES["info"])
    return Text(f"{symbol} {text}", style)


def _table(*columns: str) -> Table:
    """Return a table whose first column is text, the rest numbers."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for n, column in enumerate(columns):
        table.add_column(column, justify="right" if n else "left", no_wrap=True)
    return table


def _drives(received: Received) -> RenderableType:
    pairs = dict.fromkeys((one["host"], one["drive"]) for one in (*received.rails, *received.drives))
    if not pairs:
        return Text("no drive has been heard in the last minute", "dim")
    hosts = {host for host, _ in pairs}
    busy = {(band["host"], band["drive"]) for band in received.live["bands"] if band["end_ns"] is None}
    table = _table("drive", "W", "reads/s", "writes/s", "flushes/s", "MB read/s", "MB written/s")
    for host, drive in sorted(pairs, key=lambda pair: (pair not in busy, pair)):
        name = drive if len(hosts) == 1 else f"{host}/{drive}"
        watts = received.watts(host, drive)
        figures = [number(one) for one in received.io(host, drive)]
        style = "bold" if (host, drive) in busy else ""
        table.add_row(name, DASH if watts is None else f"{watts:.3f}", *figures, style=style)
    return table


def _runs(campaign: dict[str, Any]) -> RenderableType:
    """Return the runs that ended last, the newest first."""
    ended = [run for run in campaign["runs"] if run["ended_ns"]]
    newest = sorted(ended, key=lambda run: -run["ended_ns"])[:NEWEST_RUNS]
    table = _table("run", "", "took", "J", "ops/J")
    table.columns[1].justify = "left"
    for run in newest:
        status = run["status"]
        words = [run["drive"], run["filesystem"], run["scheduler"], run["workload"]]
        words += [f"journal on {run['journal']}"] if "journal" in run else []
        took = (run["ended_ns"] - run["started_ns"]) / 1e9 if run["started_ns"] else None
        table.add_row(
            f"{run['ordinal']:>4} {'/'.join(words)}",
            Text(f"{SYMBOLS[status]} {status}", WELL.get(status, "red")),
            duration(took),
            number(run.get("joules")),
            number(run.get("ops_per_joule")) if status == Status.OK else DASH,
        )
        if run["reason"]:
            table.add_row(Text(f"     {run['reason']}", "dim", no_wrap=False))
    return table if newest else Text("no run has ended yet", "dim")


def _meters(powerd: dict[str, Any]) -> RenderableType:
    """Return one line on all meters, and one for each that does not stream or has lost samples."""
    meters = powerd["meters"]
    if not meters:
        return Text("no meter is known", "dim")
    losses = ("lost_percent", "gap_seconds", "unaccounted")
    doubtful = [
        meter for meter in meters if meter["state"] != "streaming" or any(meter[loss] for loss in losses)
    ]
    lines = [Text(f"{counted(len(meters) - len(doubtful), 'meter')} streaming without a loss", "dim")]
    for meter in doubtful:
        lost, gaps = meter["lost_percent"], meter["gap_seconds"]
        lines.append(
            Text(
                f"{meter['name']}: {meter['state']}, {DASH if lost is None else f'{lost:.3f}'} % lost,"
                f" gaps {DASH if gaps is None else f'{gaps:.3f}'} s"
                + (f", {meter['unaccounted']} samples unaccounted for" if meter["unaccounted"] else ""),
                "yellow" if meter["state"] == "streaming" else "red",
            )
        )
    return Group(*lines)


def duration(seconds: float | None) -> str:
    """Return a time as 1:02:03 or 2:03."""
    if seconds is None:
        return DASH
    minutes, rest = divmod(round(max(seconds, 0)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def number(value: float | None) -> str:
    """Return a number with three significant digits."""
    if value is None:
        return DASH
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
