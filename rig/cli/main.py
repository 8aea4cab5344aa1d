# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig`: the command line of the controller."""

from __future__ import annotations

import datetime
import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from joulerig.rig.cli.drives import app as drives_app
from joulerig.rig.cli.lab import app as lab_app
from joulerig.rig.cli.lake import app as lake_app
from joulerig.rig.cli.meters import app as meters_app
from joulerig.rig.cli.powercut import app as powercut_app
from joulerig.rig.cli.workloads import app as workloads_app
from joulerig.rig.common.errors import UserError

app = typer.Typer(
    no_args_is_help=True, add_completion=False, help="Energy-aware storage testing: work per joule."
)
app.add_typer(lab_app, name="lab")
app.add_typer(lake_app, name="lake")
app.add_typer(meters_app, name="meters")
app.add_typer(drives_app, name="drives")
app.add_typer(powercut_app, name="powercut")
app.add_typer(workloads_app, name="workloads")
out = Console(highlight=False, width=None if sys.stdout.isatty() else 120)

CampaignOption = Annotated[
    str | None, typer.Argument(metavar="[CAMPAIGN]", help="Campaign id; the newest by default.")
]
ShortOption = Annotated[bool, typer.Option("--short", help="The campaign's short form.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def _lab():
    from joulerig.rig.lab import model

    return model.load()


@app.command()
def up() -> None:
    """Start the virtual lab if the inventory has one, InfluxDB, powerd and the dashboard; provision."""
    from joulerig.rig.campaign import playbook
    from joulerig.rig.common import paths
    from joulerig.rig.controller import services as controller
    from joulerig.rig.lab import virtual
    from joulerig.rig.lab.meters import calibration

    described = _lab()
    if described.virtual:
        virtual.up(described, out.print)
    controller.start(described)
    out.print("InfluxDB, powerd and the dashboard are up")
    for line in calibration.warnings(described, datetime.datetime.now(datetime.UTC).date()):
        out.print(escape(line))
    out.print("provisioning the test hosts")
    log = paths.var() / "log" / "provision.log"
    if playbook.ansible(paths.ROOT / "playbooks" / "provision.yml", described.inventory, log=log):
        raise UserError(f"provisioning failed: {playbook.failure(log)} ({paths.short(log)})")
    out.print(f"ready; dashboard: {controller.dashboard_url()}")


@app.command()
def down() -> None:
    """Stop everything that `rig up` started, and nothing else."""
    from joulerig.rig.common import supervisor
    from joulerig.rig.controller import services as controller
    from joulerig.rig.lab import virtual

    virtual_lab_runs = bool(supervisor.states().keys() - set(controller.PROCESSES))
    stopped = (virtual.down() if virtual_lab_runs else []) + supervisor.stop(lambda name: True)
    out.print(f"stopped: {', '.join(stopped)}" if stopped else "nothing was running")


@app.command()
def plan(playbook: Path, short: ShortOption = False) -> None:
    """Show what a campaign would do, without touching anything."""
    from joulerig.rig.campaign import definition as campaigns
    from joulerig.rig.campaign import factors
    from joulerig.rig.campaign import playbook as playbooks
    from joulerig.rig.common import paths

    described = _lab()
    campaign = campaigns.parse(playbooks.mapping(playbook), described, paths.short(playbook), short=short)
    runs = campaigns.plan(campaign, described)
    cost = campaigns.cost(campaign, described, runs)
    out.print(f"[bold]{campaign.name}[/]: {escape(campaign.question)}")
    further = [key for key in runs[0].levels if key not in factors.FACTORS[:4]]
    table = Table("#", "block", "host", "drive", "file system", "scheduler", "workload", *further, "")
    for number, run in enumerate(runs, start=1):
        table.add_row(
            str(number), str(run.block), run.host, run.drive, *run.levels.values(), escape(run.not_run)
        )
    out.print(table)
    out.print(
        f"runs: {cost.runs} to do, {cost.not_run} excluded; blocks of {len(runs) // campaign.replicates},"
        f" order {campaign.order}, seed {campaign.seed}"
    )
    out.print(
        f"time: about {cost.hours:.2f} h (phases and {campaigns.OVERHEAD_SECONDS:.0f} s a run for the rest)"
    )
    if asked := campaign.precondition:
        out.print(
            f"precondition: {asked.purge}, filled {asked.fill} times, at most {asked.max_rounds} rounds of"
            f" {asked.round_seconds} s {escape(asked.job)}; done at most {cost.preconditions} times,"
            f" which is at most {cost.precondition_hours:.2f} h of the time"
        )
    out.print(
        f"written: at most {cost.terabytes_written:.3f} TB;"
        f" energy of the drives: at most {cost.kilowatt_hours:.4f} kWh"
    )
    out.print("[bold]these drives will be wiped:[/]")
    for host, drive, serial in cost.wiped:
        out.print(f"  {host}  {drive}  serial {serial}")


@app.command()
def run(
    playbook: Path,
    resume: Annotated[str | None, typer.Option(help="Take up this campaign where it was left.")] = None,
    short: ShortOption = False,
) -> None:
    """Launch a campaign from its playbook and follow it; plain ansible-playbook does the same."""
    from joulerig.rig.campaign import definition as campaigns
    from joulerig.rig.campaign import playbook as playbooks
    from joulerig.rig.cli import results
    from joulerig.rig.common import paths
    from joulerig.rig.controller import services as controller

    described = _lab()
    campaigns.parse(playbooks.mapping(playbook), described, paths.short(playbook), short=short)
    controller.check(described)
    out.print(f"dashboard: {controller.dashboard_url()}")
    try:
        code, folder = playbooks.campaign(playbook, described.inventory, resume, out, short=short)
    except playbooks.Interrupted as end:
        again = f"; 'rig run {playbook} --resume {end.campaign}' takes it up again" if end.campaign else ""
        print(f"rig: interrupted{again}", file=sys.stderr)
        raise typer.Exit(130) from None
    log = paths.var() / "log" / "campaign.log"
    if folder is None:
        raise UserError(f"{paths.short(playbook)}: {playbooks.failure(log)}")
    out.print(results.ai_table_text(folder, out.width), markup=False)
    if code:
        raise UserError(f"{playbooks.failure(log)} ({paths.short(log)})")


@app.command()
def status(as_json: JsonOption = False) -> None:
    """Show what runs: services, meters, the newest campaign."""
    from joulerig.rig.campaign import journal
    from joulerig.rig.common import paths, supervisor
    from joulerig.rig.controller import services as controller

    states = supervisor.states()
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
        campaign["current"] = [r["cell"] for r in opened.runs() if r["status"] == "running"]
    except UserError:
        pass
    if as_json:
        print(json.dumps({"processes": states, "meters": meters, "campaign": campaign}, indent=1))
        return
    for name, state in states.items():
        out.print(f"{name:32} {state.lower()}")
    for meter in meters:
        lost = 100 * meter["lost"] / meter["expected"] if meter["expected"] else 0.0
        out.print(
            f"meter {meter['name']:26} {meter['state']}, {meter['samples']} samples, {lost:.3f} % lost,"
            f" {meter['gap_seconds']:.3f} s of gaps"
        )
    if campaign:
        counts = ", ".join(f"{count} {name}" for name, count in campaign["runs"].items())
        out.print(
            f"campaign {campaign['id']}: {counts}"
            + (f"; now {', '.join(campaign['current'])}" if campaign["current"] else "")
        )
    if not states:
        out.print("nothing is running; 'rig up' starts everything")
    elif "dashboard" in states:
        out.print(f"dashboard: {controller.dashboard_url()}")


@app.command("results")
def results_(
    campaign: CampaignOption = None,
    as_json: JsonOption = False,
    baseline: Annotated[
        bool, typer.Option("--baseline", help="Show what each rail draws when the drive is idle.")
    ] = False,
) -> None:
    """Show a campaign's runs and its AI."""
    from joulerig.rig.campaign import journal
    from joulerig.rig.cli import results
    from joulerig.rig.common import paths

    folder = journal.find(paths.results(), campaign)
    if as_json:
        print(json.dumps(results.as_json(folder), indent=1))
        return
    if baseline:
        out.print(results.baseline_text(folder, out.width), markup=False)
        return
    out.print(results.ai_table_text(folder, out.width), markup=False)


@app.command()
def report(
    campaign: CampaignOption = None,
    format: Annotated[str, typer.Option(help="html, pdf or both, with a comma between.")] = "html,pdf",
) -> None:
    """Write a campaign's lab report."""
    from joulerig.analysis import report as reports
    from joulerig.rig.campaign import journal
    from joulerig.rig.common import paths

    formats = format.split(",")
    if unknown := sorted(set(formats) - {"html", "pdf"}):
        raise UserError(f"--format: {unknown[0]!r} is unknown; allowed: html, pdf")
    for path in reports.write(journal.find(paths.results(), campaign), formats):
        out.print(paths.short(path))


@app.command()
def analyse(
    campaigns: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[CAMPAIGN]...", help="Campaign ids or results folders; the newest by default."
        ),
    ] = None,
    dask: Annotated[
        str | None, typer.Option(help="A Dask scheduler, tcp://HOST:PORT; else this machine alone.")
    ] = None,
) -> None:
    """Work out the joules of runs anew from their power points and waveforms, beside the journal's."""
    from joulerig.rig.campaign import journal
    from joulerig.rig.cli import analyse as anew
    from joulerig.rig.common import paths

    folders = [journal.find(paths.results(), campaign) for campaign in campaigns or [None]]
    for path, frame in anew.of_folders(folders, dask):
        for line in [*anew.text(frame), paths.short(path)]:
            out.print(line, markup=False, soft_wrap=True)


