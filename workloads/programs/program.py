# SPDX-License-Identifier: GPL-3.0-or-later
"""What the programs of this folder share.

They share arguments, the report, signals, and children that never stay behind.

A program is a script NAME/NAME.py (standard library only), next to its NAME/program.yml, that ends
with

    if __name__ == "__main__":
        program.main("NAME", DEFAULTS, UNIT, layout, load)

`layout(given)` creates what the load works on; `load(given, record)` loads and fills the record,
the load itself within `with record.measured():`. Both may raise Failed. The commands and the
report: docs/reference/workloads.md.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import math
import os
import shutil
import signal
import stat
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

COMPLETED, INTERRUPTED, FAILED = "completed", "interrupted", "failed"
END_PATIENCE_SECONDS = 10.0
_SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of <linux/prctl.h>
_libc = ctypes.CDLL(None, use_errno=True)


class Failed(Exception):
    """The load cannot go on. The text, one line, is the reason."""


class Interrupted(BaseException):
    """SIGINT or SIGTERM came.

    Like KeyboardInterrupt it is no Exception, so that nothing on the way swallows it.
    """


@dataclass(frozen=True)
class Given:
    """What a command was given; `seconds` is 0 in layout."""

    directory: Path
    seconds: float
    seed: int
    settings: dict[str, Any]


@dataclass
class Record:
    """What the load did so far; it is reported as it is whenever the load ends. None: unknown."""

    unit: str
    limit_seconds: float
    ops: int = 0
    read_bytes: int | None = None
    write_bytes: int | None = None
    syncs: int | None = None
    latency_p50_seconds: float | None = None
    latency_p99_seconds: float | None = None
    figure: dict[str, Any] | None = None
    details: dict[str, Any] = field(default_factory=dict)
    _begin: tuple[int, int] | None = None
    _end: tuple[int, int] | None = None

    @contextlib.contextmanager
    def measured(self) -> Iterator[None]:
        """Measure the load alone, from here to the block's end however it ends.

        Once in a program.
        """
        self._begin = _now()
        try:
            yield
        finally:
            self._end = _now()

    @property
    def elapsed(self) -> float:
        """Return the seconds since the load began; 0 before it.

        Of a load that ended: its length.
        """
        if self._begin is None:
            return 0.0
        return ((self._end or _now())[1] - self._begin[1]) / 1e9

    def passes(self) -> Iterator[int]:
        """Yield 0, 1, ... for whole passes until the seconds are over, at least one."""
        number = 0
        while number == 0 or self.elapsed < self.limit_seconds:
            yield number
            number += 1

    def set_figure(self, name: str, unit: str, value: float, better: str) -> None:
        """Set the study's own figure; `better`: higher or lower."""
        self.figure = {"name": name, "unit": unit, "value": value, "better": better}

    def report(self, ended: str, error: str) -> dict[str, Any]:
        begin = self._begin or _now()
        return {
            "begin_realtime_ns": begin[0],
            "end_realtime_ns": (self._end or begin)[0],
            "seconds": self.elapsed,
            "ended": ended,
            "error": error,
            "ops": self.ops,
            "unit": self.unit,
            "read_bytes": self.read_bytes,
            "write_bytes": self.write_bytes,
            "syncs": self.syncs,
            "latency_p50_seconds": self.latency_p50_seconds,
            "latency_p99_seconds": self.latency_p99_seconds,
            "figure": self.figure,
            "details": self.details,
        }


def main(
    name: str,
    defaults: Mapping[str, Any],
    unit: str,
    layout: Callable[[Given], None],
    load: Callable[[Given, Record], None],
    least: Mapping[str, int] | None = None,
) -> None:
    """Do what the command line says and exit.

    The exit code is 0, 1 after a line on standard error, or 2 where it is no command.

    `unit`: what one op is; `defaults`: of every setting, also its type; `least`: the least allowed
    value of those whole numbers that may be below 1.
    """
    arguments = _parse(name)
    try:
        given = _given(arguments, defaults, least or {})
        _follow_signals()
        die_with_parent()
        if arguments.command == "layout":
            given.directory.mkdir(parents=True, exist_ok=True)
            layout(given)
        else:
            _load(given, Record(unit, given.seconds), arguments.output, load)
    except (Failed, OSError) as error:
        print(f"{name}: {_one_line(error)}", file=sys.stderr)
        sys.exit(1)
    except Interrupted:
        print(f"{name}: interrupted", file=sys.stderr)
        sys.exit(1)


