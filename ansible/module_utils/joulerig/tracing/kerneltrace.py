# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel's own trace while a load runs.

It is in an instance of ours: other users of it are not disturbed.
"""

import os
import re
import select
import threading

from ansible.module_utils.joulerig.tools import Failed, Unable

TRACING = "/sys/kernel/tracing"
BUFFER_KIB = 4096  # of each CPU: seconds of what a load brings about
LOOK_SECONDS = 0.25
_LOST = re.compile(r"\[LOST (\d+) EVENTS\]")


def put(path, text):
    """Write to a file of the kernel's, in place of what it says."""
    with open(path, "w") as file:
        file.write(text)


def add(path, text):
    """Write to a file of the kernel's, to what it says already."""
    # open(path, "a") seeks the end, which these files have not.
    file = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)


class Trace:
    """Hands each line of the trace to `take` while its block runs.

    `instance`: its name. `events`: by path below the instance (events/block/block_rq_issue) the
    filter, or an empty text. `lost`: events that the kernel had no room for. Raises Refused, with
    `lack`, where the kernel has no such trace.
    """

    def __init__(self, instance, events, take, lack, tracing=TRACING):
        self._instance = f"{tracing}/instances/{instance}"
        self._events = {f"{self._instance}/{event}": condition for event, condition in events.items()}
        self._take, self._lack = take, lack
        self._stop = threading.Event()
        self.lost = 0

    def __enter__(self):
        try:
            os.makedirs(self._instance, exist_ok=True)  # of a run that was killed: it is taken over
            self._enable("0")
            put(f"{self._instance}/buffer_size_kb", str(BUFFER_KIB))
            for event, condition in self._events.items():
                if condition:
                    put(f"{event}/filter", condition)
            put(f"{self._instance}/trace", "")
            self._pipe = os.open(f"{self._instance}/trace_pipe", os.O_RDONLY | os.O_NONBLOCK)
        except OSError as error:
            raise Unable(f"{error.filename}: {error.strerror}: {self._lack}") from None
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._enable("1")
        return self

    def __exit__(self, *_):
        try:
            self._enable("0")
        finally:
            self._stop.set()
            self._reader.join()
            os.close(self._pipe)
        try:
            os.rmdir(self._instance)
        except OSError as error:
            raise Failed(f"{self._instance}: {error.strerror}") from None

    def _enable(self, whether):
        for event in self._events:
            put(f"{event}/enable", whether)

    def _read(self):
        """Take lines until there are no more after the stop."""
        rest = ""
        while True:
            stopping = self._stop.is_set()
            while text := self._chunk():
                *lines, rest = (rest + text).split("\n")
                for line in lines:
                    self._line(line)
            if stopping:
                self._line(rest)
                return
            select.select([self._pipe], [], [], LOOK_SECONDS)

    def _line(self, line):
        if lost := _LOST.search(line):
            self.lost += int(lost[1])
        else:
            self._take(line)

    def _chunk(self):
        try:
            return os.read(self._pipe, 1 << 16).decode("ascii", "replace")
        except BlockingIOError:
            return ""
