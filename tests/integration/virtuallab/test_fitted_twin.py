# SPDX-License-Identifier: GPL-3.0-or-later
"""The twin of nvme-powersensor3 does and draws what was measured of the real drive.

Judged by the twin's own books, so that this machine's speed is in nothing: how long the device had
each operation (`latency`), which pages collection moved, and the joules by cause.
"""

import csv
import random
from itertools import pairwise

import numpy as np
import pytest

from joulerig.virtuallab import profile
from joulerig.virtuallab.fit import model
from joulerig.virtuallab.fit.rows import read_table
from tests.support.nbd_client import NbdClient
from tests.support.programs import wait_for
from tests.support.twins import twin_of

NAME = "nvme-powersensor3"
FITTED = profile.FOLDER / "fitted"
WITHIN = 0.05  # of the measured curves
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
PROFILE = profile.load(NAME)
TIMES = model.Times.from_profile(PROFILE.flash)
((RAIL, DRAWN),) = PROFILE.rails.items()
READS = [row for row in read_table(FITTED / f"{NAME}.csv", PROFILE.rails) if row.operation == "read"]
# Powers of two and what stands for 1 and 4 MiB where the curve was first read off.
SIZES_OF_THE_CURVE = [*(KIB << n for n in range(12)), 1000 * KIB, 4090 * KIB]


class Books:
    """What a twin has done and drawn until now: it must be quiet."""

    def __init__(self, twin):
        latency, self.state = twin.ask("latency"), twin.state()
        self.model_ns = {kind: one["model_ns_total"] for kind, one in latency.items()}
        self.count = {kind: sum(one["model_counts"]) for kind, one in latency.items()}
        self.joules = self.state["rails"][0]["cause_joules"]


def settled(twin):
    """Return a twin's books when what its operations cost has been drawn."""

    def read_joules():
        causes = twin.state()["rails"][0]["cause_joules"]
        return {cause: joules for cause, joules in causes.items() if cause != "idle"}

    last = [read_joules()]

    def quiet():
        last.append(read_joules())
        return last[-1] == last[-2]

    wait_for(quiet, 20, "the drive has nothing left to draw")
    return Books(twin)


def test_random_reads_by_size_are_the_measured_curve(tmp_path):
    randomly = random.Random(4)
    with (
        twin_of(tmp_path, NAME, size=GIB, doze=None, doze_watts=None) as twin,
        NbdClient(twin.nbd) as client,
    ):
        for row in READS:
            size = row.request_bytes
            before = settled(twin)
            for _ in range(max(16, min(200, 16 * MIB // size))):
                client.read(randomly.randrange(client.size // size) * size, size)
            after = settled(twin)
            count = after.count["read"] - before.count["read"]
            seconds = (after.model_ns["read"] - before.model_ns["read"]) * 1e-9
            rate = count * size / seconds
            watts = DRAWN.idle_watts + (after.joules["read"] - before.joules["read"]) / seconds
            off = rate / row.bytes_per_second - 1, watts / row.total_watts - 1
            print(f"{size // KIB} KiB: {rate / MIB:.1f} MiB/s, {off[0]:+.1%}; {watts:.3f} W, {off[1]:+.1%}")
            # The fit's own residuals are the twin's: what the report of a fit says is true.
            assert rate == pytest.approx(model.bytes_per_second(TIMES, row), rel=0.01)
            assert watts == pytest.approx(row.total_watts, rel=WITHIN)
            if size in SIZES_OF_THE_CURVE:
                assert rate == pytest.approx(row.bytes_per_second, rel=WITHIN)
    assert set(SIZES_OF_THE_CURVE) <= {row.request_bytes for row in READS}


def measured_course():
    """Fraction of the drive written (at the middle), rate and watts of each measured minute."""
    text = (FITTED / f"{NAME}-writes.csv").read_text().splitlines()
    columns = ("written_fraction", "bytes_per_second", "watts")
    lines = csv.DictReader(line for line in text if not line.startswith("#"))
    return np.array([[float(line[name]) for name in columns] for line in lines]).T


# Where the measured minutes begin and end, as fractions of the drive: fresh; the first round of
# collection; behind it. In between collection begins, and its first round ends.
JUDGED = [
    (0.012, 0.0625), (0.0625, 0.0885),
    (0.1062, 0.1254), (0.1254, 0.148), (0.148, 0.1745), (0.1745, 0.2055), (0.2055, 0.2423),
    (0.2423, 0.262), (0.262, 0.2822),
    (0.301, 0.3366),
]  # fmt: skip
LARGE = 16 * GIB  # a thousand blocks of 16 MiB, as the profile has them
DEPTH = 16


class Stretch:
    """What a twin did between two of its books.

    Its rate is what the flash takes at what it amplified, or what one at a time allows.
    """

    def __init__(self, before, after):
        health = [one.state["health"] for one in (before, after)]
        written = health[1]["host_bytes_written"] - health[0]["host_bytes_written"]
        programmed = health[1]["nand_bytes_written"] - health[0]["nand_bytes_written"]
        self.amplification = programmed / written
        flash = PROFILE.flash
        alone = flash.latency_us.write * 1e-6 + 4096 / flash.write_bytes_per_second
        self.rate = min(4096 / alone, model.programmed_per_second(TIMES, self.amplification))
        drawn = sum(after.joules[cause] - before.joules[cause] for cause in ("write", "gc"))
        self.watts = DRAWN.idle_watts + drawn / written * self.rate


@pytest.mark.long
def test_random_writes_over_time_are_the_measured_course(tmp_path):
    """Full, then each page once: fresh, the first round of collection, and behind it.

    Zeroes that stay written cost what data do, and none are sent or kept. The blocks that the map
    keeps free for itself are part of the spare space of the measured drive.
    """
    block_bytes = PROFILE.flash.block_pages * model.FTL_PAGE_BYTES
    spare = PROFILE.flash.overprovisioning - 1.5 * block_bytes / LARGE
    ends = sorted({0.0, *(end for stretch in JUDGED for end in stretch)})
    books = {}
    with (
        twin_of(tmp_path, NAME, size=LARGE, overprovisioning=spare, write_cache=2 * MIB) as twin,
        NbdClient(twin.nbd) as client,
    ):
        for offset in range(0, LARGE, 32 * MIB):
            client.fill_with_zeroes(offset, 32 * MIB)
        places = 4096 * np.random.default_rng(4).permutation(LARGE // 4096)
        for first, last in pairwise(ends):
            books[first] = settled(twin)
            client.fill_at(map(int, places[int(first * len(places)) : int(last * len(places))]), 4096, DEPTH)
        books[ends[-1]] = settled(twin)
    written, rates, watts = measured_course()
    for first, last in JUDGED:
        minutes = (written > first) & (written < last)
        one = Stretch(books[first], books[last])
        rate_off, watts_off = one.rate / rates[minutes].mean() - 1, one.watts / watts[minutes].mean() - 1
        print(
            f"{first:.1%} to {last:.1%}: amplification {one.amplification:.2f},"
            f" {one.rate / MIB:.1f} MiB/s, {rate_off:+.1%}; {one.watts:.3f} W, {watts_off:+.1%}"
        )
        assert minutes.any()
        assert abs(rate_off) <= WITHIN
        assert abs(watts_off) <= WITHIN
