# SPDX-License-Identifier: GPL-3.0-or-later
"""The page that `rig plan` prints for a campaign of measurements."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping

from joulerig import text
from joulerig.analysis.runs import modes
from joulerig.plural import counted
from joulerig.rig.campaign import factors
from joulerig.rig.campaign.forecast.expected import (
    LADDER,
    SUSTAINED_BYTES_PER_SECOND,
    Difference,
    Forecast,
    share_of_rating,
)
from joulerig.rig.campaign.plan import MeasurementPlan
from joulerig.rig.campaign.policies import equivalents, failures
from joulerig.rig.common import sizes

DIGITS = 2  # no figure here is known better
SHOWN_HOSTS = 8
LABEL = 14  # columns


def lines(plan: MeasurementPlan, found: Forecast, width: int) -> Iterator[str]:
    """Yield the page: a line or a few for each thing that is to be known before a campaign."""
    for title, paragraphs in _sections(plan, found):
        for number, paragraph in enumerate(paragraphs):
            first = (("" if number else title).ljust(LABEL) + paragraph).rstrip()
            yield wrapped(first, width, LABEL)


def wrapped(line: str, width: int, indent: int) -> str:
    """Return a line broken to a width, all but the first of its lines indented."""
    return textwrap.fill(line, width, subsequent_indent=" " * indent, break_on_hyphens=False)


def _sections(plan: MeasurementPlan, found: Forecast) -> Iterator[tuple[str, list[str]]]:
    campaign = plan.campaign
    for name in factors.load(plan.lab):
        if levels := campaign.levels(name):
            yield name, [", ".join(levels)]
    seconds = campaign.phases.model_dump()
    if campaign.levels("run_seconds"):
        seconds.pop("workload_seconds")
    named = [f"{key.removesuffix('_seconds')} {value} s" for key, value in seconds.items()]
    yield "phases", [", ".join(named), *([plan.waits] if plan.waits else [])]
    if slow := {work.run.host: work.slowness for work, _ in plan.works.values() if work.slowness > 1}:
        yield (
            "slow motion",
            [f"{host}: from rest to tail a second lasts {k:.3g} s" for host, k in slow.items()],
        )
    yield "failures", [failures.shown(campaign.on_failure)]
    if campaign.equivalent_hosts:
        alike = equivalents.sharing(plan.lab, campaign.drives)
        named = [f"{name} of {', '.join(hosts)}" for name, hosts in alike.items()]
        yield "equivalent", [f"{'; '.join(named)}: runs of a host that is set aside go to the others"]
    if campaign.use_bytes:
        yield "size", [f"the first {sizes.show(campaign.use_bytes)} of each drive or array"]
    yield "", [""]
    yield "cells", _cells(plan)
    yield "runs", _runs(plan, found)
    yield "time", _time(found)
    if campaign.side_by_side:
        yield "side by side", _side_by_side(found)
    if campaign.precondition:
        yield "precondition", _precondition(plan, found)
    yield "written", _written(plan, found)
    yield "energy", [_energy(found)]
    yield "detects", [_difference(found.difference, campaign.replicates)]


def _cells(plan: MeasurementPlan) -> list[str]:
    """Return the number of cells, and of those excluded for each reason."""
    block = [run for run in plan.runs[: plan.block_size] if not run.alone]
    reasons = Counter(run.excluded for run in block if run.excluded)
    if not reasons:
        return [f"{len(block):,}"]
    left = len(block) - sum(reasons.values())
    return [
        f"{left:,} of {len(block):,}",
        *(f"{number:,} excluded: {why}" for why, number in reasons.items()),
    ]


def _runs(plan: MeasurementPlan, found: Forecast) -> list[str]:
    campaign, cost = plan.campaign, found.expected
    order = "in the order written" if campaign.order == "as-written" else "in random order"
    blocks = (
        f"one block, {order}"
        if campaign.replicates == 1
        else f"{campaign.replicates} replicates, each a block {order}"
    )
    share = found.difference.share
    lines = [f"{cost.runs:,}{': ' if share is None else ' at most: '}{blocks} (seed {campaign.seed})"]
    if share is not None:
        first, last = (text.percent(fraction, DIGITS) for fraction in LADDER)
        lines.append(
            f"racing: about {text.percent(share, DIGITS)} % of them if the others are {first} to {last} %"
            " behind the best; the figures below are for all of them"
        )
    if len(cost.runs_of) > 1:
        shown = [(host, cost.runs_of[host]) for host in plan.lab.hosts if host in cost.runs_of]
        lines += [
            f"{host}: {counted(number, 'run')}, {text.duration(cost.seconds[host])}"
            for host, number in shown[:SHOWN_HOSTS]
        ]
        if len(shown) > SHOWN_HOSTS:
            lines.append(f"and {counted(len(shown) - SHOWN_HOSTS, 'more host')}")
    return lines


def _time(found: Forecast) -> list[str]:
    about, most = 3600 * found.expected.hours, 3600 * found.at_most.hours
    line = f"about {text.duration(about)}, {_basis(found)}"
    if found.at_most.preconditions and most > about:
        line += f"; at most {text.duration(most)}"
    return [line]


def _side_by_side(found: Forecast) -> list[str]:
    cost = found.expected
    alone = f"{counted(cost.controls, 'control run')} of them, each with its host alone"
    saved = cost.hours_in_turn - cost.hours
    in_turn = text.duration(3600 * cost.hours_in_turn)
    if saved <= 0:
        return [alone, f"saves no time: one after the other, without control runs, they take {in_turn}"]
    return [alone, f"saves {text.duration(3600 * saved)} of the {in_turn} that they take one after the other"]


def _basis(found: Forecast) -> str:
    """Return what the expected figures are from."""
    sizes = "estimated from sizes"
    if not found.measured_runs:
        return sizes
    runs = f"from {counted(found.measured_runs, 'measured run')}"
    if found.measured_share >= 1:
        return runs
    share = text.percent(found.measured_share, DIGITS)
    return f"{runs} for {share} % of the plan, the others {sizes}"


def _precondition(plan: MeasurementPlan, found: Forecast) -> list[str]:
    asked, cost, most = plan.campaign.precondition, found.expected, found.at_most
    assert asked is not None
    times = counted(cost.preconditions, "time")
    if most.preconditions > cost.preconditions:
        times += f", at most {counted(most.preconditions, 'time')}"
    return [
        f"{asked.purge}, filled {counted(asked.passes, 'time')}, at most"
        f" {counted(asked.max_rounds, 'round')} of {asked.round_seconds} s {asked.job}",
        f"{times}: {text.duration(3600 * cost.precondition_hours)} of the time",
    ]


def _written(plan: MeasurementPlan, found: Forecast) -> list[str]:
    expected = _amount(1e12 * found.expected.terabytes_written)
    most = f"at most {_amount(1e12 * found.at_most.terabytes_written)}"
    used = {plan.lab.hosts[host].drives[name].interface for host, name in found.expected.written}
    rates = [
        f"{_amount(SUSTAINED_BYTES_PER_SECOND[one])}/s to {one}"
        for one in sorted(used)
        if one in SUSTAINED_BYTES_PER_SECOND
    ]
    assumed = f"assumed where nothing is measured: {', '.join(rates)}"
    return [f"{expected} expected, {most}", *([] if found.measured_share >= 1 or not rates else [assumed])]


def _energy(found: Forecast) -> str:
    most = f"at most {_kilowatt_hours(found.at_most.kilowatt_hours)}"
    if not found.measured_joules:
        return f"{most}, of the drives"
    return f"{_kilowatt_hours(found.expected.kilowatt_hours)} expected, {most}, of the drives"


def _difference(one: Difference, replicates: int) -> str:
    if one.compared < 2:
        return "nothing: one combination of file system and scheduler has none to be compared with"
    of = f"{one.compared} combinations of file system and scheduler"
    if one.smallest is None:
        why = "one replicate" if replicates == 1 else "too few replicates"
        return f"nothing, of {of}: {why}"
    basis = f"as in {counted(one.runs, 'earlier run')}" if one.runs else "which is assumed"
    smallest, spread = (text.percent(value, DIGITS) for value in (one.smallest, one.spread))
    proviso = ""
    if replicates < modes.ENOUGH:
        enough = counted(modes.ENOUGH, "replicate")
        proviso = f" and these runs met the same modes (with {enough}, whatever they met)"
    return (
        f"the best of {of}, in 9 of 10 campaigns, if all others are {smallest} % or more behind it"
        f"{proviso}; runs of a cell differ by {spread} % (standard deviation), {basis}"
    )


def wear(
    plan: MeasurementPlan, found: Forecast, written_so_far: Mapping[str, int]
) -> dict[tuple[str, str], str]:
    """Return what is to be said of each drive, by host and name: what is written, of how much."""
    expected, most = (share_of_rating(cost, plan.lab) for cost in (found.expected, found.at_most))
    said = {}
    for host, name, serial in plan.wiped():
        amounts = found.expected.written[host, name], found.at_most.written[host, name]
        line = f"{_amount(amounts[0])} expected to be written, at most {_amount(amounts[1])}"
        if (host, name) in expected:
            rated = plan.lab.hosts[host].drives[name].rated_terabytes_written
            shares = [text.percent(one[host, name], DIGITS) for one in (expected, most)]
            line += f"; {shares[0]} % of its rated {_amount(1e12 * (rated or 0))}, at most {shares[1]} %"
        if serial in written_so_far:
            line += f"; {_amount(written_so_far[serial])} written so far"
        said[host, name] = line
    return said


def run_lines(plan: MeasurementPlan) -> Iterator[str]:
    """Yield a head and a line for each run, in columns."""
    columns = ["#", "block", "host", "drive", *plan.runs[0].levels]
    cells = plan.runs[: plan.block_size]
    widths = [len(str(len(plan.runs))), len("block")]
    widths += [max(len(one.host) for one in cells), max(len(one.drive) for one in cells)]
    widths += [max(len(one.levels[name]) for one in cells) for name in plan.runs[0].levels]
    widths = [max(width, len(column)) for width, column in zip(widths, columns, strict=True)]

    def line(values: list[str], more: str = "") -> str:
        padded = [value.ljust(width) for value, width in zip(values, widths, strict=True)]
        return "  ".join([*padded, more]).rstrip()

    yield line(columns)
    for number, run in enumerate(plan.runs, start=1):
        why = f"excluded: {run.excluded}" if run.excluded else "alone, as a control" if run.alone else ""
        yield line([str(number), str(run.block), run.host, run.drive, *run.levels.values()], why)


def _amount(size_bytes: float) -> str:
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if size_bytes >= scale:
            return f"{text.number(size_bytes / scale, DIGITS)} {unit}"
    return f"{size_bytes:.0f} B"


def _kilowatt_hours(amount: float) -> str:
    if amount >= 1:
        return f"{text.number(amount, DIGITS)} kWh"
    return f"{text.number(1000 * amount, DIGITS)} Wh"
