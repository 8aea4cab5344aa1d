# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of a results folder that a page may open: reports, tables, exports, bundles.

A name is served if it is in the list of the folder's own files, and in no other way: there is
nothing to be said in an address that leads elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

PATTERNS = (
    "report/*.html", "report/*.pdf", "report/*.csv", "export/*.csv", "export/*.parquet", "*.zip", "*.json",
)  # fmt: skip
REPORTS = (".html", ".pdf", ".zip")
MOST_FILES = 200
# A report has its styles and figures in it, loads nothing, and runs nothing.
SANDBOX = (
    "sandbox allow-popups; default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:;"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".pdf": "application/pdf",
    ".csv": "text/csv; charset=utf-8",
    ".json": "application/json",
    ".zip": "application/zip",
    ".parquet": "application/vnd.apache.parquet",
}


def of_campaign(folder: Path) -> dict[str, Path]:
    """Return the files of a results folder by their names in it: "report/report.html"."""
    found: dict[str, Path] = {}
    for path in _below(folder):
        if len(found) == MOST_FILES:
            break
        found[path.relative_to(folder).as_posix()] = path
    return found


def _below(folder: Path) -> Iterator[Path]:
    """Yield its files, but for links: they may lead elsewhere."""
    if folder.is_symlink():
        return
    for pattern in PATTERNS:
        for path in sorted(folder.glob(pattern)):
            inside = path.relative_to(folder)
            steps = [folder.joinpath(*inside.parts[: depth + 1]) for depth in range(len(inside.parts))]
            if path.is_file() and not any(step.is_symlink() for step in steps):
                yield path


def find(results: Path, campaign: str, name: str) -> Path | None:
    """Return the file `name` of a folder right below `results`; None where it lists no such."""
    folders = {path.name: path for path in results.iterdir() if path.is_dir()} if results.is_dir() else {}
    return of_campaign(folders[campaign]).get(name) if campaign in folders else None


def reports(folder: Path) -> list[dict[str, str | int]]:
    """Return a results folder's reports and bundles: name, path in it, bytes."""
    return [
        {"name": path.name, "path": name, "bytes": path.stat().st_size}
        for name, path in of_campaign(folder).items()
        if path.suffix in REPORTS
    ]
