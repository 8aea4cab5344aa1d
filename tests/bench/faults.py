#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plant faults that an engineer would make, one at a time, and name the test that catches each.

    python -m tests.bench.faults              every area
    python -m tests.bench.faults clockfit     some areas
    python -m tests.bench.faults --rest       faults that the last run here has not seen caught

A catalogue is a `faults.yml`, or a `PART.faults.yml`, next to the code of its area:

    area: clockfit
    build: [tools/go test -run ^$ ./collectors/internal/clockfit]
    tests: [tools/go test -failfast ./collectors/internal/clockfit]
    faults:
      - fault: the surplus of a window is counted twice
        file: clockfit.go            # relative to the catalogue
        old: f.offset += shift       # stands in it exactly once
        new: f.offset += 2 * shift
        hangs: true                  # where the fault is that a test never ends

A Python area's tests are `.venv/bin/python -m pytest -q -x PATH`; the page's are `tools/npm test`,
and its build `.venv/bin/python -m tools.page`.

The faults are planted in a copy of the working tree, build/faults; the commands run there, without
a shell. `build` must succeed with every fault: one that no compiler takes is an error of the
catalogue. The tests must pass without a fault; the first of them that fails with one has caught it.
A test that never ends has caught a fault that says so, and no other.

results/bench/faults.json has the counts and the survivors of each area. Exit code: 0 if at least
95 % of all faults are caught, 90 % of each area's, and all of the areas in CAUGHT_WHOLLY.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import filecmp
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from joulerig import atomic
from joulerig.rig.common import yaml_text
from joulerig.rig.common.errors import UserError
from tests.support import ROOT

COPY = ROOT / "build" / "faults"
RESULT = ROOT / "results" / "bench" / "faults.json"
CAUGHT = COPY / ".caught.json"  # what caught which fault in the last run
CATALOGUE = "faults.yml"
BAR_OF_ALL, BAR_OF_AN_AREA = 0.95, 0.90
CAUGHT_WHOLLY = ("wipe safety", "energy", "energy of an interval", "journal", "ledger")
# The tests may take so much longer with a fault than without, and at least so long.
SLOWER, LEAST_SECONDS = 5, 60.0
# Not in the repository, and needed by the commands.
LINKED = (".venv", "rig/dashboard/node_modules")


class CatalogueError(Exception):
    """A catalogue, or one of its faults, that cannot be used."""


@dataclass(frozen=True)
class Fault:
    text: str
    file: Path  # relative to the root of the tree
    old: str
    new: str
    hangs: bool = False

    @property
    def key(self) -> str:
        return "\0".join((str(self.file), self.old, self.new))

    def plant(self, content: str) -> str:
        """Return the content of the file with the fault in it. Raises CatalogueError."""
        if content.count(self.old) != 1 or self.old == self.new:
            count = (
                "equals `new`" if self.old == self.new else f"stands in it {content.count(self.old)} times"
            )
            raise CatalogueError(f"{self.file}: {self.text}: `old` {count}; allowed: once, and another `new`")
        return content.replace(self.old, self.new)


@dataclass(frozen=True)
class Area:
    name: str
    build: tuple[str, ...]
    tests: tuple[str, ...]
    faults: tuple[Fault, ...]


@dataclass(frozen=True)
class Outcome:
    fault: Fault
    caught_by: str  # empty: it survived
    seconds: float
    error: str = ""  # of the catalogue


def read_catalogue(path: Path, root: Path = ROOT) -> Area:
    """Read the faults of an area. Raises CatalogueError, UserError."""
    source = path.relative_to(root)
    data: dict[str, Any] = yaml_text.read(path)
    _check_keys(str(source), data, {"area": str, "tests": list, "faults": list}, {"build": list})
    faults = []
    for entry in data["faults"]:
        _check_keys(
            f"{source}: {entry.get('fault', entry)}",
            entry,
            {"fault": str, "file": str, "old": str, "new": str},
            {"hangs": bool},
        )
        faults.append(
            Fault(
                entry["fault"],
                source.parent / entry["file"],
                entry["old"],
                entry["new"],
                entry.get("hangs", False),
            )
        )
    return Area(data["area"], tuple(data.get("build", [])), tuple(data["tests"]), tuple(faults))


def _check_keys(source: str, data: dict[str, Any], needed: dict[str, type], allowed: dict[str, type]) -> None:
    kinds = needed | allowed
    wrong = sorted(
        {key for key in data if key not in kinds}
        | {key for key in needed if key not in data}
        | {key for key, kind in kinds.items() if key in data and not isinstance(data[key], kind)}
    )
    if wrong:
        listed = ", ".join(f"{key} ({kind.__name__})" for key, kind in kinds.items())
        raise CatalogueError(
            f"{source}: {', '.join(wrong)}: unknown, missing or not of its type; keys: {listed}"
        )


