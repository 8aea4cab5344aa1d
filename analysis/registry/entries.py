# SPDX-License-Identifier: GPL-3.0-or-later
"""The bundles of a folder: what verified ones have, and why others are not listed."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from joulerig.analysis import results
from joulerig.analysis.bundle import archive
from joulerig.analysis.bundle import verify as verification
from joulerig.analysis.bundle.check import FAILED, UNCHECKABLE, Check
from joulerig.analysis.energy import meters
from joulerig.analysis.results.campaign import Campaign
from joulerig.analysis.results.schema import CampaignKind
from joulerig.analysis.tables import runs_and_cells
from joulerig.errors import JoulerigError

MOST_REASONS = 3
MOST_SAID = 200
_DESCRIBED = ("interface", "model", "description", "size_bytes", "plp")  # of a drive, in this order
_NUMBERS = (
    "ai_ops_per_joule", "ai_ops_per_joule_interval_low", "ai_ops_per_joule_interval_high",
    "ops_per_second", "mean_watts",
)  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """A cell of a campaign, with the figures that its table has; None: not known.

    `further`: the levels of further factors, as text.
    """

    drive: str
    filesystem: str
    scheduler: str
    workload: str
    further: str
    runs: int
    numbers: Mapping[str, float | None]


@dataclass(frozen=True)
class Entry:
    """A bundle that was verified.

    `not_checkable`: the checks that could not be made of it, with the reason.
    """

    file: Path
    sha256: str
    size_bytes: int
    campaign: str
    question: str
    created_ns: int
    virtual: bool
    revision: str
    drives: Mapping[str, Mapping[str, Any]]
    cells: tuple[Cell, ...]
    checks: int
    not_checkable: tuple[str, ...]


@dataclass(frozen=True)
class Refused:
    """A bundle that is not listed, and why: a line each."""

    file: Path
    reasons: tuple[str, ...]


Verify = Callable[[Path], Iterable[Check]]


def gather(
    folder: Path, here: Mapping[str, Any], verify: Verify | None = None
) -> tuple[list[Entry], list[Refused]]:
    """Verify each bundle (*.zip) of a folder, by name; return those that pass, and the others.

    A campaign is listed once: of two bundles of one id the second is refused. `here`:
    `joulerig.analysis.bundle.environment.here`. `verify`: another way to check, for tests.
    """
    check = verify or (lambda path: verification.verify(path, here))
    listed: dict[str, Entry] = {}
    refused = []
    for file in sorted(folder.glob("*.zip")):
        found = _entry(file, check)
        if isinstance(found, Entry) and found.campaign in listed:
            other = listed[found.campaign].file.name
            found = Refused(file, (f"campaign {found.campaign} is that of {other}",))
        if isinstance(found, Entry):
            listed[found.campaign] = found
        else:
            refused.append(found)
    newest_first = sorted(listed.values(), key=lambda entry: (-entry.created_ns, entry.campaign))
    return newest_first, refused


def _entry(file: Path, verify: Verify) -> Entry | Refused:
    if not file.is_file():
        return Refused(file, ("is not a file",))
    try:
        before = _sha256(file)
        checks = list(verify(file))
        if failed := [check for check in checks if check.state == FAILED]:
            return Refused(file, tuple(_reason(check) for check in failed[:MOST_REASONS]))
        with tempfile.TemporaryDirectory(prefix="joulerig-registry-") as name:
            archive.extract(file, Path(name))
            campaign = results.load(Path(name))
            found = _described(file, before, campaign, checks)
        if _sha256(file) != before:
            return Refused(file, ("changed while it was checked",))
        return found
    except JoulerigError as error:
        return Refused(file, (" ".join(str(error).split()).replace(f"{file}: ", ""),))
    except Exception as error:  # a stranger's file stops no registry, whatever is in it
        said = " ".join(str(error).split())[:MOST_SAID]
        return Refused(file, (f"cannot be read: {type(error).__name__}: {said}",))


def _reason(check: Check) -> str:
    """Return a failed check on one line: its name, and its first offender or its detail."""
    detail = check.offenders[0] if check.offenders else check.detail
    more = f" (and {len(check.offenders) - 1} more)" if len(check.offenders) > 1 else ""
    return f"{check.name}: {detail}{more}"


def _described(file: Path, sha256: str, campaign: Campaign, checks: list[Check]) -> Entry:
    unchecked = tuple(
        f"{one.name}: {one.detail}" if one.detail else one.name for one in checks if one.state == UNCHECKABLE
    )
    return Entry(
        file=file,
        sha256=sha256,
        size_bytes=file.stat().st_size,
        campaign=campaign.id,
        question=campaign.question,
        created_ns=campaign.created_ns,
        virtual=bool(campaign.virtual),
        revision=campaign.revision or "",
        drives=_drives(campaign),
        cells=tuple(_cells(campaign)),
        checks=len(checks) - len(unchecked),
        not_checkable=unchecked,
    )


def _drives(campaign: Campaign) -> dict[str, dict[str, Any]]:
    """Return the drives that the campaign's runs stood on, as the lab described them."""
    found: dict[str, dict[str, Any]] = {}
    for run in campaign.runs:
        for drive in campaign.drives(run):
            spec = meters.subtree(campaign.lab, "hosts", run.host, "drives", drive)
            found.setdefault(drive, {key: spec[key] for key in _DESCRIBED if spec.get(key)})
    return found


def _cells(campaign: Campaign) -> Iterable[Cell]:
    """Yield the cells with a run that counts; a campaign of power cuts has none."""
    if campaign.kind == CampaignKind.POWER_CUT:
        return
    runs = campaign.cells()
    for row in runs_and_cells.cells(campaign.without_controls).iter_rows(named=True):
        if row["runs_counted"]:
            key = runs[row["cell"]][0].key
            yield Cell(
                drive=row["drive"],
                filesystem=row["filesystem"],
                scheduler=row["scheduler"],
                workload=row["workload"],
                further=", ".join(f"{name}={level}" for name, level in key.further),
                runs=row["runs_counted"],
                numbers={name: row[name] for name in _NUMBERS},
            )


def _sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