@app.command()
def export(
    campaign: CampaignOption = None,
    output: Annotated[
        Path | None, typer.Option(help="Folder; the campaign's own export/ by default.")
    ] = None,
    format: Annotated[str, typer.Option(help="csv, parquet or both, with a comma between.")] = "csv,parquet",
    bundle: Annotated[
        Path | None,
        typer.Option(metavar="FILE.zip", help="Write one zip that `rig verify` can check, instead."),
    ] = None,
) -> None:
    """Write a campaign's tables and series, with what each column means; or all of it as a bundle."""
    from joulerig.analysis import export as exports
    from joulerig.analysis import results
    from joulerig.rig.campaign import journal
    from joulerig.rig.cli import bundle as bundles
    from joulerig.rig.common import paths

    folder = journal.find(paths.results(), campaign)
    formats = format.split(",")
    if unknown := sorted(set(formats) - set(exports.FORMATS)):
        raise UserError(f"--format: {unknown[0]!r} is unknown; allowed: {', '.join(exports.FORMATS)}")
    if bundle is not None and output is not None:
        raise UserError("--bundle: not together with --output; a bundle is one file")
    try:
        if bundle is not None:
            written = bundles.write(folder, bundle)
            out.print(
                f"{paths.short(written.path)}: {written.files} files, {written.bytes} bytes", soft_wrap=True
            )
            out.print(f"sha256 {written.sha256}", soft_wrap=True)
            return
        for path in exports.write(results.load(folder), output or folder / "export", formats):
            out.print(paths.short(path), soft_wrap=True)
    except OSError as error:
        raise UserError(
            f"{error.filename or bundle or output}: cannot be written: {error.strerror}"
        ) from None


