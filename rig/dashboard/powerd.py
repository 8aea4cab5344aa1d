# SPDX-License-Identifier: GPL-3.0-or-later
"""The power daemon's view of its meters: HTTP over its unix socket."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from joulerig.errors import JoulerigError

FIGURES = (
    "state",
    "reason",
    "gap_seconds",
    "restarts",
    "clock_residual_seconds",
    "sample_rate_hz",
    "observed_rate_hz",
)

LEDGER = ("samples", "lost", "duplicate", "repeated", "over_range", "impossible")


class PowerdError(JoulerigError):
    """What the power daemon does not give, and why; the message is one line."""


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("powerd", timeout=1.0)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def status(path: Path, shown: Callable[[dict[str, Any]], dict[str, Any]] | None = None) -> dict[str, Any]:
    """Return {"ok", "message", "meters": [...]}.

    If powerd does not reply, the reason and no meters. `shown`: what to give of a meter's status;
    left out, what a page shows (`meter`).
    """
    shown = shown or meter
    connection = _Connection(path)
    try:
        connection.request("GET", "/status")
        answer = json.loads(connection.getresponse().read())
        return {"ok": True, "message": "", "meters": [shown(m) for m in answer["meters"]]}
    except (OSError, http.client.HTTPException) as error:
        why = (
            error.strerror
            if isinstance(error, OSError) and error.strerror
            else str(error) or type(error).__name__
        )
        return {"ok": False, "message": f"the power daemon does not answer at {path}: {why}", "meters": []}
    except (ValueError, KeyError, TypeError) as error:
        return {"ok": False, "message": f"{path}: not a power daemon's status: {error!r}", "meters": []}
    finally:
        connection.close()


def samples(path: Path, host: str, drive: str, seconds: float) -> dict[str, Any]:
    """Return the last samples of a drive's rails (docs/reference/protocols/powerd.md).

    Raises PowerdError, in one line.
    """
    connection = _Connection(path)
    try:
        query = urlencode({"host": host, "drive": drive, "seconds": seconds})
        connection.request("GET", f"/samples?{query}")
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise PowerdError(f"the power daemon: {' '.join(body.decode(errors='replace').split())[:300]}")
        found: dict[str, Any] = json.loads(body)
        return found
    except (OSError, http.client.HTTPException, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise PowerdError(f"the power daemon does not answer at {path}: {why}") from None
    finally:
        connection.close()


def meter(row: dict[str, Any]) -> dict[str, Any]:
    """Return one meter of the status: its figures, and the percentage of samples it lost.

    `rails`: in words, each by its drive and name.
    `unaccounted`: samples expected that no column of its ledger has; None where it does not have
    them all.
    """
    expected, lost = row.get("expected"), row.get("lost")
    booked = [row.get(name) for name in LEDGER]
    return {
        "name": row["name"],
        "unaccounted": expected - sum(booked) if expected is not None and None not in booked else None,
        "lost_percent": 100 * lost / expected if expected and lost is not None else None,
        "rails": [f"{rail['drive']} {rail['rail']}" for rail in row.get("rails") or ()],
        **{name: row.get(name) for name in FIGURES},
    }
