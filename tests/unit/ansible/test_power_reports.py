# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host reads of its drives' own power (ansible/module_utils/joulerig/ownpower)."""

import contextlib
import struct
import threading

import pytest

from ansible.module_utils.joulerig.ownpower import log as power_log
from ansible.module_utils.joulerig.ownpower.reports import OTHERS, PowerReports

WATTS_1_25 = 1 << 16 | 12500  # 0.1 mW
WATTS_9 = 2 << 16 | 900  # 10 mW


def health(watt_hours=7, watts=WATTS_1_25, cycles=3):
    log = bytearray(512)
    struct.pack_into("<Q", log, 112, cycles)
    struct.pack_into("<QI", log, 232, watt_hours, watts)
    return bytes(log)


def measurement(seconds=10, state=0, error=3, bins=4, stated_bins=None):
    log = bytearray(64 + 8 * bins)
    log[1] = 5
    struct.pack_into("<H", log, 2, state)
    struct.pack_into("<I", log, 8, seconds)
    struct.pack_into("<HHH", log, 24, 8, 250, bins if stated_bins is None else stated_bins)
    struct.pack_into("<I", log, 32, 2)
    struct.pack_into("<II", log, 40, WATTS_1_25, WATTS_9)
    log[56] = error
    for n in range(bins):
        struct.pack_into("<II", log, 64 + 8 * n, n, 1 << 16 | 2500 * n)
    return bytes(log)


def test_the_health_log_has_lifetime_energy_and_the_last_second():
    assert power_log.of_health(health()) == {
        "watt_hours": 7,
        "watts": pytest.approx(1.25),
        "step_watts": 1e-4,
        "power_cycles": 3,
    }


def test_a_drive_without_the_fields_reports_no_watts():
    found = power_log.of_health(health(watt_hours=0, watts=0))
    assert (found["watt_hours"], found["watts"], found["step_watts"]) == (0, None, None)


def test_a_measurement_has_its_mean_its_histogram_and_its_error():
    found = power_log.of_measurement(measurement())
    assert (found["seconds"], found["error_percent"], found["generation"]) == (10, 3, 5)
    assert found["watts"] == pytest.approx(1.25)
    assert found["most_watts"] == pytest.approx(9)
    assert found["bins"] == {
        "bin_watts": 0.25,
        "watts": pytest.approx([0, 0.25, 0.5, 0.75]),
        "counts": [0, 1, 2, 3],
        "overflow": 2,
    }


def test_an_error_of_255_is_none_and_gaps_are_read():
    found = power_log.of_measurement(measurement(error=255, state=0x3))
    assert found["error_percent"] is None
    assert (found["is_running"], found["has_gaps"]) == (True, True)


@pytest.mark.parametrize("log", [b"", bytes(63), measurement(stated_bins=5)])
def test_a_log_that_is_cut_is_refused(log):
    with pytest.raises(ValueError, match="of"):
        power_log.of_measurement(log)


class Drive:
    """A host with one NVMe drive; `commands`: what its feature was set to."""

    def __init__(self, measures=True, running=False, refuses=False):
        self.calls, self.measures, self.running, self.refuses = self, measures, running, refuses
        self.commands, self.set = [], threading.Event()

    @contextlib.contextmanager
    def opened(self, name):
        if self.refuses:
            raise OSError(f"/dev/{name}: no such device")
        yield 9

    def nvme_health(self, _):
        return health()

    def nvme_controller(self, _):
        return bytes(96) + struct.pack("<I", power_log.MEASURES if self.measures else 0) + bytes(4000)

    def nvme_feature(self, _, number):
        assert number == power_log.FEATURE
        return int(self.running), b""

    def set_nvme_feature(self, _, number, value):
        assert number == power_log.FEATURE
        self.commands.append(value)
        self.set.set()

    def nvme_log(self, _, number, size):
        assert (number, size) == (power_log.LOG, power_log.BYTES)
        return measurement()


DRIVES = {"fast": ("nvme0n1", "nvme"), "slow": ("sda", "hdd")}


def test_a_phase_is_measured_from_its_beginning_to_its_end():
    host = Drive()
    reports = PowerReports(DRIVES, host)
    with reports.phase("idle"):
        assert host.commands == [power_log.START]
    assert host.commands == [power_log.START, power_log.STOP]
    (found,) = reports.recorded
    assert (found["drive"], found["phase"], found["problem"]) == ("fast", "idle", "")
    assert 0 < found["before"]["time_ns"] <= found["start_ns"] <= found["stop_ns"]
    assert found["after"]["time_ns"] >= found["stop_ns"]
    assert found["measurement"]["seconds"] == 10


def test_a_load_is_measured_once_it_has_settled():
    host = Drive()
    reports = PowerReports(DRIVES, host)
    with reports.phase("workload", delay=0.01):
        assert host.set.wait(30)
    assert host.commands == [power_log.START, power_log.STOP]


def test_a_phase_that_is_over_before_is_not_measured():
    host = Drive()
    reports = PowerReports(DRIVES, host)
    with reports.phase("workload", delay=3600):
        pass
    assert host.commands == []
    assert reports.recorded[0]["measurement"] is None
    assert reports.recorded[0]["after"]["watt_hours"] == 7


def test_a_drive_that_does_not_measure_gets_no_command():
    host = Drive(measures=False)
    reports = PowerReports(DRIVES, host)
    with reports.phase("idle"):
        pass
    assert host.commands == []
    assert reports.recorded[0]["measurement"] is None


def test_the_measurement_of_another_program_is_left_alone():
    host = Drive(running=True)
    reports = PowerReports(DRIVES, host)
    with reports.phase("idle"):
        pass
    assert host.commands == []
    assert reports.recorded[0]["problem"] == OTHERS


def test_a_drive_that_cannot_be_asked_ends_no_run():
    reports = PowerReports(DRIVES, Drive(refuses=True))
    with reports.phase("idle"):
        pass
    assert "no such device" in reports.recorded[0]["problem"]


def test_a_measurement_is_stopped_where_the_load_failed():
    host = Drive()
    reports = PowerReports(DRIVES, host)
    with pytest.raises(RuntimeError), reports.phase("workload"):
        raise RuntimeError
    assert host.commands == [power_log.START, power_log.STOP]
