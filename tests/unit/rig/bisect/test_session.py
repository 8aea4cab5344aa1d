# SPDX-License-Identifier: GPL-3.0-or-later
"""A bisection on disk: it goes on from what was measured, whatever ended it."""

from __future__ import annotations

import json

import pytest
import yaml

from joulerig.analysis.bisect.search import Outcome
from joulerig.analysis.gate.figures import FIGURES
from joulerig.rig.bisect import session as sessions
from joulerig.rig.common import paths
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab import model
from tests.support import simulated_campaign
from tests.support.lab_driver import copied_inventory

KERNELS = [f"k{number:02}" for number in range(16)]
FIRST_BAD = 9
DEFINITION = {
    "name": "kernels",
    "question": "Which kernel lost work per joule?",
    "drives": ["nvme-plp"],
    "factors": {
        "filesystem": ["f2fs"],
        "scheduler": ["none", "mq-deadline"],
        "workload": ["randwrite-fsync"],
        "kernel": KERNELS,
    },
}


class Killed(Exception):
    """The rig was killed."""


class Rig:
    """Executes a step's playbook as simulated; kernels from FIRST_BAD on are 8 % slower."""

    def __init__(self):
        self.executed = []
        self.fail = lambda levels: False
        self.killed_at = None

    def __call__(self, playbook, resume):
        definition = yaml.safe_load(playbook.read_text())[0]["vars"]["campaign"]
        name = definition["name"]
        self.executed.append((name, resume, tuple(definition["factors"]["kernel"])))
        if resume:
            folder = paths.results() / resume
            for path in sorted(folder.rglob("*"), reverse=True):
                path.unlink() if path.is_file() else path.rmdir()
        killed = self.killed_at == len(self.executed)
        folder = simulated_campaign.build(
            paths.results() / f"{name}-20261113-082640",
            name=name,
            drives=("nvme-plp",),
            filesystems=("f2fs",),
            schedulers=("none", "mq-deadline"),
            extra_factors={"kernel": definition["factors"]["kernel"]},
            noise=0.004,
            seed=definition["seed"],
            finished=not killed,
            outcome=self.outcome,
        )
        if killed:
            raise Killed
        return 0, folder

    def outcome(self, levels):
        slow = levels["kernel"] >= KERNELS[FIRST_BAD]
        status = "failed" if self.fail(levels) else "ok"
        return simulated_campaign.Outcome(status, speed=0.92 if slow else 1.0)


@pytest.fixture
def lab(state):
    inventory = copied_inventory(state / "lab")
    known = {name: {"description": name, "tick_hertz": 250} for name in KERNELS}
    (inventory.parent / "kernels.yml").write_text(yaml.safe_dump(known))
    return model.load(inventory)


@pytest.fixture
def playbook(state):
    return write(state, DEFINITION)


def write(state, definition):
    path = state / "kernels.yml"
    play = {"ansible.builtin.import_playbook": "campaign.yml", "vars": {"campaign": definition}}
    path.write_text(yaml.safe_dump([play]))
    return path


def asked(playbook, lab, **given):
    return sessions.ask(
        playbook, lab, **{"factor": "kernel", "figure": "work-per-joule", "most_blocks": 60, **given}
    )


def finish(session, rig):
    return sessions.finish(session, rig, lambda found: None)


def test_the_planted_kernel_is_found(playbook, lab):
    rig, session = Rig(), sessions.Session.open(asked(playbook, lab))
    found = finish(session, rig)
    assert (found.outcome, found.first_bad) == (Outcome.FOUND, FIRST_BAD)
    assert rig.executed[0][2] == (KERNELS[0], KERNELS[-1])
    assert all(resume is None for _, resume, _ in rig.executed)
    assert len(rig.executed) == found.blocks < 40


def test_each_figure_has_its_step(playbook, lab):
    session = sessions.Session.open(asked(playbook, lab, figure="speed"))
    found = finish(session, Rig())
    assert found.low < -0.0834 < found.high  # log 0.92
    blocks = session.blocks(FIGURES["watts"])
    assert [tuple(sorted(block.values)) for block in blocks] == session.steps


def test_a_killed_one_goes_on_with_the_step_that_was_interrupted(playbook, lab):
    rig = Rig()
    rig.killed_at = 5
    with pytest.raises(Killed):
        finish(sessions.Session.open(asked(playbook, lab)), rig)
    session = sessions.Session.open(asked(playbook, lab))
    assert len(session.steps) == 5
    assert len(session.blocks()) == 4
    assert finish(session, rig).first_bad == FIRST_BAD
    name, resume, levels = rig.executed[5]
    assert (name, levels) == (rig.executed[4][0], rig.executed[4][2])
    assert resume == f"{name}-20261113-082640"


