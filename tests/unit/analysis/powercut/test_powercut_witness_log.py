# SPDX-License-Identifier: GPL-3.0-or-later
"""The log and the survey as files: what they say, and what they may not."""

from __future__ import annotations

import json

import pytest

from joulerig.analysis.powercut import survey, witness_log
from tests.support.powercut_story import Story


def written(path, lines, tail=""):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + tail)
    return path


def test_a_ledger_is_read_as_it_was_written(tmp_path):
    story = Story()
    write = story.write(3, 2)
    flying = story.issue("flush")
    found = witness_log.read(written(tmp_path / "ledger.jsonl", story.lines))
    assert [(o.sequence, o.acknowledged is not None) for o in found.operations] == [
        (write, True),
        (flying, False),
    ]
    assert found == story.log


def test_an_unfinished_line_is_not_a_promise(tmp_path):
    story = Story()
    story.issue("write", "", 0, 1)
    ledger = witness_log.read(written(tmp_path / "ledger.jsonl", story.lines, '{"event":"acknowledged","seq'))
    assert ledger.operations[0].acknowledged is None


@pytest.mark.parametrize(
    "line",
    [
        {"event": "acknowledged", "sequence": 9},
        {"event": "issued", "sequence": 1, "operation": "trim", "target": "", "offset": 0, "bytes": 0},
        {"event": "guessed"},
    ],
)
def test_a_line_that_cannot_be_is_refused(tmp_path, line):
    lines = [*Story().lines, {"monotonic_ns": 1, "realtime_ns": 1, **line}]
    with pytest.raises(witness_log.WitnessLogError, match=r"ledger\.jsonl"):
        witness_log.read(written(tmp_path / "ledger.jsonl", lines))


def test_a_survey_is_split_into_sectors():
    text = "\n".join(
        map(
            json.dumps,
            [
                {"target": "", "bytes": 2048},
                {"target": "", "offset": 0, "sectors": 1, "state": "zero", "index": 0},
                {
                    "target": "", "offset": 512, "sectors": 3, "state": "record",
                    "generation": 2, "sequence": 5, "index": 4, "of": 9,
                },
            ],
        )
    )  # fmt: skip
    found = survey.parse(text)[""]
    assert found.sector_at(0) == survey.ZERO
    assert [found.sector_at(n).index for n in (1, 2, 3)] == [4, 5, 6]
    assert found.sector_at(4) == survey.ABSENT


@pytest.mark.parametrize(
    "lines",
    [
        [
            {"target": "", "bytes": 1024},
            {"target": "", "offset": 512, "sectors": 1, "state": "zero", "index": 0},
        ],
        [
            {"target": "", "bytes": 1024},
            {"target": "", "offset": 0, "sectors": 1, "state": "zero", "index": 0},
        ],
        [{"target": "", "bytes": 512}, {"target": "", "offset": 0, "sectors": 1, "state": "odd", "index": 0}],
    ],
)
def test_a_survey_with_holes_is_refused(lines):
    with pytest.raises(survey.SurveyError):
        survey.parse("\n".join(map(json.dumps, lines)))
