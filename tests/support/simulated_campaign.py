# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: E501 - rows of a table, a line each
"""Results folders as a campaign leaves them, with values like those of the demo."""

from __future__ import annotations

import itertools
import json
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from joulerig.analysis.energy import meters
from joulerig.analysis.results import journal, power_points, run_energy
from joulerig.analysis.results.columns import declared_columns
from joulerig.analysis.results.schema import RailEnergy

SECOND = 1_000_000_000
T0 = 1_794_600_000 * SECOND  # 2026-11-13 UTC
SUPPLY = {"volts": 15.0, "amps": 5.0, "ohms": 0.01}
PHASES = {"prepare": 1.4, "setup": 3.0, "idle": 4.0, "workload": 10.0, "tail": 2.0}

# Idle watts, joules an operation, and operations per second of f2fs with none.
DRIVES = {
    "nvme-plp": {
        "volts": 12.0,
        "rail": "12v",
        "meter": "tap1a",
        "idle": 4.1,
        "joules_per_op": 2.1e-4,
        "ops": 8200.0,
    },
    "nvme-consumer": {
        "volts": 3.3,
        "rail": "3v3",
        "meter": "tap1a",
        "idle": 0.9,
        "joules_per_op": 9.5e-4,
        "ops": 1310.0,
    },
    "sata-plp": {
        "volts": 5.0,
        "rail": "5v",
        "meter": "tap1b",
        "idle": 1.3,
        "joules_per_op": 4.0e-4,
        "ops": 4100.0,
    },
}
FILESYSTEM_SPEED = {
    "ext4": 0.62,
    "xfs": 0.71,
    "f2fs": 1.0,
    "ext2": 0.9,
    "btrfs": 0.35,
    "ext4-inode128": 1.5,
    "ext3": 0.6,
    "nilfs2": 0.5,
}
SCHEDULER_SPEED = {"none": 1.0, "mq-deadline": 0.985, "bfq": 0.88, "kyber": 0.97}


@dataclass
class Outcome:
    """How a run ends. `joules`: whether measured; `power_csv`: whether its trace was kept.

    `after_joules`: drawn above idle in the first second of the tail. `speed`: of the load, relative
    to what its drive, file system and scheduler give.
    """

    status: str = "ok"
    reason: str = ""
    joules: bool = True
    power_csv: bool = True
    after_joules: float = 0.0
    speed: float = 1.0


def always_ok(_: dict) -> Outcome:
    return Outcome()


def build(
    folder: Path,
    *,
    name: str = "demo",
    question: str = "Which file system and I/O scheduler do the most synced writes per joule?",
    drives: Sequence[str] = ("nvme-consumer", "nvme-plp"),
    filesystems: Sequence[str] = ("ext4", "xfs", "f2fs"),
    schedulers: Sequence[str] = ("none", "mq-deadline", "bfq"),
    workloads: Sequence[str] = ("randwrite-fsync",),
    replicates: int = 1,
    virtual: bool = True,
    finished: bool = True,
    noise: float = 0.01,
    outcome: Callable[[dict], Outcome] = always_ok,
    extra_factors: dict[str, Sequence[str]] | None = None,
    exclude: Sequence[dict] = (),
    traces: bool = False,
    seed: int = 1,
    accuracy: dict | None = None,
    calibration: dict | None = None,
    lost_share: float = 1.5e-4,
) -> Path:
    """Make a results folder in `folder`.

    The same arguments give the same bytes, but for SQLite's.
    """
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    campaign = f"{name}-20261113-082640"
    database = sqlite3.connect(folder / "journal.sqlite")
    database.execute("PRAGMA journal_mode = WAL")
    journal.create_tables(database)
    factors = {
        "drive": list(drives),
        "filesystem": list(filesystems),
        "scheduler": list(schedulers),
        "workload": list(workloads),
        **{key: list(levels) for key, levels in (extra_factors or {}).items()},
    }
    definition = {
        "name": name,
        "question": question,
        "factors": factors,
        "exclude": list(exclude),
        "replicates": replicates,
        "order": "random-in-blocks",
        "seed": seed,
        "phases": {f"{phase}_seconds": seconds for phase, seconds in PHASES.items()},
    }
    lab = _lab(virtual, accuracy)
    provenance = {
        "git_revision": "0f3c9d2e7a1b",
        "seed": seed,
        "tools": {"python": "3.11.2", "ansible-core": "2.19.4", "influxdb": "1.6.7", "libsigrok": "0.5.2"},
        **({"calibration": calibration} if calibration is not None else {}),
    }
    combinations = [
        dict(zip(factors, levels, strict=True)) for levels in itertools.product(*factors.values())
    ]
    plan = []
    for replicate in range(1, replicates + 1):
        for index in rng.permutation(len(combinations)):
            plan.append((replicate, combinations[index]))
    now = T0
    with database:
        database.execute(
            "INSERT INTO campaign (id, name, question, created_ns, finished_ns, definition, lab, virtual, provenance)"
            " VALUES (?,?,?,?,?,?,?,?,?)",
            (
                campaign,
                name,
                question,
                T0,
                None,
                json.dumps(definition),
                json.dumps(lab),
                int(virtual),
                json.dumps(provenance),
            ),
        )
        for ordinal, (replicate, levels) in enumerate(plan, start=1):
            now = _run(
                database,
                folder,
                campaign,
                ordinal,
                replicate,
                levels,
                now,
                virtual,
                outcome,
                noise,
                traces,
                rng,
                lambda row: _bounds(lab, provenance, row),
                lost_share,
            )
        if finished:
            database.execute("UPDATE campaign SET finished_ns = ?", (now,))
        database.execute(
            "INSERT INTO event (time_ns, run, event, detail) VALUES (?, NULL, 'created', '{}')", (T0,)
        )
    database.close()
    return folder


