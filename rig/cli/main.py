# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig`: the command line of the controller. Each sub-command is in a module of its name."""

from __future__ import annotations

import sys

import typer

from joulerig.errors import JoulerigError
from joulerig.rig.cli import (
    lab,
    report,
    results,
    run,
    twin,
    up,
    verify,
    workloads,
)
from joulerig.rig.cli.bisect import command as bisect
from joulerig.rig.cli.compare import command as compare
from joulerig.rig.cli.crash_states import command as crash_states
from joulerig.rig.cli.drives import audit, obey
from joulerig.rig.cli.drives import command as drives
from joulerig.rig.cli.hosts import command as hosts
from joulerig.rig.cli.hosts import discover, doctor
from joulerig.rig.cli.measure import command as measure
from joulerig.rig.cli.meters import agree, check, scan
from joulerig.rig.cli.meters import command as meters
from joulerig.rig.cli.plan import command as plan
from joulerig.rig.cli.registry import command as registry
from joulerig.rig.cli.watch import command as watch

app = typer.Typer(
    no_args_is_help=True, add_completion=False, help="Energy-aware storage testing: work per joule."
)
GROUPS = {
    "lab": lab.app,
    "meters": meters.app,
    "drives": drives.app,
    "twin": twin.app,
    "hosts": hosts.app,
    "workloads": workloads.app,
    "registry": registry.app,
}
COMMANDS = {
    "up": up.up,
    "down": up.down,
    "doctor": doctor.doctor,
    "plan": plan.plan,
    "run": run.run,
    "pause": run.pause,
    "stop": run.stop,
    "settle": run.settle,
    "retry": run.retry,
    "measure": measure.measure,
    "status": up.status,
    "watch": watch.watch,
    "results": results.show,
    "report": report.report,
    "export": report.export,
    "verify": verify.verify,
    "crash-states": crash_states.crash_states,
    "compare": compare.compare,
    "bisect": bisect.bisect,
    "merge": compare.merge,
}
drives.app.command("audit")(audit.show)
drives.app.command("obey")(obey.show)
meters.app.command("agree")(agree.agree)
meters.app.command("check")(check.check)
meters.app.command("scan")(scan.scan)
hosts.app.command("discover")(discover.discover)
for name, group in GROUPS.items():
    app.add_typer(group, name=name)
for name, command in COMMANDS.items():
    app.command(name)(command)


def main() -> None:
    """Run the command line: a user's error is one line on stderr and exit code 2."""
    try:
        app(standalone_mode=True)
    except JoulerigError as error:
        print(f"rig: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
