# SPDX-License-Identifier: GPL-3.0-or-later
"""Begin a detached call, find it again, and wait for its outcome."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import select
import shlex
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible.module_utils.joulerig import paths, tools
from ansible.module_utils.joulerig.changes.contents import replace
from ansible.module_utils.joulerig.detached import code, unit
from ansible.module_utils.joulerig.tools import Failed

ABSENT = "absent"  # status of a call that this host does not know
REQUEST, STATE, OUTCOME, CODE, WORDS = "request.json", "state.json", "outcome.json", "code.zip", "words"
KEPT_SECONDS = 60 * 86400  # how long an outcome waits that is not collected
BEGIN_SECONDS = 60.0
PUT_BACK_SECONDS = 120.0  # what putting back after a killed process may take
LOOK_SECONDS = 0.05
FOLDERS = "[!.]*/"  # those of calls; one that is being removed begins with a dot


class Call:
    """A call by its name: a folder with what was asked, who does it, and its outcome."""

    def __init__(self, name: str) -> None:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}", name):
            raise Failed(f"call {name!r}: not a name; allowed: letters, digits, '.', '_', '-'")
        self.name, self.folder = name, Path(paths.STATE) / "calls" / name

    @property
    def exists(self) -> bool:
        return (self.folder / REQUEST).exists()

    @property
    def outcome(self) -> dict[str, Any] | None:
        """Return its outcome; None where it has not ended, or ended without one."""
        return read(self.folder / OUTCOME)

    @property
    def state(self) -> dict[str, Any] | None:
        """Return what its process is known by (`unit.identity`); None before it began."""
        return read(self.folder / STATE)

    def begin(self, module: str, parameters: Mapping[str, Any]) -> None:
        """Begin it as a transient unit. Raises Failed where the host cannot."""
        self.folder.mkdir(parents=True, mode=0o700)
        try:
            shutil.copyfile(code.compiled(code.archive()), self.folder / CODE)
            write(
                self.folder / REQUEST,
                {"module": module, "parameters": dict(parameters), "boot_id": unit.boot_id()},
            )
            unit.start(self.name, self.folder, *_commands(self.folder))
            end = time.monotonic() + BEGIN_SECONDS
            while self.state is None and self.outcome is None:
                if not self.exists:
                    raise Failed(f"call {self.name}: was removed while it began")
                if time.monotonic() > end:
                    raise Failed(f"call {self.name}: did not begin in {BEGIN_SECONDS:g} s{self._said()}")
                time.sleep(LOOK_SECONDS)
        except BaseException:
            unit.end(self.name, self.state)
            remove(self.folder)
            raise

    def wait(self, output: int = 1) -> dict[str, Any]:
        """Wait for its end and return its outcome.

        It is `lost` where the host booted meanwhile, and failed where its process left no outcome.
        Exits where no process reads `output` any more: an answer would go nowhere.
        """
        state = self.state
        if state and unit.is_alive(state):
            _wait_for_end(state["pid"], output)
        end = time.monotonic() + (PUT_BACK_SECONDS if state and state["boot_id"] == unit.boot_id() else 0)
        while (found := self.outcome) is None and unit.is_ending(self.name, state) and time.monotonic() < end:
            time.sleep(LOOK_SECONDS)
        return found if found is not None else self.outcome or self._lost()

    def _lost(self) -> dict[str, Any]:
        asked = read(self.folder / REQUEST) or {}
        if asked.get("boot_id") != unit.boot_id():
            return {"status": tools.LOST, "reason": "the host booted while it ran", "cause": "booted"}
        return {"status": tools.FAILED, "reason": f"its process ended without an outcome{self._said()}"}

    def _said(self) -> str:
        return f": {said}" if (said := last_words(self.folder)) else ""


def attend(
    name: str, module: str, parameters: Mapping[str, Any], *, begin: bool = True, output: int = 1
) -> dict[str, Any]:
    """Return the outcome of a call, waiting for its end; begin it first where it is not known.

    `begin` false: one that is not known is `absent`. `module`: by which Python finds it in the code
    that came with this call. Raises Failed where the host cannot begin it.
    """
    call = Call(name)
    with _one_at_a_time():
        if not call.exists:
            if not begin:
                return {"status": ABSENT, "reason": "this host does not know it"}
            _remove_old()
            remove(call.folder)  # cut short before it began
            call.begin(module, parameters)
    return call.wait(output)


def listed() -> list[dict[str, Any]]:
    """Return each call that this host knows: `name`, and whether it `runs`."""
    found = []
    for folder in sorted((Path(paths.STATE) / "calls").glob(FOLDERS)):
        call = Call(folder.name)
        runs = call.outcome is None and unit.is_alive(call.state)
        found.append({"name": call.name, "runs": runs})
    return found


def collected(names: Sequence[str]) -> None:
    """Remove calls whose outcome arrived. One that runs stays."""
    for name in names:
        call = Call(name)
        if call.outcome is not None or not unit.is_alive(call.state):
            remove(call.folder)


def forget(campaign: str) -> None:
    """Remove each call of a campaign that does not run, whether its outcome arrived or not."""
    collected([one["name"] for one in _calls_of(campaign)])


def in_progress(campaign: str) -> bool:
    """Check whether a call of a campaign runs."""
    return any(one["runs"] for one in _calls_of(campaign))


def _calls_of(campaign: str) -> list[dict[str, Any]]:
    of_it = re.compile(re.escape(campaign) + r"-\d+\.")  # a run's id, then its attempt
    return [one for one in listed() if of_it.match(one["name"])]


def stop(name: str) -> None:
    """Have a call end in good order: its load, then its settings. Its outcome stays."""
    call = Call(name)
    if call.exists and call.outcome is None:
        unit.end(name, call.state)


def stop_all(campaign: str) -> list[str]:
    """End all running calls of a campaign in good order; return their names."""
    names = [one["name"] for one in _calls_of(campaign) if one["runs"]]
    for name in names:
        stop(name)
    return names


def last_words(folder: Path) -> str:
    """Return the last line that a call's process printed, or an empty text."""
    with contextlib.suppress(OSError):
        lines = (folder / WORDS).read_text(errors="replace").split("\n")
        return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "")
    return ""


