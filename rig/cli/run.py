# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig run`, `pause`, `stop`, `settle`, `retry`: a campaign executed, held, ended, completed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from joulerig.rig.cli.options import CampaignArgument, PlaybookArgument, ShortOption, complain, load_lab, out
from joulerig.rig.common.errors import UserError

if TYPE_CHECKING:
    from pathlib import Path

    from joulerig.rig.campaign.journal import Journal


def run(
    playbook: PlaybookArgument,
    resume: Annotated[str | None, typer.Option(help="Resume this campaign where it stopped.")] = None,
    take_over: Annotated[
        bool,
        typer.Option(
            "--take-over",
            help="Resume also a campaign of another controller, or of one that is dead.",
        ),
    ] = False,
    short: ShortOption = False,
) -> None:
    """Launch a campaign from its playbook and follow it; plain ansible-playbook does the same."""
    from joulerig.rig.campaign import playbook as playbooks
    from joulerig.rig.campaign.plan import make_plan
    from joulerig.rig.cli import results
    from joulerig.rig.common import paths
    from joulerig.rig.controller import services as controller

    if take_over and not resume:
        raise UserError("--take-over: only with --resume CAMPAIGN")
    playbook = paths.playbook(playbook)
    if playbook.resolve().is_relative_to(paths.results().resolve()):
        raise UserError(
            f"{paths.short(playbook)}: lies in a results folder, which is data; allowed: one elsewhere, such"
            " as next to the inventory"
        )
    if resume:
        take_over = take_over or _wants(resume, playbook)
    described = load_lab()
    make_plan(playbooks.mapping(playbook), described, paths.short(playbook), short=short)
    controller.check(described)
    out.print(f"dashboard: {controller.dashboard_url()}")
    try:
        code, folder = playbooks.campaign(
            playbook, described.inventory, resume, out, short=short, take_over=take_over
        )
    except playbooks.Interrupted as end:
        again = (
            "; what a host has begun it ends without the controller;"
            f" 'rig run {playbook} --resume {end.campaign}' collects it and goes on"
            if end.campaign
            else ""
        )
        complain(f"interrupted{again}")
        raise typer.Exit(130) from None
    log = paths.var() / "log" / "campaign.log"
    if folder is None:
        raise UserError(f"{paths.short(playbook)}: {playbooks.failure(log)}")
    out.print(results.summary_text(folder, out.width))
    if code:
        raise UserError(f"{playbooks.failure(log)} ({paths.short(log)})")


def _wants(resume: str, playbook: Path) -> bool:
    """Ask whether a campaign is resumed that this controller did not open; False: it did.

    Raises UserError where no terminal is there to ask, or the reply is no.
    """
    from joulerig.rig.campaign import origin
    from joulerig.rig.common import paths

    journal = _journal(resume)
    if origin.find(journal, paths.var()):
        return False
    what = (
        f"{paths.short(journal.folder)}: this controller did not open it; {paths.short(playbook)} would"
        f" execute {origin.summary(journal)}"
    )
    if not sys.stdin.isatty():
        raise UserError(f"{what}; --take-over does so")
    out.print(what, soft_wrap=True)
    if not typer.confirm("Execute it?"):
        raise UserError(f"{journal.folder.name}: not resumed")
    return True


def settle(campaign: CampaignArgument = None) -> None:
    """Complete the energy of partial runs by what arrived since: InfluxDB or a meter was away."""
    from joulerig.analysis.results.schema import Status
    from joulerig.rig.campaign import opening
    from joulerig.rig.campaign.execution import record, result_points
    from joulerig.rig.cli import results

    opened = opening.existing(campaign, load_lab())
    folder = opened.journal.folder
    if not isinstance(opened, opening.OpenCampaign):
        raise UserError(f"{folder.name}: is a campaign of power cuts, which have no energy to settle")
    partial = [run["id"] for run in opened.journal.runs() if run["status"] == Status.PARTIAL]
    stay = record.settle(opened, out.print)
    settled = [run for run in partial if run not in stay]
    if settled and (problem := result_points.send(opened, settled)):
        out.print(f"dashboards of InfluxDB do not show it: {problem}")
    results.write_tables(folder)
    counts = opened.journal.counts()
    out.print(", ".join(f"{number} {status}" for status, number in counts.items()))
    for run in opened.journal.runs():
        if run["id"] in stay:
            out.print(f"  {run['id']}: {run['reason']}")


def retry(
    campaign: Annotated[str, typer.Argument(help="Campaign id.")],
    runs: Annotated[
        list[str] | None, typer.Argument(metavar="[RUN]...", help="Run ids or numbers (default: all).")
    ] = None,
    status: Annotated[str, typer.Option(help="Of runs that are failed, refused, not-run, ...")] = "",
    cause: Annotated[str, typer.Option(help="Of runs that ended for this cause.")] = "",
) -> None:
    """Plan runs again that did not end well; 'rig run --resume' then executes them."""
    from joulerig.plural import counted
    from joulerig.rig.campaign import control, origin
    from joulerig.rig.common import paths

    opened = _journal(campaign)
    described = opened.campaign
    chosen = control.retry(opened, status, cause, runs or ())
    if not chosen:
        out.print(f"{described['id']}: no run is like that; nothing was changed")
        return
    kept = origin.find(opened, paths.var())
    playbook = paths.short(kept.playbook) if kept else "PLAYBOOK"
    out.print(f"{described['id']}: {counted(len(chosen), 'run')} planned again; to execute what is planned:")
    out.print(f"  rig run {playbook} --resume {described['id']}", soft_wrap=True)


def pause(
    campaign: CampaignArgument = None,
    off: Annotated[bool, typer.Option("--off", help="Let it go on.")] = False,
) -> None:
    """Begin no run of a campaign until it may go on; what runs is finished."""
    from joulerig.rig.campaign import control

    journal = _journal(campaign)
    said = control.go_on(journal) if off else control.pause(journal)
    out.print(f"{journal.folder.name}: {said}")


def stop(
    campaign: CampaignArgument = None,
    now: Annotated[
        bool, typer.Option("--now", help="End what runs on the hosts; its settings are put back.")
    ] = False,
) -> None:
    """End a campaign after what runs now, or at once, and say what was ended."""
    from joulerig.rig.campaign import control
    from joulerig.rig.campaign.control import ending

    opened = _journal(campaign)
    lines = ending.end(load_lab(), opened) if now else [control.stop(opened)]
    for line in lines:
        out.print(f"{opened.folder.name}: {line}", soft_wrap=True)


def _journal(campaign: str | None) -> Journal:
    """Return the journal of a campaign, or of the newest one. Raises UserError."""
    from joulerig.rig.campaign import journal
    from joulerig.rig.common import paths

    return journal.Journal(journal.find(paths.results(), campaign))
