# SPDX-License-Identifier: GPL-3.0-or-later
"""The rig: hosts, drives, meters, and what the rig itself costs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from joulerig.analysis.results.influxdb.client import InfluxError, Queries
from joulerig.rig.dashboard import powerd
from joulerig.rig.dashboard.api import recorded, reported
from joulerig.rig.dashboard.notices import SILENT_SECONDS

NO_LAB = "the configuration names no lab_file; 'rig up' writes one"
NO_RSS = "the agent does not report its memory"
METER = (
    "state", "reason", "expected", "samples", "lost", "duplicate", "repeated", "over_range",
    "impossible", "surplus", "gap_seconds", "worst_gap_seconds", "restarts", "clock_residual_seconds",
    "clock_drift_ppm", "timing", "instrument",
)  # fmt: skip


def read(
    *,
    lab_file: Path | None,
    influx: Queries,
    powerd_socket: Path,
    results: Path,
    state_dir: Path | None,
    campaigns: Sequence[str],
    executed: Sequence[str],
    processes: Callable[[], dict[str, Any]],
    now_ns: int,
    slowness: float,
    virtual: bool,
) -> dict[str, Any]:
    """Return the reply.

    `campaigns`: ids, newest first; `executed`: those that a process executes.
    """
    described, lab_age, problems = _lab(lab_file)
    lab = described.get("lab") or {"hosts": {}, "controller": {"meters": {}}}
    try:
        loads, health = reported.hosts(influx, now_ns), reported.health(influx, now_ns)
        clocks, own_power = reported.clocks(influx, now_ns), reported.own_power(influx, now_ns, health)
    except InfluxError as error:
        loads, health, clocks, own_power = {}, {}, {}, {}
        problems.append(str(error))
    runs = recorded.by_runs(results, campaigns)
    playbooks = recorded.by_playbooks(state_dir / "log" if state_dir else None)
    reserved = playbooks["reservations"]
    held = recorded.leases(results, executed)
    said = powerd.status(powerd_socket, shown=dict)
    if not said["ok"]:
        problems.append(said["message"])
    return {
        "virtual": virtual,
        "slowness": slowness,
        "now_ns": now_ns,
        "lab_age_seconds": lab_age,
        "problems": problems,
        "hosts": [
            {
                "name": host,
                "address": (described.get("addresses") or {}).get(host),
                "virtual": bool(spec.get("virtual")),
                **_host(loads.get(host), clocks.get(host), runs.get(host), reserved.get(host), now_ns),
                "runs": [one["run"] for (where, _), one in held.items() if where == host],
            }
            for host, spec in lab["hosts"].items()
        ],
        "drives": [
            _drive(
                host, name, spec, drive, now_ns,
                health=health.get((host, name)),
                own_power=own_power.get((host, name)),
                seen=(runs.get(host) or {"drives": {}})["drives"].get(name),
                held=held,
                contents=(playbooks["contents"].get(host) or {}).get(name),
            )
            for host, spec in lab["hosts"].items()
            for name, drive in spec["drives"].items()
        ],
        "meters": _meters(lab, described.get("calibration") or {}, said),
        **processes(),
    }  # fmt: skip


def _lab(path: Path | None) -> tuple[dict[str, Any], float | None, list[str]]:
    """Return the lab's file, its age (s), and what is wrong with it."""
    if path is None:
        return {}, None, [NO_LAB]
    try:
        return json.loads(path.read_text()), max(0.0, time.time() - path.stat().st_mtime), []
    except OSError as error:
        return {}, None, [f"{path}: {error.strerror}"]
    except ValueError:
        return {}, None, [f"{path}: not JSON; 'rig up' writes it"]


def stands_in(lab_file: Path | None, host: str, drive: str) -> list[str]:
    """Return the names under which runs write to a drive: its own, and its arrays'."""
    lab = _lab(lab_file)[0].get("lab") or {"hosts": {}}
    arrays = (lab["hosts"].get(host) or {}).get("arrays") or {}
    return [drive, *(name for name, one in arrays.items() if drive in one["members"])]


