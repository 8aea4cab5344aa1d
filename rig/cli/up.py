# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig up`, `rig down`, `rig status`: the controller's services and the virtual lab."""

from __future__ import annotations

import datetime
import json
from typing import Annotated, Any

import typer

from joulerig.analysis.results.schema import Asked
from joulerig.plural import counted
from joulerig.rig.cli.options import JsonOption, alone, load_lab, out
from joulerig.rig.common.errors import UserError

ProvisionOption = Annotated[
    bool, typer.Option("--provision", help="Provision virtual hosts also where nothing changed since.")
]


@alone("rig up")
def up(provision: ProvisionOption = False) -> None:
    """Start the virtual lab (if the inventory has one), InfluxDB, powerd, dashboard; provision."""
    from joulerig.rig.campaign import playbook
    from joulerig.rig.common import paths
    from joulerig.rig.controller import provisioning
    from joulerig.rig.controller import services as controller
    from joulerig.rig.lab import virtual
    from joulerig.rig.lab.meters import calibration

    described = load_lab()
    if described.virtual:
        virtual.up(described, out.print)
    controller.start(described)
    out.print("InfluxDB, powerd and the dashboard are up")
    for line in calibration.warnings(described, datetime.datetime.now(datetime.UTC).date()):
        out.print(line)
    if not provision and provisioning.is_current(described):
        out.print(f"the test hosts are as provisioned; dashboard: {controller.dashboard_url()}")
        return
    out.print("provisioning the test hosts")
    log = paths.var() / "log" / "provision.log"
    if playbook.ansible(paths.share() / "playbooks" / "provision.yml", described.inventory, log=log):
        raise UserError(f"provisioning failed: {playbook.failure(log)} ({paths.short(log)})")
    out.print(f"ready; dashboard: {controller.dashboard_url()}")
    out.print(f"its controls ask for the token in {paths.short(controller.control_token_file())}")


@alone("rig down")
def down() -> None:
    """Stop everything that `rig up` started, and nothing else."""
    from joulerig.rig.common import supervisor
    from joulerig.rig.controller import services as controller
    from joulerig.rig.lab import virtual

    virtual_lab_runs = bool(supervisor.states().keys() - set(controller.PROCESSES))
    stopped = (virtual.down() if virtual_lab_runs else []) + supervisor.stop(lambda name: True)
    out.print(f"stopped: {', '.join(stopped)}" if stopped else "nothing was running")


def status(as_json: JsonOption = False) -> None:
    """Show what runs: services, meters, the newest campaign."""
    from joulerig.rig.campaign import journal
    from joulerig.rig.common import paths, process, supervisor
    from joulerig.rig.controller import services as controller
    from joulerig.rig.lab import virtual

    states = supervisor.states()
    slowness = virtual.slowness_now() if states else 1.0
    try:
        meters = controller.powerd_status()["meters"]
    except UserError:
        meters = []
    campaign = None
    try:
        opened = journal.Journal(journal.latest(paths.results()))
        campaign = {
            "id": opened.campaign["id"],
            "finished": opened.campaign["finished_ns"] is not None,
            "runs": opened.counts(),
        }
        campaign["current"] = [run["cell"] for run in opened.running()]
        campaign["executor"] = opened.executor and process.shown(opened.executor)
        campaign["silent"] = "" if opened.executor else opened.obstacle()
        campaign["asked"] = opened.asked
        campaign["set_aside"] = opened.hosts_set_aside()
        campaign["moved"] = opened.moved()
        campaign["held"] = opened.held() if opened.executor else {}
    except UserError:
        pass
    if as_json:
        shown = {"processes": states, "slowness": slowness, "meters": meters, "campaign": campaign}
        print(json.dumps(shown, indent=1))
        return
    for name, state in states.items():
        out.print(f"{name:32} {state.lower()}")
    if slowness > 1:
        out.print(f"slow motion: a second of the virtual lab lasts {slowness:.3g} s")
    for meter in meters:
        lost = 100 * meter["lost"] / meter["expected"] if meter["expected"] else 0.0
        out.print(
            f"meter {meter['name']:26} {meter['state']}, {counted(meter['samples'], 'sample')},"
            f" {lost:.3f} % lost,"
            f" {meter['gap_seconds']:.3f} s of gaps"
        )
    if campaign:
        counts = ", ".join(f"{count} {name}" for name, count in campaign["runs"].items())
        out.print(
            f"campaign {campaign['id']}: {counts}"
            + (f"; now {', '.join(campaign['current'])}" if campaign["current"] else "")
        )
        out.print(f"  {_execution(campaign)}")
        for why in campaign["set_aside"].values():
            out.print(f"  set aside: {why}")
        if campaign["moved"]:
            out.print(f"  {counted(campaign['moved'], 'run')} taken over by equivalent hosts")
        for host, reasons in campaign["held"].items():
            for why in reasons:
                out.print(f"  {host} waits: {why}")
    if not states:
        out.print("nothing is running; 'rig up' starts the lab's services")
    elif "dashboard" in states:
        out.print(f"dashboard: {controller.dashboard_url()}")


def _execution(campaign: dict[str, Any]) -> str:
    """Say who executes a campaign, and what follows where no process does."""
    if campaign["executor"]:
        asked = {Asked.PAUSE: "; paused after what runs now", Asked.STOP: "; stops after what runs now"}
        return f"executed by {campaign['executor']}{asked.get(campaign['asked'], '')}"
    if campaign["silent"]:
        return str(campaign["silent"])
    if campaign["current"]:
        return "no process executes it; what a host has begun it ends, and 'rig run --resume' collects it"
    if campaign["finished"]:
        return "over"
    return "no process executes it; 'rig run --resume' goes on with it"
