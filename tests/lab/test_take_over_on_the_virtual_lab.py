# SPDX-License-Identifier: GPL-3.0-or-later
"""Two controllers, one results folder, one real test host: the first dies, the second goes on.

The second one is another machine to the rig: it has its own machine-id, host name and state. The
lab's services and meters serve both. No clock and no journal is changed: the heartbeat becomes
stale in real time.
"""

from __future__ import annotations

import itertools
import json
import re
import signal
import socket
import sqlite3
import subprocess
import time
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest

from ansible.module_utils.joulerig.detached import unit
from joulerig.analysis import results
from joulerig.analysis.results.schema import Status
from joulerig.rig.common.claim import STALE_SECONDS, WATCH_SECONDS
from tests.support.kept_campaign import KeptCampaign
from tests.support.kills import HEARTBEAT, controllers, end
from tests.support.lab_driver import FACTORS, Done, Lab, takes_minutes
from tests.support.machines import Machine, can_pose
from tests.support.programs import wait_for

pytestmark = [
    pytest.mark.lab,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not can_pose, reason="needs root: namespaces, and /etc/machine-id"),
    takes_minutes,
]

RUNS, LOAD_SECONDS = 3, 40  # a load that goes on while its controller is killed, on a busy machine too
NAME = "second-controller"
OWN = ("campaigns", "drives.sqlite", "drives.sqlite-shm", "drives.sqlite-wal", "log")
# MESSAGE_ID of systemd's messages that a unit was started, and that it ended without a failure.
KINDS = {"39f53479d3a045ac8e11786248231fbf": "started", "7ad2d189f7e94e70a38c781354912448": "ended"}


