# SPDX-License-Identifier: GPL-3.0-or-later
"""What a newcomer may add, each as one file or one line, and a copy of the project to add it to."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import yaml

from joulerig.analysis.results.journal import VERSION
from tests.support import ROOT

NEW_FILE_SYSTEM: dict[str, Any] = {
    "description": "bcachefs, copy on write",
    "type": "bcachefs",
    "packages": ["bcachefs-tools"],
    "mkfs": ["bcachefs", "format", "--quiet", "--force"],
    "after_power_cut": {"check": ["bcachefs", "fsck", "-n"], "fsync_flushes": False},
}
COPY_PROGRAM: dict[str, Any] = {
    "description": "copies of a file",
    "packages": ["coreutils-extra"],
    "operation": "copy",
    "parameters": {"bytes": "size of the file"},
    "workloads": {"copies": {"description": "copies of a small file", "settings": {"bytes": 10}}},
}
COPY_SCRIPT = """
import shutil
import program

DEFAULTS = {"bytes": 4096}


def layout(given):
    (given.directory / "source").write_bytes(b"x" * given.settings["bytes"])


def load(given, record):
    with record.measured():
        for number in record.passes():
            shutil.copy(given.directory / "source", given.directory / f"copy-{number}")
            record.ops += 1


if __name__ == "__main__":
    program.main("clone", DEFAULTS, "copy", layout, load)
"""


# libsigrok has this driver; the rig ships no family for it.
METER_FAMILY = """
from joulerig.rig.lab.meters.family import Accuracy, Family
import re

FAMILY = Family(
    driver="gwinstek-gpd",
    description="GW Instek GPD supplies",
    transports=("serial",),
    timing="poll",
    samples="point",
    rate=lambda channels, meter: 4.0 / channels,
    fastest=lambda channels, meter: 8.0 / channels,
    open_seconds=9.0,
    fixed_settings=True,
    options={"force_detect": "GPD-2303S"},
    settings=lambda meter: {"over_current_protection_enabled": "off"},
    channels=re.compile(r"[VI][12]"),
    channels_text="V1, I1, V2, I2",
    refuse_rail=lambda kind: "" if kind == "volts" else "has channels of volts and amps only",
    accuracy={"gwinstek-gpd": {"volts": Accuracy(gain_percent=0.03, offset=0.01)}},
)
"""
READ_AHEAD = '''
"""The most that the kernel reads ahead of a sequential reader."""

from joulerig.rig.campaign.factors.factor import Factor, Setting, whole_number


def _problem(level):
    return "" if level <= 16384 else "is more than the kernel takes; allowed: 0 to 16384"


FACTOR = Factor(
    title="Read ahead",
    help="KiB that the kernel reads ahead.",
    allowed="whole KiB, 0 to 16384",
    level=whole_number(_problem),
    settings=(Setting("/sys/block/{device}/queue/read_ahead_kb"),),
)
'''


STUDY = '''"""Judge whether f2fs does more operations than ext4.

**Question.** Is f2fs faster than ext4?
"""

from joulerig.analysis.drawing import canvas, to_svg
from joulerig.analysis.studies import claims
from joulerig.analysis.studies.claims import Claim
from joulerig.analysis.studies.study import Study, StudyFigure

FASTER = Claim("faster", "f2fs does more operations a second than ext4.", from_the_io_path=True)


def rate(run):
    return run.performance.ops_per_second if run.performance else None


def measure(campaign):
    by_name = {name: [run for run in campaign.runs if run.filesystem == name] for name in ("f2fs", "ext4")}
    effect = claims.ratio(by_name["f2fs"], by_name["ext4"], rate)
    return [claims.greater(FASTER, "all drives", effect, "above 1: ops/s, f2fs over ext4")]


def rates(campaign):
    with canvas(2) as figure:
        figure.subplots().plot([rate(run) for run in campaign.runs])
        return to_svg(figure, campaign.virtual)


STUDY = Study(
    title="f2fs against ext4",
    reference="Doe 2026, doi 10.0000/none",
    factors=("drive", "filesystem", "scheduler", "workload"),
    claims=(FASTER,),
    measure=measure,
    figures=(StudyFigure(rates, "Operations a second, run by run."),),
)
'''


# By the folder of the project: new files, save the column, which is a line of the schema.
FILES = {
    "meter family": {"rig/lab/meters/families/gwinstek_gpd.py": METER_FAMILY},
    "file system": {"rig/lab/filesystems/newfs.yml": yaml.safe_dump(NEW_FILE_SYSTEM)},
    "program": {
        "workloads/programs/clone/program.yml": yaml.safe_dump(COPY_PROGRAM),
        "workloads/programs/clone/clone.py": COPY_SCRIPT,
    },
    "study": {"analysis/studies/f2fs_speed.py": STUDY},
    "factor": {"rig/campaign/factors/read_ahead_kb.py": READ_AHEAD},
}
SCHEMA = "analysis/results/schema.py"
COLUMN = (
    f'    joules_per_flush: float | None = column("J", "Energy over flushes.", since={VERSION + 1},'
    ' source=lambda run: sum(row["joules"] for row in run.energy if row["phase"] == "workload")'
    ' / run.outcome["counters"]["flushes"])'
)
AFTER_COLUMN = "    @property\n    def truth_within("  # what follows the columns of a result

COPIED = ("analysis", "ansible", "docs", "joulerig", "playbooks", "rig", "tests", "tools", "virtuallab")
COPIED += ("workloads", "host_vars", "inventory.ini", "pyproject.toml", "Makefile")


def copy_project(folder: Path) -> Path:
    """Copy the project's sources into an empty folder; return it."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "node_modules")
            shutil.copytree(source, folder / name, symlinks=True, ignore=ignored)
        else:
            shutil.copy(source, folder / name)
    return folder


def add_everything(project: Path) -> None:
    """Add one of each to a copy of the project."""
    for files in FILES.values():
        for path, text in files.items():
            (project / path).parent.mkdir(exist_ok=True)
            (project / path).write_text(text)
    schema = (project / SCHEMA).read_text()
    before, found, after = schema.partition(AFTER_COLUMN)
    assert found, f"{SCHEMA} has no {AFTER_COLUMN!r}"
    (project / SCHEMA).write_text(f"{before.rstrip()}\n{COLUMN}\n\n{found}{after}")
