# SPDX-License-Identifier: GPL-3.0-or-later
"""Audit a real twin without a host: the rig's reading and judging, over the tests' NVMe host."""

import contextlib
import itertools
import threading
import time

from ansible.module_utils.joulerig.ownpower.reports import PowerReports
from joulerig.analysis.audit import rails, readings
from joulerig.analysis.audit.checks import Stretch
from joulerig.analysis.audit.verdict import judge
from tests.support.nvme_twin import NvmeTwin
from tests.support.twins import TwinTruth

LIMIT = 0.002  # of the "meter", which here is the truth
SETTLE_SECONDS = 1.2  # the second in which the drive is started then holds the load alone
BLOCK = bytes(4096)


class TwinHost:
    """What PowerReports asks of a host, by commands over NVMe/TCP."""

    def __init__(self, host):
        self.calls, self._host = self, host

    @contextlib.contextmanager
    def opened(self, _):
        yield 0

    def nvme_health(self, _):
        return self._host.log(0x02, 512)

    def nvme_controller(self, _):
        return self._host.identify()

    def nvme_feature(self, _, number):
        return self._host.get_feature(number).result, b""

    def set_nvme_feature(self, _, number, value):
        self._host.set_feature(number, value)

    def nvme_log(self, _, number, size):
        return self._host.log(number, size)


def audit(folder, options, *, replicates=2, seconds=5.0, power_cycle=False):
    """Have a twin with `options` idle, write, flush and read, and judge what it reports of that."""
    with NvmeTwin(folder, options) as twin:
        truth = TwinTruth(twin)
        recorded, cycled = [], False
        for replicate in range(replicates):
            if power_cycle and replicate and not cycled:
                twin.ask("power off")
                twin.ask("power on")
                cycled = True
            with twin.host() as host:
                for condition, work in LOADS.items():
                    reports = PowerReports({"drive": ("nvme0n1", "nvme")}, TwinHost(host))
                    with _working(host, work):
                        time.sleep(SETTLE_SECONDS)  # see there
                        with reports.phase(condition):
                            time.sleep(seconds)  # it is what is measured
                    recorded.append((f"run-{replicate}", reports.recorded))
        time.sleep(SETTLE_SECONDS)  # what a reading can mean ends up to a second after it was taken
        return _judged(truth, recorded)


@contextlib.contextmanager
def _working(host, work):
    """Load the twin meanwhile through its I/O queue, a few hundred operations a second."""
    over = threading.Event()

    def load():
        number = 0
        while not over.wait(0.002):
            work(host, number)
            number += 1

    thread = threading.Thread(target=load, daemon=True)
    if work:
        thread.start()
    try:
        yield
    finally:
        over.set()
        if work:
            thread.join()


def _write(host, number):
    host.write(number % 1000 * 4096, BLOCK)


def _flush(host, number):
    host.write(number % 1000 * 4096, BLOCK)
    host.flush()


def _read(host, number):
    host.read(number % 1000 * 4096, 4096)


LOADS = {"idle": None, "writes": _write, "flushes": _flush, "reads": _read}


def _judged(truth, recorded):
    def power(start_ns, end_ns):
        joules = [
            sum(rail["joules"][n] for rail in found["rails"])
            for found in [truth.history("host", "drive", [start_ns, end_ns])]
            for n in (0, 1)
        ]
        watts = (joules[1] - joules[0]) / (end_ns - start_ns) * 1e9
        return rails.RailPower(watts, LIMIT * watts)

    compared, counters, problems = [], [], []
    for run, reports in recorded:
        found = readings.of_run(run, "drive", "", reports, 0)
        problems += found.problems
        counters += found.counters
        compared += [one for one in (rails.compare(reading, power) for reading in found.readings) if one]
    stretches = [
        Stretch(before, after, 0.0, 20.0 * (after.time_ns - before.time_ns) / 1e9)
        for before, after in itertools.pairwise(counters)
    ]
    return judge("host", "drive", compared, stretches, problems)
