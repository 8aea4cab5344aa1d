# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the `campaign:` mapping of playbooks, run them, and follow their journal meanwhile."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from joulerig.analysis.results.schema import FINISHED, Status
from joulerig.rig.campaign import events
from joulerig.rig.campaign.journal import Journal, find
from joulerig.rig.campaign.launch import handed
from joulerig.rig.common import paths, yaml_text
from joulerig.rig.common.bounded import LONGEST_LINE, Model, one_line, read
from joulerig.rig.common.errors import UserError

# What Ansible takes for the name of one host: not @FILE, nor a pattern.
HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_COLOURS = {
    Status.OK: "green",
    **dict.fromkeys((Status.PARTIAL, Status.REFUSED, Status.NOT_RUN), "yellow"),
}


def mapping(playbook: Path) -> Any:
    """Return what a campaign's playbook has under `campaign:`. Raises UserError."""
    if not playbook.is_file():
        known = ", ".join(sorted(paths.short(p) for p in (paths.share() / "playbooks").glob("*.yml")))
        raise UserError(f"{playbook}: no such playbook; allowed: {known}")
    plays = yaml_text.read(playbook)
    for play in plays if isinstance(plays, list) else []:
        if isinstance(play, dict) and isinstance(play.get("vars"), dict) and "campaign" in play["vars"]:
            return play["vars"]["campaign"]
    raise UserError(f"{playbook}: no play imports campaign.yml with a campaign: mapping under vars:")


