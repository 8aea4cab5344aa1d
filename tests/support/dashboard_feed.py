# SPDX-License-Identifier: GPL-3.0-or-later
"""Points as powerd and iod write them, of a made-up lab of ten rails and eight drives."""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Callable

HOST = "vhost1"
# (drive, rail, meter, idle watts, watts under load)
RAILS = [
    ("nvme-plp", "12v", "tap1a", 5.0, 9.0),
    ("nvme-consumer", "3v3", "tap1a", 1.2, 4.4),
    ("sata-plp", "5v", "tap1b", 1.4, 3.1),
    ("sata-consumer", "5v", "tap1b", 0.7, 2.6),
    ("hdd-1", "5v", "tap2a", 1.1, 1.9),
    ("hdd-1", "12v", "tap2a", 3.6, 6.4),
    ("hdd-2", "5v", "tap2b", 1.1, 1.9),
    ("hdd-2", "12v", "tap2b", 3.6, 6.4),
    ("hdd-3", "5v", "tap3a", 1.1, 1.9),
    ("hdd-3", "12v", "tap3a", 3.6, 6.4),
]
DRIVES = ["nvme-plp", "nvme-consumer", "sata-plp", "sata-consumer", "hdd-1", "hdd-2", "hdd-3", "nvdimm"]
SECOND = 1_000_000_000
POINT_NS = SECOND // 100
IO_NS = SECOND // 10
WRITE_SECONDS, FLUSH_SECONDS = 0.0002, 0.0007  # that each takes in the block layer


class Feed:
    """A source of points for `write`, which gets lines every `batch_seconds`.

    `loaded`: the drives at work; `silent`: the meters without points, and HOST if its agent is.
    Without `noise` an idle rail
    draws exactly its idle watts and a loaded one its load watts.
    """

    def __init__(
        self, write: Callable[..., None], *, noise: bool = True, writes_per_second: int = 1000
    ) -> None:
        self._write = write
        self.noise = noise
        self.loaded: set[str] = set()
        self.silent: set[str] = set()
        self.writes_per_second = writes_per_second
        self.failures = 0
        self.batch_seconds = 0.0
        self._joules = [0.0] * len(RAILS)
        self._samples = 0
        self._writes = dict.fromkeys(DRIVES, 0)
        self._random = random.Random(7)
        self._next_ns = time.time_ns() // IO_NS * IO_NS
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._waiting: list[str] = []

    def backfill(self, seconds: float) -> None:
        """Begin in the past."""
        self._next_ns -= int(seconds * SECOND) // IO_NS * IO_NS

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def restart_counters(self) -> None:
        """What iod sees when its host boots."""
        self._writes = dict.fromkeys(DRIVES, 0)

    def phase(self, run: str, drive: str, phase: str, start_ns: int, end_ns: int | None = None) -> None:
        campaign = run.rsplit("-", 1)[0]
        end = f",end_ns={end_ns}i" if end_ns else ""
        self._waiting.append(
            f"phase,campaign={campaign},run={run},host={HOST},drive={drive},phase={phase} "
            f"start_ns={start_ns}i{end},clock_offset_ns=0i,clock_error_ns=150000i {start_ns}"
        )

    def _run(self) -> None:
        written = time.monotonic()
        while not self._stop.wait(0.1):
            while self._next_ns + IO_NS <= time.time_ns():
                self._tenth()
            if time.monotonic() - written < self.batch_seconds:
                continue
            written = time.monotonic()
            lines, self._waiting = self._waiting, []
            try:
                for i in range(0, len(lines), 5000):
                    self._write(*lines[i : i + 5000])
            except Exception:
                # Spool as powerd and iod do: nothing is lost while InfluxDB is away.
                self.failures += 1
                self._waiting = lines + self._waiting

    def _tenth(self) -> None:
        lines = self._waiting
        for step in range(IO_NS // POINT_NS):
            at = self._next_ns + step * POINT_NS
            self._samples += 10
            for i, (drive, rail, meter, idle, load) in enumerate(RAILS):
                if meter in self.silent:
                    continue
                watts = load if drive in self.loaded else idle
                spread = 0.0
                if self.noise:
                    watts += 0.05 * idle * math.sin(at / 3e9 + i)
                    spread = abs(self._random.gauss(0, 0.12 if drive in self.loaded else 0.02)) * watts
                    watts += self._random.gauss(0, spread / 4 + 1e-9)
                volts = {"12v": 12.0, "5v": 5.0, "3v3": 3.3}[rail]
                self._joules[i] += watts / 100
                lines.append(
                    f"power,meter={meter},rail={rail},host={HOST},drive={drive} volts={volts},"
                    f"amps={watts / volts:.6f},watts={watts:.6f},watts_min={watts - spread:.6f},"
                    f"watts_max={watts + spread:.6f},joules={self._joules[i]:.6f},samples={self._samples}i,"
                    f"expected={self._samples}i,"
                    f'lost=0i,repeated=0i,gap_seconds=0,clock_residual_seconds=0.000143,session="s1" {at}'
                )
        at = self._next_ns + 7_000_000
        for drive in DRIVES if HOST not in self.silent else ():
            if drive in self.loaded:
                jitter = self._random.uniform(0.8, 1.2) if self.noise else 1
                self._writes[drive] += int(self.writes_per_second / 10 * jitter)
            n = self._writes[drive]
            lines.append(
                f"blockio,host={HOST},drive={drive} reads=0i,read_bytes=0i,read_seconds=0,writes={n}i,"
                f"write_bytes={n * 4096}i,write_seconds={n * WRITE_SECONDS},flushes={n}i,"
                f"flush_seconds={n * FLUSH_SECONDS},"
                f"discards=0i,discard_bytes=0i,in_flight=1i,busy_seconds=0 {at}"
            )
        if self._next_ns % SECOND == 0:
            self._report_loads(lines)
        if self._next_ns % (10 * SECOND) == 0:
            self._report(lines, at)
        self._next_ns += IO_NS

    def _report_loads(self, lines: list[str]) -> None:
        """What flowop reports of the second that is over."""
        for drive in sorted(self.loaded):
            n = self.writes_per_second
            classes = (("fsync", 0.0008, 0.0031, 0.0094), ("append", 0.00004, 0.0002, 0.0011))
            figures = "".join(
                f",class_{name}_ops={n}i,class_{name}_seconds={n * p50},class_{name}_p50_seconds={p50},"
                f"class_{name}_p99_seconds={p99},class_{name}_max_seconds={most}"
                for name, p50, p99, most in classes
            )
            lines.append(
                f"workload,host={HOST},drive={drive},run=made-up ops={2 * n}i,read_bytes=0i,"
                f"write_bytes={n * 4096}i{figures} {self._next_ns}"
            )

    def _report(self, lines: list[str], at: int) -> None:
        """What agents report of their host and its drives."""
        busy, own = at / 4e9 % 1e6, at / 1e11 % 1e6
        lines.append(
            f"hostload,host={HOST} cpu_busy_seconds={busy},agent_cpu_seconds={own},"
            f"memory_used_bytes=310000000i,spooled_bytes=0i,dropped_lines=0i,skipped_ticks=0i {at}"
        )
        for number, drive in enumerate(DRIVES):
            lines.append(
                f"drive_health,host={HOST},drive={drive} temperature_celsius={35 + number}i,"
                f"percentage_used={number}i,data_units_written_bytes={(number + 1) * 41_000_000_000}i,"
                f"media_errors=0i,unsafe_shutdowns=1i,power_on_hours=812i {at}"
            )
