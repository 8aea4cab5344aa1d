# SPDX-License-Identifier: GPL-3.0-or-later
"""What a drive reports to its NVMe host: its power and health, true or wrong."""

import struct
import time

import pytest

from tests.support.nvme_client import Failed
from tests.support.nvme_twin import NvmeTwin
from tests.support.programs import wait_for

WATTS = 0.35  # of the idle rail
POWER, MEASUREMENT, OCP = 0x02, 0x25, 0xC0


def watts_of(field):
    """Watts as NVMe has them: a number, and whether it counts 0.1 or 10 mW."""
    return (field & 0xFFFF) * {0: 0, 1: 1e-4, 2: 1e-2}[field >> 16]


def last_second(host):
    return watts_of(struct.unpack_from("<I", host.log(POWER, 512), 240)[0])


def watt_hours(host):
    return struct.unpack_from("<Q", host.log(POWER, 512), 232)[0]


def measured(host):
    """Seconds, mean, most and histogram of a measurement, and its stated error."""
    page = host.log(MEASUREMENT, 576)
    mean, most = (watts_of(struct.unpack_from("<I", page, at)[0]) for at in (40, 44))
    bins = [struct.unpack_from("<I", page, 64 + 8 * n)[0] for n in range(64)]
    return struct.unpack_from("<I", page, 8)[0], mean, most, bins, page[56]


def measure_a_second(host):
    host.set_feature(MEASUREMENT, 1)
    wait_for(lambda: measured(host)[0] >= 1, 5, "a second was measured")
    host.set_feature(MEASUREMENT, 0)
    return measured(host)


def test_a_drive_that_does_not_measure_says_so(tmp_path):
    with NvmeTwin(tmp_path) as twin, twin.host() as host:
        assert watt_hours(host) == 0
        assert last_second(host) == 0
        for command in (lambda: host.log(MEASUREMENT, 576), lambda: host.set_feature(MEASUREMENT, 1)):
            with pytest.raises(Failed):
                command()
        with pytest.raises(Failed):
            host.log(OCP, 512)


def test_a_true_report_is_what_the_twin_draws(tmp_path):
    with NvmeTwin(tmp_path, ["reports=energy,1,3"]) as twin, twin.host() as host:
        count, mean, most, bins, error = measure_a_second(host)
        assert count == sum(bins) == bins[1]  # from 0.25 to 0.5 W
        assert mean == pytest.approx(WATTS, rel=1e-3)
        assert most == pytest.approx(WATTS, rel=1e-3)
        assert error == 3
        assert last_second(host) == pytest.approx(WATTS, rel=1e-3)
        assert watt_hours(host) == 1


def test_load_shows_in_the_second_in_which_it_was(tmp_path):
    with NvmeTwin(tmp_path, ["reports=energy,1"]) as twin, twin.host() as host:
        host.set_feature(MEASUREMENT, 1)
        before = twin.state()["rails"][0]["joules"]
        for _ in range(300):
            host.write(0, bytes(4096))
            host.flush()
        added = twin.state()["rails"][0]["joules"] - before
        time.sleep(2)  # the seconds of the load have ended, and nothing else is drawn
        count, mean, *_ = measured(host)
    assert added > 0.3
    assert count * mean == pytest.approx(added + WATTS * count, rel=0.3)


@pytest.mark.parametrize(
    ("options", "expected", "lowest_bin"),
    [
        (["reports=energy,1.2,2"], 1.2 * WATTS, 1),
        (["reports=energy,1", "reports=flaw,no_idle"], 0, 0),
        (["reports=energy,1", "reports=flaw,unit"], 10 * WATTS, 14),
        (["reports=energy,1", "reports=flaw,histogram"], WATTS, 5),
    ],
)
def test_a_wrong_report_is_wrong_as_its_parameter_says(tmp_path, options, expected, lowest_bin):
    with NvmeTwin(tmp_path, options) as twin, twin.host() as host:
        count, mean, _, bins, _ = measure_a_second(host)
    assert mean == pytest.approx(expected, rel=1e-3, abs=1e-4)
    assert bins[lowest_bin] == count


HOURS_A_SECOND = "reports=energy,20000"  # 7,000 J


def test_its_energy_outlives_the_twin(tmp_path):
    with NvmeTwin(tmp_path, [HOURS_A_SECOND]) as twin, twin.host() as host:
        wait_for(lambda: watt_hours(host) >= 4, 10, "two seconds were measured")
        least = watt_hours(host)
    with NvmeTwin(tmp_path, ["reports=energy,0"]) as twin, twin.host() as host:
        assert least <= watt_hours(host) <= least + 4


def test_its_energy_starts_over_with_power_where_that_is_its_flaw(tmp_path):
    with NvmeTwin(tmp_path, [HOURS_A_SECOND, "reports=flaw,resets"]) as twin:
        with twin.host() as host:
            wait_for(lambda: watt_hours(host) >= 4, 10, "two seconds were measured")
        twin.ask("power off")
        twin.ask("power on")
        with twin.host() as host:
            assert watt_hours(host) < 4


def test_health_can_be_wrong(tmp_path):
    options = ["reports=written,0.5", "reports=temperature,-20", "ambient_celsius=50", "kelvin_per_watt=0"]
    with NvmeTwin(tmp_path, ["write_cache=4M", *options]) as twin, twin.host() as host:
        for n in range(4):
            host.write(n << 19, bytes(1 << 19), capsule=False)
        page = host.log(POWER, 512)
        assert struct.unpack_from("<H", page, 1)[0] == 303
        assert struct.unpack_from("<Q", page, 48)[0] == -(-(2 << 20) // 2 // 512000)
        assert twin.state()["health"]["temperature_celsius"] == pytest.approx(50, abs=0.01)


def test_the_extended_health_log_has_what_the_twin_knows(tmp_path):
    with NvmeTwin(tmp_path, ["reports=ocp"]) as twin, twin.host() as host:
        host.write(0, bytes(1 << 19), capsule=False)
        page = host.log(OCP, 512)
    assert struct.unpack_from("<Q", page)[0] == 1 << 19
    assert page[496:512].hex() == "c5af1028eabff2a49c4f6f7cc914d5af"
