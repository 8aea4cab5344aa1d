# SPDX-License-Identifier: GPL-3.0-or-later
"""kernel-grep: a search through every file of a kernel's source.

Whole passes of `grep -r` until the seconds are over, at least one; before each one the host's
kernel forgets what it read, unless `cold` is false. One op is a file searched; the figure is the
mean length of a pass. `source` is a tar of any files.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import program

DEFAULTS = {"source": "", "pattern": "joulerig_is_not_in_there", "cold": True}
FOLDER = "joulerig-kernel-grep"
NOTHING_FOUND = 1


def layout(given: program.Given) -> None:
    """Unpack the source, whole and on the drive."""
    program.unpack(given.settings["source"], program.fresh(given.directory / FOLDER))


def load(given: program.Given, record: program.Record) -> None:
    """Search all files in whole passes."""
    folder = given.directory / FOLDER
    sizes = program.files_of(folder)
    if not sizes:
        raise program.Failed(f"{folder}: holds no file; allowed: a folder after `layout`")
    lengths: list[float] = []
    record.read_bytes = record.write_bytes = record.syncs = 0
    record.details |= {
        "source": Path(given.settings["source"]).name,
        "grep": program.tool_version("grep"),
        "files": len(sizes),
        "pass_seconds": lengths,
        "cold": given.settings["cold"],
    }
    with record.measured():
        for _ in record.passes():
            if given.settings["cold"]:
                record.details["cold"] &= program.drop_caches()
            began = time.monotonic()
            found = program.run(
                # not to /dev/null: grep then stops at the first match
                ["grep", "-r", "-e", given.settings["pattern"], "."],
                "grep",
                allowed=(0, NOTHING_FOUND),
                cwd=folder,
                errors="replace",
                env={**os.environ, "LC_ALL": "C"},
            )
            lengths.append(time.monotonic() - began)
            record.ops += len(sizes)
            record.read_bytes += sum(sizes.values())
            record.details["lines_found"] = found.count("\n")
            record.set_figure("pass", "s", sum(lengths) / len(lengths), "lower")


if __name__ == "__main__":
    program.main("kernel-grep", DEFAULTS, "file", layout, load)