@contextmanager
def _started(
    playbook: Path, inventory: Path, log: Path, hosts: Iterable[str] = (), data: handed.Handed | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run ansible-playbook with the shipped configuration, output into `log`, and events.

    `hosts`: those it is limited to. `data`: what it is handed.
    """
    command = [*_command(playbook, inventory)]
    if hosts:
        command += ["--limit", ",".join(map(_host, hosts))]
    log.parent.mkdir(parents=True, exist_ok=True)
    events_file(log).unlink(missing_ok=True)
    environment = {
        **os.environ,
        "ANSIBLE_CONFIG": str(paths.share() / "ansible.cfg"),
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_CALLBACK_PLUGINS": str(paths.share() / "ansible" / "callback_plugins"),
        "ANSIBLE_CALLBACKS_ENABLED": "joulerig_events",
        events.ENVIRONMENT: str(events_file(log).absolute()),
    }
    with handed.file(data or {}) as handing:
        with log.open("w") as output:
            process = subprocess.Popen(
                command,
                cwd=paths.ROOT,
                env={**environment, **handing},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        yield process


def _host(name: str) -> str:
    if not HOST.fullmatch(name):
        raise UserError(
            f"{one_line(name, 60)!r} is no host's name; allowed: at most 128 letters, digits, '.', '_', '-'"
        )
    return name


def _command(playbook: Path, inventory: Path) -> list[str]:
    program = [sys.executable, "-m", "joulerig.rig.campaign.launch.ansible_playbook"]
    return [*program, "-i", str(inventory), str(playbook.absolute())]


def ansible(
    playbook: Path,
    inventory: Path,
    *,
    log: Path,
    hosts: Iterable[str] = (),
    data: handed.Handed | None = None,
) -> int:
    """Run a playbook to its end, output into `log`; return the exit code.

    `hosts`: those it is limited to; none: all. `data`: what its action plugins read, never as a
    template (`handed`). `failure` has the reason of an exit code. Raises UserError.
    """
    with _started(playbook, inventory, log, hosts, data) as process:
        return _wait(process, log)


def replies(
    playbook: str, inventory: Path, *, log: str, asked: handed.Handed, event: str, model: type[Model]
) -> dict[str, Model | str]:
    """Run a shipped playbook that asks each host once; return the reply of each, by name.

    `asked`: what each is asked. `event`: of its reply, which is a `model`. For a host that gave
    none, or one of another shape, the reason. `log`: its name in var/log. Raises UserError where
    none could be asked for a reason that is not a host's.
    """
    path = paths.var() / "log" / log
    code = ansible(paths.share() / "playbooks" / playbook, inventory, log=path, hosts=asked, data=asked)
    found: dict[str, Model | str] = {}
    for one in next(events.follow(events_file(path))):
        if one["event"] == event:
            found[one["host"]] = _read(model, one["reply"])
        elif one["event"] == events.FAILED and "host" in one:
            found[one["host"]] = one_line(one["message"])
    if code and not found:
        raise UserError(f"{failure(path)} ({paths.short(path)})")
    return {host: found.get(host, "gave no answer") for host in asked}


def _read(model: type[Model], reply: Any) -> Model | str:
    try:
        return read(model, reply, "the host")
    except UserError as error:
        return str(error)


def _wait(process: subprocess.Popen[bytes], log: Path) -> int:
    """Return the exit code of a playbook; that it was killed is an event."""
    code = process.wait()
    if code < 0:
        name = signal.Signals(-code).name
        events.append(events_file(log), events.FAILED, message=f"ansible-playbook was ended by {name}")
    return code


def events_file(log: Path) -> Path:
    """Return the file with the events of the playbook whose output is in `log`."""
    return log.with_suffix(".events")


class Interrupted(Exception):
    """A campaign that was given up by Ctrl-C; `campaign` is its id, None where it had not begun."""

    def __init__(self, campaign: str | None) -> None:
        super().__init__(campaign)
        self.campaign = campaign


def campaign(
    playbook: Path,
    inventory: Path,
    resume: str | None,
    console: Console,
    *,
    short: bool = False,
    take_over: bool = False,
) -> tuple[int, Path | None]:
    """Run a campaign's playbook and show its progress; return exit code and the campaign's folder.

    `take_over`: resume it though this controller did not open it.
    Ansible's output goes to var/log/campaign.log; its events are shown. Raises Interrupted on
    Ctrl-C.
    """
    before = set(_journals())
    log = paths.var() / "log" / "campaign.log"
    asked = {"resume": resume or "", "short": short, "take_over": take_over}
    folder = None
    with _started(playbook, inventory, log, data={handed.CONTROLLER: asked}) as process:
        try:
            while folder is None and process.poll() is None:
                time.sleep(0.2)
                folder = _opened(before, resume)
            folder = folder or _opened(before, resume)
            if folder:
                _follow(folder, process, console, inventory, log)
            _wait(process, log)
        except KeyboardInterrupt:
            process.terminate()  # Ansible has had the signal too; this is for one that had not
            process.wait()
            raise Interrupted(folder.name if folder else None) from None
    return process.returncode, folder


def failure(log: Path) -> str:
    """Return, on one line, why a playbook failed: the first failure event, else its last output."""
    for event in next(events.follow(events_file(log))):
        if event["event"] == events.FAILED:
            return one_line(event["message"], LONGEST_LINE)
    lines = log.read_text(errors="replace").splitlines()
    return one_line(lines[-1], LONGEST_LINE) if lines else "no output"


def _journals() -> Iterator[Path]:
    return paths.results().glob("*/journal.sqlite")


def _opened(before: set[Path], resume: str | None) -> Path | None:
    if resume:
        return find(paths.results(), resume)
    new = sorted(set(_journals()) - before)
    return new[0].parent if new else None


def _follow(
    folder: Path, process: subprocess.Popen[bytes], console: Console, inventory: Path, log: Path
) -> None:
    """Show done/total, current run and phase, time to go, and notes, until the process ends."""
    journal = Journal(folder)
    new_events = events.follow(events_file(log))
    current_phases = _current_phases(inventory)
    reported: set[str] = {run["id"] for run in journal.runs() if run["status"] in FINISHED}
    with _bar(console) as progress:
        runs = journal.runs()
        task = progress.add_task("", total=len(runs), completed=len(reported), eta="", current="")
        start, already = time.monotonic(), len(reported)
        while True:
            ended = process.poll() is not None
            for event in next(new_events):
                if event["event"] == events.NOTE:
                    text = one_line(event["text"], LONGEST_LINE)
                    progress.console.print(f"   note  {text}")
            runs = journal.runs()
            for run in runs:
                if run["status"] in FINISHED and run["id"] not in reported:
                    reported.add(run["id"])
                    progress.console.print(_line(run, journal))
            running = [run for run in runs if run["status"] == Status.RUNNING]
            phases = current_phases([run["id"] for run in running])
            current = ", ".join(f"{run['cell']} {phases.get(run['id'], '')}".strip() for run in running)
            done = len(reported) - already
            left = len(runs) - len(reported)
            eta = f"{(time.monotonic() - start) / done * left / 60:.1f} min to go" if done and left else ""
            progress.update(task, completed=len(reported), current=current, eta=eta)
            if ended:
                break
            time.sleep(0.5)
    journal.close()


def _current_phases(inventory: Path) -> Callable[[list[str]], dict[str, str]]:
    """Return a function that gives the phases of running runs, by id, as they announced them."""
    from joulerig.analysis.results.influxdb.client import InfluxError, quote_string
    from joulerig.rig.campaign import measure
    from joulerig.rig.lab import model

    try:
        database = measure.client(model.load(inventory))
    except UserError:
        return lambda runs: {}

    def phases(runs: list[str]) -> dict[str, str]:
        if not runs:
            return {}
        wanted = " OR ".join(f"run = {quote_string(run)}" for run in runs)
        try:
            frame = database.query(f"SELECT start_ns FROM phase WHERE {wanted} GROUP BY host, run, phase")
        except InfluxError:
            return {}
        announced = frame.sort("time").iter_rows(named=True) if frame.height else ()
        return dict.fromkeys(runs, "(starting)") | {row["run"]: f"({row['phase']})" for row in announced}

    return phases


def _line(run: dict[str, Any], journal: Journal) -> Text:
    text = f" {run['ordinal']:>4}  {run['cell']}"
    results = journal.rows("result", run["id"])
    if results and results[0]["joules"] is not None:
        row = results[0]
        ai = row["ai_ops_per_joule"]
        text += (f"  {ai:.1f} ops/J" if ai is not None else "") + f"  {row['joules']:.3f} J"
        if row["error_percent"] is not None:
            text += f" ({row['error_percent']:+.3f} % of true)"
    text += f"  {run['reason']}" if run["reason"] else ""
    return Text.assemble((f"{run['status']:>7}", _COLOURS.get(run["status"], "red")), text)


@contextmanager
def _bar(console: Console) -> Iterator[Progress]:
    columns = (
        SpinnerColumn(),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[eta]}"),
        TextColumn("{task.fields[current]}", markup=False),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        yield progress
