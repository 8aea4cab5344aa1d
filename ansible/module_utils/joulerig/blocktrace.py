# SPDX-License-Identifier: GPL-3.0-or-later
"""Seeks of drives while a load runs: distances between consecutive requests, from the kernel's own trace."""

import os
import re
import select
import threading

from ansible.module_utils.joulerig.tools import Failed, Refused

TRACING = "/sys/kernel/tracing"
EVENT = "events/block/block_rq_issue"
BUFFER_KIB = 4096  # of each CPU: seconds of requests of any drive that seeks
LOOK_SECONDS = 0.25
SECTOR = 512
# device, what (R, W, D discard, F flush ...), bytes, command, first sector, sectors
_ISSUED = re.compile(r"block_rq_issue: (\d+),(\d+) (\S+) \d+ \([^)]*\) (\d+) \+ (\d+)")
_LOST = re.compile(r"\[LOST (\d+) EVENTS\]")


class Counter:
    """Requests of each device, by "major:minor" -> drive's name, from lines of the trace.

    `drives`: by name {requests, seeks, distance_bytes}: a request seeks where it does not begin where the one
    before ended; the distance is summed over these. Flushes without data and discards move no head. `lost`:
    events that the kernel had no room for.
    """

    def __init__(self, names):
        self._names = names
        self._ends = {}
        self.drives = {name: {"requests": 0, "seeks": 0, "distance_bytes": 0} for name in names.values()}
        self.lost = 0

    def take(self, line):
        """One line of the trace."""
        if issued := _ISSUED.search(line):
            major, minor, what, first, sectors = issued.groups()
            name = self._names.get(f"{major}:{minor}")
            if name is not None and int(sectors) and not what.startswith("D"):
                self._request(name, int(first), int(sectors))
        elif lost := _LOST.search(line):
            self.lost += int(lost[1])

    def _request(self, name, first, sectors):
        found, end = self.drives[name], self._ends.get(name)
        found["requests"] += 1
        if end is not None and first != end:
            found["seeks"] += 1
            found["distance_bytes"] += SECTOR * abs(first - end)
        self._ends[name] = first + sectors


class Seeks:
    """Counts while its block runs; `found` then is {drives, lost}. Takes {drive's name: kernel's name}.

    Raises Refused where the kernel has no such trace.
    """

    def __init__(self, drives, tracing=TRACING, sys="/sys"):
        self._instance = f"{tracing}/instances/joulerig"
        self._event = f"{self._instance}/{EVENT}"
        self._numbers = {}
        for name, kernel_name in drives.items():
            with open(f"{sys}/block/{kernel_name}/dev") as file:
                self._numbers[file.read().strip()] = name
        self._counter = Counter(self._numbers)
        self._stop = threading.Event()
        self.found = None

    def __enter__(self):
        try:
            os.makedirs(self._instance, exist_ok=True)  # of a run that was killed: it is taken over
            self._put(f"{self._event}/enable", "0")
            self._put(f"{self._instance}/buffer_size_kb", str(BUFFER_KIB))
            self._put(f"{self._event}/filter", " || ".join(map(_condition, self._numbers)))
            self._put(f"{self._instance}/trace", "")
            self._pipe = os.open(f"{self._instance}/trace_pipe", os.O_RDONLY | os.O_NONBLOCK)
        except OSError as error:
            raise Refused(f"{error.filename}: {error.strerror}: this kernel cannot trace requests") from None
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._put(f"{self._event}/enable", "1")
        return self

    def __exit__(self, *_):
        try:
            self._put(f"{self._event}/enable", "0")
        finally:
            self._stop.set()
            self._reader.join()
            os.close(self._pipe)
        try:
            os.rmdir(self._instance)
        except OSError as error:
            raise Failed(f"{self._instance}: {error.strerror}") from None
        self.found = {"drives": self._counter.drives, "lost": self._counter.lost}

    def _read(self):
        """Takes lines until there are no more after the stop."""
        rest = ""
        while True:
            stopping = self._stop.is_set()
            while text := self._chunk():
                *lines, rest = (rest + text).split("\n")
                for line in lines:
                    self._counter.take(line)
            if stopping:
                self._counter.take(rest)
                return
            select.select([self._pipe], [], [], LOOK_SECONDS)

    def _chunk(self):
        try:
            return os.read(self._pipe, 1 << 16).decode("ascii", "replace")
        except BlockingIOError:
            return ""

    def _put(self, path, text):
        with open(path, "w") as file:
            file.write(text)


def _condition(number):
    """The trace's filter for a device "major:minor": its own number has 20 bits for the minor."""
    major, minor = map(int, number.split(":"))
    return f"dev == {major << 20 | minor}"
