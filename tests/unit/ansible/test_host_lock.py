# SPDX-License-Identifier: GPL-3.0-or-later
"""Who may change drives of a host at the same time: the lanes of one campaign, and nothing else."""

from __future__ import annotations

import contextlib
import json
import threading
from pathlib import Path

import pytest

from ansible.module_utils.joulerig import host_lock, leftovers, paths
from ansible.module_utils.joulerig.drives import ownership
from ansible.module_utils.joulerig.host_lock import HostLock, Lane, lane_of
from ansible.module_utils.joulerig.tools import Busy

FIRST, SECOND = Lane("study 7", "nvme-1"), Lane("study 7", "nvme-2")


@pytest.fixture(autouse=True)
def host(tmp_path, monkeypatch):
    monkeypatch.setattr(host_lock, "LOOK_SECONDS", 0.01)
    places = {"RUN_LOCK": "run.lock", "LEFTOVERS": "leftovers.json", "DRIVES": "drives.json"}
    for name, place in {**places, "STATE": "state", "QUIET": "quiet", "SYS": "."}.items():
        monkeypatch.setattr(paths, name, str(tmp_path / place))
    return tmp_path


def excluded(lane: Lane | None) -> bool:
    try:
        with HostLock(lane=lane):
            return False
    except Busy:
        return True


def test_lanes_of_a_campaign_have_the_host_together():
    with HostLock(lane=FIRST), HostLock(lane=SECOND):
        pass


@pytest.mark.parametrize(
    "other",
    [None, Lane("another 8", "nvme-3"), FIRST, Lane("study 7", "nvme-3", alone=True)],
    ids=["a call without a lane", "another campaign's lane", "the lane itself", "a call that is to be alone"],
)
def test_while_a_lane_has_the_host_it_is_not_given_to(other):
    with HostLock(lane=FIRST):
        assert excluded(other)
    assert not excluded(other)


@pytest.mark.parametrize("holder", [None, FIRST._replace(alone=True)], ids=["no lane", "alone"])
def test_a_lane_waits_for_what_is_alone(holder):
    with HostLock(lane=holder):
        assert excluded(SECOND)
    assert not excluded(SECOND)


def test_the_last_lane_to_end_frees_the_host():
    with contextlib.ExitStack() as first, contextlib.ExitStack() as second:
        first.enter_context(HostLock(lane=FIRST))
        second.enter_context(HostLock(lane=SECOND))
        first.close()
        assert excluded(None)
        assert excluded(Lane("another 8", "nvme-1"))
        second.close()
        assert not excluded(None)


def test_a_lane_of_the_next_campaign_finds_nothing_of_the_one_before():
    with HostLock(lane=FIRST):
        pass
    with HostLock(lane=Lane("another 8", "nvme-1")):
        assert excluded(SECOND)


def test_lanes_that_begin_at_once_all_get_the_host_and_never_with_another_campaign():
    """Eight lanes of two campaigns, which all ask for it again and again."""
    inside: list[str] = []
    mixed, done = [], []

    def use(lane: Lane) -> None:
        for _ in range(20):
            with HostLock(patience_seconds=60, lane=lane):
                inside.append(lane.campaign)
                if len(set(inside)) > 1:
                    mixed.append(list(inside))
                inside.remove(lane.campaign)
        done.append(lane)

    lanes = [Lane(campaign, f"nvme-{number}") for campaign in ("a", "b") for number in range(4)]
    threads = [threading.Thread(target=use, args=[lane]) for lane in lanes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    assert len(done) == 8
    assert mixed == []


def test_a_call_says_by_its_parameters_whether_it_has_a_lane():
    assert lane_of({"drive": "nvme-1"}) is None
    assert lane_of({"drive": "nvme-1", "lanes_of": "", "alone": False}) is None
    assert lane_of({"drive": "nvme-1", "lanes_of": "study 7", "alone": True}) == FIRST._replace(alone=True)


# --- what killed calls left


def left_by(lane: Lane | None, setting: Path) -> None:
    """Leave a setting changed, as a call that is killed does."""
    setting.write_text("before")
    leftovers.Leftovers(lane=lane).note_file(str(setting), "before")
    setting.write_text("during")


def test_a_lane_in_progress_keeps_its_settings_and_a_killed_one_has_them_put_back(host):
    killed, running = host / "of-the-killed", host / "of-the-running"
    left_by(FIRST, killed)
    with HostLock(lane=SECOND):
        left_by(SECOND, running)
        third = Lane("study 7", "nvme-3")
        with HostLock(lane=third):
            assert leftovers.take_down(lane=third) == [f"{killed} put back"]
    assert (killed.read_text(), running.read_text()) == ("before", "during")


def test_a_lane_puts_back_what_its_own_earlier_call_left(host):
    left_by(FIRST, host / "setting")
    with HostLock(lane=FIRST):
        assert leftovers.take_down(lane=FIRST) == [f"{host / 'setting'} put back"]


@pytest.mark.parametrize("killed", [None, FIRST], ids=["a call without a lane", "a lane's"])
@pytest.mark.parametrize("following", [None, SECOND], ids=["by one without a lane", "by a lane's"])
def test_what_a_killed_call_left_is_put_back_by_the_next_one(host, killed, following):
    left_by(killed, host / "setting")
    with HostLock(lane=following):
        assert leftovers.take_down(lane=following) == [f"{host / 'setting'} put back"]
        assert leftovers.take_down(lane=following) == []


def test_a_lane_that_ends_well_forgets_its_own_settings_alone(host):
    left_by(FIRST, host / "first")
    left_by(SECOND, host / "second")
    leftovers.Leftovers(lane=SECOND).clear()
    assert leftovers.take_down() == [f"{host / 'first'} put back"]


# --- what they write to one file


class Content:
    """What is on a drive: nothing, known by its hash."""

    signatures: tuple[()] = ()

    def identity(self):
        return {"signatures": [], "digest": "0"}

    shown = identity

    def hashes(self):
        return ""


def test_drives_that_are_changed_at_once_are_all_in_the_record():
    def change(drive: str) -> None:
        for _ in range(10):
            owned = ownership.Ownership(drive, drive)
            owned.begin(["ext4"], Content())
            owned.made(Content())

    drives = [f"nvme-{number}" for number in range(6)]
    threads = [threading.Thread(target=change, args=[drive]) for drive in drives]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    recorded = json.loads(Path(paths.DRIVES).read_text())["drives"]
    assert sorted(recorded) == drives
    assert all("made" in entry for entry in recorded.values())
