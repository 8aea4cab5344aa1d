# SPDX-License-Identifier: GPL-3.0-or-later
"""What `make studies` asks of the rig, and what it makes of a study that is run in parts."""

import itertools
import json
import math
from pathlib import Path

import pytest
import typer.main

from joulerig.analysis.studies import ai_matrix, claims
from joulerig.analysis.studies.registration import Registration
from joulerig.rig.cli.main import app
from tests.bench import studies, studies_file
from tests.support import ROOT


@pytest.mark.parametrize("begun", [None, "f2fs-supercap-short-20261126-182356"])
def test_rig_run_takes_its_words(begun):
    name, *rest = studies.words(Path("playbooks/f2fs_supercap.yml"), begun)
    command = typer.main.get_command(app).commands[name]
    values = command.make_context(name, rest).params
    assert values == {
        "playbook": Path("playbooks/f2fs_supercap.yml"),
        "resume": begun,
        "short": True,
        "take_over": False,
    }


SHORT = {
    "drives": ["a", "b"],
    "factors": {"kernel": ["k1", "k2"]},
    "exclude": [
        {"drive": "a", "workload": ["w", "x"], "reason": "one"},
        {"drive": "b", "workload": "w", "reason": "other"},
    ],
    "replicates": 3,
}


def test_a_part_of_a_study_has_its_drives_and_levels_and_what_it_excludes_of_them():
    part = studies.Part.read(["workload=w,y", "drive=a"])
    assert str(part) == "drive=a workload=w,y"
    assert part.part_of({"short": SHORT}) == {
        "drives": ["a"],
        "factors": {"kernel": ["k1", "k2"], "workload": ["w", "y"]},
        "exclude": [{"drive": ["a"], "workload": ["w"], "reason": "one"}],
        "replicates": 3,
    }


def test_a_part_excludes_what_the_study_does_where_its_short_form_says_nothing():
    rule = {"drive": ["a", "b"], "workload": "w", "reason": "one"}
    study = {"exclude": [rule], "short": {"replicates": 3}}
    assert studies.Part().part_of(study)["exclude"] == [rule]
    assert studies.Part.read(["drive=a"]).part_of(study)["exclude"] == [{**rule, "drive": ["a"]}]


def test_a_name_that_is_there_twice_has_the_values_of_both():
    part = studies.Part.read(["workload=w", "drive=a", "drive=b,c"])
    assert str(part) == "drive=a,b,c workload=w"


@pytest.mark.parametrize("word", ["workload", "workload=", "=w"])
def test_a_part_that_says_nothing_is_refused(word):
    with pytest.raises(ValueError, match="NAME=VALUE"):
        studies.Part.read([word])


FIXED = {
    "registered": {
        "ladder": [20, 40],
        "hours": 2,
        "greatest_width": 2,
        "claims": {"journal": {"least": 1.02, "cells": {"filesystem": ["ext2", "ext3"]}}},
    },
    "replicates": 5,
}


def of_then(effect, low, high, verdict, k=None, campaign="c", claim="journal", **more):
    """Return a study's entry in a file of before there were registrations."""
    row = {"claim": claim, "where": "d", "verdict": verdict, "effect": effect, "low": low, "high": high}
    rows = [{**row, "why": "", **({"k": [k, k]} if k else {}), **more}]
    return {"seconds": 9.0, "campaign": campaign, "runs": {"ok": 4}, "claims": rows, "problems": []}


def attempt(campaign, k, value, seconds=60.0, fixed=FIXED):
    effect = claims.Effect.of_ratios([[claims.Ratio(math.log(value), 0.01, 5)]])
    one = claims.greater(ai_matrix.JOURNAL, "d", effect, "above 1")
    return {
        "campaign": campaign,
        "part": "",
        "slow_motion": k,
        "virtual": True,
        "registered": fixed,
        "seconds": seconds,
        "runs": {"ok": 10},
        "problems": [],
        "measured": [studies_file.measured_row(one)],
    }


def written(tmp_path, text):
    path = tmp_path / "studies.json"
    path.write_text(json.dumps(text))
    return path


