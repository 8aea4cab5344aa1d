# SPDX-License-Identifier: GPL-3.0-or-later
"""A PostgreSQL server in a folder, for the programs and applications that load one.

It listens on a socket in its folder alone. It runs as the user postgres where this runs as root.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import program

PACKAGE = "postgresql"
START_PATIENCE_SECONDS = 300.0
STOP_PATIENCE_SECONDS = 3600.0
_PSQL = ("-X", "-q", "-A", "-t", "-F", "\t", "--set=ON_ERROR_STOP=1")


class Cluster:
    """A PostgreSQL server's folder, and its programs run as its user."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.data = folder, folder / "data"
        self.programs = _programs()
        self.user = "postgres" if os.geteuid() == 0 else None
        self.options: dict[str, Any] = {
            "cwd": folder,
            "env": {
                "PATH": os.defpath,
                "LC_ALL": "C",
                "PGHOST": str(folder),
                "PGDATABASE": "postgres",
                "PGOPTIONS": "-c client_min_messages=warning",
            },
        }
        if self.user:
            self.options |= {"user": self.user, "group": _account(self.user).pw_gid, "extra_groups": []}

    def own(self, folder: Path) -> None:
        """Let the server's user write there."""
        if self.user:
            shutil.chown(folder, self.user)

    def run(self, name: str, *words: str, **options: Any) -> str:
        return program.run([self.programs / name, *words], PACKAGE, **self.options, **options)

    def create(self, *words: str) -> None:
        """Make the server's files; `words` are of initdb's command line."""
        self.own(self.folder)
        self.run(
            "initdb", "--pgdata", str(self.data), "--auth=peer", "--encoding=UTF8", "--no-locale", *words
        )

    def sql(self, text: str, **variables: float) -> list[list[str]]:
        """Run a script and return what it answers, by row and column."""
        given = [f"--set={name}={value}" for name, value in variables.items()]
        answer = self.run("psql", *_PSQL, *given, "-f", "-", text=text)
        return [line.split("\t") for line in answer.splitlines()]

    @contextlib.contextmanager
    def session(self) -> Iterator[Session]:
        """Open a connection that stays. Raises Failed."""
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        with program.child([self.programs / "psql", *_PSQL], PACKAGE, **{**self.options, **pipes}) as psql:
            yield Session(psql)

    @contextlib.contextmanager
    def serving(self, shared_buffers_mb: int, more: Mapping[str, str] = {}) -> Iterator[subprocess.Popen]:
        """Start a server, with `more` settings, and wait until it answers. Raises Failed.

        At the end it drops its work: `stop` lets it conclude before.
        """
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.folder),
            "unix_socket_permissions": "0700",
            "shared_buffers": f"{shared_buffers_mb}MB",
            **more,
        }
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with (
            tempfile.TemporaryFile("w+") as log,  # not among the files under test
            program.child(
                [self.programs / "postgres", "-D", self.data, *words],
                PACKAGE,
                death=signal.SIGQUIT,
                stdout=log,
                stderr=log,
                **self.options,
            ) as server,
        ):
            self._wait(server, log)
            yield server

    def _wait(self, server: subprocess.Popen, log: IO[str]) -> None:
        deadline = time.monotonic() + START_PATIENCE_SECONDS
        ready = [self.programs / "pg_isready", "-q"]
        while subprocess.run(ready, **self.options).returncode:
            if server.poll() is not None or time.monotonic() > deadline:
                log.seek(0)
                said = log.read().splitlines()
                fatal = next(
                    (line for line in said if "FATAL" in line), said[-1] if said else "it said nothing"
                )
                raise program.Failed(f"postgres: does not serve: {fatal}")
            time.sleep(0.05)


class Session:
    """A psql that stays connected."""

    def __init__(self, psql: subprocess.Popen) -> None:
        self._psql = psql
        self._asked = 0

    def run(self, text: str) -> None:
        """Run statements that print nothing, and wait until all are done. Raises Failed."""
        self._asked += 1
        done = f"done {self._asked}"
        try:
            self._psql.stdin.write(f"{text};\nSELECT '{done}';\n")
            self._psql.stdin.flush()
            answer = self._psql.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if answer != f"{done}\n":
            raise program.Failed("psql: ended; what it said is above")


def stop(server: subprocess.Popen) -> None:
    """Let the server write all that it has to its data files. Raises Failed."""
    server.send_signal(signal.SIGINT)
    try:
        server.wait(STOP_PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        raise program.Failed(
            f"postgres: still running {STOP_PATIENCE_SECONDS:.0f} s after it was stopped"
        ) from None


def _programs() -> Path:
    """Return the folder of the newest PostgreSQL's programs. Raises Failed."""
    found = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    if not found:
        raise program.Failed(f"initdb: not found; Debian's package {PACKAGE} has it")
    return max(found, key=lambda path: float(path.parent.name))


def _account(user: str) -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(user)
    except KeyError:
        raise program.Failed(f"user {user}: not found; Debian's package {PACKAGE} makes it") from None