class SecondController:
    """Another controller of the lab: its state is its own but for the services'."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self._lab, self._machine = lab, Machine(folder, "b", NAME)
        self._var, self._own = Path(lab.environment["JOULERIG_VAR"]), folder / "var"
        self._own.mkdir(mode=0o700)
        self._reply = folder / "reply"

    def start(self, *words: str) -> None:
        """Begin a command line of `rig`; `join` waits for its end."""
        self._machine.start(lambda: self._work(words))

    def join(self) -> Done:
        assert self._machine.join() == ""
        code, output, error = json.loads(self._reply.read_text())
        return subprocess.CompletedProcess([], code, output, error)

    def rig(self, *words: str) -> Done:
        self.start(*words)
        return self.join()

    def _work(self, words: tuple[str, ...]) -> None:
        for shared in self._var.iterdir():
            if shared.name not in OWN:
                here = self._own / shared.name
                here.mkdir(exist_ok=True) if shared.is_dir() else here.touch()
                subprocess.run(["mount", "--bind", str(shared), str(here)], check=True)
        subprocess.run(["mount", "--rbind", str(self._own), str(self._var)], check=True)
        done = self._lab.rig(*words)
        self._reply.write_text(json.dumps([done.returncode, done.stdout, done.stderr]))


@dataclass
class Story:
    """The campaign, and the replies of both controllers."""

    campaign: KeptCampaign
    lab: Lab
    executor: int
    was_running: list[str]
    early: Done
    waited_seconds: float
    took_over: Done
    returned: list[Done]


@pytest.fixture(scope="module")
def story(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Story:
    second = SecondController(lab, tmp_path_factory.mktemp("second"))
    playbook = lab.playbook(
        name="two-controllers",
        replicates=RUNS,
        factors=FACTORS,
        phases={"rest_seconds": 0, "idle_seconds": 1, "workload_seconds": LOAD_SECONDS, "tail_seconds": 1},
    )
    campaign = KeptCampaign(lab, playbook)
    campaign.keep_going()
    wait_for(lambda: campaign.finished() == 1 and lab.ssh("pgrep -x fio || true"), 600, "the second load")
    executor = _claim(campaign).pid
    # As when a machine loses its power: else the heartbeat's process would note the executor's end.
    end(signal.SIGKILL, controllers(lab, HEARTBEAT))
    end(signal.SIGKILL, controllers(lab))
    wait_for(lambda: not controllers(lab), 20, "no process of the first controller is left")
    was_running = [run["id"] for run in lab.results_of(campaign.id)["runs"] if run["status"] == "running"]
    heard, resume = _claim(campaign).heartbeat, ["run", str(playbook), "--resume", str(campaign.id)]
    early = second.rig(*resume, "--take-over")
    # The time itself is tested: from then on, as the refusal says, the heartbeat is stale.
    time.sleep(max(0.0, _stale_from(early) + 1 - time.time()))
    second.start(*resume, "--take-over")
    try:
        wait_for(lambda: _claim(campaign).host == NAME, 300, "the second controller has the campaign")
        waited_seconds = time.time() - heard
        returned = [lab.rig(*resume), lab.rig(*resume, "--take-over")]
    finally:
        took_over = second.join()
    return Story(campaign, lab, executor, was_running, early, waited_seconds, took_over, returned)


class Claimed(NamedTuple):
    host: str
    pid: int
    heartbeat: float


def _claim(campaign: KeptCampaign) -> Claimed:
    """The process that executes the campaign, or did last, by its journal."""
    with closing(sqlite3.connect(campaign.folder / "journal.sqlite")) as journal:
        query = "SELECT executor, coalesce(heartbeat_ns, 0) / 1e9 FROM campaign"
        [(executor, heartbeat)] = journal.execute(query)
    words = executor.split(" ")
    return Claimed(words[0], int(words[4]), heartbeat)


def _stale_from(refused: Done) -> float:
    """Return when a take-over becomes possible, as the refusal has it."""
    [time_shown] = re.findall(r"--take-over' takes it over from (.*) UTC on", refused.stderr)
    return datetime.strptime(time_shown, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).timestamp()


def test_the_second_controller_is_refused_while_the_heartbeat_is_not_stale(story: Story):
    assert story.early.returncode != 0
    [line] = story.early.stderr.splitlines()
    holder = f"is executed by process {story.executor} of {socket.gethostname()}, heard of "
    assert holder in line
    assert re.search(r"--take-over' takes it over from \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC on", line)


def test_it_takes_over_a_stale_campaign_and_collects_the_run_in_progress(story: Story):
    assert story.took_over.returncode == 0, story.took_over.stdout + story.took_over.stderr
    assert story.waited_seconds > STALE_SECONDS + WATCH_SECONDS - 1
    [run] = story.was_running
    attempts = results.load(story.campaign.folder)
    [collected] = [one for one in attempts.runs if one.id == run]
    assert [(one.number, one.status) for one in collected.attempts] == [(1, Status.OK)]
    assert collected.phases["workload"].seconds == pytest.approx(LOAD_SECONDS, abs=2), "its load was not cut"


def test_each_run_is_in_the_journal_exactly_once_as_ok(story: Story):
    runs = results.load(story.campaign.folder).runs
    assert [(run.status, [one.status for one in run.attempts]) for run in runs] == [
        (Status.OK, [Status.OK])
    ] * RUNS


def test_the_host_began_each_run_once_and_no_two_at_the_same_time(story: Story):
    """Ask its service manager, which knows neither of the controllers."""
    names = {unit.unit_name(f"{run.id}.1") for run in results.load(story.campaign.folder).runs}
    spans: dict[str, list[tuple[str, int]]] = {name: [] for name in names}
    for line in story.lab.ssh("journalctl --quiet --output=json _PID=1").splitlines():
        message = json.loads(line)
        kind = KINDS.get(message.get("MESSAGE_ID"))
        if kind and message.get("UNIT") in spans:
            spans[message["UNIT"]].append((kind, int(message["__MONOTONIC_TIMESTAMP"])))
    assert {tuple(kind for kind, _ in span) for span in spans.values()} == {("started", "ended")}
    times = sorted([time for _, time in span] for span in spans.values())
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(times))


def test_the_first_controller_is_refused_when_it_comes_back(story: Story):
    for refused in story.returned:
        assert refused.returncode != 0
        [line] = refused.stderr.splitlines()
        assert re.search(rf"is executed by process \d+ of {NAME}, heard of \d+ seconds? ago", line)
