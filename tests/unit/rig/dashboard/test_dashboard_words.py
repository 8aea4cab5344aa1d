# SPDX-License-Identifier: GPL-3.0-or-later
"""A journal's events as sentences."""

import pytest

from joulerig.analysis.results.schema import EventKind
from joulerig.rig.dashboard.campaign.words import describe

RUN = {"cell": "nvme/ext4/none/fio", "host": "h1"}


@pytest.mark.parametrize(
    ("event", "detail", "text"),
    [
        ("created", {"runs": 1}, "is planned with 1 run"),
        ("begun", {"host": "h1", "process": "p"}, "its runs on h1 begin"),
        (
            "status",
            {"from": "planned", "to": "running", "reason": ""},
            "nvme/ext4/none/fio on h1: planned, then running",
        ),
        (
            "status",
            {"from": "running", "to": "ok", "reason": "the disk was full"},
            "nvme/ext4/none/fio on h1: running, then ok: the disk was full",
        ),
        (
            "status",
            {"from": "running", "to": "failed", "reason": "exit code 1"},
            "nvme/ext4/none/fio on h1 is failed: exit code 1",
        ),
        ("asked", {"to": "pause"}, "is paused after what runs now"),
        (
            "asked",
            {"to": "stop", "by": "the dashboard"},
            "is asked to stop after what runs now, by the dashboard",
        ),
        ("asked", {"to": "go on"}, "is asked to go on"),
        ("asked", {"to": "go on", "by": "the dashboard"}, "is asked to go on, by the dashboard"),
        (
            "resumed",
            {"was": "lost", "by": "rig retry"},
            "nvme/ext4/none/fio on h1 is planned again, was lost, by rig retry",
        ),
        ("resumed", {"was": "lost"}, "nvme/ext4/none/fio on h1 is planned again, was lost"),
        ("set-aside", {"host": "h1", "why": "gone"}, "h1 is set aside: gone"),
        ("moved", {"from": "h1", "to": "h2", "serials": []}, "nvme/ext4/none/fio moves from h1 to h2"),
        (
            "power-cycled",
            {"host": "h1", "by": "outlet", "number": 1, "away_seconds": 61.2},
            "the power of h1 is cut and restored, away for 61 s",
        ),
        ("hold", {"condition": "heat", "why": "62 °C"}, "h1 waits: 62 °C"),
        ("hold", {"condition": "heat", "why": ""}, "h1 waits no longer for heat"),
        (
            "look",
            {
                "race": "nvme, fio",
                "look": 3,
                "dropped": [{"cell": "a", "reason": "is out"}],
                "verdict": "goes on",
            },
            "nvme, fio, look 3: a is out; goes on",
        ),
        (
            "settled",
            {"from": "partial", "to": "ok", "reason": ""},
            "nvme/ext4/none/fio: partial, settled as ok",
        ),
        ("finished", {"ok": 2, "failed": 0}, "is over: 2 ok"),
        (
            "preconditioning",
            {"precondition": "ended", "steady": True, "reason": "steady"},
            "the drive of nvme/ext4/none/fio: precondition ended: steady",
        ),
        ("note", {"text": "hello"}, 'note: {"text": "hello"}'),
    ],
)
def test_an_event_is_a_sentence(event, detail, text):
    assert describe(event, detail, RUN) == text


@pytest.mark.parametrize("event", [kind for kind in EventKind if kind != EventKind.FINISHED])
def test_an_older_journals_detail_is_shown_as_it_is(event):
    assert describe(event, {}, {}) == f"{event}: {{}}"
