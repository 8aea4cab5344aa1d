# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a capturer, and see the frames that it writes."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.programs import wait_for
from tests.support.srcap_frames import ANALOG, EVENT, REGISTER, Frame, read_frames

SECONDS = 20.0  # the longest wait for frames, on a machine that is busy


def command(driver: str, channels: Sequence[str], *more: str, silence: float = 5.0) -> list[str]:
    """Return the command line of a capturer."""
    return [
        sys.executable, "-m", "joulerig.capturers", "--driver", driver, "--channels", ",".join(channels),
        "--silence-seconds", f"{silence:g}", *more,
    ]  # fmt: skip


def program(folder: Path, text: str) -> list[str]:
    """Write a Python program that prints samples; return how it is started."""
    path = folder / "samples.py"
    path.write_text(textwrap.dedent(text))
    return [sys.executable, "-u", str(path)]


class Capture:
    """A capturer from its start to its end."""

    def __init__(self, driver: str, channels: Sequence[str], *more: str, silence: float = 5.0) -> None:
        self.channels = list(channels)
        self.frames: list[Frame] = []
        self._said: str | None = None
        self.process = subprocess.Popen(
            command(driver, channels, *more, silence=silence),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout
        for frame in read_frames(self.process.stdout):
            self.frames.append(frame)

    def samples(self, channel: str) -> list[float]:
        """Return a channel's samples so far."""
        return [value for frame in self.frames_of(channel) for value in frame.samples()]

    def frames_of(self, channel: str) -> list[Frame]:
        """Return a channel's frames so far."""
        number = self.channels.index(channel)
        return [f for f in list(self.frames) if f.type in (ANALOG, REGISTER) and f.channel == number]

    def events(self) -> list[dict[str, Any]]:
        """Return the events so far."""
        return [frame.event() for frame in list(self.frames) if frame.type == EVENT]

    def wait_samples(self, n: int) -> None:
        """Wait until each channel has as many samples."""
        wait_for(
            lambda: all(len(self.samples(channel)) >= n for channel in self.channels),
            SECONDS,
            f"{n} samples of {self.channels}",
        )

    def stop(self) -> int:
        """Have it stop; return its exit code."""
        assert self.process.stdin
        self.process.stdin.write(b"stop\n")
        self.process.stdin.flush()
        return self.ended()

    def ended(self) -> int:
        """Wait until it has ended; return its exit code."""
        code = self.process.wait(SECONDS)
        self._reader.join(SECONDS)
        return code

    @property
    def said(self) -> str:
        """Return what it wrote for people, once it has ended."""
        assert self.process.stderr
        if self._said is None:
            self._said = self.process.stderr.read().decode()
        return self._said

    def close(self) -> None:
        """End it, however it is."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe:
                pipe.close()


def of_program(argv: Sequence[str]) -> tuple[str, str]:
    """Return the arguments that make `command` read a program."""
    return "--program", json.dumps(list(argv))
