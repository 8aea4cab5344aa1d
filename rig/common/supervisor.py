# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep the controller's processes by a supervisord of this checkout: no root, no systemd."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import os
import re
import signal
import subprocess
import sys
import xmlrpc.client
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from supervisor.xmlrpc import Faults, SupervisorTransport

from joulerig.rig.common import files, paths, process, wait
from joulerig.rig.common.errors import UserError

# A program ends with a supervisor that is killed: the next one would find its ports taken.
WITH_SUPERVISOR = ("setpriv", "--pdeathsig", "TERM", "--")
STOP_SECONDS = 30.0  # supervisord kills what has not ended after 20
ALIVE = ("STARTING", "RUNNING", "BACKOFF", "STOPPING")


@dataclass(frozen=True)
class Program:
    """A process to keep. `ready`: whether it serves; `priority`: order of start, low first.

    `private`: the files that it makes are for its user alone. `sockets`: those on which it listens,
    which one that was killed leaves behind; they are removed before it is started.
    """

    name: str
    command: list[str]
    ready: Callable[[], bool] = lambda: True
    ready_seconds: float = 20.0
    priority: int = 500
    restart: bool = True
    private: bool = False
    sockets: tuple[Path, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)


def log_path(name: str) -> Path:
    """Return the file that takes the output of the program `name`."""
    return paths.var() / "log" / f"{name}.log"


def start(programs: Iterable[Program]) -> None:
    """Run these programs: start what is missing, restart what changed or died, leave the rest.

    Raises UserError with the last line of its log when one does not come up, or with the reason why
    its command cannot be run.
    """
    api = _supervisor()
    for program in sorted(programs, key=lambda p: p.priority):
        changed = _configure(program)
        states = _states(api)
        if changed and program.name in states:
            api.supervisor.stopProcessGroup(program.name)
            api.supervisor.removeProcessGroup(program.name)
            states.pop(program.name)
        if program.name not in states:
            api.supervisor.reloadConfig()
            api.supervisor.addProcessGroup(program.name)
        if _states(api)[program.name] == "BACKOFF":  # counts as running: it could not be started
            _stop_process(api, program.name)
        if _states(api)[program.name] not in ("RUNNING", "STARTING"):
            for socket in program.sockets:
                socket.unlink(missing_ok=True)
            _start_process(api, program.name)

        def up(program: Program = program) -> bool:
            return _states(api)[program.name] in ("EXITED", "FATAL", "BACKOFF") or program.ready()

        wait.until(up, program.ready_seconds)
        if _states(api)[program.name] not in ("RUNNING", "STARTING") or not program.ready():
            words = last_words(program.name)
            _stop_process(api, program.name)
            raise UserError(f"{program.name}: did not start: {words}")


def stop(select: Callable[[str], bool]) -> list[str]:
    """Stop and forget the programs whose names `select` picks, higher priority numbers first.

    When none is left, the supervisor stops too. One that can't be reached is ended with all of its
    programs.
    """
    api = _connect()
    if api is None:
        return _end_unreachable()
    states = _states(api)
    gone = sorted((n for n in states if select(n)), key=_priority, reverse=True)
    for _, alike in itertools.groupby(gone, key=_priority):
        names = list(alike)
        # All of a priority side by side: supervisord takes a second to see that one has ended.
        for name in names:
            api.supervisor.stopProcessGroup(name, False)

        def ended(names: list[str] = names) -> bool:
            states = _states(api)
            return not any(states.get(name) in ALIVE for name in names)

        wait.until(ended, STOP_SECONDS)
        for name in names:
            api.supervisor.removeProcessGroup(name)
            _config_path(name).unlink(missing_ok=True)
    if len(gone) == len(states):
        api.supervisor.shutdown()
        wait.until(lambda: _connect() is None, 20)
    return gone


def states() -> dict[str, str]:
    """Return supervisor's state of each program: RUNNING, STOPPED, EXITED, FATAL, ..."""
    api = _connect()
    return _states(api) if api else {}


def pids() -> dict[str, int]:
    """Return the process of each program that runs."""
    api = _connect()
    processes: Any = api.supervisor.getAllProcessInfo() if api else []
    return {info["name"]: info["pid"] for info in processes if info["pid"]}


def restart(name: str) -> None:
    """Stop and start a program as it is configured."""
    api = _connect()
    if api is None or name not in _states(api):
        raise UserError(f"{name}: is not running; 'rig up' or 'rig lab up' starts it")
    _stop_process(api, name)
    _start_process(api, name)


def halt(name: str) -> None:
    """Stop a program but keep it known: `restart` brings it back."""
    api = _connect()
    if api is None or _states(api).get(name) not in ("RUNNING", "STARTING"):
        raise UserError(f"{name}: is not running")
    _stop_process(api, name)


def last_words(name: str) -> str:
    """Return the last line that a program wrote."""
    try:
        lines = [line for line in log_path(name).read_text(errors="replace").splitlines() if line.strip()]
    except OSError:
        lines = []
    return (
        f"{lines[-1].strip()} ({paths.short(log_path(name))})" if lines else f"no output ({log_path(name)})"
    )


def _folder() -> Path:
    return paths.var() / "supervisor"


def _config_file() -> Path:
    return _folder() / "supervisord.conf"


def _config_path(name: str) -> Path:
    return _folder() / "programs" / f"{name}.conf"


def _priority(name: str) -> int:
    path = _config_path(name)
    match = re.search(r"^priority=(\d+)", path.read_text(), re.M) if path.exists() else None
    return int(match[1]) if match else 0