def _run(
    database,
    folder,
    campaign,
    ordinal,
    replicate,
    levels,
    now,
    virtual,
    outcome,
    noise,
    traces,
    rng,
    bounds,
    lost_share,
) -> int:
    run = f"{campaign}-{ordinal:04d}"
    cell = "/".join(levels[key] for key in ("drive", "filesystem", "scheduler", "workload"))
    cell += "".join(f"/{key}={level}" for key, level in list(levels.items())[4:])
    end = outcome({**levels, "ordinal": ordinal, "replicate": replicate, "cell": cell})
    started = end.status not in ("planned", "not-run", "excluded")
    row = {
        "id": run,
        "ordinal": ordinal,
        "block": replicate,
        "replicate": replicate,
        "host": "vhost1" if virtual else "bench1",
        **{key: levels[key] for key in ("drive", "filesystem", "scheduler", "workload")},
        "cell": cell,
        "factors": json.dumps(levels),
        "status": end.status,
        "reason": end.reason,
        "started_ns": now if started else None,
    }
    _insert(database, "run", row)
    if not started:
        return now
    phases, instant = {}, now + 200_000_000
    for phase, seconds in PHASES.items():
        phases[phase] = (instant, instant + int(seconds * SECOND))
        instant = phases[phase][1] + 5_000_000
    complete = end.status in ("ok", "partial")
    for phase, (start_ns, end_ns) in phases.items():
        if complete or phase == "prepare":
            _insert(
                database,
                "phase",
                {
                    "run": run,
                    "phase": phase,
                    "start_ns": start_ns,
                    "end_ns": end_ns,
                    "clock_offset_ns": -31_000_000,
                    "clock_error_ns": 140_000,
                },
            )
    if end.status != "running":
        database.execute("UPDATE run SET ended_ns = ? WHERE id = ?", (instant, run))
    _settings(folder / "runs" / run, levels, virtual)
    if complete:
        _figures(database, folder, run, levels, phases, end, virtual, noise, traces, rng, bounds, lost_share)
    return instant + 300_000_000