def _load(given: Given, record: Record, output: Path, load: Callable[[Given, Record], None]) -> None:
    ended, error = FAILED, "its own fault"
    try:
        load(given, record)
        ended, error = COMPLETED, ""
    except Interrupted:
        ended, error = INTERRUPTED, ""
    except (Failed, OSError) as problem:
        error = _one_line(problem)
        raise
    finally:
        _ignore_signals()  # a report is not left half written
        write_whole(output, json.dumps(record.report(ended, error)))


def _parse(name: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=name, allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True)
    layout = commands.add_parser("layout", help="create what the load works on")
    load = commands.add_parser("load", help="load, then write the report")
    for command in (layout, load):
        command.add_argument("--directory", type=Path, required=True, help="folder to work in")
        command.add_argument("--seed", type=int, default=1, help="of all that is drawn")
        command.add_argument("--settings", type=json.loads, default={}, help="JSON object")
    load.add_argument("--seconds", type=float, required=True, help="length of the load")
    load.add_argument("--output", type=Path, required=True, help="file that the report goes to (JSON)")
    return parser.parse_args()


def _given(arguments: argparse.Namespace, defaults: Mapping[str, Any], least: Mapping[str, int]) -> Given:
    if not isinstance(arguments.settings, dict):
        raise Failed("--settings: allowed: a JSON object")
    for key, value in arguments.settings.items():
        if key not in defaults:
            raise Failed(f"--settings: {key!r} is unknown; allowed: {', '.join(defaults)}")
        if type(value) is not type(defaults[key]):
            raise Failed(
                f"--settings: {key}: {value!r}; allowed: a value such as {json.dumps(defaults[key])}"
            )
        if type(value) is int and value < least.get(key, 1):
            raise Failed(f"--settings: {key}: {value}; allowed: at least {least.get(key, 1)}")
    settings = {**defaults, **arguments.settings}
    return Given(arguments.directory.absolute(), getattr(arguments, "seconds", 0.0), arguments.seed, settings)


def write_whole(path: Path, text: str) -> None:
    """Write the file with that text, or none of it; a device such as /dev/null stays one."""
    if path.exists() and not path.is_file():
        path.write_text(text)
        return
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.write_text(text)
    part.replace(path)


