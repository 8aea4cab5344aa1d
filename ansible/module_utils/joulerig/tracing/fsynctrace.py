# SPDX-License-Identifier: GPL-3.0-or-later
"""How much of f2fs's fsync is search for free node numbers.

It is measured by probes on the kernel's own functions.
"""

import contextlib
import math
import re

from ansible.module_utils.joulerig.tools import Refused
from ansible.module_utils.joulerig.tracing import kerneltrace

GROUP = "joulerig_f2fs"
# By event: the function of f2fs.
FUNCTIONS = {"sync": "f2fs_sync_file", "scan": "f2fs_build_free_nids"}
RETURNS = 256  # calls at a time of which the end is seen
WINDOW_SECONDS = 1.0
# task-TID [CPU] flags seconds: event: (
_EVENT = re.compile(r"-(\d+)\s+\[\d+\].*?\s(\d+\.\d+): (sync|scan)(_end)?: \(")


class Shares:
    """Times of both functions from lines of the trace.

    `syncs`, `scans`: calls that ended. `sync_seconds`, `scan_seconds`: within them, calls of all
    threads added up. `scan_in_sync_seconds`: of searches that a sync waited for. `windows`: by
    second since the first event, [seconds of syncs that ended in it, of searches within these].
    """

    def __init__(self):
        self._begun = {"sync": {}, "scan": {}}
        self._within = {}
        self._first = None
        self.syncs = self.scans = 0
        self.sync_seconds = self.scan_seconds = self.scan_in_sync_seconds = 0.0
        self.windows = []

    def take(self, line):
        """Take the call or return in one line of the trace."""
        found = _EVENT.search(line)
        if not found:
            return
        thread, instant, what, end = found[1], float(found[2]), found[3], found[4]
        self._first = instant if self._first is None else self._first
        if not end:
            self._begun[what][thread] = instant
        elif (begun := self._begun[what].pop(thread, None)) is not None:
            getattr(self, f"_{what}_ended")(thread, instant, instant - begun)

    def _scan_ended(self, thread, _, seconds):
        self.scans += 1
        self.scan_seconds += seconds
        if thread in self._begun["sync"]:
            self.scan_in_sync_seconds += seconds
            self._within[thread] = self._within.get(thread, 0.0) + seconds

    def _sync_ended(self, thread, instant, seconds):
        self.syncs += 1
        self.sync_seconds += seconds
        number = math.floor((instant - self._first) / WINDOW_SECONDS)
        while len(self.windows) <= number:
            self.windows.append([0.0, 0.0])
        self.windows[number][0] += seconds
        self.windows[number][1] += self._within.pop(thread, 0.0)

    def as_dict(self):
        return {
            key: [[round(one, 6) for one in pair] for pair in value] if key == "windows" else value
            for key, value in vars(self).items()
            if not key.startswith("_")
        }


class FreeNids:
    """Measure while the block runs.

    `found` then holds the figures of Shares, `lost` and `window_seconds`, or {"why": TEXT} where
    this kernel cannot measure it.
    """

    def __init__(self, tracing=kerneltrace.TRACING):
        self._tracing = tracing
        names = [f"{name}{end}" for name in FUNCTIONS for end in ("", "_end")]
        self._events = {f"events/{GROUP}/{name}": "" for name in names}
        self._shares = Shares()
        self._trace = None
        self._why = ""
        self.found = None

    def __enter__(self):
        trace = kerneltrace.Trace(
            GROUP, self._events, self._shares.take, "this kernel cannot trace f2fs", self._tracing
        )
        try:
            self._remove()
            self._put_probes()
            trace.__enter__()
        except OSError as error:
            self._why = f"{error.filename}: {error.strerror}: no probes on f2fs's functions"
        except Refused as error:
            self._why = str(error)
        else:
            self._trace = trace
        return self

    def __exit__(self, *error):
        if self._trace is None:
            self.found = {"why": self._why}
        else:
            self._trace.__exit__(*error)
            window = {"lost": self._trace.lost, "window_seconds": WINDOW_SECONDS}
            self.found = {**self._shares.as_dict(), **window}
        with contextlib.suppress(OSError):
            self._remove()

    def _put_probes(self):
        for name, function in FUNCTIONS.items():
            self._command(f"p:{GROUP}/{name} {function}")
            self._command(f"r{RETURNS}:{GROUP}/{name}_end {function}")

    def _remove(self):
        """Remove the probes, also those of a run that was killed.

        These may still be enabled.
        """
        for event in self._events:
            with contextlib.suppress(OSError):
                kerneltrace.put(f"{self._tracing}/instances/{GROUP}/{event}/enable", "0")
        with open(f"{self._tracing}/kprobe_events") as file:
            there = [line.split()[0].partition(":")[2] for line in file if f":{GROUP}/" in line]
        for name in there:
            self._command(f"-:{name}")

    def _command(self, text):
        try:
            kerneltrace.add(f"{self._tracing}/kprobe_events", text + "\n")
        except OSError as error:
            raise OSError(error.errno, error.strerror, f"kprobe_events, {text!r}") from None
