# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig plan`, `run`, `pause`, `stop`, `settle`: what a campaign would do, and its execution."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from joulerig.plural import counted
from joulerig.rig.cli.options import CampaignArgument, ShortOption, load_lab, out
from joulerig.rig.common.errors import UserError

if TYPE_CHECKING:
    from joulerig.rig.campaign.contents import Contents
    from joulerig.rig.campaign.journal import Journal
    from joulerig.rig.campaign.plan import MeasurementPlan
    from joulerig.rig.campaign.power_cut_definition import PowerCutPlan
    from joulerig.rig.lab.model import Lab

PlaybookArgument = Annotated[
    Path, typer.Argument(help="A campaign's playbook, or the name of a shipped one.")
]


def plan(
    playbook: PlaybookArgument,
    short: ShortOption = False,
    offline: Annotated[bool, typer.Option(help="Do not ask the test hosts what is on the drives.")] = False,
) -> None:
    """Show what a campaign would do, and what is on the drives that it would wipe."""
    from joulerig.rig.campaign import playbook as playbooks
    from joulerig.rig.campaign.plan import make_plan
    from joulerig.rig.campaign.power_cut_definition import PowerCutPlan
    from joulerig.rig.common import paths

    playbook = paths.playbook(playbook)
    described = load_lab()
    made = make_plan(playbooks.mapping(playbook), described, paths.short(playbook), short=short)
    out.print(f"[bold]{made.campaign.name}[/]: {escape(made.campaign.question)}")
    if isinstance(made, PowerCutPlan):
        _show_power_cuts(made)
    else:
        _show_measurements(made)
    out.print("[bold]these drives will be wiped:[/]")
    found = {} if offline else _look(described, made.wiped())
    for host, drive, serial in made.wiped():
        out.print(f"  {host}  {drive}  serial {serial}{escape(found.get((host, drive), ''))}")


def _look(lab: Lab, wiped: list[tuple[str, str, str]]) -> dict[tuple[str, str], str]:
    """Ask the hosts what is on the drives of a plan; return it in words, by host and drive."""
    from joulerig.rig.campaign import contents
    from joulerig.rig.lab import virtual

    if lab.virtual and not virtual.is_up(lab):
        out.print("  (the virtual lab is down: its hosts were not asked what is on them)")
        return {}
    names = {host: [drive for one, drive, _ in wiped if one == host] for host, _, _ in wiped}
    asked = {host: contents.arguments(lab, host, drives) for host, drives in names.items()}
    words = {}
    for host, answer in contents.ask(lab, {host: one for host, one in asked.items() if one["names"]}).items():
        for drive in asked[host]["names"]:
            one = answer if isinstance(answer, str) else answer.get(drive)
            words[host, drive] = f": {_in_words(host, drive, one)}"
    return words


def _in_words(host: str, drive: str, one: Contents | str | None) -> str:
    if one is None or isinstance(one, str):
        return f"could not be asked: {one or 'no answer'}"
    if one.problem:
        return f"refused: {one.problem}"
    shown = " ".join(filter(None, (one.device, one.model)))
    if one.free:
        return f"{shown} holds {one.holds} ({one.free})"
    return f"{shown} holds {one.holds}: refused until 'rig drives adopt {host} {drive}' releases it"


def _show_power_cuts(made: PowerCutPlan) -> None:
    from joulerig.analysis.report import text
    from joulerig.rig.campaign.power_cut_definition import SECONDS

    table = Table("host", "cut together", "drive", "file system")
    for number, group in enumerate(made.groups, start=1):
        for subject in group:
            table.add_row(subject.host, str(number), subject.drive, subject.filesystem or "none")
    out.print(table)
    cuts, asked = made.cuts(), made.campaign
    out.print(
        f"runs: {asked.cuts * len(made.subjects)}, a cut of a drive each;"
        f" {counted(asked.cuts, 'cut')} of each subject, {cuts} of hosts, seed {asked.seed}"
    )
    time = text.duration(3600 * made.hours())
    out.print(f"time: about {time} ({SECONDS:.0f} s a cut, most of it the host's start)")


def _show_measurements(made: MeasurementPlan) -> None:
    from joulerig.analysis.report import text
    from joulerig.rig.campaign.definition import OVERHEAD_SECONDS
    from joulerig.rig.common import sizes

    campaign, cost = made.campaign, made.cost()
    columns = ("#", "block", "host", "drive", "file system", "scheduler", "workload")
    excluded = ["note"] if cost.excluded else []
    table = Table(*columns, *made.further_factors, *excluded)
    for number, run in enumerate(made.runs, start=1):
        why = [escape(f"excluded: {run.excluded}")] if run.excluded else []
        table.add_row(str(number), str(run.block), run.host, run.drive, *run.levels.values(), *why)
    out.print(table)
    out.print(
        f"runs: {cost.runs} to do, {cost.excluded} excluded; blocks of {made.block_size},"
        f" order {campaign.order}, seed {campaign.seed}"
    )
    if campaign.use_bytes:
        out.print(f"size: the first {sizes.show(campaign.use_bytes)} of each drive or array")
    time = text.duration(3600 * cost.hours)
    out.print(f"time: about {time} (phases, and {OVERHEAD_SECONDS:.0f} s of overhead per run)")
    if asked := campaign.precondition:
        out.print(
            f"precondition: {asked.purge}, filled {counted(asked.passes, 'time')},"
            f" at most {counted(asked.max_rounds, 'round')} of {asked.round_seconds} s {escape(asked.job)};"
            f" done at most {counted(cost.preconditions, 'time')},"
            f" at most {text.duration(3600 * cost.precondition_hours)} in all"
        )
    out.print(
        f"written: at most {text.size(round(1e12 * cost.terabytes_written))};"
        f" energy of the drives: at most {_energy(cost.kilowatt_hours)}"
    )


