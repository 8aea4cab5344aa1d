# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that are whole or absent, secrets that only their owner reads, ports that stay the same."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
import socket
import tempfile
from pathlib import Path

from rig import paths


def replace(path: Path, text: str, mode: int = 0o644) -> None:
    """Put `text` at `path`: a reader, or a crash, sees the old or the new content, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, mode)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def secret(name: str) -> Path:
    """The file of the secret `name`, random, made at its first use; only the user can read it."""
    path = paths.var() / "secrets" / name
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        replace(path, secrets.token_urlsafe(24), mode=0o600)
    return path


def kept_port(name: str) -> int:
    """A local TCP and UDP port for `name`: free when first asked for, the same ever after (what is deployed
    on test hosts names it)."""
    path = paths.var() / "ports.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ports: dict[str, int] = json.loads(path.read_text()) if path.exists() else {}
        while name not in ports:
            with socket.socket() as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp:
                tcp.bind(("127.0.0.1", 0))
                port = tcp.getsockname()[1]
                try:
                    udp.bind(("127.0.0.1", port))
                except OSError:
                    continue
                if port not in ports.values():
                    ports[name] = port
        replace(path, json.dumps(ports, indent=1))
        return ports[name]


def digest(path: Path) -> str:
    """A short hash of a file's content."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