def _age(recorded_at: Mapping[str, Any] | None, now_ns: int) -> float | None:
    return None if recorded_at is None else (now_ns - recorded_at["time_ns"]) / 1e9


def _host(
    load: Mapping[str, Any] | None,
    clock: Mapping[str, Any] | None,
    runs: Mapping[str, Any] | None,
    reservation: Mapping[str, Any] | None,
    now_ns: int,
) -> dict[str, Any]:
    load, seen = load or {}, (runs or {}).get("host")
    age = load.get("age_seconds")
    state = "unknown" if age is None else "reporting" if age <= SILENT_SECONDS else "silent"
    return {
        "state": state,
        "age_seconds": age,
        "kernel": seen and seen["kernel"],
        "kernel_age_seconds": _age(seen, now_ns),
        "cpus": seen and seen["cpus"],
        "cpu_busy": load.get("cpu_busy"),
        "memory_used_bytes": load.get("memory_used_bytes"),
        "package_watts": load.get("package_watts"),
        "agent": {
            "cpu": load.get("agent_cpu"),
            "rss": None,
            "why": NO_RSS,
            **{name: load.get(name) for name in ("spooled_bytes", "dropped_lines", "skipped_ticks")},
        },
        "clock": clock,
        "reservation": reservation,
    }


def _drive(
    host: str,
    name: str,
    spec: Mapping[str, Any],
    drive: Mapping[str, Any],
    now_ns: int,
    *,
    health: Mapping[str, Any] | None,
    own_power: Mapping[str, Any] | None,
    seen: Mapping[str, Any] | None,
    held: Mapping[tuple[str, str], Mapping[str, Any]],
    contents: Mapping[str, Any] | None,
) -> dict[str, Any]:
    arrays = [array for array, one in (spec.get("arrays") or {}).items() if name in one["members"]]
    rated = drive.get("rated_terabytes_written")
    found = seen or {}
    lease = next((held[host, one] for one in (name, *arrays) if (host, one) in held), None)
    return {
        "host": host,
        "name": name,
        **{key: drive.get(key) for key in ("interface", "serial", "wwn", "size_bytes", "plp", "profile")},
        "model": found.get("model") or drive.get("model"),
        "firmware": found.get("firmware"),
        "seen": seen and {**seen, "age_seconds": _age(seen, now_ns)},
        "rails": list(drive.get("rails") or {}),
        "health": health,
        "own_power": own_power,
        "rated_bytes": None if rated is None else rated * 1e12,
        "lease": lease,
        "adopted": contents,
        "roles": [f"member of {array}" for array in arrays],
    }


def _meters(
    lab: Mapping[str, Any], calibrations: Mapping[str, Any], status: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return the lab's meters with what powerd says of them, and those that it alone knows."""
    declared = lab["controller"]["meters"]
    by_name = {row["name"]: row for row in status["meters"]}
    found = []
    for name in dict.fromkeys([*declared, *by_name]):
        spec, row = declared.get(name) or {}, by_name.get(name) or {}
        calibration = calibrations.get(name) or {}
        booked = powerd.meter({"name": name, **row})
        balanced = None if booked["unaccounted"] is None else booked["unaccounted"] == 0
        found.append(
            {
                "name": name,
                "driver": spec.get("driver") or row.get("driver"),
                **{key: row.get(key) for key in METER},
                "rate_hz": row.get("sample_rate_hz") or spec.get("sample_rate_hz"),
                "observed_rate_hz": row.get("observed_rate_hz") or None,
                "received": row.get("samples"),
                "unaccounted": booked["unaccounted"],
                "balanced": balanced,
                "lost_percent": booked["lost_percent"],
                "calibration": {
                    key: calibration.get(key) or None for key in ("state", "reason", "date", "expires")
                },
                "rails": [
                    {key: rail.get(key) for key in ("rail", "host", "drive", "volts", "amps", "watts")}
                    for rail in row.get("rails") or ()
                ],
            }
        )
    return found
