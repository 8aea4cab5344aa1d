# SPDX-License-Identifier: GPL-3.0-or-later
"""Which methods read a campaign's energies, and what they are compared by."""

from __future__ import annotations

import csv

import pytest

from joulerig.analysis import results
from joulerig.analysis.agreement import methods, picture
from joulerig.analysis.agreement.bland_altman import Verdict
from joulerig.analysis.agreement.methods import ReadingsError
from tests.support import simulated_campaign

ACCURACY = {"volts": {"gain_percent": 0.3}, "amps": {"gain_percent": 0.3}}
GIVEN = {"drives": ("nvme-plp",), "filesystems": ("f2fs", "ext4"), "schedulers": ("none",), "replicates": 4}


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    folder = tmp_path_factory.mktemp("agree")
    return results.load(simulated_campaign.build(folder / "c", **GIVEN, accuracy=ACCURACY))


@pytest.fixture
def file(tmp_path, campaign):
    """Writes a CSV of a second meter, as many times too high, and gives its path."""

    def write(times=1.0, expanded="0.2", method="dmm", **changed):
        path = tmp_path / f"{method}.csv"
        with path.open("w", newline="") as content:
            rows = csv.writer(content)
            rows.writerow(methods.COLUMNS)
            for row in (row for run in campaign.runs for row in run.energy if row.phase in methods.PHASES):
                run = next(run.id for run in campaign.runs if row in run.energy)
                given = {"drive": row.drive, "run": run, "phase": row.phase, **changed}
                rows.writerow(
                    [method, given["drive"], given["run"], given["phase"], times * row.joules, expanded]
                )
        return path

    return write


def test_meter_and_twin_are_compared(campaign):
    [compared] = methods.compare(campaign, methods.of_campaign(campaign))
    assert (compared.drive, compared.one, compared.other) == ("nvme-plp", "tap1a", "twin")
    assert compared.found.pairs == 3 * len(campaign.runs)
    assert compared.found.groups == 3 * 2  # phases x cells
    assert abs(compared.found.bias[0]) < 0.003


def test_an_honest_meter_agrees_with_its_twin(campaign):
    [compared] = methods.compare(campaign, methods.of_campaign(campaign))
    assert compared.found.verdict is Verdict.AGREE, compared.found.why


def test_a_physical_lab_has_no_twin(tmp_path):
    bare = results.load(simulated_campaign.build(tmp_path / "c", **GIVEN, virtual=False))
    assert list(methods.of_campaign(bare)) == ["tap1a"]
    assert methods.compare(bare, methods.of_campaign(bare)) == []


def test_without_a_class_the_uncertainty_is_not_known(tmp_path):
    bare = results.load(simulated_campaign.build(tmp_path / "c", **GIVEN))
    [compared] = methods.compare(bare, methods.of_campaign(bare))
    assert compared.found.verdict is Verdict.NOT_KNOWN
    assert compared.found.bias is not None


def test_runs_without_joules_are_left_out(tmp_path):
    def outcome(levels):
        return simulated_campaign.Outcome("partial", "silent", joules=levels["replicate"] > 1)

    given = {**GIVEN, "accuracy": ACCURACY, "outcome": outcome}
    partial = results.load(simulated_campaign.build(tmp_path / "c", **given))
    [compared] = methods.compare(partial, methods.of_campaign(partial))
    assert compared.found.pairs == 3 * 3 * 2


def test_a_second_meter_is_compared_with_all_others(campaign, file):
    known = methods.of_campaign(campaign) | methods.read(file(), campaign)
    assert [(one.one, one.other) for one in methods.compare(campaign, known)] == [
        ("tap1a", "dmm"), ("tap1a", "twin"), ("dmm", "twin"),
    ]  # fmt: skip


def test_one_that_reads_too_much_differs_by_as_much(campaign, file):
    known = methods.of_campaign(campaign) | methods.read(file(times=1.1, expanded="0.05"), campaign)
    compared = next(
        one for one in methods.compare(campaign, known) if one.other == "dmm" and one.one == "tap1a"
    )
    assert compared.found.bias[0] == pytest.approx(-0.2 / 2.1)
    assert compared.found.verdict is Verdict.DIFFER


def test_a_blank_uncertainty_is_not_known(campaign, file):
    readings = methods.read(file(expanded=""), campaign)["dmm"]
    assert {reading.expanded for reading in readings.values()} == {None}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"run": "gone"}, "line 2: run 'gone' has no phase 'idle'"),
        ({"phase": "soak"}, "has no phase 'soak'"),
        ({"expanded": "-1"}, "line 2: expanded_joules: '-1'; allowed: from 0 on, or blank"),
        ({"expanded": "x"}, "line 2: expanded_joules: 'x' is no number"),
        ({"times": -1}, "line 2: joules: '-"),
        ({"times": float("nan")}, "line 2: joules: 'nan'; allowed: from 0 on"),
        ({"method": ""}, "line 2: method ''"),
    ],
)
def test_a_wrong_line_is_named(campaign, file, given, said):
    with pytest.raises(ReadingsError) as caught:
        methods.read(file(**given), campaign)
    assert said in str(caught.value)


def test_a_reading_comes_once(campaign, file):
    path = file()
    path.write_text(path.read_text() + path.read_text().splitlines()[1] + "\n")
    with pytest.raises(ReadingsError, match="once for a phase"):
        methods.read(path, campaign)


@pytest.mark.parametrize(("content", "said"), [("a,b\n", "has no column method"), (None, "No such file")])
def test_a_file_that_has_no_readings_is_named(campaign, tmp_path, content, said):
    path = tmp_path / "x.csv"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ReadingsError, match=said):
        methods.read(path, campaign)


def test_the_picture_says_that_it_is_of_the_virtual_lab(campaign):
    [compared] = methods.compare(campaign, methods.of_campaign(campaign))
    one, other = (picture.draw(compared, virtual=virtual).text for virtual in (True, False))
    assert one.startswith("<?xml")
    assert "virtual lab" in one
    assert "virtual lab" not in other
