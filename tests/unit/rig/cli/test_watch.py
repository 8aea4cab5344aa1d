# SPDX-License-Identifier: GPL-3.0-or-later
"""What a terminal shows of the dashboard's messages and frames."""

import copy
import io
import json

import numpy as np
import pytest
from rich.console import Console

from joulerig.errors import JoulerigError
from joulerig.rig.cli.terminal import Terminal
from joulerig.rig.cli.watch import command, screen
from joulerig.rig.cli.watch.received import Received
from joulerig.rig.common import bounded
from joulerig.rig.common.errors import UserError
from joulerig.rig.dashboard.web import frames
from tests.support import hostile_text

SECOND = 1_000_000_000
NOW = 1_794_600_000
RAILS = [
    {"host": "vhost1", "drive": "hdd-1", "rail": "5v", "meter": "tap1"},
    {"host": "vhost1", "drive": "hdd-1", "rail": "12v", "meter": "tap1"},
    {"host": "vhost1", "drive": "fast", "rail": "3v3", "meter": "tap1"},
]
LAYOUT = {"kind": "layout", "layout": 1, "rails": RAILS, "drives": [{"host": "vhost1", "drive": "hdd-1"}]}
METER = {"name": "tap1", "state": "streaming", "lost_percent": 0.0, "gap_seconds": 0.0, "unaccounted": 0}
LIVE = {
    "kind": "live", "slowness": 1.0, "powerd": {"ok": True, "meters": [METER]},
    "bands": [
        {"run": "demo-0002", "host": "vhost1", "drive": "fast", "phase": "setup",
         "start_ns": (NOW - 20) * SECOND, "end_ns": (NOW - 9) * SECOND},
        {"run": "demo-0002", "host": "vhost1", "drive": "fast", "phase": "workload",
         "start_ns": (NOW - 7) * SECOND, "end_ns": None},
    ],
}  # fmt: skip


def run(ordinal, status="ok", **more):
    return {
        "id": f"demo-{ordinal:04}", "ordinal": ordinal, "drive": "fast", "filesystem": "ext4",
        "scheduler": "none", "workload": "varmail", "status": status, "reason": "",
        "started_ns": (NOW - 100) * SECOND, "ended_ns": (NOW - 80) * SECOND, **more,
    }  # fmt: skip


RUNS = [
    run(1, joules=25.0, ops_per_joule=1234.5),
    run(2, "running", ended_ns=None),
    run(3, "failed", reason="fio: exit code 1"),
]
CAMPAIGN = {
    "kind": "campaign", "found": True, "newest": "demo", "name": "demo", "question": "Which is best?",
    "virtual": True, "state": "running", "done": 2, "total": 4, "started_ns": (NOW - 120) * SECOND,
    "finished_ns": None, "eta_ns": (NOW + 61) * SECOND, "eta_at_most": False,
    "counts": {"running": 1, "planned": 1, "ok": 1, "failed": 1}, "runs": RUNS,
    "hosts": [{"host": "vhost1", "done": 2, "total": 4, "run": {"id": "demo-0002", "cell": "fast/ext4"}}],
}  # fmt: skip