@app.command()
def verify(
    bundle: Annotated[str, typer.Argument(help="A bundle, the folder it was unpacked into, or a campaign.")],
) -> None:
    """Check a bundle by itself, offline: hashes, and every number computed again from the raw data.

    Exit code 1 where a check fails, 2 where it cannot be read.
    """
    from joulerig.analysis.bundle import verify as verification
    from joulerig.rig.cli import bundle as bundles
    from joulerig.rig.common import paths

    given = Path(bundle)
    source = given if given.exists() or not (paths.results() / bundle).is_dir() else paths.results() / bundle
    checks = []
    for check in bundles.check(source):
        checks.append(check)
        for line in check.lines():
            out.print(line, markup=False, soft_wrap=True)
    if verification.failed(checks):
        raise typer.Exit(1)


@app.command()
def compare(
    before: Annotated[str, typer.Argument(help="Campaign id.")],
    after: Annotated[str, typer.Argument(help="Campaign id.")],
    as_json: JsonOption = False,
) -> None:
    """Show what changed from one campaign to another, and whether it is more than chance."""
    from joulerig.rig.campaign import journal
    from joulerig.rig.cli import compare as changes
    from joulerig.rig.common import paths

    folders = [journal.find(paths.results(), campaign) for campaign in (before, after)]
    if as_json:
        print(json.dumps(changes.as_json(*folders), indent=1))
        return
    out.print(changes.text(*folders, out.width), markup=False, soft_wrap=True)


def main() -> None:
    """Run the command line: a user's error is one line on stderr and exit code 2."""
    from joulerig.analysis.bundle.archive import BundleError
    from joulerig.analysis.results.campaign import ResultsError
    from joulerig.analysis.results.influx import InfluxError
    from joulerig.analysis.results.power_points import PowerFileError
    from joulerig.analysis.results.run_file import RunFileError

    try:
        app(standalone_mode=True)
    except (UserError, BundleError, InfluxError, PowerFileError, ResultsError, RunFileError) as error:
        print(f"rig: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
