# SPDX-License-Identifier: GPL-3.0-or-later
"""kernel-make: a target of a kernel is built of its source.

Whole builds until the seconds are over, at least one, each in a folder with nothing but the
configuration; before each one the host's kernel forgets what it read, unless `cold` is false. One
op is an object file made; the figure is the mean length of a build. `source` is a tar with all
below one folder, as a kernel's is.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from pathlib import Path

import program

DEFAULTS = {"source": "", "config": "tinyconfig", "target": "lib/", "jobs": 2, "cold": True}
FOLDER = "joulerig-kernel-make"
TARGET = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]*")


def layout(given: program.Given) -> None:
    """Unpack the source and make a configuration of it.

    What making that took is removed.
    """
    _check(given.settings)
    folder = program.fresh(given.directory / FOLDER)
    (folder / "source").mkdir()
    program.unpack(given.settings["source"], folder / "source")
    build = program.fresh(folder / "build")
    _make(build, given.settings["config"], given.settings["jobs"])
    if not (build / ".config").is_file():
        raise program.Failed(
            f"make {given.settings['config']}: left no .config; allowed: a configuration target"
        )
    (build / ".config").rename(folder / "config")
    shutil.rmtree(build)
    os.sync()


def load(given: program.Given, record: program.Record) -> None:
    """Build the target again and again, each time from nothing."""
    _check(given.settings)
    folder = given.directory / FOLDER
    if not (folder / "config").is_file():
        raise program.Failed(f"{folder}: holds no configured source; allowed: a folder after `layout`")
    lengths: list[float] = []
    record.write_bytes = 0
    record.details |= {
        "source": Path(given.settings["source"]).name,
        "pass_seconds": lengths,
        "cold": given.settings["cold"],
        "make": program.tool_version("make"),
        "gcc": program.tool_version("gcc"),
    }
    build = folder / "build"
    with record.measured():
        for _ in record.passes():
            program.fresh(build)
            shutil.copy(folder / "config", build / ".config")
            if given.settings["cold"]:
                record.details["cold"] &= program.drop_caches()
            began = time.monotonic()
            _make(build, given.settings["target"], given.settings["jobs"])
            lengths.append(time.monotonic() - began)
            made = program.files_of(build)
            record.ops += sum(path.suffix == ".o" for path in made)
            record.write_bytes += sum(made.values())
            record.set_figure("pass", "s", sum(lengths) / len(lengths), "lower")


def _check(settings: dict) -> None:
    """Refuse targets that make would take for an option, a variable or another folder.

    Raises Failed.
    """
    for key in ("config", "target"):
        if not TARGET.fullmatch(settings[key]) or ".." in settings[key].split("/"):
            raise program.Failed(f"--settings: {key}: {settings[key]!r}; allowed: a target such as lib/")


def _make(build: Path, target: str, jobs: int) -> None:
    top = next((path.parent for path in (build.parent / "source").glob("*/Makefile")), None)
    if not top:
        raise program.Failed(
            f"{build.parent}/source: has no */Makefile; allowed: a kernel's source below one folder"
        )
    program.run(
        ["make", "--silent", "-C", top, f"O={build}", f"--jobs={jobs}", target],
        "make",
        # nothing of a surrounding make, and no file written elsewhere
        env={name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
        | {"LC_ALL": "C"},
    )


if __name__ == "__main__":
    program.main("kernel-make", DEFAULTS, "object file", layout, load)