def _configure(program: Program) -> bool:
    """Write the program's section; True when that changed anything."""
    log_path(program.name).parent.mkdir(parents=True, exist_ok=True)
    quoted = " ".join(map(_quoted, [*WITH_SUPERVISOR, *program.command]))
    environment = ",".join(f'{key}="{value}"' for key, value in sorted(program.environment.items()))
    text = "\n".join(
        [
            f"[program:{program.name}]",
            f"command={quoted}".replace("%", "%%"),
            f"directory={paths.ROOT}".replace("%", "%%"),
            f"environment={environment}".replace("%", "%%"),
            f"priority={program.priority}",
            f"autorestart={'true' if program.restart else 'false'}",
            *(["umask=077"] if program.private else []),
            "autostart=false",
            "startsecs=0" if not program.restart else "startsecs=1",
            "stopwaitsecs=20",
            "stopasgroup=true",
            "killasgroup=true",
            "redirect_stderr=true",
            f"stdout_logfile={log_path(program.name)}",
            "stdout_logfile_maxbytes=10MB",
            "stdout_logfile_backups=1",
            "",
        ]
    )
    path = _config_path(program.name)
    if path.exists() and path.read_text() == text:
        return False
    files.replace(path, text)
    return True


def _quoted(word: str) -> str:
    """Quote an argument for supervisor's configuration, where ; or # after a space is a comment."""
    text = word.replace("\\", "\\\\").replace('"', '\\"')
    for mark in ";#":
        text = text.replace(mark, f'""{mark}""')
    return f'"{text}"'


def _states(api: xmlrpc.client.ServerProxy) -> dict[str, str]:
    processes: Any = api.supervisor.getAllProcessInfo()
    return {info["name"]: info["statename"] for info in processes}


def _start_process(api: xmlrpc.client.ServerProxy, name: str) -> None:
    """Start a program, unless it runs. One that has ended already is left for its caller to find.

    Raises UserError where its command cannot be run.
    """
    try:
        api.supervisor.startProcess(name, False)
    except xmlrpc.client.Fault as fault:
        if fault.faultCode in (Faults.NO_FILE, Faults.NOT_EXECUTABLE):
            reason = fault.faultString.partition(": ")[2]
            raise UserError(f"{name}: did not start: {reason}") from None
        if fault.faultCode not in (Faults.SPAWN_ERROR, Faults.ALREADY_STARTED):
            raise


def _stop_process(api: xmlrpc.client.ServerProxy, name: str) -> None:
    """Stop a program and wait for its end; one that has ended by itself is as well."""
    try:
        api.supervisor.stopProcess(name)
    except xmlrpc.client.Fault as fault:
        if fault.faultCode != Faults.NOT_RUNNING:
            raise


def _connect() -> xmlrpc.client.ServerProxy | None:
    socket = paths.run() / "supervisor.sock"
    api = xmlrpc.client.ServerProxy(
        "http://127.0.0.1", transport=SupervisorTransport(None, None, f"unix://{socket}"), allow_none=True
    )
    try:
        api.supervisor.getState()
    except (OSError, http.client.HTTPException):
        return None
    return api


def _end_unreachable() -> list[str]:
    """End the supervisord of this state whose socket is gone; return the programs that it kept.

    It is known by its command line, which no other checkout's has.
    """
    descriptors = _running()
    if not descriptors:
        return []
    names = sorted(path.stem for path in (_folder() / "programs").glob("*.conf"))
    for number in (signal.SIGTERM, signal.SIGKILL):  # at the first it stops its programs
        for descriptor in descriptors:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, number)
        if wait.until(lambda: all(map(process.has_ended, descriptors)), STOP_SECONDS):
            break
    for descriptor in descriptors:
        os.close(descriptor)
    return names or ["supervisord"]


def _running() -> list[int]:
    """Return a descriptor of each process that is the supervisord of this state."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError), contextlib.ExitStack() as undo:
            descriptor = os.pidfd_open(int(folder.name))
            undo.callback(os.close, descriptor)
            # Looked at while it is held: the number is no other process's.
            words = (folder / "cmdline").read_bytes().split(b"\0")[:-1]
            if words[1:] == [os.fsencode(word) for word in _command()[1:]]:
                found.append(descriptor)
                undo.pop_all()
    return found


def _command() -> list[str]:
    return [sys.executable, "-m", "supervisor.supervisord", "-c", str(_config_file())]


def _supervisor() -> xmlrpc.client.ServerProxy:
    """Return the running supervisord; start it if there is none that can be reached."""
    if api := _connect():
        return api
    _end_unreachable()  # it has the ports of the programs
    folder = _folder()
    for old in (folder / "programs").glob("*.conf"):
        old.unlink()  # of a supervisor that is gone; its programs are configured when they are started
    text = f"""[unix_http_server]
file={paths.run()}/supervisor.sock
chmod=0700
[supervisord]
logfile={folder}/supervisord.log
pidfile={folder}/supervisord.pid
childlogdir={folder}
directory={paths.ROOT}
[rpcinterface:supervisor]
supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface
[include]
files = programs/*.conf
"""
    files.replace(_config_file(), text.replace("%", "%%"))
    done = subprocess.run(_command(), stdin=subprocess.DEVNULL, capture_output=True, text=True)
    api = wait.until(_connect, 10)
    if api is None:
        words = (done.stderr or done.stdout).strip().splitlines()
        raise UserError(f"supervisord: did not start: {words[-1] if words else 'no output'}")
    return api
