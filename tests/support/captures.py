# SPDX-License-Identifier: GPL-3.0-or-later
"""Run srcap on a driver, and see its frames as they come."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

from joulerig.rig.lab import meters
from joulerig.rig.lab.meters import source
from tests.support.power_processes import set_options
from tests.support.programs import built, wait_for
from tests.support.srcap_frames import ANALOG, EVENT, Frame, read_frames

SECONDS = 20.0  # the longest wait for frames


class Capture:
    """srcap with the settings of a driver's family, from its start to its end.

    `frames` holds those that have come, `error` what srcap has written to standard error.
    """

    def __init__(
        self, driver: str, channels: Sequence[str], *more: str, silence: float | None = None
    ) -> None:
        family = meters.shipped().family(driver.partition(":")[0])
        command = [built("srcap"), "--driver", driver, "--channels", ",".join(channels)]
        if silence is not None:
            command += ["--silence-seconds", f"{silence:g}"]
        command += source.srcap_options(family)
        self.channels = list(channels)
        self.frames: list[Frame] = []
        self.error = ""
        self.process = subprocess.Popen(
            [*command, *set_options(driver), *more],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self.process.stdin
        assert self.process.stdout
        assert self.process.stderr
        self._stdin: IO[bytes] = self.process.stdin
        self._readers = [
            threading.Thread(target=self._read_frames, args=[self.process.stdout], daemon=True),
            threading.Thread(target=self._read_error, args=[self.process.stderr], daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def _read_frames(self, stream: IO[bytes]) -> None:
        for frame in read_frames(stream):
            self.frames.append(frame)

    def _read_error(self, stream: IO[bytes]) -> None:
        for line in stream:
            self.error += line.decode()

    # ------------------------------------------------- while it runs

    def send(self, *lines: str) -> None:
        """Send commands."""
        self._stdin.write("".join(f"{line}\n" for line in lines).encode())
        self._stdin.flush()

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until a condition holds; fail if srcap ends before it does, or in 20 s."""

        def holds() -> bool:
            running = self.process.poll() is None
            if condition():
                return True
            assert running, f"srcap ended before: {what}: {self.error}"
            return False

        wait_for(holds, SECONDS, what)

    def count(self, channel: str) -> int:
        """Count the samples of a channel that have come."""
        number = self.channels.index(channel)
        return sum(frame.n for frame in list(self.frames) if frame.type == ANALOG and frame.channel == number)

    def wait_samples(self, count: int = 1) -> None:
        """Wait until so many further samples of each channel have come."""
        enough = {channel: self.count(channel) + count for channel in self.channels}
        self.wait(
            lambda: all(self.count(channel) >= enough[channel] for channel in self.channels),
            f"{count} further samples of {', '.join(self.channels)}",
        )

    def events(self, kind: str) -> list[dict[str, Any]]:
        """List the events of a kind that have come."""
        events = [frame.event() for frame in list(self.frames) if frame.type == EVENT]
        return [event for event in events if event["event"] == kind]

    def cpu_seconds(self) -> float:
        """Return the processor time so far, user and system."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    # ------------------------------------------------- its end

    def stop(self) -> int:
        """Ask srcap to stop, and return its exit code; then `frames` and `error` are complete."""
        self.send("stop")
        return self.ended(SECONDS)

    def ended(self, seconds: float) -> int:
        """Return the exit code, within `seconds`; then `frames` and `error` are complete."""
        code = self.process.wait(seconds)
        for reader in self._readers:
            reader.join(10)
        return code

    def close(self) -> None:
        """Kill srcap if it still runs, and let go of its pipes."""
        self.process.kill()
        self.ended(10)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe:
                pipe.close()

    # ------------------------------------------------- what came

    @property
    def start(self) -> dict[str, Any]:
        return self.frames[0].event()

    def analog(self, channel: str) -> tuple[int, int, list[float], list[float]]:
        """Return mq, unit, values and the monotonic seconds of each frame of a channel."""
        number = self.channels.index(channel)
        frames = [frame for frame in self.frames if frame.type == ANALOG and frame.channel == number]
        values = [value for frame in frames for value in frame.samples()]
        [(mq, unit)] = {(frame.mq, frame.unit) for frame in frames}
        return mq, unit, values, [frame.monotonic_ns / 1e9 for frame in frames]
