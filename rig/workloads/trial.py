# SPDX-License-Identifier: GPL-3.0-or-later
"""Try a workload on a folder of this machine, without a campaign, by the test hosts' code."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from joulerig.analysis.results import load_reports
from joulerig.rig.common import host_library, paths
from joulerig.rig.common.errors import UserError
from joulerig.rig.workloads import place
from joulerig.rig.workloads.engines import Workload

host_library.find()

from ansible.module_utils.joulerig import tools  # noqa: E402
from ansible.module_utils.joulerig.loads import load, workload  # noqa: E402


@dataclass(frozen=True)
class Trial:
    """The result of a load: the journal's `performance` row, the report, why it ended early."""

    performance: dict[str, Any]
    report: dict[str, Any]
    problem: str


def run(
    name: str, definition: Workload, directory: Path, seconds: int, seed: int, among_others: bool = False
) -> Trial:
    """Lay out, load, and leave the folder as it was; caches stay, and no power is measured.

    Interrupted (KeyboardInterrupt), the load ends and its result so far is returned. Raises
    UserError, also where the folder is not empty, unless it may work `among_others`.
    """
    _check(directory, among_others)
    delivered = {"name": name, **definition.delivered(place.here)}
    for path in definition.files():
        if not path.is_file():
            raise UserError(f"{paths.short(path)}: no such file")
    with (
        tempfile.TemporaryDirectory(prefix="joulerig-trial-", dir=directory) as work,
        tempfile.TemporaryDirectory(prefix="joulerig-") as scratch,
    ):
        Path(work).chmod(0o755)  # as a file system's top is: a program may run as another user
        surroundings = load.Surroundings(work, seconds, seed, scratch, None)
        try:
            loading = workload.create(delivered, surroundings)
            loading.lay_out()
            done = loading.load()
        except (tools.Failed, OSError) as error:
            raise UserError(str(error)) from None
    try:
        row = load_reports.performance(definition.tool, done.report, (done.end - done.start) / 1e9)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        why = done.problem or f"{type(error).__name__}: {error}"
        raise UserError(f"{name}: the report cannot be read: {why}") from None
    return Trial(row, done.report, done.problem)


def _check(directory: Path, among_others: bool) -> None:
    if not directory.is_dir():
        raise UserError(f"--directory: {str(directory)!r}: no such folder; allowed: an existing one")
    if not among_others and any(directory.iterdir()):
        raise UserError(
            f"--directory: {str(directory)!r}: is not empty; allowed: an empty folder, or --among-others"
        )