def _figures(
    database, folder, run, levels, phases, end, virtual, noise, traces, rng, bounds, lost_share
) -> None:
    drive = DRIVES[levels["drive"]]
    seconds = PHASES["workload"]
    speed = FILESYSTEM_SPEED[levels["filesystem"]] * SCHEDULER_SPEED[levels["scheduler"]] * end.speed
    per_second = drive["ops"] * speed * (1 + noise * rng.standard_normal())
    ops = round(per_second * seconds)
    write_bytes = ops * 4096
    _insert(
        database,
        "performance",
        {
            "run": run, "seconds": seconds, "ops": ops, "read_bytes": 0, "write_bytes": write_bytes, "syncs": ops,
            "ops_per_second": ops / seconds, "mb_per_second": write_bytes / 1e6 / seconds,
            "latency_p50_seconds": 0.8 / per_second, "latency_p99_seconds": 3.1 / per_second,
        },
    )  # fmt: skip
    watts = {"prepare": 1.5, "setup": 1.9, "idle": 1.0, "tail": 1.0}
    true = {phase: drive["idle"] * PHASES[phase] * factor for phase, factor in watts.items()}
    true["tail"] += end.after_joules
    true["workload"] = drive["idle"] * seconds + ops * drive["joules_per_op"] * (
        1 + noise * rng.standard_normal()
    )
    measured, rows = {}, []
    for phase, joules in true.items():
        samples = int(PHASES[phase] * 1000) if end.joules else 0
        lost = int(rng.poisson(lost_share * samples))
        error = 1 + 0.0015 * rng.standard_normal() - 0.0004
        measured[phase] = joules * error * (1 - lost / samples) if end.joules else None
        row = {
            "run": run, "phase": phase, "meter": drive["meter"], "rail": drive["rail"], "drive": levels["drive"],
            "joules": measured[phase], "true_joules": joules if virtual else None, "samples": samples - lost,
            "expected": samples, "lost": lost, "gap_seconds": lost * 1e-3, "duplicate": 0, "repeated": 0,
            "surplus": 0, "over_range": 0, "impossible": 0, "worst_gap_seconds": min(lost, 1) * 1e-3,
        }  # fmt: skip
        if end.joules:
            row |= bounds({**row, "volts": drive["volts"], "start_ns": phases[phase][0]})
        _insert(database, "energy", row)
        rows.append({**dict.fromkeys(declared_columns(RailEnergy)), **row})
    done = {"seconds": seconds, "ops": ops, "read_bytes": 0, "write_bytes": write_bytes}
    _insert(database, "result", {"run": run, **run_energy.result(rows, done)})
    for source in ("host", "iod", *(["twin"] if virtual else [])):
        _insert(
            database,
            "io",
            {
                "run": run, "source": source, "reads": 40, "read_bytes": 163840, "writes": 2 * ops,
                "write_bytes": int(ops * 8192 * 1.002), "flushes": ops, "discards": 0, "fua_writes": 0,
                "journal_transactions": ops if levels["filesystem"] == "ext4" else None,
            },
        )  # fmt: skip
    if traces and end.joules and end.power_csv:
        power_points.write(
            trace(phases, true, drive, levels["drive"], rng, end.after_joules),
            folder / "runs" / run / "power.csv",
        )


def _bounds(lab: dict, provenance: dict, row: dict) -> dict:
    """Return low and high of an `energy` row, from its gaps and 5 ms at both ends."""
    seconds = PHASES[row["phase"]]
    watts = row["joules"] / seconds
    gap_low, gap_high = 0.1 * watts * row["gap_seconds"], 3 * watts * row["gap_seconds"]
    volt_seconds, amp_seconds = row["volts"] * seconds, row["joules"] / row["volts"]
    host = next(iter(lab["hosts"]))
    meter = meters.budget(
        lab, provenance, host=host, joules=row["joules"], seconds=seconds, at_ns=row["start_ns"],
        volt_seconds=volt_seconds, amp_seconds=amp_seconds, **{key: row[key] for key in ("drive", "rail", "meter")},
    ).expanded  # fmt: skip
    interpolation, alignment = 0.002 * watts, 0.015 * watts
    product = 0.001 * watts * seconds
    either_way = interpolation + alignment + (meter or 0.0)
    return {
        "joules_low": row["joules"] + gap_low - product - either_way, "product_joules": product,
        "joules_high": row["joules"] + gap_high + either_way,
        "gap_low_joules": gap_low, "gap_high_joules": gap_high, "interpolation_joules": interpolation,
        "alignment_joules": alignment, "meter_joules": meter, "volt_seconds": volt_seconds,
        "amp_seconds": amp_seconds,
    }  # fmt: skip


