# SPDX-License-Identifier: GPL-3.0-or-later
"""Joulescope through a stand-in of its driver package, Quarch through an emulated server."""

import contextlib
import json
import subprocess
import sys

import pytest

from tests.support import ROOT
from tests.support.capturers import Capture
from tests.support.emulated_qis import Server

RATE = ("--set", "samplerate=1000")


@pytest.fixture
def joulescopes(monkeypatch):
    """Install the stand-in, with a JS220 and, as the environment says, others."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "tests" / "support" / "joulescope"))
    monkeypatch.setenv("JOULESCOPES", "u/js220/002557")
    return monkeypatch.setenv


def indices(frames):
    return [frame.first + k for frame in frames for k in range(frame.n)]


def the_one(values):
    """Return what all values are."""
    assert len(set(values)) == 1
    return values[0]


@contextlib.contextmanager
def captured(driver, channels, *more, samples):
    with contextlib.closing(Capture(driver, channels, *more)) as taken:
        taken.wait_samples(samples)
        assert taken.stop() == 0
        yield taken


# ---------------------------------------------------------------- Joulescope


def test_joulescope_gives_volts_and_amps_of_the_same_samples(joulescopes):
    with captured("joulescope", ["volts", "amps"], *RATE, samples=500) as taken:
        assert set(taken.samples("volts")) == {5.0}
        assert the_one(taken.samples("amps")) == pytest.approx(0.8)
        volts, amps = (indices(taken.frames_of(channel)) for channel in ("volts", "amps"))
        start = taken.events()[0]
    assert volts[0] == 0
    assert abs(amps[0]) <= 16, "the amps began later, or the volts' first samples are left out"
    assert (start["model"], start["serial"], start["samplerate_hz"]) == ("JS220", "002557", 1000)


def test_joulescope_samples_that_are_missing_are_holes(joulescopes):
    joulescopes("JOULESCOPE_LOSES", "300000,50000")
    with captured("joulescope", ["volts"], *RATE, samples=600) as taken:
        seen = indices(taken.frames_of("volts"))
    assert seen[-1] - len(seen) + 1 == 50


def test_joulescopes_are_kept_apart_by_their_serials(joulescopes):
    joulescopes("JOULESCOPES", "u/js220/002557,u/js110/003913")
    with captured("joulescope:conn=joulescope/003913", ["watts"], *RATE, samples=100) as taken:
        assert taken.events()[0]["model"] == "JS110"
        assert set(taken.samples("watts")) == {4.0}


@pytest.mark.parametrize(
    ("environment", "driver", "code", "expected"),
    [
        ({"JOULESCOPES": ""}, "joulescope", 3, "no such Joulescope; there are: none"),
        (
            {},
            "joulescope:conn=joulescope/1",
            3,
            "joulescope/1: no such Joulescope; there are: joulescope/002557",
        ),
        (
            {"JOULESCOPES": "u/js220/1,u/js220/2"},
            "joulescope",
            3,
            "declare connection, one of joulescope/1, joulescope/2",
        ),
        ({"JOULESCOPE_DEAF": "1"}, "joulescope", 3, "open timed out"),
        ({"PYTHONPATH": ""}, "joulescope", 3, "pip install '.[joulescope]'"),
    ],
)
def test_a_joulescope_that_cannot_be_opened_is_one_line(joulescopes, environment, driver, code, expected):
    for key, value in environment.items():
        joulescopes(key, value)
    with contextlib.closing(Capture(driver, ["volts"], *RATE)) as taken:
        assert taken.ended() == code
        assert expected in taken.said
        assert len(taken.said.splitlines()) == 1


def test_joulescopes_are_found_by_themselves(joulescopes):
    done = subprocess.run(
        [sys.executable, "-m", "joulerig.capturers", "--find"], capture_output=True, check=True
    )
    assert ("joulescope", "joulescope/002557") in {
        (one["driver"], one["connection"]) for one in json.loads(done.stdout)
    }


# ---------------------------------------------------------------- Quarch


@pytest.fixture
def qis():
    with contextlib.ExitStack() as running:
        yield lambda **how: running.enter_context(contextlib.closing(Server(**how)))


@pytest.mark.parametrize("per_mark", [1, 1000])
def test_quarch_gives_a_rails_volts_amps_and_watts_by_the_headers_units(qis, per_mark):
    server = qis(per_mark=per_mark)
    channels = ["12V_volts", "12V_amps", "12V_watts"]
    with captured(f"quarch:conn={server.connection}", channels, *RATE, samples=200) as taken:
        assert set(taken.samples("12V_volts")) == {12.0}
        assert taken.samples("12V_amps")[:2] == pytest.approx([0.4, 0.6])
        assert taken.samples("12V_watts")[:2] == pytest.approx([4.8, 7.2])
        assert indices(taken.frames_of("12V_amps"))[:100] == list(range(100))
        start = taken.events()[0]
    assert (start["vendor"], start["serial"], start["samplerate_hz"]) == ("Quarch", "QTL1999-02-001", 1000)
    asked = [line.partition(" ")[2] for line in server.asked]
    assert "stream mode resample 1000uS" in asked
    assert asked[-1] == "rec stop", "the stream is left stopped"


def test_quarch_stripes_that_are_missing_are_holes(qis):
    server = qis(lose=(100, 30))
    with captured(f"quarch:conn={server.connection}", ["12V_amps"], *RATE, samples=300) as taken:
        seen = indices(taken.frames_of("12V_amps"))
    assert seen[:300] == [*range(100), *range(130, 330)]


@pytest.mark.parametrize(
    ("how", "options", "code", "expected"),
    [
        ({"overrun": 200}, "", 5, "Stopped: Overrun"),
        ({"modules": ()}, "", 3, "there are: none"),
        (
            {"modules": ("TCP:QTL1-1", "USB:QTL2-2")},
            "",
            3,
            "declare options: { module: ONE OF QTL1-1, QTL2-2 }",
        ),
        ({}, ":module=QTL9", 3, "no module 'QTL9'; there are: QTL1999-02-001"),
    ],
)
def test_what_is_wrong_at_the_server_is_one_line(qis, how, options, code, expected):
    server = qis(**how)
    with contextlib.closing(
        Capture(f"quarch:conn={server.connection}{options}", ["12V_amps"], *RATE)
    ) as taken:
        assert taken.ended() == code
        assert expected in taken.said.splitlines()[-1]


def test_a_server_that_is_not_started_is_named():
    with contextlib.closing(Capture("quarch:conn=tcp-raw/127.0.0.1/9", ["12V_amps"], *RATE)) as taken:
        assert taken.ended() == 3
        assert "is Quarch's server started?" in taken.said
