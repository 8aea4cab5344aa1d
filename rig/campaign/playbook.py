# SPDX-License-Identifier: GPL-3.0-or-later
"""Campaign playbooks: read their `campaign:` mapping, run them, and follow their journal while they run."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from joulerig.rig.campaign.journal import FINAL, Journal
from joulerig.rig.common import paths
from joulerig.rig.common.errors import UserError

NOTE = "note: "  # what an action plugin's line begins with that is for whoever waits
_WRAPPERS = re.compile(r"^((Task|Action) failed: )+")  # what Ansible puts before a message of ours


def mapping(playbook: Path) -> Any:
    """What a campaign's playbook says under `campaign:`. Raises UserError."""
    if not playbook.is_file():
        known = ", ".join(sorted(paths.short(p) for p in (paths.share() / "playbooks").glob("*.yml")))
        raise UserError(f"{playbook}: no such playbook; there are: {known}")
    try:
        plays = yaml.safe_load(playbook.read_text())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{playbook}: {' '.join(str(error).split())}") from None
    for play in plays if isinstance(plays, list) else []:
        if isinstance(play, dict) and isinstance(play.get("vars"), dict) and "campaign" in play["vars"]:
            return play["vars"]["campaign"]
    raise UserError(f"{playbook}: no play of it imports campaign.yml with a campaign: mapping under vars:")


def _command(playbook: Path, inventory: Path) -> list[str]:
    program = Path(sys.executable).parent / "ansible-playbook"
    return [str(program), "-i", str(inventory), str(playbook.absolute())]


