# SPDX-License-Identifier: GPL-3.0-or-later
"""The terms that a study fixes before it runs, and named cells that did not run."""

from types import SimpleNamespace

import pytest

from joulerig.analysis import studies
from joulerig.analysis.results.schema import Status
from joulerig.analysis.studies.registration import RegisteredClaim, Registration, cells_not_run
from tests.bench import studies_file

CELLS = {"filesystem": ("ext2", "nilfs2", "xfs", "reiserfs"), "scheduler": ("none", "bfq")}
HERE = {"drive": "d", "scheduler": "none"}


def runs(*cells, status=Status.OK):
    return [
        SimpleNamespace(
            drive=drive, filesystem=filesystem, scheduler=scheduler, workload="w", factors={}, status=status
        )
        for drive, filesystem, scheduler in cells
    ]


@pytest.mark.parametrize(
    ("ran", "levels", "expected"),
    [
        ([("d", name, "none") for name in CELLS["filesystem"]], HERE, ""),
        (
            [("d", "ext2", "none"), ("d", "nilfs2", "none")],
            HERE,
            "xfs, reiserfs did not run",
        ),
        (
            [("d", "ext2", "none"), ("d", "nilfs2", "none"), ("e", "xfs", "none"), ("d", "reiserfs", "bfq")],
            HERE,
            "xfs, reiserfs did not run",
        ),
        (
            [("d", name, one) for name in CELLS["filesystem"] for one in ("none", "bfq")][:-1],
            {"drive": "d"},
            "reiserfs with bfq did not run",
        ),
        ([("d", name, "none") for name in CELLS["filesystem"]], {"drive": "d"}, "bfq did not run"),
        ([], HERE, "ext2, nilfs2, xfs, reiserfs did not run"),
    ],
)
def test_the_cells_that_did_not_run_are_named(ran, levels, expected):
    assert cells_not_run(CELLS, levels, runs(*ran)) == expected


def test_a_run_that_is_not_ok_did_not_run():
    failed = runs(("d", "ext2", "none"), status=Status.FAILED)
    assert cells_not_run({"filesystem": ("ext2",)}, HERE, failed) == "ext2 did not run"


def test_a_registration_is_read_whole_or_not():
    whole = {
        "replicates": 5,
        "registered": {
            "ladder": [20, 40],
            "hours": 3,
            "greatest_width": 2,
            "claims": {"c": {"least": 1.1, "cells": {"filesystem": ["ext2"], "workload": "w"}}},
        },
    }
    found = Registration.read(whole)
    claim = RegisteredClaim(1.1, {"filesystem": ("ext2",), "workload": ("w",)})
    assert found == Registration((20.0, 40.0), 3.0, 2.0, 5, {"c": claim})
    for broken in (
        {},
        {**whole, "registered": None},
        {**whole, "registered": {"ladder": "x"}},
        {"registered": 3},
    ):
        assert Registration.read(broken) is None


@pytest.mark.parametrize("name", studies.STUDIES)
def test_every_playbook_of_a_study_registers_all_its_claims(name):
    found = Registration.read(studies_file.registered(name))
    assert list(found.claims) == [claim.key for claim in studies.STUDIES[name].claims]
    assert len(found.ladder) >= 2
    assert found.blocks >= 5, "with fewer, one error rate for the table leaves no interval of use"
    assert all(claim.cells for claim in found.claims.values())
