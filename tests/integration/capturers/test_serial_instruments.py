# SPDX-License-Identifier: GPL-3.0-or-later
"""PPK2 and PowerSensor3, their protocols emulated on a pseudo-terminal."""

import contextlib
import math

import pytest

from tests.support.capturers import Capture
from tests.support.emulated_usb import Kit, Sensor
from tests.support.programs import wait_for

AMMETER = ("--set", "millivolts=5000")


@contextlib.contextmanager
def captured(driver, device, channels, *more, samples):
    with device, contextlib.closing(Capture(f"{driver}:conn={device.path}", channels, *more)) as taken:
        taken.wait_samples(samples)
        assert taken.stop() == 0
        yield taken


def indices(frames):
    return [frame.first + k for frame in frames for k in range(frame.n)]


# ---------------------------------------------------------------- PPK2


def test_ppk2_gives_amps_by_its_own_calibration_in_each_range():
    kit = Kit(amps=lambda k: 0.5 if k // 500 % 2 else 0.01)
    with captured("ppk2", kit, ["amps"], *AMMETER, samples=20_000) as taken:
        amps = taken.samples("amps")
        start = taken.events()[0]
    assert amps[:500] == pytest.approx([0.01] * 500, abs=5e-5)
    assert amps[500:1000] == pytest.approx([0.5] * 500, abs=5e-4)
    assert (start["model"], start["version"], start["samplerate_hz"]) == ("PPK2", "12", 100_000)
    asked = kit.asked
    assert b"\x11\x01" in asked, "it is an ammeter"
    assert b"\x0d\x13\x88" in asked, "of 5000 mV"
    assert asked.rstrip().endswith(b"\x07"), "it is left stopped"
    assert b"\x0c\x00" not in asked, "what it feeds is never switched off"


def test_ppk2_samples_that_the_counter_misses_are_holes():
    with captured("ppk2", Kit(lose=(5000, 17)), ["amps"], *AMMETER, samples=10_000) as taken:
        seen = indices(taken.frames_of("amps"))
    assert seen[:10_000] == [*range(5000), *range(5017, 10_017)]


def test_ppk2_at_the_end_of_its_last_range_is_over_range():
    kit = Kit(amps=lambda k: math.inf if k == 100 else 0.5)
    with captured("ppk2", kit, ["amps"], *AMMETER, samples=1000) as taken:
        amps = taken.samples("amps")
    assert amps[100] == math.inf
    assert all(map(math.isfinite, amps[:100]))


def test_ppk2_as_a_source_sets_its_mode():
    kit = Kit()
    with captured("ppk2", kit, ["amps"], "--set", "mode=source", "--set", "millivolts=3300", samples=100):
        pass
    assert b"\x11\x02" in kit.asked
    assert b"\x0d" + bytes([3 + 2532 // 256, 2532 % 256]) in kit.asked


@pytest.mark.parametrize(
    ("more", "code", "expected"),
    [
        ((), 2, "millivolts: missing; allowed: 800 to 5000"),
        (("--set", "millivolts=12000"), 2, "allowed: 800 to 5000"),
        (("--set", "millivolts=5000", "--set", "mode=fast"), 2, "allowed: ammeter, source"),
        (("--set", "volts=5"), 2, "ppk2 has no such setting; allowed: mode, millivolts"),
    ],
)
def test_ppk2_refuses_settings_in_one_line(more, code, expected):
    with Kit() as kit, contextlib.closing(Capture(f"ppk2:conn={kit.path}", ["amps"], *more)) as taken:
        assert taken.ended() == code
        assert expected in taken.said


# ---------------------------------------------------------------- PowerSensor3


def test_powersensor3_gives_the_pairs_in_use_by_their_memory():
    device = Sensor(amps=lambda k: 1.5 if k % 200 < 100 else 0.5)
    channels = ["volts0", "amps0", "volts1"]
    with captured("powersensor3", device, channels, samples=4000) as taken:
        step = 3.3 / 1023
        assert taken.samples("volts0")[:400] == pytest.approx([5.0] * 400, abs=step / 0.2)
        assert taken.samples("amps0")[:100] == pytest.approx([1.5] * 100, abs=step / 0.06)
        assert taken.samples("amps0")[100:200] == pytest.approx([0.5] * 100, abs=step / 0.06)
        assert taken.samples("volts1")[0] == pytest.approx(12.0, abs=step / 0.2)
        start = taken.events()[0]
        assert indices(taken.frames_of("amps0"))[:2000] == list(range(2000))
        wait_for(lambda: device.asked.endswith(b"T"), 60, "it is left stopped")
    assert (start["vendor"], start["samplerate_hz"]) == ("PowerSensor3", 20_000)


def test_powersensor3_sets_that_its_clock_misses_are_holes():
    with captured("powersensor3", Sensor(lose=(1000, 7)), ["amps0"], samples=4000) as taken:
        seen = indices(taken.frames_of("amps0"))
    assert seen[:4000] == [*range(1000), *range(1007, 4007)]


def test_powersensor3_at_an_end_of_its_converter_is_over_range():
    device = Sensor(amps=lambda k: 40.0 if k == 50 else 1.0)
    with captured("powersensor3", device, ["amps0"], samples=200) as taken:
        amps = taken.samples("amps0")
    assert amps[50] == math.inf
    assert math.isfinite(amps[49])


def test_a_pair_that_is_not_in_use_is_no_channel():
    device = Sensor()
    with device, contextlib.closing(Capture(f"powersensor3:conn={device.path}", ["amps3"])) as taken:
        assert taken.ended() == 2
        assert "no 'amps3'; allowed: amps0, volts0, amps1, volts1" in taken.said


# ---------------------------------------------------------------- both


@pytest.mark.parametrize(("driver", "make", "more"), [("ppk2", Kit, AMMETER), ("powersensor3", Sensor, ())])
def test_a_cable_that_is_pulled_ends_the_capture(driver, make, more):
    channel = "amps" if driver == "ppk2" else "amps0"
    device = make()
    with contextlib.closing(Capture(f"{driver}:conn={device.path}", [channel], *more, silence=2.0)) as taken:
        taken.wait_samples(100)
        device.unplug()
        assert taken.ended() in (4, 5)
        assert "unplugged?" in taken.said or "no samples" in taken.said


@pytest.mark.parametrize(("driver", "make", "more"), [("ppk2", Sensor, AMMETER), ("powersensor3", Kit, ())])
def test_another_instrument_at_the_port_is_not_taken_for_it(driver, make, more):
    with (
        make() as device,
        contextlib.closing(Capture(f"{driver}:conn={device.path}", ["amps"], *more, silence=1.0)) as taken,
    ):
        assert taken.ended() == 3
        assert len(taken.said.splitlines()) == 1


def test_a_port_is_of_one_process():
    with Kit() as kit, contextlib.closing(Capture(f"ppk2:conn={kit.path}", ["amps"], *AMMETER)) as first:
        first.wait_samples(100)
        with contextlib.closing(Capture(f"ppk2:conn={kit.path}", ["amps"], *AMMETER)) as second:
            assert second.ended() == 3
            assert "another process has it" in second.said
        assert first.stop() == 0
