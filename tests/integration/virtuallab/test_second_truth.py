# SPDX-License-Identifier: GPL-3.0-or-later
"""The twin's joules agree with those that an independent program computes from its operations.

tests/support/second_truth.py is written from the twin's documentation. Where the two do not agree,
one of the twin, its documentation and that program is wrong.
"""

import random
import time

import pytest

from tests.support import second_truth
from tests.support.nbd_client import NbdClient
from tests.support.programs import wait_for
from tests.support.twins import twin_of

MIB = 1 << 20
# Of a rail's joules; of a cause's where that is more than SMALL of the rail's.
RAIL_TOLERANCE = {"flash": 1e-4, "disk": 3e-3}  # of a disk the wait for a sector is not computed
CAUSE_TOLERANCE = 0.02
SMALL = 0.01
IDLE_SECONDS = 1.0


def reads(client, random):
    for _ in range(400):
        client.read(random.randrange(0, client.size - 65536, 512), random.choice([512, 4096, 65536]))


def writes_and_flushes(client, random):
    for n in range(400):
        client.write(random.randrange(0, client.size - 65536, 512), bytes(random.choice([4096, 20480])))
        if n % 8 == 0:
            client.flush()
        if n % 50 == 0:
            client.write(4096 * n, bytes(4096), fua=True)


def long_pauses(client, random):
    """Idle long enough to doze off, and to fold what was written."""
    for pause in (0.3, 0.7, 2.0):
        client.write(0, bytes(MIB))
        time.sleep(pause)
        client.read(0, 4096)


def cache_drains(client, random):
    """More than the write cache holds, and then nothing."""
    cookies = [client.submit_write(n * MIB % client.size, bytes(MIB)) for n in range(48)]
    for cookie in cookies:
        client.result(cookie)


def overwrites(client, random):
    """The whole drive, then at random over it: the map collects garbage."""
    for n in range(client.size // MIB):
        client.write(n * MIB, bytes(MIB))
    for _ in range(3 * client.size // 16384):
        client.write(random.randrange(client.size // 16384) * 16384, bytes(16384))


def trims(client, random):
    overwrites(client, random)
    client.trim(client.size // 4, client.size // 2)
    for _ in range(client.size // 16384):
        client.write(random.randrange(client.size // 16384) * 16384, bytes(16384))


def standby(client, random):
    """A hard disk that spins down after 0.2 s, takes 0.1 s for it, and 0.3 s to spin up."""
    for _ in range(2):
        client.read(random.randrange(client.size - 4096), 4096)
        time.sleep(0.6)  # spins down meanwhile
    client.read(0, 4096)


LOADS = {
    "idle": lambda client, random: time.sleep(IDLE_SECONDS),
    "reads": reads,
    "writes and flushes": writes_and_flushes,
    "long pauses": long_pauses,
    "cache drains": cache_drains,
    "overwrites": overwrites,
    "trims": trims,
    "standby": standby,
}
SSDS = ["nvme-consumer", "nvme-enterprise", "nvme-powersensor3", "sata-consumer", "sata-enterprise"]
OPTIONS = {"standby": {"doze": "200000000,100000000,300000000"}}
CASES = [(name, load) for name in SSDS for load in LOADS if load != "standby"]
CASES += [("hdd-7200", load) for load in ("idle", "reads", "standby")]
# A hard disk is so large that a cylinder is a small part of its stroke.
SIZES = {"hdd-7200": 2048 * MIB}
QUIET_SECONDS = 0.15


def await_quiet(twin):
    """Wait until what the load left to the drive is done, but for what folds after a second."""

    def own_joules():
        return [rail["cause_joules"][cause] for rail in twin.state()["rails"] for cause in ("gc", "seek")]

    def quiet():
        before = own_joules()
        time.sleep(QUIET_SECONDS)
        return own_joules() == before

    wait_for(quiet, 20, "the drive has nothing left to do")


@pytest.mark.long
@pytest.mark.parametrize(("name", "load"), CASES)
def test_joules_from_the_log_of_operations_are_the_twins(tmp_path, name, load):
    log = tmp_path / "operations"
    size = SIZES.get(name, 16 * MIB)
    twin = twin_of(tmp_path / "twin", name, size=size, operations=log, **OPTIONS.get(load, {}))
    with twin:
        time.sleep(QUIET_SECONDS)
        start = twin.state()
        with NbdClient(twin.nbd) as client:
            LOADS[load](client, random.Random(43))
        await_quiet(twin)
        end = twin.state()
    words = [word for word in twin.command if "=" in word]
    operations = log.read_text().splitlines()
    again = second_truth.joules(words, size, operations, start["monotonic_ns"], end["monotonic_ns"])
    for before, after in zip(start["rails"], end["rails"], strict=True):
        rail = after["name"]
        true = after["joules"] - before["joules"]
        second = sum(again[rail].values())
        print(f"{name}, {load}, {rail}: {true:.6f} J, again {second:.6f} J, {second / true - 1:+.1e}")
        causes = {
            cause: joules - before["cause_joules"][cause] for cause, joules in after["cause_joules"].items()
        }
        shown = {cause: (joules, again[rail].get(cause, 0.0)) for cause, joules in causes.items()}
        print({cause: pair for cause, pair in shown.items() if pair[0] or pair[1]})
        tolerance = RAIL_TOLERANCE["disk" if "model=disk" in words else "flash"]
        assert second == pytest.approx(true, rel=tolerance)
        for cause, (joules, recomputed) in shown.items():
            assert recomputed == pytest.approx(joules, rel=CAUSE_TOLERANCE, abs=SMALL * true), cause