def trace(
    phases: dict, joules: dict, drive: dict, name: str, rng: np.random.Generator, after_joules: float = 0.0
) -> pl.DataFrame:
    """Power points at 100 Hz over a run's phases, bursty in the workload phase.

    `after_joules` of the tail are drawn in its first second.
    """
    first, last = phases["prepare"][0] - SECOND // 2, phases["tail"][1] + SECOND // 2
    times = np.arange(first, last, 10_000_000)
    watts = np.full(len(times), drive["idle"])
    for phase, (start_ns, end_ns) in phases.items():
        inside = (times > start_ns) & (times <= end_ns)
        watts[inside] = joules[phase] / PHASES[phase]
        if phase == "tail":
            watts[inside] = (joules[phase] - after_joules) / PHASES[phase]
            watts[inside & (times <= start_ns + SECOND)] += after_joules
    busy = watts > drive["idle"] * 1.02
    watts = watts * np.where(busy, rng.gamma(60, 1 / 60, len(times)), rng.normal(1, 0.006, len(times)))
    low, high = watts * np.where(busy, 0.55, 0.985), watts * np.where(busy, 1.6, 1.015)
    samples = 10 * np.arange(1, len(times) + 1)
    return pl.DataFrame(
        {
            "time_ns": times,
            "rail": drive["rail"],
            "watts": watts,
            "watts_min": low,
            "watts_max": high,
            "joules": np.cumsum(watts) * 0.01,
            "drive": name,
            "meter": drive["meter"],
            "volts": np.full(len(times), 3.28),
            "amps": watts / 3.28,
            "samples": samples,
            "expected": samples,
            "lost": np.zeros(len(times), dtype=np.int64),
            "gap_seconds": np.zeros(len(times)),
            "session": "20261113T082600Z-1",
        }
    )


def _settings(folder: Path, levels: dict, virtual: bool) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    drive, filesystem = levels["drive"], levels["filesystem"]
    serials = {"nvme-plp": "JRNVP0001", "nvme-consumer": "JRNVC0001", "sata-plp": "JRSSP0001"}
    settings = {
        "kernel": "6.1.0-38-amd64",
        "tools": {"fio": "fio-3.33", "nvme-cli": "2.4", "smartctl": "7.3", f"mkfs.{filesystem}": "1.47.0"},
        "drive": {
            "name": drive,
            "model": "QEMU NVMe Ctrl" if virtual else "Example NVMe 1 TB",
            "firmware": "7.2.15",
            "serial": serials[drive],
            "size_bytes": 4294967296,
        },
        "scheduler": {"before": "none", "in_effect": levels["scheduler"]},
        "write_cache": {"before": "write back", "in_effect": "write back"},
        "mkfs": f"mkfs.{filesystem} -q" + (" -F" if filesystem == "ext4" else " -f"),
        "mount_options": "rw,noatime",
        "modules": {filesystem: "in tree"},
    }
    (folder / "settings.json").write_text(json.dumps(settings, indent=1))


def _lab(virtual: bool, accuracy: dict | None) -> dict:
    serials = {"nvme-plp": "JRNVP0001", "nvme-consumer": "JRNVC0001", "sata-plp": "JRSSP0001"}
    host = {
        "drives": {
            name: {
                "interface": "sata-ssd" if name.startswith("sata") else "nvme",
                "serial": serials[name],
                "size_bytes": 4294967296,
                "plp": name.endswith("plp"),
                "rails": {
                    drive["rail"]: {"meter": drive["meter"], "volts": "CH1", "amps": "CH2", "supply": SUPPLY}
                },
            }
            for name, drive in DRIVES.items()
        },
        "virtual": {"cpus": 2, "memory_mb": 2048} if virtual else None,
    }
    meters = {
        name: {
            "driver": "hameg-hmo",
            "sample_rate_hz": 1000.0,
            "samples": "window-mean",
            "accuracy": accuracy,
        }
        for name in ("tap1a", "tap1b")
    }
    return {"controller": {"meters": meters}, "hosts": {"vhost1" if virtual else "bench1": host}}


def _insert(database: sqlite3.Connection, table: str, row: dict) -> None:
    marks = ",".join("?" * len(row))
    database.execute(f"INSERT INTO {table} ({','.join(row)}) VALUES ({marks})", list(row.values()))
