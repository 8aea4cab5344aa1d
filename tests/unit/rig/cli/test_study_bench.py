# SPDX-License-Identifier: GPL-3.0-or-later
"""What `make studies` asks of the rig, and what it makes of a study that is run in parts."""

from pathlib import Path

import pytest
import typer.main

from joulerig.rig.cli.main import app
from tests.bench import studies


@pytest.mark.parametrize("begun", [None, "f2fs-supercap-short-20261126-182356"])
def test_rig_run_takes_its_words(begun):
    name, *rest = studies.words(Path("playbooks/f2fs_supercap.yml"), begun)
    command = typer.main.get_command(app).commands[name]
    values = command.make_context(name, rest).params
    assert values == {"playbook": Path("playbooks/f2fs_supercap.yml"), "resume": begun, "short": True}


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


def entry(seconds, ok, effect=1.0, campaign=None, **verdicts):
    claims = [
        {"claim": claim, "where": "a", "verdict": verdict, "effect": effect}
        for claim, verdict in verdicts.items()
    ]
    return {"seconds": seconds, "campaign": campaign, "runs": {"ok": ok}, "claims": claims, "problems": []}


def test_a_study_has_the_claims_of_its_parts_each_of_the_part_that_has_its_runs():
    parts = [
        ("workload=w", entry(10.0, 4, one="holds", two="can't tell")),
        ("workload=x", entry(5.5, 2, one="can't tell", two="does not hold")),
        ("workload=w", entry(20.0, 6, one="does not hold", two="can't tell")),  # run again
    ]
    written = {"other": entry(1.0, 1), "study": entry(99.0, 9, three="holds")}
    for words, found in parts:
        written = studies.with_entries(written, {"study": found}, studies.Part.read([words]))
    study = written["study"]
    assert {one["claim"]: one["verdict"] for one in study["claims"]} == {
        "one": "does not hold",
        "two": "does not hold",
        "three": "holds",  # of the whole, which was run before
    }
    assert (study["seconds"], study["runs"], written["other"]) == (124.5, {"ok": 17}, entry(1.0, 1))
    for words, verdict in (("workload=w,x", "holds"), ("workload=w", "does not hold")):
        found = entry(20.0, 6, one=verdict)
        written = studies.with_entries(written, {"study": found}, studies.Part.read([words]))
        [one] = [claim for claim in written["study"]["claims"] if claim["claim"] == "one"]
        assert one["verdict"] == verdict, "of the part that was run last"
    whole = studies.with_entries(written, {"study": entry(7.0, 1)}, studies.Part())
    assert whole["study"] == entry(7.0, 1)


def test_a_claim_that_no_part_decides_is_of_the_one_that_measured_it_last():
    written = {}
    for words, effect in (("workload=w", 1.1), ("workload=w,x", 1.2), ("drive=a", None)):
        part = studies.Part.read([words])
        written = studies.with_entries(written, {"study": entry(1.0, 1, effect, one="can't tell")}, part)
    [one] = written["study"]["claims"]
    assert one["effect"] == 1.2


@pytest.mark.parametrize("words", [[], ["workload=w"]])
def test_seconds_are_of_all_sittings_of_a_campaign(words):
    written, part = {}, studies.Part.read(words)
    for seconds, campaign in ((50.0, "earlier"), (20.0, "resumed"), (1.5, "resumed")):
        found = entry(seconds, 1, campaign=campaign)
        written = studies.with_entries(written, {"study": found}, part)
    assert written["study"]["seconds"] == 21.5
