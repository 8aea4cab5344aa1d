# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig plan`: show what a campaign would do, and ask the hosts what is on its drives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from joulerig.plural import counted
from joulerig.rig.cli.options import PlaybookArgument, ShortOption, load_lab, out
from joulerig.rig.common.bounded import printable

if TYPE_CHECKING:
    from joulerig.rig.campaign.contents import Contents
    from joulerig.rig.campaign.plan import MeasurementPlan
    from joulerig.rig.campaign.power_cut_definition import PowerCutPlan
    from joulerig.rig.lab.model import Lab


def plan(
    playbook: PlaybookArgument,
    short: ShortOption = False,
    runs: Annotated[bool, typer.Option("--runs", help="List the runs in their order.")] = False,
    offline: Annotated[bool, typer.Option(help="Do not ask the test hosts what is on the drives.")] = False,
) -> None:
    """Show what a campaign would do, and what is on the drives that it would wipe."""
    from joulerig.rig.campaign import playbook as playbooks
    from joulerig.rig.campaign.plan import make_plan
    from joulerig.rig.campaign.power_cut_definition import PowerCutPlan
    from joulerig.rig.cli.plan import page
    from joulerig.rig.common import paths

    playbook = paths.playbook(playbook)
    described = load_lab()
    made = make_plan(playbooks.mapping(playbook), described, paths.short(playbook), short=short)
    out.print(Text(made.campaign.name, "bold"))
    out.print(Text(page.wrapped(made.campaign.question, out.width, 0)), end="\n\n", soft_wrap=True)
    wear = {}
    if isinstance(made, PowerCutPlan):
        _show_power_cuts(made)
    else:
        wear = _show_measurements(made, runs)
    out.print("\nthese drives will be wiped:", style="bold")
    found = {} if offline else _look(described, made.wiped())
    for host, drive, serial in made.wiped():
        out.print(Text(f"  {host}  {drive}  serial {serial}"))
        for line in filter(None, (found.get((host, drive)), wear.get((host, drive)))):
            out.print(Text(page.wrapped(f"    {line}", out.width, 4)), soft_wrap=True)


def _show_measurements(made: MeasurementPlan, runs: bool) -> dict[tuple[str, str], str]:
    """Show a plan of measurements; return what is to be said of each drive that it wipes."""
    from joulerig.rig.campaign import drive_record
    from joulerig.rig.campaign.forecast import earlier
    from joulerig.rig.campaign.forecast.expected import forecast
    from joulerig.rig.cli.plan import page
    from joulerig.rig.common import paths

    if runs:
        for line in page.run_lines(made):
            print(printable(line))  # there may be 200,000
        print()
    campaign = made.campaign
    found = forecast(made, earlier.read(paths.results(), campaign.drives, campaign.levels("workload")))
    for line in page.lines(made, found, out.width):
        out.print(Text(line), soft_wrap=True)
    written = drive_record.written_so_far(serial for _, _, serial in made.wiped())
    return page.wear(made, found, written)


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
            words[host, drive] = _in_words(host, drive, one)
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
    from joulerig import text
    from joulerig.rig.campaign.power_cut_definition import SECONDS

    table = Table("host", "cut together", "drive", "file system", "writer")
    for number, group in enumerate(made.groups, start=1):
        for subject in group:
            table.add_row(subject.host, str(number), subject.drive, subject.filesystem_level, subject.writer)
    out.print(table)
    cuts, asked = made.cuts(), made.campaign
    out.print(
        f"runs: {asked.cuts * len(made.subjects)}, a cut of a drive each;"
        f" {counted(asked.cuts, 'cut')} of each subject, {cuts} of hosts, seed {asked.seed}"
    )
    time = text.duration(3600 * made.hours())
    out.print(f"time: about {time} ({SECONDS:.0f} s a cut, most of it the host's start)")
