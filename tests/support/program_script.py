# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a script of workloads/programs/ as a test host does, and find its processes."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

from tests.support import ROOT

SCRIPTS = ROOT / "workloads" / "programs"


class Script:
    """One program with its settings, in a folder."""

    def __init__(self, name: str, folder: Path, **settings: Any) -> None:
        self.name, self.folder, self.settings = name, folder, settings
        self.output = folder.with_name(f"{folder.name}.json")

    def command(self, verb: str, seconds: float = 0, seed: int = 1) -> list[str]:
        words = [
            "--directory",
            str(self.folder),
            "--seed",
            str(seed),
            "--settings",
            json.dumps(self.settings),
        ]
        if verb == "load":
            words += ["--seconds", str(seconds), "--output", str(self.output)]
        python = ["env", f"PYTHONPATH={SCRIPTS}", sys.executable, "-B"]
        return [*python, str(SCRIPTS / self.name / f"{self.name}.py"), verb, *words]

    def run(self, verb: str, seconds: float = 0, **options: Any) -> subprocess.CompletedProcess[str]:
        seed = options.pop("seed", 1)
        command = self.command(verb, seconds, seed)
        return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)

    def lay_out(self, seed: int = 1) -> None:
        done = self.run("layout", seed=seed)
        assert (done.returncode, done.stderr) == (0, "")

    def load(self, seconds: float, seed: int = 1) -> dict[str, Any]:
        """The report of a load that went well."""
        done = self.run("load", seconds, seed=seed)
        assert (done.returncode, done.stderr) == (0, "")
        return self.report()

    def start(self, seconds: float) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self.command("load", seconds), stderr=subprocess.DEVNULL)

    def report(self) -> dict[str, Any]:
        return json.loads(self.output.read_text())


def processes_of(folder: Path) -> set[str]:
    """Names of the processes that work in a folder or have it among their words."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes()
            place = os.readlink(process / "cwd")
            name = (process / "comm").read_text().strip()
        except OSError:
            continue  # ended meanwhile
        if (
            words
            and int(process.name) != os.getpid()
            and (str(folder).encode() in words or place.startswith(str(folder)))
        ):
            found.add(name)
    return found


def packed(path: Path, **files: str) -> str:
    """A tar of these files below one folder."""
    with tarfile.open(path, "w:gz") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(f"linux/{name}")
            member.size = len(text.encode())
            tar.addfile(member, io.BytesIO(text.encode()))
    return str(path)