def is_catalogue(name: str) -> bool:
    return f".{Path(name).name}".endswith(f".{CATALOGUE}")


def read_catalogues(root: Path = ROOT) -> list[Area]:
    """Read all catalogues of the tree. Raises CatalogueError, UserError."""
    areas = [read_catalogue(root / name, root) for name in tracked(root) if is_catalogue(name)]
    names = [area.name for area in areas]
    for name in names:
        if names.count(name) > 1:
            raise CatalogueError(f"{name}: two catalogues have this area; allowed: one")
    return sorted(areas, key=lambda area: area.name)


def tracked(root: Path) -> list[str]:
    """List the files of the working tree that git does not ignore."""
    command = ("git", "ls-files", "-co", "--exclude-standard", "-z")
    listed = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, check=True).stdout.decode()
    return [name for name in sorted(set(listed.split("\0"))) if name and os.path.lexists(root / name)]


def update_copy(root: Path, copy: Path) -> None:
    """Make the copy equal to the working tree; what was compiled in it stays."""
    names = tracked(root)
    listing = copy / ".files"
    before = listing.read_text().splitlines() if listing.exists() else []
    for name in set(before) - set(names):
        (copy / name).unlink(missing_ok=True)
    for name in names:
        source, target = root / name, copy / name
        if source.is_symlink():
            same = target.is_symlink() and target.readlink() == source.readlink()
        else:
            same = target.is_file() and not target.is_symlink() and filecmp.cmp(source, target, shallow=False)
        if not same:
            target.unlink(missing_ok=True)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target, follow_symlinks=False)
    listing.write_text("\n".join(names))
    for name in LINKED:
        if (root / name).exists() and not (copy / name).is_symlink():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).symlink_to((root / name).resolve())


@dataclass(frozen=True)
class Ended:
    ok: bool
    in_time: bool
    output: str
    seconds: float


