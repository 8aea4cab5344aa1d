# SPDX-License-Identifier: GPL-3.0-or-later
"""A campaign as one zip that can be checked by itself: `verify` of this package does so."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from joulerig import atomic, sqlite
from joulerig.analysis import export, results
from joulerig.analysis.bundle import archive, crate, manifest, reports
from joulerig.analysis.bundle import environment as environments
from joulerig.analysis.export import frames
from joulerig.analysis.report import document
from joulerig.analysis.results.campaign import Campaign, ResultsError
from joulerig.analysis.results.journal import FILE as JOURNAL
from joulerig.analysis.results.journal import connect
from joulerig.analysis.results.schema import FINISHED


@dataclass(frozen=True)
class Written:
    """A bundle that was written.

    `sha256`: of the zip, to be published next to it: only it reveals that a bundle was remade.
    """

    path: Path
    files: int
    bytes: int
    sha256: str


def write(folder: Path, target: Path, environment: Mapping[str, Any]) -> Written:
    """Pack the campaign in `folder` into the zip `target`, which appears whole or not at all.

    The journal is copied first, as it is at one instant; tables and report are made from that copy,
    and the files are those of the runs that were over in it. So it holds together also while the
    campaign runs. The same campaign gives the same bytes, with the same program and libraries
    (`environment`).

    Raises
    ------
    joulerig.analysis.results.campaign.ResultsError
        The folder is no campaign's, or a file in it is damaged.
    OSError
    """
    with tempfile.TemporaryDirectory(prefix="joulerig-bundle-") as name:
        stage = Path(name)
        campaign = _staged(folder, stage)
        export.put(frames.small(campaign), stage / "export")
        html = reports.html(campaign)
        atomic.write(stage / reports.HTML, html.encode())
        atomic.write(stage / reports.PDF, document.pdf(html))
        atomic.write(stage / environments.FILE, environments.document(environment))
        files = _files(stage, campaign)
        with atomic.opened(target) as file:
            count = _pack(file, campaign, files, environment)
    return Written(target, count, target.stat().st_size, manifest.digest(target))


def _staged(folder: Path, stage: Path) -> Campaign:
    """Stage the campaign in `folder` at `stage`, and load it from there.

    Its journal is copied, the folders of runs that are over are linked.
    """
    results.load(folder)  # says what is wrong with it by its own name
    copy_journal(folder / JOURNAL, stage / JOURNAL)
    (stage / "runs").mkdir()
    campaign = results.load(stage)
    for run in campaign.runs:
        if run.status in FINISHED and (folder / "runs" / run.id).is_dir():
            (stage / "runs" / run.id).symlink_to((folder / "runs" / run.id).absolute())
    return campaign


def copy_journal(source: Path, target: Path) -> None:
    """Copy a journal as it is at one instant, also while it is written, to one file.

    Raises ResultsError.
    """
    try:
        with closing(connect(source)) as journal, closing(sqlite.connect(target)) as copy:
            journal.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")  # no files next to it, also where it is only read
    except sqlite3.DatabaseError as error:
        raise ResultsError(f"{source}: cannot be copied: {error}") from None


def _files(stage: Path, campaign: Campaign) -> dict[str, Path]:
    """Return the files that go into the bundle, by name; links and hidden files do not."""
    folders = [stage, *(run.folder for run in campaign.runs)]
    return {
        path.relative_to(stage).as_posix(): path
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink() and not path.name.startswith(".")
    }


def _pack(file: Any, campaign: Campaign, files: Mapping[str, Path], environment: Mapping[str, Any]) -> int:
    sizes = {**{name: path.stat().st_size for name, path in files.items()}, manifest.FILE: None}
    contents: dict[str, Path | bytes] = {
        **dict(sorted(files.items())),
        crate.FILE: crate.document(campaign, sizes, environment),
    }
    with archive.Writer(file) as packed:
        digests = {name: packed.add(name, content) for name, content in sorted(contents.items())}
        packed.add(manifest.FILE, manifest.text(digests).encode())
    return len(digests) + 1