def test_a_file_without_registrations_is_judged_and_says_what_it_does_not_know(tmp_path):
    """Take the review's case: does not hold at 20, holds at 75; the one run last decided."""
    parts = {
        "drive=d": of_then(0.653, 0.611, 0.698, "does not hold", 20.0, "a"),
        "drive=d kernel=k": of_then(1.149, 1.041, 1.268, "holds", 75.0, "b"),
        "drive=e": of_then(1.2, 1.1, 1.3, "holds", campaign="0", where="e"),
    }
    path = written(tmp_path, {"ai_matrix": {"parts": parts, "claims": []}})
    found = studies_file.write(path, studies_file.read(path))["ai_matrix"]
    verdicts = {one["where"]: (one["verdict"], one["why"]) for one in found["claims"]}
    assert verdicts == {
        "d": (
            "can't tell",
            "depends on k: 0.653 (0.611 to 0.698) at 20, 1.15 (1.04 to 1.27) at 75; "
            "not registered before it ran",
        ),
        "e": ("can't tell", "not registered before it ran"),
    }
    unknown = {one["campaign"]: one["unknown"] for one in found["attempts"]}
    assert "slow motion" in unknown["0"]
    assert "slow motion" not in unknown["a"]
    assert "blocks" in unknown["a"]
    assert studies_file.read(path) == {"ai_matrix": found["attempts"]}


def test_verdicts_are_of_all_attempts_in_any_order(tmp_path):
    mine = [attempt("a", 20.0, 1.2), attempt("b", 40.0, 1.2), attempt("c", 40.0, 1.19)]
    files = [studies_file.judged("ai_matrix", order, FIXED) for order in itertools.permutations(mine)]
    assert all(one == files[0] for one in files)
    [claim] = files[0]["claims"]
    assert (claim["verdict"], claim["why"]) == ("the profile gives it", "alike at slow motion 20 and 40")
    [claim] = studies_file.judged("ai_matrix", [*mine, attempt("d", 40.0, 0.9)], FIXED)["claims"]
    assert claim["verdict"] == "can't tell"


def test_no_attempt_replaces_another_and_a_resumed_one_has_all_its_seconds():
    before = [attempt("a", 20.0, 1.2, 50.0), attempt("b", 40.0, 1.2, 20.0)]
    after = studies_file.merged(before, [attempt("b", 40.0, 1.3, 1.5), attempt("c", 40.0, 1.4)])
    assert [(one["campaign"], one["seconds"]) for one in after] == [("a", 50.0), ("b", 21.5), ("c", 60.0)]
    assert after[1]["measured"] == attempt("b", 40.0, 1.3)["measured"]


def test_of_copies_of_an_attempt_the_one_that_knows_most_is_kept(tmp_path):
    old, new = of_then(1.2, 1.1, 1.3, "holds"), of_then(1.2, 1.1, 1.3, "holds", 20.0)
    files = []
    for number, one in enumerate((old, new)):
        files.append(tmp_path / f"{number}.json")
        files[-1].write_text(json.dumps({"ai_matrix": one}))
    for order in (files, files[::-1]):
        [found] = studies_file.collected(order)["ai_matrix"]
        assert found["slow_motion"] == 20.0


def test_the_registered_hours_are_those_of_all_attempts_with_that_registration():
    registration = Registration.read(FIXED)
    other = {**FIXED, "replicates": 3}
    mine = [attempt("a", 20.0, 1.2, 3000.0), attempt("b", 40.0, 1.2, 600.0, fixed=other)]
    assert studies.seconds_left(registration, mine) == 2 * 3600 - 3000.0


def test_each_factor_is_attempted_until_the_registered_hours_are_spent(monkeypatch, capsys):
    fixed = studies_file.registered("mtime_interval")
    monkeypatch.setattr(
        studies, "attempted", lambda _lab, _name, k, _part, left: attempt(f"at {k:g}", k, 1.2, left, fixed)
    )
    found = list(studies.run(None, "mtime_interval", None, studies.Part(), []))
    first, second = fixed["registered"]["ladder"]
    hours = 3600 * fixed["registered"]["hours"]
    assert [(one["campaign"], one["seconds"]) for one in found] == [(f"at {first}", hours)]
    assert f"mtime_interval at slow motion {second}: not begun" in capsys.readouterr().out


def test_a_factor_that_is_not_on_the_ladder_is_refused():
    with pytest.raises(ValueError, match="slow motion 75 is not registered for mtime_interval"):
        next(studies.run(None, "mtime_interval", [40.0, 75.0], studies.Part(), []))


def test_the_file_in_the_repository_is_what_its_attempts_say():
    """`python -m tests.bench.studies --judge` writes it."""
    path = ROOT / "results" / "bench" / "studies.json"
    in_it = json.loads(path.read_text())
    for name, entries in studies_file.read(path).items():
        judged = json.loads(json.dumps(studies_file.judged(name, entries)))
        assert judged["claims"] == in_it[name]["claims"], name
