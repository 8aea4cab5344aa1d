# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig export` and `rig verify`: how the campaign engine reads what a run left, for those who check it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from joulerig.analysis.bundle import environment, verify, writer
from joulerig.analysis.bundle.check import Check
from joulerig.analysis.bundle.recompute import NotToldError, Readers
from joulerig.analysis.energy import meters
from joulerig.analysis.results.campaign import Run
from joulerig.rig import workloads
from joulerig.rig.campaign import measure, provenance
from joulerig.rig.workloads import reports


def write(folder: Path, target: Path) -> writer.Written:
    """Write the campaign in `folder` as a bundle. Raises results.ResultsError, OSError."""
    return writer.write(folder, target, environment.here(provenance.revision()))


def check(source: Path) -> Iterator[Check]:
    """The checklist of a bundle or a results folder. Raises joulerig.analysis.bundle.archive.BundleError."""
    return verify.verify(source, READERS, environment.here(provenance.revision()))


def _performance(
    run: Run, answer: Mapping[str, Any], report: Mapping[str, Any], seconds: float
) -> dict[str, Any]:
    return reports.performance(_tool(run, answer), report, seconds)


def _tool(run: Run, answer: Mapping[str, Any]) -> str:
    """What loaded: as the test host's module was told; where it does not say, the shipped workload's."""
    told = meters.at(answer, "invocation", "module_args", "workload").get("tool")
    shipped = workloads.shipped()
    if not told and run.workload not in shipped:
        raise NotToldError(f"result.json does not tell what loaded, and {run.workload!r} is not shipped")
    return told or shipped[run.workload].tool


READERS = Readers(
    phases=measure.on_controller_time,
    performance=_performance,
    add_truth=measure.add_truth,
    device_bound=measure.device_bound,
    twin_io=measure.twin_io,
)