def die_with_parent(death: signal.Signals = signal.SIGTERM) -> None:
    """Have this process get the signal `death` when its parent ends.

    Changing its user afterwards would undo it. Raises OSError.
    """
    if _libc.prctl(_SET_DEATH_SIGNAL, int(death), 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")


@contextlib.contextmanager
def child(
    command: Sequence[str | Path],
    package: str = "",
    death: signal.Signals = signal.SIGTERM,
    **options: Any,
) -> Iterator[subprocess.Popen]:
    """Run a child in a separate session, and end its whole group with the block.

    A terminal's interrupt is ours alone. The group ends by `death`, and after END_PATIENCE_SECONDS
    by SIGKILL; it ends, too, when this process dies.

    `options`: Popen's. `death` is what makes it end its own children, too (of make: SIGTERM).
    Raises Failed, with the Debian package that has it, where it is missing.
    """
    parent = os.getpid()

    def prepare() -> None:
        die_with_parent(death)
        if os.getppid() != parent:  # it died meanwhile
            os._exit(1)

    options = {"stdin": subprocess.DEVNULL, **options}
    try:
        process = subprocess.Popen(
            [str(word) for word in command], start_new_session=True, preexec_fn=prepare, **options
        )
    except FileNotFoundError:
        where = f"; Debian's package {package} has it" if package else ""
        raise Failed(f"{command[0]}: not found{where}") from None
    try:
        yield process
    finally:
        _end(process, death)


def _end(process: subprocess.Popen, death: signal.Signals) -> None:
    if process.poll() is None:
        _signal_group(process.pid, death)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(END_PATIENCE_SECONDS)
    _signal_group(process.pid, signal.SIGKILL)  # what is left of its group
    process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream:
            with contextlib.suppress(OSError):
                stream.close()


def _signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def run(
    command: Sequence[str | Path],
    package: str = "",
    allowed: Sequence[int] = (0,),
    text: str | None = None,
    timeout: float | None = None,
    death: signal.Signals = signal.SIGTERM,
    **options: Any,
) -> str:
    """Run a child that gets `text`, and return its standard output.

    Raises Failed unless its exit code is one of `allowed`: the first line of an error, else the
    first one.
    """
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
    if text is not None:
        options["stdin"] = subprocess.PIPE
    with child(command, package, death, **options) as process:
        try:
            output, errors = process.communicate(text, timeout)
        except subprocess.TimeoutExpired:
            raise Failed(f"{Path(command[0]).name}: still running after {timeout:.0f} s") from None
    if process.returncode not in allowed:
        said = [line.strip() for line in f"{errors or ''}\n{output or ''}".splitlines() if line.strip()]
        first = next(
            (line for line in said if "error" in line.lower()), said[0] if said else "it said nothing"
        )
        raise Failed(f"{Path(command[0]).name}: exit {process.returncode}: {first}")
    return output or ""


def drop_caches() -> bool:
    """Write all to the drives and let the kernel forget what it read.

    False where this user may not.
    """
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3")
    except OSError:
        return False
    return True


def fresh(folder: Path) -> Path:
    """Make an empty folder of that name; what an earlier layout left there is removed."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def unpack(archive: str, folder: Path) -> None:
    """Unpack the tar `archive`, whole and on the drive. Raises Failed."""
    if not archive:
        raise Failed("--settings: source: missing; allowed: a tar of a kernel's source")
    if not Path(archive).is_file():
        raise Failed(f"{archive}: no such file; playbooks/campaign.yml puts it on a test host")
    try:
        with tarfile.open(archive) as tar:
            tar.extractall(folder, _inside(tar, folder, archive))  # not every 3.11 has filters
    except tarfile.TarError as error:
        raise Failed(f"{archive}: {error}") from None
    os.sync()


def _inside(tar: tarfile.TarFile, folder: Path, archive: str) -> Iterator[tarfile.TarInfo]:
    """Yield an archive's members, each checked when those before it are unpacked in `folder`.

    Raises Failed for a device, and for a path or link that leaves the folder.
    """
    top = os.path.realpath(folder)
    for member in tar:
        path = os.path.join(folder, member.name)
        paths = [path]
        if member.issym() or member.islnk():
            paths.append(os.path.join(folder if member.islnk() else os.path.dirname(path), member.linkname))
        if any(os.path.commonpath([top, os.path.realpath(one)]) != top for one in paths):
            raise Failed(f"{archive}: {member.name}: leaves the folder; allowed: paths and links within it")
        if not (member.isfile() or member.isdir() or len(paths) > 1):
            raise Failed(f"{archive}: {member.name}: a device; allowed: files, folders and links")
        yield member


def files_of(folder: Path) -> dict[Path, int]:
    """Return every regular file below the folder, with its size in bytes."""
    found = {}
    for top, _, names in os.walk(folder):
        for name in names:
            path = Path(top, name)
            status = path.lstat()
            if stat.S_ISREG(status.st_mode):
                found[path] = status.st_size
    return found


def tool_version(command: str) -> str:
    """Return the first line of what `COMMAND --version` says."""
    return (run([command, "--version"]).splitlines() or [""])[0].strip()


def quantile(values: Sequence[float], fraction: float) -> float | None:
    """Return the least value that at least that fraction is within; None of no values."""
    ranked = sorted(values)
    if not ranked:
        return None
    return ranked[max(0, math.ceil(fraction * len(ranked)) - 1)]


def _now() -> tuple[int, int]:
    """Return CLOCK_REALTIME and CLOCK_MONOTONIC in ns."""
    return time.clock_gettime_ns(time.CLOCK_REALTIME), time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def _follow_signals() -> None:
    """Raise Interrupted at the first SIGINT or SIGTERM; later ones do nothing.

    So what runs is ended whole.
    """

    def interrupt(*_: Any) -> None:
        _ignore_signals()
        raise Interrupted

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)


def _ignore_signals() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)  # SIG_IGN would be inherited by children


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
