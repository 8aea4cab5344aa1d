# SPDX-License-Identifier: GPL-3.0-or-later
"""A campaign's tables and series as CSV and Parquet, with a schema document.

The schema document says what each table and column means.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from joulerig import atomic, spreadsheet
from joulerig.analysis.export import frames, schema
from joulerig.analysis.results.campaign import Campaign

FORMATS = ("csv", "parquet")
SCHEMA_FILE = "schema.json"
WAVEFORM_FOLDER = "waveforms"


def write(campaign: Campaign, folder: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Write all tables of a campaign into `folder`, with their schema and its waveform files.

    The schema is `SCHEMA_FILE`; waveform files are copied. Files replace those of the same name,
    all at the end or none. Returns their paths.

    Raises
    ------
    ValueError
        A format that there is not.
    analysis.results.campaign.ResultsError, analysis.results.power_points.PowerFileError,
    analysis.results.run_file.RunFileError
        A file of a run is damaged.
    """
    for name in formats:
        if name not in FORMATS:
            raise ValueError(f"export format {name!r}: allowed are {', '.join(FORMATS)}")
    tables = frames.every(campaign)
    folder.mkdir(parents=True, exist_ok=True)
    stage = Path(tempfile.mkdtemp(dir=folder, prefix=".export."))
    try:
        written = put(tables, stage, formats)
        for run, meter, file in tables["waveforms"].select("run", "meter", "file").iter_rows():
            if file is not None:
                copy = stage / WAVEFORM_FOLDER / f"{run}-{meter}.parquet"
                copy.parent.mkdir(exist_ok=True)
                shutil.copyfile(campaign.folder / file, copy)
                written.append(copy)
        return [_moved(path, folder / path.relative_to(stage)) for path in written]
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def put(tables: Mapping[str, pl.DataFrame], folder: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Write these tables and their schema into `folder`. Returns the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, frame in tables.items():
        if "csv" in formats:
            (folder / f"{name}.csv").write_bytes(spreadsheet.csv(frame))
            written.append(folder / f"{name}.csv")
        if "parquet" in formats:
            frame.write_parquet(folder / f"{name}.parquet")
            written.append(folder / f"{name}.parquet")
    path = folder / SCHEMA_FILE
    path.write_bytes(schema.document(tables))
    return [*written, path]


def _moved(path: Path, target: Path) -> Path:
    atomic.make_folder(target.parent)
    return atomic.move(path, target)
