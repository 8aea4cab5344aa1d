# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig run`, `pause`, `stop`, `settle`, `retry`: a campaign executed, held, ended, completed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from joulerig.rig.cli.options import CampaignArgument, PlaybookArgument, ShortOption, load_lab, out
from joulerig.rig.common.errors import UserError

if TYPE_CHECKING:
    from joulerig.rig.campaign.journal import Journal


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
        out.print(f"dashboards of InfluxDB do not show it: {escape(problem)}")
    results.write_tables(folder)
    counts = opened.journal.counts()
    out.print(", ".join(f"{number} {status}" for status, number in counts.items()))
    for run in opened.journal.runs():
        if run["id"] in stay:
            out.print(f"  {run['id']}: {escape(run['reason'])}")


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
    from joulerig.rig.campaign import control

    opened = _journal(campaign)
    described = opened.campaign
    chosen = control.retry(opened, status, cause, runs or ())
    if not chosen:
        out.print(f"{described['id']}: no run is like that; nothing was changed")
        return
    playbook = described["provenance"].get("playbook", "PLAYBOOK")
    out.print(f"{described['id']}: {counted(len(chosen), 'run')} planned again; to execute what is planned:")
    out.print(f"  rig run {playbook} --resume {described['id']}", markup=False, soft_wrap=True)


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
    """End a campaign after what runs now, or at once; 'rig run --resume' goes on with it."""
    from joulerig.analysis.results.schema import Asked
    from joulerig.rig.campaign import control, hosts

    opened = _journal(campaign)
    if now:  # also where no process executes it: its hosts go on with what they began
        opened.ask(Asked.STOP)
        hosts.stop_calls(load_lab(), opened)
        said = "stopped"
    else:
        said = control.stop(opened)
    out.print(f"{opened.folder.name}: {said}")


def _journal(campaign: str | None) -> Journal:
    """Return the journal of a campaign, or of the newest one. Raises UserError."""
    from joulerig.rig.campaign import journal
    from joulerig.rig.common import paths

    return journal.Journal(journal.find(paths.results(), campaign))
