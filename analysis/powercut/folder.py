# SPDX-License-Identifier: GPL-3.0-or-later
"""A power-cut campaign's results folder: what was recorded, and what follows from it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from joulerig.analysis.powercut import survey, verdict, witness_log
from joulerig.analysis.powercut.check import DRIVE, CutFindings, check
from joulerig.analysis.powercut.durable import DurableWrites, durable_writes
from joulerig.analysis.powercut.witness_log import WitnessLog
from joulerig.analysis.results.campaign import ResultsError

MANIFEST = "powercut.json"


class PowerCutError(ResultsError):
    """A folder that holds no power-cut campaign: its text is one line."""


@dataclass(frozen=True)
class Subject:
    """What is cut: a drive of a host, bare or with a file system. `name` is its folder in `cuts/`."""

    name: str
    host: str
    drive: str
    filesystem: str = ""
    plp: bool = False
    atomic_rename: bool = True
    fsync_flushes: bool = True

    def __str__(self) -> str:
        return f"{self.drive} with {self.filesystem}" if self.filesystem else self.drive


@dataclass(frozen=True)
class Cut:
    """One cut: `record` is what the rig knew of it (`cut.json`), the rest follows from log and survey."""

    number: int
    record: Mapping[str, Any]
    log: WitnessLog
    findings: CutFindings
    durable: DurableWrites


@dataclass(frozen=True)
class Campaign:
    """`cuts` by subject's name, those that could be checked, in order; `failed`: why others could not."""

    manifest: Mapping[str, Any]
    subjects: list[Subject]
    cuts: dict[str, list[Cut]]
    failed: dict[str, list[str]]

    def verdicts(self) -> dict[str, verdict.Verdict]:
        """The verdict on each subject, by its name."""
        return {
            subject.name: verdict.from_cuts(str(subject), (cut.findings for cut in self.cuts[subject.name]))
            for subject in self.subjects
        }


def load(folder: Path) -> Campaign:
    """A campaign, checked from its logs and surveys. Raises PowerCutError."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
        subjects = [Subject(**entry) for entry in manifest["subjects"]]
    except FileNotFoundError:
        raise PowerCutError(f"{folder}: no power-cut campaign: {MANIFEST} is not there") from None
    except (ValueError, KeyError, TypeError) as error:
        raise PowerCutError(f"{folder / MANIFEST}: {type(error).__name__}: {error}") from None
    cuts: dict[str, list[Cut]] = {}
    failed: dict[str, list[str]] = {}
    for subject in subjects:
        cuts[subject.name], failed[subject.name] = _cuts(folder / "cuts" / subject.name, subject)
    return Campaign(manifest, subjects, cuts, failed)


def _cuts(place: Path, subject: Subject) -> tuple[list[Cut], list[str]]:
    cuts: list[Cut] = []
    failed: list[str] = []
    before: survey.Survey = {}
    for one in sorted(place.glob("[0-9]*")):
        number = int(one.name)
        record_file, after_file = one / "cut.json", one / "after.jsonl"
        record = json.loads(record_file.read_text()) if record_file.exists() else {}
        if number and (record.get("failed") or not after_file.exists()):
            failed.append(f"cut {number}: {record.get('failed') or 'was not finished'}")
            before = {}
            continue
        try:
            after = survey.parse(after_file.read_text())
            if number:
                cuts.append(
                    _cut(number, record, witness_log.read(one / "ledger.jsonl"), after, before, subject)
                )
        except (OSError, witness_log.WitnessLogError, survey.SurveyError) as error:
            raise PowerCutError(f"{one}: {error}") from None
        # On a file system each cut has its own folder, in which there was nothing before.
        before = {} if subject.filesystem else after
    return cuts, failed


def _cut(
    number: int,
    record: Mapping[str, Any],
    log: WitnessLog,
    after: survey.Survey,
    before: survey.Survey,
    subject: Subject,
) -> Cut:
    if DRIVE in after and DRIVE not in before:
        # What was there before is not known (the cut before was not finished): nothing can be said
        # of rest.
        before = {DRIVE: after[DRIVE]}
    findings = check(
        log,
        after,
        before,
        atomic_rename=subject.atomic_rename,
        # Where the drive's cache is safe a missing flush does not matter.
        fsync_flushes=subject.fsync_flushes or subject.plp,
    )
    return Cut(number, record, log, findings, durable_writes(log))
