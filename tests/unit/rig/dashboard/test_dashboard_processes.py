# SPDX-License-Identifier: GPL-3.0-or-later
"""What the rig's services cost, from a /proc and a powercap folder that a test writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from joulerig.rig.dashboard.api import processes
from joulerig.rig.dashboard.api.processes import FIRST, NO_RAPL, PAGE, TICKS, Processes


class Machine:
    """A machine's files: seconds of processor time, by pid and in all."""

    def __init__(self, folder: Path) -> None:
        self.proc, self.powercap = folder / "proc", folder / "powercap"
        self.proc.mkdir()
        self.powercap.mkdir()
        self.now = 100.0
        self.busy(0.0)

    def busy(self, seconds: float) -> None:
        (self.proc / "stat").write_text(f"cpu  {int(seconds * TICKS)} 0 0 5000 70 0 0 0 900 0\ncpu0 0\n")
        (self.proc / "uptime").write_text(f"{self.now} 0\n")

    def process(
        self, pid: int, parent: int, seconds: float, *, started: float = 90.0, pages: int = 10
    ) -> None:
        (self.proc / str(pid)).mkdir(exist_ok=True)
        half = int(seconds * TICKS) // 2
        ticks = f"{half} {int(seconds * TICKS) - half}"
        text = (
            f"{pid} (a ) b) S {parent} 0 0 0 0 0 0 0 0 0 {ticks} 9 9 0 0 1 0 {int(started * TICKS)} 0 {pages}"
        )
        (self.proc / str(pid) / "stat").write_text(text)

    def package(self, number: int, joules: float, name: str = "package-0") -> None:
        zone = self.powercap / f"intel-rapl:{number}"
        zone.mkdir(exist_ok=True)
        (zone / "name").write_text(f"{name}\n")
        (zone / "energy_uj").write_text(f"{int(joules * 1e6)}\n")

    def watch(self, **pids: int) -> Processes:
        return Processes(lambda: pids, self.proc, self.powercap, lambda: self.now)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_the_first_reading_is_since_the_services_start(machine):
    machine.process(10, 1, 2.0, started=90.0, pages=3)
    (one,) = machine.watch(powerd=10).read()["services"]
    assert (one["name"], one["pid"], one["rss_bytes"]) == ("powerd", 10, 3 * PAGE)
    assert (one["cpu_fraction"], one["over_seconds"]) == (pytest.approx(0.2), pytest.approx(10.0))


def test_the_next_one_is_since_the_last(machine):
    watched = machine.watch(powerd=10)
    machine.process(10, 1, 2.0)
    watched.read()
    machine.now += 4.0
    machine.process(10, 1, 3.0)
    (one,) = watched.read()["services"]
    assert (one["cpu_fraction"], one["over_seconds"]) == (pytest.approx(0.25), pytest.approx(4.0))


def test_descendants_count_with_their_service(machine):
    machine.process(10, 1, 1.0, pages=5)
    machine.process(11, 10, 0.5, pages=6)
    machine.process(12, 11, 0.5, pages=7)
    machine.process(13, 1, 9.0, pages=100)
    (one,) = machine.watch(powerd=10).read()["services"]
    assert one["rss_bytes"] == 18 * PAGE
    assert one["cpu_fraction"] == pytest.approx(0.2)


def test_a_service_that_was_restarted_begins_again(machine):
    watched = machine.watch(powerd=10)
    machine.process(10, 1, 50.0)
    watched.read()
    machine.now += 10.0
    machine.busy(0.0)
    machine.process(10, 1, 1.0, started=105.0)
    (one,) = watched.read()["services"]
    assert one["cpu_fraction"] == pytest.approx(0.2)


def test_a_capturer_that_ended_makes_no_negative_time(machine):
    watched = machine.watch(powerd=10)
    machine.process(10, 1, 1.0)
    machine.process(11, 10, 30.0)
    watched.read()
    machine.now += 10.0
    machine.process(11, 1, 30.0)
    assert watched.read()["services"][0]["cpu_fraction"] == 0.0


def test_a_process_that_is_gone_is_left_out(machine):
    assert machine.watch(powerd=77).read()["services"] == []


def test_watts_are_unknown_without_rapl_and_the_reason_is_given(machine):
    machine.process(10, 1, 1.0)
    found = machine.watch(powerd=10).read()
    assert (found["machine"]["package_watts"], found["machine"]["why"]) == (None, NO_RAPL)
    assert found["services"][0]["watts"] is None


def test_watts_are_a_share_of_the_packages_by_processor_time(machine):
    watched = machine.watch(powerd=10)
    machine.process(10, 1, 1.0)
    machine.package(0, 1000.0)
    machine.package(1, 500.0, "package-1")
    machine.package(2, 7.0, "psys")
    found = watched.read()
    assert (found["machine"]["package_watts"], found["machine"]["why"]) == (None, FIRST)
    machine.now += 10.0
    machine.busy(8.0)
    machine.process(10, 1, 3.0)
    machine.package(0, 1200.0)
    machine.package(1, 700.0, "package-1")
    machine.package(2, 9000.0, "psys")
    found = watched.read()
    assert found["machine"]["package_watts"] == pytest.approx(40.0)
    assert found["machine"]["cpu_fraction"] == pytest.approx(0.8)
    assert found["services"][0]["watts"] == pytest.approx(40.0 * 2.0 / 8.0)


def test_a_counter_that_began_again_gives_no_watts(machine):
    watched = machine.watch(powerd=10)
    machine.process(10, 1, 1.0)
    machine.package(0, 1000.0)
    watched.read()
    machine.now += 10.0
    machine.package(0, 3.0)
    assert watched.read()["machine"]["package_watts"] is None


def test_one_package_whose_counter_began_again_leaves_all_unknown(machine):
    watched = machine.watch()
    machine.package(0, 1000.0)
    machine.package(1, 500.0, "package-1")
    watched.read()
    machine.now += 10.0
    machine.package(0, 3.0)
    machine.package(1, 700.0, "package-1")
    found = watched.read()["machine"]
    assert (found["package_watts"], found["why"]) == (None, "the counter began again")


def test_a_counter_that_may_not_be_read_says_so(machine, monkeypatch):
    machine.package(0, 1000.0)
    read_text = Path.read_text

    def refused(path: Path, *words: str) -> str:
        if path.name == "energy_uj":
            raise PermissionError(13, "Permission denied")
        return read_text(path, *words)

    monkeypatch.setattr(Path, "read_text", refused)
    assert machine.watch().read()["machine"]["why"] == "RAPL cannot be read: Permission denied"


def test_two_who_ask_at_once_get_the_same_reading(machine):
    machine.process(10, 1, 1.0)
    watched = machine.watch(powerd=10)
    first = watched.read()
    machine.now += processes.LEAST_SECONDS / 2
    assert watched.read() is first


def test_the_virtual_labs_processes_are_no_cost_of_the_rig(machine):
    for pid in (10, 11, 12):
        machine.process(pid, 1, 1.0)
    names = {"powerd": 10, "campaign demo-1": 11, "twin-vhost1-hdd-1": 12}
    found = Processes(lambda: names, machine.proc, machine.powercap, lambda: machine.now).read()
    parts = {one["name"]: one["part"] for one in found["services"]}
    assert parts == {"powerd": "rig", "campaign demo-1": "rig", "twin-vhost1-hdd-1": "virtual lab"}