def test_killed_before_the_campaign_began_it_begins_it(playbook, lab):
    session = sessions.Session.open(asked(playbook, lab))

    def nothing(playbook, resume):
        raise Killed

    with pytest.raises(Killed):
        session.advance(nothing)
    again, rig = sessions.Session.open(asked(playbook, lab)), Rig()
    assert again.steps == session.steps
    again.advance(rig)
    assert rig.executed[0][:2] == (again.step_name(1), None)


def test_an_interrupted_one_finds_what_an_uninterrupted_one_does(playbook, lab):
    rig, session = Rig(), sessions.Session.open(asked(playbook, lab))
    whole = finish(session, rig)
    assert sessions.Session.open(asked(playbook, lab)).search() == whole


def test_one_that_has_ended_measures_nothing_more(playbook, lab):
    finish(sessions.Session.open(asked(playbook, lab)), Rig())
    rig = Rig()
    assert finish(sessions.Session.open(asked(playbook, lab)), rig).first_bad == FIRST_BAD
    assert not rig.executed


def test_restart_begins_a_new_one(playbook, lab):
    finish(sessions.Session.open(asked(playbook, lab)), Rig())
    session = sessions.Session.open(asked(playbook, lab), restart=True)
    assert session.steps == []


def test_what_looks_for_something_else_is_refused(playbook, lab):
    sessions.Session.open(asked(playbook, lab)).advance(Rig())
    with pytest.raises(UserError, match="looks for something else"):
        sessions.Session.open(asked(playbook, lab, figure="speed"))


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"steps": [["a"]], "begun": "", "asked": {}}'])
def test_a_file_that_cannot_be_read_is_named(playbook, lab, content):
    session = sessions.Session.open(asked(playbook, lab))
    session.file.parent.mkdir(parents=True)
    session.file.write_text(content)
    with pytest.raises(UserError, match=r"kernels\.json: cannot be read: .*--restart"):
        sessions.Session.open(asked(playbook, lab))


def test_a_level_with_a_failed_run_has_no_value(playbook, lab):
    rig, session = Rig(), sessions.Session.open(asked(playbook, lab))
    rig.fail = lambda levels: levels["kernel"] == "k15" and levels["scheduler"] == "none"
    session.advance(rig)
    [block] = session.blocks()
    assert list(block.values) == [0]


def test_blocks_without_values_end_it(playbook, lab):
    rig, session = Rig(), sessions.Session.open(asked(playbook, lab))
    rig.fail = lambda levels: True
    with pytest.raises(UserError, match="the last 3 blocks have no two values"):
        finish(session, rig)
    assert len(rig.executed) == 3


def test_a_campaign_that_did_not_end_is_named(playbook, lab):
    session = sessions.Session.open(asked(playbook, lab))
    with pytest.raises(UserError, match=r"-001: did not come to its end \(exit code 2\)"):
        session.advance(lambda playbook, resume: (2, None))


def test_a_step_is_a_campaign_of_one_block(state, lab):
    given = asked(
        write(state, {**DEFINITION, "study": None, "replicates": 7, "seed": 30, "short": {"replicates": 2}}),
        lab,
    )
    made = sessions.step_definition(given, "step", 4, ["k00", "k03"])
    assert (made["name"], made["replicates"], made["seed"]) == ("step", 1, 34)
    assert made["factors"] == {**DEFINITION["factors"], "kernel": ["k00", "k03"]}
    assert not {"study", "short"} & made.keys()
    assert given.definition["factors"]["kernel"] == KERNELS


@pytest.mark.parametrize(
    ("factors", "given", "said"),
    [
        ({"kernel": ["k00"]}, {}, "factors.kernel: k00; allowed: at least 2 levels, from good to bad"),
        ({}, {"factor": "fill"}, "factors.fill: none; allowed: at least 2 levels"),
        ({"kernel": ["k00", "k99"]}, {}, "k99"),
        ({}, {"figure": "x"}, "--figure: x: allowed: work-per-joule, speed, watts"),
        ({}, {"most_blocks": 1}, "--blocks: most_blocks: 1: at least 3 are needed"),
    ],
)
def test_what_cannot_be_searched_is_refused(state, lab, factors, given, said):
    definition = {**DEFINITION, "factors": {**DEFINITION["factors"], **factors}}
    with pytest.raises(UserError) as caught:
        asked(write(state, definition), lab, **given)
    assert said in str(caught.value)


def test_the_file_has_what_was_asked_and_the_steps(playbook, lab):
    session = sessions.Session.open(asked(playbook, lab))
    session.advance(Rig())
    found = json.loads(session.file.read_text())
    assert found["steps"] == [[0, 15]]
    assert found["asked"]["levels"] == KERNELS
    assert session.file == paths.results() / "bisections" / "kernels.json"


@pytest.mark.parametrize(("logarithm", "text"), [(-0.05, "-4.9 %"), (0.05, "+5.1 %"), (-1e-5, "0.0 %")])
def test_a_step_in_per_cent(logarithm, text):
    assert sessions.percent(logarithm) == text