def ansible(
    playbook: Path, inventory: Path, extra: dict[str, str] | None = None, log: Path | None = None
) -> int:
    """Run ansible-playbook with the checkout's configuration, output into `log` if given. Its exit code."""
    command = _command(playbook, inventory)
    for key, value in (extra or {}).items():
        command += ["-e", f"{key}={value}"]
    environment = {**os.environ, "ANSIBLE_CONFIG": str(paths.share() / "ansible.cfg")}
    if log is None:
        return subprocess.run(command, cwd=paths.ROOT, env=environment).returncode
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as output:
        done = subprocess.run(
            command, cwd=paths.ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    return done.returncode


class Interrupted(Exception):
    """A campaign that was given up by Ctrl-C; `campaign` is its id, None where it had not begun."""

    def __init__(self, campaign: str | None) -> None:
        super().__init__(campaign)
        self.campaign = campaign


def campaign(
    playbook: Path, inventory: Path, resume: str | None, console: Console, *, short: bool = False
) -> tuple[int, Path | None]:
    """Run a campaign's playbook (or its short form) and show its progress; gives Ansible's exit code and the
    campaign's folder.

    What Ansible says goes to var/log/campaign.log; what matters of it is shown. Raises Interrupted by Ctrl-C.
    """
    before = set(_journals())
    log = paths.var() / "log" / "campaign.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    command = _command(playbook, inventory)
    command += ["-e", f"resume={resume}"] if resume else []
    command += ["-e", "short=true"] if short else []
    environment = {**os.environ, "ANSIBLE_CONFIG": str(paths.share() / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
    with log.open("w") as output:
        process = subprocess.Popen(
            command, cwd=paths.ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
        folder = None
        try:
            while folder is None and process.poll() is None:
                time.sleep(0.2)
                folder = _opened(before, resume)
            folder = folder or _opened(before, resume)
            if folder:
                _follow(folder, process, console, inventory, log)
            process.wait()
        except KeyboardInterrupt:
            process.terminate()  # Ansible has had the signal too; this is for one that had not
            process.wait()
            raise Interrupted(folder.name if folder else None) from None
    return process.returncode, folder


def failure(log: Path) -> str:
    """The one line of Ansible's output that says why it failed: of the first task that did."""
    lines = log.read_text(errors="replace").splitlines()
    for number, line in enumerate(lines):
        if line.startswith(("fatal:", "failed:")):
            result = itertools.takewhile(lambda more: more.startswith(" "), lines[number + 1 :])
            if text := _message("\n".join(result)):
                return text
    errors = [line.removeprefix("[ERROR]: ") for line in lines if line.startswith("[ERROR]: ")]
    return errors[0] if errors else (lines[-1] if lines else "it said nothing")


def _message(result: str) -> str:
    """A failed task's message on one line, from its result as the playbook's output shows it (YAML)."""
    try:
        shown = yaml.safe_load(result)
        message = str(shown["msg"])
    except (yaml.YAMLError, LookupError, TypeError):
        return ""
    if isinstance(shown.get("stderr"), str) and shown["stderr"].strip():  # a command's message says only that
        message += ": " + shown["stderr"].strip().splitlines()[-1]
    return _WRAPPERS.sub("", " ".join(message.split()))


def _journals() -> Iterator[Path]:
    return paths.results().glob("*/journal.sqlite")


def _opened(before: set[Path], resume: str | None) -> Path | None:
    if resume:
        found = paths.results() / resume
        return found if (found / "journal.sqlite").exists() else None
    new = sorted(set(_journals()) - before)
    return new[0].parent if new else None


def _notes(log: Path) -> Iterator[list[str]]:
    """What came to Ansible's output since it was last asked for whoever waits."""
    rest = ""
    with log.open(errors="replace") as output:
        while True:
            *lines, rest = (rest + output.read()).split("\n")
            yield [line.removeprefix(NOTE) for line in lines if line.startswith(NOTE)]


def _follow(folder: Path, process: subprocess.Popen, console: Console, inventory: Path, log: Path) -> None:
    """Show done/total, the current run with its phase, the time to go, and notes, until the process ends."""
    journal = Journal(folder)
    notes = _notes(log)
    phase_of = _current_phase(inventory)
    told: set[str] = {run["id"] for run in journal.runs() if run["status"] in FINAL}
    with _bar(console) as progress:
        runs = journal.runs()
        task = progress.add_task("", total=len(runs), completed=len(told), eta="", current="")
        start, already = time.monotonic(), len(told)
        while True:
            ended = process.poll() is not None
            for note in next(notes):
                progress.console.print(f"   note  {note}", highlight=False, markup=False)
            runs = journal.runs()
            for run in runs:
                if run["status"] in FINAL and run["id"] not in told:
                    told.add(run["id"])
                    progress.console.print(_line(run, journal), highlight=False)
            current = ", ".join(
                f"{run['cell']} {phase_of(run)}".strip() for run in runs if run["status"] == "running"
            )
            done = len(told) - already
            left = len(runs) - len(told)
            eta = f"{(time.monotonic() - start) / done * left / 60:.1f} min to go" if done and left else ""
            progress.update(task, completed=len(told), current=current, eta=eta)
            if ended:
                break
            time.sleep(0.5)
    journal.close()


def _current_phase(inventory: Path) -> Callable[[dict[str, Any]], str]:
    """A function that tells the phase a running run is in, from the announcements in InfluxDB."""
    from joulerig.analysis.results.influx import InfluxError, quote_string
    from joulerig.rig.campaign import measure
    from joulerig.rig.lab import model

    try:
        database = measure.client(model.load(inventory))
    except UserError:
        return lambda run: ""

    def phase(run: dict[str, Any]) -> str:
        try:
            frame = database.query(
                f"SELECT start_ns FROM phase WHERE run = {quote_string(run['id'])} GROUP BY phase"
            )
        except InfluxError:
            return ""
        return f"({frame.sort('time')['phase'][-1]})" if frame.height else "(starting)"

    return phase


def _line(run: dict[str, Any], journal: Journal) -> str:
    colour = {"ok": "green", "partial": "yellow", "not-run": "yellow"}.get(run["status"], "red")
    text = f"[{colour}]{run['status']:>7}[/] {run['ordinal']:>4}  {run['cell']}"
    results = journal.rows("result", run["id"])
    if results and results[0]["joules"] is not None:
        row = results[0]
        ai = row["ai_ops_per_joule"]
        text += (f"  {ai:.1f} ops/J" if ai is not None else "") + f"  {row['joules']:.3f} J"
        if row["error_percent"] is not None:
            text += f" ({row['error_percent']:+.3f} % of true)"
    return text + (f"  {escape(run['reason'])}" if run["reason"] else "")


@contextmanager
def _bar(console: Console) -> Iterator[Progress]:
    columns = (
        SpinnerColumn(),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[eta]}"),
        TextColumn("{task.fields[current]}"),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        yield progress