def frame(power, io=None, *, power_first=1000, io_first=200, now=NOW, layout=1):
    sections = [
        frames.section(SECOND // 10, power_first, np.asarray(power, float)),
        frames.section(SECOND // 2, io_first, np.full((1, 5, 2), np.nan) if io is None else io),
    ]
    return frames.header(1, now * SECOND, layout, 0, sections) + b"".join(sections)


def watts(*rails, buckets=10):
    """Sections of steady watts by rail: mean, least, greatest."""
    return [[[one] * buckets] * 3 for one in rails]


@pytest.fixture
def received():
    received = Received(clock=lambda: 0.0)
    for message in (LAYOUT, CAMPAIGN, LIVE):
        received.take(json.dumps(message))
    return received


def shown(received, width=120):
    console = Console(file=io.StringIO(), width=width, highlight=False)
    console.print(screen.render(received))
    return console.file.getvalue()


def test_a_frame_that_was_written_is_read():
    values = np.arange(30.0).reshape(2, 3, 5)
    section = frames.section(SECOND // 10, 7, values)
    found = frames.read(frames.header(9, NOW * SECOND, 4, 0, [section]) + section)
    assert (found.sequence, found.now_seconds, found.layout) == (9, NOW, 4)
    [one] = found.sections
    assert (one.bucket_seconds, one.first) == (0.1, 7)
    assert np.array_equal(one.values, values)


def test_a_drive_draws_what_its_rails_do(received):
    received.take(frame(watts(2.5, 5.0, 0.25)))
    assert received.watts("vhost1", "hdd-1") == pytest.approx(7.5)
    assert received.watts("vhost1", "fast") == pytest.approx(0.25)
    assert received.watts("vhost1", "other") is None


def test_a_drive_of_which_a_rail_is_silent_has_no_watts(received):
    received.take(frame(watts(2.5, np.nan, 0.25)))
    assert received.watts("vhost1", "hdd-1") is None


def test_the_newest_second_counts_and_nothing_older_than_five(received):
    received.take(frame(watts(1, 1, 1)))
    received.take(frame(watts(1, 1, 9), power_first=1010))
    assert received.watts("vhost1", "fast") == pytest.approx(9)
    received.take(frame(watts(1, 1, np.nan, buckets=39), power_first=1020))
    assert received.watts("vhost1", "fast") == pytest.approx(9)
    received.take(frame(watts(1, 1, np.nan, buckets=12), power_first=1059))
    assert received.watts("vhost1", "fast") is None


def test_buckets_that_come_again_replace_themselves(received):
    received.take(frame(watts(1, 1, 1)))
    received.take(frame(watts(1, 1, 3)))
    assert received.watts("vhost1", "fast") == pytest.approx(3)


def test_a_frame_of_another_layout_is_not_taken(received):
    received.take(frame(watts(1, 1, 1), layout=2))
    assert not received.is_complete
    assert received.watts("vhost1", "fast") is None


def test_io_is_by_drive(received):
    rates = np.array([[[10.0, 20.0]] * 5])
    received.take(frame(watts(1, 1, 1), rates))
    assert received.io("vhost1", "hdd-1") == [15.0] * 5
    assert received.io("vhost1", "fast") == [None] * 5


def test_time_goes_on_as_the_labs_does():
    at = [0.0]
    received = Received(clock=lambda: at[0])
    for message in (LAYOUT, {**LIVE, "slowness": 20.0}):
        received.take(json.dumps(message))
    received.take(frame(watts(1, 1, 1)))
    at[0] = 40.0
    assert received.now_seconds == pytest.approx(NOW + 2)


def test_a_message_of_a_later_release_counts_for_nothing(received):
    received.take(json.dumps({"kind": "weather", "rain": True}))
    assert received.campaign["name"] == "demo"


def test_the_screen_has_the_essentials(received):
    received.take(json.dumps({"kind": "notices", "notices": [["bad", "Meter tap2 is silent."]]}))
    received.take(frame(watts(2.5, 5.0, 0.25)))
    text = shown(received)
    assert "demo  VIRTUAL LAB  running, 2 of 4 runs, elapsed 2:00, left 1:01" in text
    assert "Which is best?" in text
    assert "▶ 1 running  ○ 1 planned  ✓ 1 ok  ✕ 1 failed" in text
    assert "vhost1  fast/ext4  workload 0:07" in text
    assert "✕ Meter tap2 is silent." in text
    lines = [line.split() for line in text.splitlines()]
    assert ["fast", "0.250", *["–"] * 5] in lines
    assert ["hdd-1", "7.500", *["–"] * 5] in lines
    assert lines.index(["fast", "0.250", *["–"] * 5]) < lines.index(["hdd-1", "7.500", *["–"] * 5])
    assert ["1", "fast/ext4/none/varmail", "✓", "ok", "0:20", "25", "1,234"] in lines
    assert ["3", "fast/ext4/none/varmail", "✕", "failed", "0:20", "–", "–"] in lines
    assert "fio: exit code 1" in text
    assert "1 meter streaming without a loss" in text


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            {"finished_ns": NOW * SECOND, "state": "finished"},
            "finished, 2 of 4 runs, elapsed 2:00, left nothing",
        ),
        ({"eta_ns": None}, "left –"),
        ({"eta_at_most": True}, "left at most 1:01"),
        ({"started_ns": None}, "elapsed –"),
        ({"hosts": [{"host": "vhost1", "done": 4, "total": 4, "run": None}]}, "vhost1  all runs done"),
        ({"hosts": [{"host": "vhost1", "done": 2, "total": 4, "run": None}]}, "vhost1  between runs"),
        ({"runs": []}, "no run has ended yet"),
    ],
)
def test_the_screen_says_where_a_campaign_is(received, change, text):
    received.take(json.dumps({**CAMPAIGN, **change}))
    received.take(frame(watts(1, 1, 1)))
    assert text in shown(received)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"state": "silent"}, "tap1: silent, 0.000 % lost, gaps 0.000 s"),
        ({"lost_percent": 1.5, "gap_seconds": 0.25}, "tap1: streaming, 1.500 % lost, gaps 0.250 s"),
        ({"unaccounted": 3}, "3 samples unaccounted for"),
    ],
)
def test_a_doubtful_meter_has_a_line(received, change, text):
    received.take(json.dumps({**LIVE, "powerd": {"ok": True, "meters": [{**METER, **change}]}}))
    received.take(frame(watts(1, 1, 1)))
    assert text in shown(received)
    assert "0 meters streaming without a loss" in shown(received)


def test_without_a_campaign_drives_are_shown_all_the_same(received):
    received.take(json.dumps({"kind": "campaign", "found": False, "newest": None}))
    received.take(frame(watts(1, 1, 1)))
    assert shown(received).startswith("no campaign")
    assert "hdd-1" in shown(received)


def test_an_address_is_one_of_a_page():
    assert command._live_address("http://lab:8080/", None) == "ws://lab:8080/live"
    assert command._live_address("https://lab", "a b") == "wss://lab/live?campaign=a%20b"
    with pytest.raises(JoulerigError, match="--url 'lab:8080': is no address"):
        command._live_address("lab:8080", None)


@pytest.mark.parametrize("whole", [LAYOUT, CAMPAIGN, LIVE, {"kind": "notices", "notices": [["bad", "x"]]}])
def test_whatever_another_dashboard_sends_is_shown_as_text_or_one_line(received, whole, tmp_path):
    console = Terminal(file=io.StringIO(), width=300)
    received.take(frame(watts(1.0, 2.0)))
    refusals = []
    for odd in (*hostile_text.NAMES.values(), 7, None, [], {}, [[]]):
        for message in hostile_text.with_each(whole, odd):
            other = copy.copy(received)
            try:
                console.print(command._shown(other, json.dumps(message), "ws://x"))
            except UserError as error:
                refusals.append(str(error))
    assert [text for text in refusals if "\n" in text] == []
    shown = console.file.getvalue()
    assert bounded.printable(shown, keep="\n") == shown
    assert hostile_text.evaluated(shown) == []


@pytest.mark.parametrize("message", ["", "[", "[" * 100_000, "7", b"", b"\xff" * 48, b"\0" * 47])
def test_what_is_no_message_is_one_line(received, message):
    with pytest.raises(UserError, match="ws://x: a message cannot be read: "):
        command._shown(received, message, "ws://x")