def read(path: Path) -> dict[str, Any] | None:
    """Return the content of a file of `write`; None where there is none."""
    try:
        found: dict[str, Any] = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return None
    return found


def write(path: Path, content: Mapping[str, Any]) -> None:
    """Write a file, whole or not at all, so that it is there after a loss of power."""
    replace(str(path), json.dumps(content).encode(), 0o600)


def _commands(folder: Path) -> tuple[list[str], str]:
    """Return what executes a call, and a command that does what is left where it has an outcome."""
    outcome, archive = (shlex.quote(str(folder / name)) for name in (OUTCOME, CODE))
    return [sys.executable, "-c", _program(folder)], f"test -e {outcome} && rm -f {archive}"


def _program(folder: Path) -> str:
    place = str(folder / CODE)
    return (
        f"import sys; sys.path.insert(0, {place!r})\n"
        "from ansible.module_utils.joulerig.detached import child\n"
        f"child.main({str(folder)!r})"
    )


def _wait_for_end(process: int, output: int) -> None:
    try:
        pidfd = tools.process_descriptor(process)
    except ProcessLookupError:
        return
    try:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        poll.register(output, 0)
        for descriptor, _ in poll.poll():
            if descriptor == output:
                sys.exit(0)
    finally:
        os.close(pidfd)


@contextlib.contextmanager
def _one_at_a_time() -> Iterator[None]:
    place = Path(paths.STATE) / "calls"
    place.mkdir(parents=True, mode=0o700, exist_ok=True)
    with open(place / ".lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def remove(folder: Path) -> None:
    """Remove a call at once: a process that still ends in its folder finds all of it or nothing."""
    removed = folder.with_name(f".{folder.name}.{os.getpid()}.{time.monotonic_ns()}")
    with contextlib.suppress(FileNotFoundError):
        folder.rename(removed)
        shutil.rmtree(removed, ignore_errors=True)


def _remove_old() -> None:
    for folder in (Path(paths.STATE) / "calls").glob(FOLDERS):
        with contextlib.suppress(OSError):
            if time.time() - (folder / OUTCOME).stat().st_mtime > KEPT_SECONDS:
                remove(folder)
    for removed in (Path(paths.STATE) / "calls").glob(".*/"):  # cut short
        shutil.rmtree(removed, ignore_errors=True)
