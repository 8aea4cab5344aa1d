# SPDX-License-Identifier: GPL-3.0-or-later
"""A test host is given back by one playbook, and not while a campaign is executed on it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from joulerig.rig.campaign import events, hosts, playbook
from joulerig.rig.campaign.journal import Journal
from joulerig.rig.common import paths, process
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab import model
from tests.support.planned_runs import CAMPAIGN, row


@pytest.fixture
def lab(lab_files, state):
    drive = {"interface": "hdd", "serial": "SERIAL-E", "size_bytes": 10**12}
    lab_files.hosts["bench2"] = {"controller_address": "192.0.2.1", "drives": {"other": drive}}
    lab_files.inventory_text = "[controller]\nboss\n\n[test_hosts]\nbench1\nbench2\n"
    return model.load(lab_files.write())


@pytest.fixture
def ansible(monkeypatch):
    """Playbooks that are not run: what they were given, what they note, and their exit code."""
    calls: list[tuple[str, dict]] = []
    outcome = {"notes": ["bench1: nothing to give back"], "failed": "", "code": 0}

    def run(path: Path, inventory: Path, *, log: Path, hosts: Iterable[str], data: dict) -> int:
        assert list(hosts) == list(data)
        calls.append((path.name, data))
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("")
        lines = [{"event": events.NOTE, "text": note} for note in outcome["notes"]]
        lines += [{"event": events.FAILED, "message": outcome["failed"]}] if outcome["failed"] else []
        playbook.events_file(log).write_text("".join(json.dumps(line) + "\n" for line in lines))
        return outcome["code"]

    monkeypatch.setattr(playbook, "ansible", run)
    return calls, outcome


@pytest.fixture
def journal(state):
    return Journal.create(paths.results() / "study-1", CAMPAIGN, [row(1, "bench1")])


@pytest.mark.parametrize("packages", [False, True])
def test_a_host_is_released_alone(lab, ansible, packages):
    calls, _ = ansible
    assert hosts.release(lab, "bench1", packages=packages) == (["bench1: nothing to give back"], "")
    assert calls == [("release.yml", {"bench1": {"packages": packages}})]


def test_a_host_that_the_inventory_does_not_have_is_refused(lab, ansible):
    with pytest.raises(UserError, match=r"^'nosuch' is not a test host; allowed: bench1, bench2$"):
        hosts.release(lab, "nosuch", packages=False)
    assert ansible[0] == []


def test_a_host_on_which_a_campaign_is_executed_is_refused(lab, ansible, journal):
    journal.claim(process.identity(os.getpid()))
    with pytest.raises(UserError, match=r"^bench1: campaign study-1 is being executed on it; "):
        hosts.release(lab, "bench1", packages=False)
    assert ansible[0] == []


def test_another_host_can_be_released_meanwhile(lab, ansible, journal):
    journal.claim(process.identity(os.getpid()))
    hosts.release(lab, "bench2", packages=False)
    assert len(ansible[0]) == 1


def test_a_campaign_that_is_over_or_interrupted_is_no_hindrance(lab, ansible, journal):
    journal.claim(f"{process.identity(os.getpid())}0")  # it has ended
    hosts.release(lab, "bench1", packages=False)
    assert len(ansible[0]) == 1


def test_a_failure_comes_with_what_was_undone_before_it(lab, ansible):
    _, outcome = ansible
    outcome.update(notes=["bench1: removed /etc/joulerig"], failed="bench1 is in use", code=2)
    lines, failure = hosts.release(lab, "bench1", packages=False)
    assert lines == ["bench1: removed /etc/joulerig"]
    assert failure.startswith("bench1 is in use (")


def test_a_folder_that_no_version_reads_is_no_campaign_that_is_executed(lab, ansible, state):
    folder = paths.results() / "odd-1"
    folder.mkdir(parents=True)
    (folder / "journal.sqlite").write_text("no database")
    assert list(hosts.executing(paths.results())) == []


@pytest.mark.parametrize(
    ("undone", "stays", "packages", "expected"),
    [
        ([], [], [], ["h: nothing to give back: there is no record of changes"]),
        (["removed /a"], [], [], ["h: removed /a"]),
        (["removed /a"], ["/b: is not empty"], [], ["h: removed /a", "h: stays: /b: is not empty"]),
        ([], ["/b: is not empty"], [], ["h: nothing changed", "h: stays: /b: is not empty"]),
        ([], [], ["fio"], ["h: nothing changed", "h: 1 package stays; --packages removes it: fio"]),
        (
            ["removed /a"], [], ["chrony", "fio"],
            ["h: removed /a", "h: 2 packages stay; --packages removes them: chrony, fio"],
        ),
    ],
)  # fmt: skip
def test_what_was_done_is_shown_by_the_line(undone, stays, packages, expected):
    reply = {"undone": undone, "stays": stays, "packages": packages}
    assert hosts.released_lines("h", reply) == expected
