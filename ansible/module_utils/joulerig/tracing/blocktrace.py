# SPDX-License-Identifier: GPL-3.0-or-later
"""Seeks of drives while a load runs.

They are distances between consecutive requests, from the kernel's own trace.
"""

import re

from ansible.module_utils.joulerig.tracing import kerneltrace

EVENT = "events/block/block_rq_issue"
SECTOR = 512
# device, what (R, W, D discard, F flush ...), bytes, command, first sector, sectors
_ISSUED = re.compile(r"block_rq_issue: (\d+),(\d+) (\S+) \d+ \([^)]*\) (\d+) \+ (\d+)")


class Counter:
    """Requests of each device, by "major:minor" -> drive's name, from lines of the trace.

    `drives`: by name {requests, seeks, distance_bytes}: a request seeks where it does not begin
    where the one before ended; the distance is summed over these. Flushes without data and discards
    move no head.
    """

    def __init__(self, names):
        self._names = names
        self._ends = {}
        self.drives = {name: {"requests": 0, "seeks": 0, "distance_bytes": 0} for name in names.values()}

    def take(self, line):
        """Count the request in one line of the trace."""
        if issued := _ISSUED.search(line):
            major, minor, what, first, sectors = issued.groups()
            name = self._names.get(f"{major}:{minor}")
            if name is not None and int(sectors) and not what.startswith("D"):
                self._request(name, int(first), int(sectors))

    def _request(self, name, first, sectors):
        found, end = self.drives[name], self._ends.get(name)
        found["requests"] += 1
        if end is not None and first != end:
            found["seeks"] += 1
            found["distance_bytes"] += SECTOR * abs(first - end)
        self._ends[name] = first + sectors


class Seeks:
    """Counts while its block runs; `found` then is {drives, lost}.

    `drives` is Counter's, `lost` how many events the kernel had no room for. Takes {drive's name:
    kernel's name}.

    Raises Refused where the kernel has no such trace.
    """

    def __init__(self, drives, tracing=kerneltrace.TRACING, sys="/sys"):
        numbers = {}
        for name, kernel_name in drives.items():
            with open(f"{sys}/block/{kernel_name}/dev") as file:
                numbers[file.read().strip()] = name
        self._counter = Counter(numbers)
        condition = " || ".join(map(_condition, numbers))
        self._trace = kerneltrace.Trace(
            "joulerig", {EVENT: condition}, self._counter.take, "this kernel cannot trace requests", tracing
        )
        self.found = None

    def __enter__(self):
        self._trace.__enter__()
        return self

    def __exit__(self, *error):
        self._trace.__exit__(*error)
        self.found = {"drives": self._counter.drives, "lost": self._trace.lost}


def _condition(number):
    """Return the trace's filter for a device "major:minor".

    The kernel's own number of a device has 20 bits for the minor.
    """
    major, minor = map(int, number.split(":"))
    return f"dev == {major << 20 | minor}"
