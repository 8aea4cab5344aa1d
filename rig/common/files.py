# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that are whole or absent, secrets that only their owner reads, ports that stay the same."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import random
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from joulerig import atomic
from joulerig.rig.common import paths
from joulerig.rig.common.errors import UserError

KEPT_PORTS = range(20000, 32768)


def replace(path: Path, text: str, mode: int = 0o644) -> None:
    """Put `text` at `path`: a reader, or a crash, sees the old or the new content, never a part."""
    atomic.write(path, text.encode(), mode)


def secret(name: str) -> Path:
    """Return the file of the secret `name`: random, made at first use, for the user alone."""
    path = paths.var() / "secrets" / name
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with locked(paths.var() / "secrets.lock"):  # two that ask at once get the same one
        if not path.exists():
            replace(path, secrets.token_urlsafe(24), mode=0o600)
    return path


def kept_port(name: str) -> int:
    """Return a local TCP and UDP port for `name`: free when first asked for, the same ever after.

    What is deployed on test hosts names it. It is below the ports that the system gives to outgoing
    connections, or one of these could have it when its owner starts again.
    """
    path = paths.var() / "ports.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path.with_suffix(".lock")):
        ports: dict[str, int] = json.loads(path.read_text()) if path.exists() else {}
        if name not in ports:
            candidates = random.sample(KEPT_PORTS, len(KEPT_PORTS))
            found = next((p for p in candidates if p not in ports.values() and _free(p)), None)
            if found is None:
                raise UserError(f"{paths.short(path)}: no port is free for {name}")
            ports[name] = found
            replace(path, json.dumps(ports, indent=1))
        return ports[name]


def _free(port: int) -> bool:
    with socket.socket() as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp:
        try:
            tcp.bind(("", port))
            udp.bind(("", port))
        except OSError:
            return False
    return True


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the exclusive lock of a file, which other processes wait for."""
    with open(path, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def sole(path: Path, what: str) -> Iterator[None]:
    """Hold the exclusive lock of a file for `what`, a command that people know.

    Raises UserError, which names what has it, where another process does.
    """
    with open(path, "a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise UserError(f"{lock.read().strip()} has not ended; wait for it, or end it") from None
        lock.truncate(0)
        lock.write(f"'{what}', process {os.getpid()},")
        lock.flush()
        yield


def digest(path: Path) -> str:
    """Return a short hash of a file's content."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