def _energy(kilowatt_hours: float) -> str:
    from joulerig.analysis.report.text import number

    return f"{number(kilowatt_hours)} kWh" if kilowatt_hours >= 1 else f"{number(1000 * kilowatt_hours)} Wh"


def run(
    playbook: PlaybookArgument,
    resume: Annotated[str | None, typer.Option(help="Resume this campaign where it stopped.")] = None,
    short: ShortOption = False,
) -> None:
    """Launch a campaign from its playbook and follow it; plain ansible-playbook does the same."""
    from joulerig.rig.campaign import playbook as playbooks
    from joulerig.rig.campaign.plan import make_plan
    from joulerig.rig.cli import results
    from joulerig.rig.common import paths
    from joulerig.rig.controller import services as controller

    playbook = paths.playbook(playbook)
    described = load_lab()
    make_plan(playbooks.mapping(playbook), described, paths.short(playbook), short=short)
    controller.check(described)
    out.print(f"dashboard: {controller.dashboard_url()}")
    try:
        code, folder = playbooks.campaign(playbook, described.inventory, resume, out, short=short)
    except playbooks.Interrupted as end:
        again = (
            "; what a host has begun it ends without the controller;"
            f" 'rig run {playbook} --resume {end.campaign}' collects it and goes on"
            if end.campaign
            else ""
        )
        print(f"rig: interrupted{again}", file=sys.stderr)
        raise typer.Exit(130) from None
    log = paths.var() / "log" / "campaign.log"
    if folder is None:
        raise UserError(f"{paths.short(playbook)}: {playbooks.failure(log)}")
    out.print(results.summary_text(folder, out.width), markup=False)
    if code:
        raise UserError(f"{playbooks.failure(log)} ({paths.short(log)})")


def settle(campaign: CampaignArgument = None) -> None:
    """Complete the energy of partial runs by what arrived since: InfluxDB or a meter was away."""
    from joulerig.rig.campaign import opening
    from joulerig.rig.campaign.execution import record
    from joulerig.rig.cli import results

    opened = opening.existing(campaign, load_lab())
    folder = opened.journal.folder
    if not isinstance(opened, opening.OpenCampaign):
        raise UserError(f"{folder.name}: is a campaign of power cuts, which have no energy to settle")
    stay = record.settle(opened, out.print)
    results.write_tables(folder)
    counts = opened.journal.counts()
    out.print(", ".join(f"{number} {status}" for status, number in counts.items()))
    for run in opened.journal.runs():
        if run["id"] in stay:
            out.print(f"  {run['id']}: {escape(run['reason'])}")


def pause(
    campaign: CampaignArgument = None,
    off: Annotated[bool, typer.Option("--off", help="Let it go on.")] = False,
) -> None:
    """Begin no run of a campaign until it may go on; what runs is finished."""
    from joulerig.analysis.results.schema import Asked

    journal = _executed(campaign)
    journal.ask(None if off else Asked.PAUSE)
    out.print(f"{journal.folder.name}: {'goes on' if off else 'is paused after what runs now'}")


def stop(
    campaign: CampaignArgument = None,
    now: Annotated[
        bool, typer.Option("--now", help="End what runs on the hosts; its settings are put back.")
    ] = False,
) -> None:
    """End a campaign after what runs now, or at once; 'rig run --resume' goes on with it."""
    from joulerig.analysis.results.schema import Asked
    from joulerig.rig.campaign import hosts, journal
    from joulerig.rig.common import paths

    opened = journal.Journal(journal.find(paths.results(), campaign)) if now else _executed(campaign)
    opened.ask(Asked.STOP)
    if now:
        hosts.stop_calls(load_lab(), opened)
    out.print(f"{opened.folder.name}: {'stopped' if now else 'stops after what runs now'}")


def _executed(campaign: str | None) -> Journal:
    """Return the journal of a campaign that is being executed. Raises UserError."""
    from joulerig.rig.campaign import journal
    from joulerig.rig.common import paths

    opened = journal.Journal(journal.find(paths.results(), campaign))
    if opened.executor is None:
        raise UserError(f"{opened.folder.name}: is not being executed; 'rig run --resume' goes on with it")
    return opened