def run_all(commands: Sequence[str], folder: Path, limit: float | None = None) -> Ended:
    """Run commands one after the other until one fails, or all have taken longer than the limit."""
    began = time.monotonic()
    environment = os.environ | {"PYTHONPATH": str(folder), "NO_COLOR": "1"}
    environment["PATH"] = f"{folder / '.venv' / 'bin'}:{environment.get('PATH', '')}"
    output = ""
    for command in commands:
        process = subprocess.Popen(
            shlex.split(command),
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            left = None if limit is None else max(0.0, limit - (time.monotonic() - began))
            output = process.communicate(timeout=left)[0].decode(errors="replace")
        except subprocess.TimeoutExpired:
            return Ended(False, False, "", time.monotonic() - began)
        finally:
            _end_group(process)
        if process.returncode:
            return Ended(False, True, output, time.monotonic() - began)
    return Ended(True, True, output, time.monotonic() - began)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of a command: the group is its own."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


# How each kind of test names the one that fails: Go, pytest, Vitest, check.h, then the sanitizers.
_NAMES = (
    r"^\s*--- FAIL: (\S+)",
    r"^(?:FAILED|ERROR) (\S+)",
    r"^ *FAIL +(\S.*)",
    r"^\S*?(\w+\.c:\d+: \w+): ",
    r"(runtime error: .*)",
    r"^SUMMARY: (.*)",
    r"^(panic: .*)",
    r"^(\S.*): FAILED$",
)


def failed_test(output: str) -> str:
    """Return the name of the test that failed; its last line where none is named."""
    for pattern in _NAMES:
        if found := re.search(pattern, output, re.MULTILINE):
            return found.group(1)
    lines = output.strip().splitlines()
    return lines[-1] if lines else "a command without output"


def try_fault(area: Area, fault: Fault, copy: Path, limit: float) -> Outcome:
    """Plant a fault, run the area's tests, and remove it."""
    path = copy / fault.file
    content = path.read_text()
    began = time.monotonic()
    try:
        _write_later(path, fault.plant(content))
        built = run_all(area.build, copy)
        if not built.ok:
            return Outcome(fault, "", built.seconds, f"does not build\n{built.output.rstrip()}")
        ended = run_all(area.tests, copy, limit)
    except CatalogueError as error:
        return Outcome(fault, "", 0.0, str(error))
    finally:
        _write_later(path, content)
    caught_by = ""
    if not ended.in_time:
        caught_by = "the time limit" if fault.hangs else ""
    elif not ended.ok:
        caught_by = failed_test(ended.output)
    return Outcome(fault, caught_by, time.monotonic() - began)


def _write_later(path: Path, content: str) -> None:
    """Write a file in another second than before: compilers and Python compare whole seconds."""
    while int(time.time()) <= int(path.stat().st_mtime):
        time.sleep(0.02)
    path.write_text(content)


def try_area(area: Area, copy: Path, caught: Mapping[str, str]) -> Iterator[Outcome]:
    """Yield the outcome of each fault that is not caught yet. Raises CatalogueError.

    `caught` maps keys of faults to what has caught them.
    """
    built = run_all(area.build, copy)
    baseline = run_all(area.tests, copy) if built.ok else built
    if not baseline.ok:
        raise CatalogueError(f"{area.name}: its tests fail without a fault\n{baseline.output.rstrip()}")
    for fault in area.faults:
        if fault.key in caught:
            yield Outcome(fault, caught[fault.key], 0.0)
        else:
            yield try_fault(area, fault, copy, max(LEAST_SECONDS, SLOWER * baseline.seconds))


def summarize(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    survivors = [outcome.fault.text for outcome in outcomes if not outcome.caught_by]
    return {"planted": len(outcomes), "caught": len(outcomes) - len(survivors), "survivors": survivors}


def find_below_bar(areas: dict[str, Any]) -> list[str]:
    """List the areas, and "all", of which too few faults were caught."""
    below = [
        name
        for name, area in areas.items()
        if area["caught"] < area["planted"] * (1 if name in CAUGHT_WHOLLY else BAR_OF_AN_AREA)
    ]
    planted = sum(area["planted"] for area in areas.values())
    if sum(area["caught"] for area in areas.values()) < planted * BAR_OF_ALL:
        below.append("all")
    return below


def table(areas: dict[str, Any]) -> str:
    rows = [(name, area["planted"], area["caught"], len(area["survivors"])) for name, area in areas.items()]
    rows.append(("all", *(sum(column) for column in list(zip(*rows, strict=True))[1:])))
    form = "{:<22}{:>9}{:>9}{:>11}"
    return "\n".join(form.format(*row) for row in [("area", "planted", "caught", "survivors"), *rows])


def read_record(catalogues: Container[str]) -> dict[str, Any]:
    """Return the recorded counts of the areas that have a catalogue."""
    recorded: dict[str, Any] = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    return {name: area for name, area in sorted(recorded.items()) if name in catalogues}


def record(name: str, counts: dict[str, Any], catalogues: Container[str]) -> None:
    """Record the counts of an area, next to those of the others."""
    areas = read_record(catalogues) | {name: counts}
    RESULT.write_text(json.dumps(dict(sorted(areas.items())), indent=1) + "\n")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="tests.bench.faults", description="Plant faults and name what catches them."
    )
    parser.add_argument(
        "--rest", action="store_true", help="faults that the last run here has not seen caught"
    )
    parser.add_argument("areas", nargs="*", metavar="AREA")
    options = parser.parse_args(arguments)
    catalogues = {area.name: area for area in read_catalogues()}
    if unknown := [name for name in options.areas if name not in catalogues]:
        parser.error(f"unknown area {', '.join(unknown)}; allowed: {', '.join(catalogues)}")
    COPY.mkdir(parents=True, exist_ok=True)
    lock = (COPY / ".lock").open("w")  # until the process ends
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise CatalogueError(f"{COPY}: faults are being planted there; wait until that ends") from None
    update_copy(ROOT, COPY)
    areas = read_record(catalogues)
    caught: dict[str, str] = json.loads(CAUGHT.read_text()) if CAUGHT.exists() else {}
    errors = 0
    for name in options.areas or catalogues:
        began = time.monotonic()
        outcomes = []
        for outcome in try_area(catalogues[name], COPY, dict(caught) if options.rest else {}):
            outcomes.append(outcome)
            caught.pop(outcome.fault.key, None)
            if outcome.caught_by:
                caught[outcome.fault.key] = outcome.caught_by
            atomic.write(CAUGHT, json.dumps(caught).encode())
            verdict = f"ERROR: {outcome.error}" if outcome.error else outcome.caught_by or "SURVIVED"
            print(f"{name}: {outcome.fault.text}: {verdict} ({outcome.seconds:.0f} s)", flush=True)
        print(f"{name}: {len(outcomes)} faults in {time.monotonic() - began:.0f} s\n", flush=True)
        unusable = sum(bool(outcome.error) for outcome in outcomes)
        errors += unusable
        areas[name] = summarize(outcomes)
        if not unusable:
            record(name, areas[name], catalogues)
    print(table(areas))
    below = find_below_bar(areas)
    if below:
        print(f"\ntoo few caught: {', '.join(below)}")
    if errors:
        print(f"\n{errors} faults cannot be planted; their areas are not recorded")
    return 1 if below or errors else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that no test is left running
    try:
        sys.exit(main(sys.argv[1:]))
    except (CatalogueError, UserError) as error:
        sys.exit(str(error))
