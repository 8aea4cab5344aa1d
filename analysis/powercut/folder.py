# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a power-cut campaign's results folder: what was recorded, and what follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from joulerig import json_text
from joulerig.analysis import results
from joulerig.analysis.powercut import survey, transactions, verdict, witness_log
from joulerig.analysis.powercut.check import DRIVE, CutFindings, check
from joulerig.analysis.powercut.durable import DurableWrites, durable_writes
from joulerig.analysis.powercut.witness_log import WitnessLog
from joulerig.analysis.results.campaign import Campaign, ResultsError
from joulerig.analysis.results.schema import FINISHED, WORKED, CampaignKind

# In a run's folder.
WITNESS_LOG = "witness.jsonl"
BEFORE = "before.jsonl"  # what was there before the first cut after a preparation
AFTER = "after.jsonl"
CUT = "cut.json"
BARE = "none"  # instead of a file system
WRITER = "durawriter"  # the workload of a cut without an application
# Of a campaign that was made before power cuts had a journal: `powercut.json`,
# `cuts/SUBJECT/NNNN/`.
FORMER_MANIFEST = "powercut.json"
FORMER_WITNESS_LOG = "ledger.jsonl"


class PowerCutError(ResultsError):
    """A folder that holds no power-cut campaign: its text is one line."""


@dataclass(frozen=True)
class Subject:
    """What is cut: a drive of a host, bare or with a file system.

    `name` identifies it in its campaign. `mount_options` are those added to the file system's own,
    separated by commas; `application` is the one whose transactions are judged, instead of writes.
    """

    name: str
    host: str
    drive: str
    filesystem: str = ""
    plp: bool = False
    atomic_rename: bool = True
    fsync_flushes: bool = True
    mount_options: str = ""
    application: str = ""

    def __str__(self) -> str:
        on = f"{self.drive} with {self.filesystem_level}" if self.filesystem else self.drive
        return f"{self.application} on {on}" if self.application else on

    @property
    def filesystem_level(self) -> str:
        """Return the level of factor `filesystem` of its runs."""
        named = self.filesystem or BARE
        return f"{named}+{self.mount_options}" if self.mount_options else named

    @property
    def writer(self) -> str:
        """Return the level of factor `workload` of its runs."""
        return self.application or WRITER

    @property
    def levels(self) -> tuple[str, str, str]:
        """Return by what a run of its host is known to be its: drive, file system, workload."""
        return self.drive, self.filesystem_level, self.writer


@dataclass(frozen=True)
class Cut:
    """One cut: `record` is what the rig knew of it, the rest follows from witness log and survey.

    `record`: `cut.json`, and the `joules` and `true_joules` of the journal.
    """

    number: int
    record: Mapping[str, Any]
    log: WitnessLog
    findings: CutFindings
    durable: DurableWrites


@dataclass(frozen=True)
class PowerCuts:
    """What was found out about the subjects of a campaign.

    `cuts` by subject's name, those that could be checked, in order; `failed`: why others could not.
    """

    id: str
    created_ns: int | None
    virtual: bool
    definition: Mapping[str, Any]
    subjects: list[Subject]
    cuts: dict[str, list[Cut]]
    failed: dict[str, list[str]]

    def verdicts(self) -> dict[str, verdict.Verdict]:
        """Return the verdict on each subject, by its name."""
        return {
            subject.name: verdict.from_cuts(str(subject), (cut.findings for cut in self.cuts[subject.name]))
            for subject in self.subjects
        }

    def broken(self) -> list[str]:
        """Return the subjects that broke a promise, as they are shown."""
        return [one.subject for one in self.verdicts().values() if one.broken_cuts]


@dataclass(frozen=True)
class _Place:
    """Where the record of one cut is. `failure`: why it cannot be checked, or empty."""

    number: int
    folder: Path
    witness_log: str
    failure: str
    joules: Mapping[str, float | None]


def from_campaign(campaign: Campaign) -> PowerCuts:
    """Check a campaign of power cuts from its witness logs and surveys. Raises PowerCutError."""
    subjects = [Subject(**one) for one in campaign.provenance.get("subjects", [])]
    places: dict[str, list[_Place]] = {subject.name: [] for subject in subjects}
    names = {(one.host, *one.levels): one.name for one in subjects}
    for run in campaign.runs:
        if run.status not in FINISHED:
            continue
        failure = "" if run.status in WORKED else f"{run.status}: {run.reason}"
        joules = {
            "joules": run.result.joules if run.result else None,
            "true_joules": run.result.true_joules if run.result else None,
        }
        place = _Place(run.replicate, run.folder, WITNESS_LOG, failure, joules)
        places[names[run.host, run.drive, run.filesystem, run.workload]].append(place)
    return _checked(campaign.id, campaign.created_ns, campaign.virtual, campaign.definition, subjects, places)


def is_former(folder: Path) -> bool:
    """Return whether a folder holds a power-cut campaign from before these had a journal."""
    return (folder / FORMER_MANIFEST).is_file()


def load(folder: Path) -> PowerCuts:
    """Check the campaign in a results folder, also a former one.

    Raises PowerCutError, ResultsError.
    """
    if is_former(folder):
        return _load_former(folder)
    campaign = results.load(folder)
    if campaign.kind != CampaignKind.POWER_CUT:
        raise PowerCutError(f"{folder}: no power-cut campaign")
    return from_campaign(campaign)


def _load_former(folder: Path) -> PowerCuts:
    source = folder / FORMER_MANIFEST
    try:
        manifest = json_text.read(source)
        subjects = [Subject(**entry) for entry in manifest["subjects"]]
        places = {subject.name: _former_places(folder / "cuts" / subject.name) for subject in subjects}
        return _checked(
            manifest["id"],
            manifest.get("created_ns"),
            manifest["virtual"],
            manifest.get("definition", {}),
            subjects,
            places,
        )
    except (ValueError, KeyError, TypeError) as error:
        raise PowerCutError(f"{source}: {type(error).__name__}: {error}") from None


def _former_places(folder: Path) -> list[_Place]:
    found = []
    for one in sorted(folder.glob("[0-9]*")):
        record = _json(one / CUT)
        failure = str(record.get("failed") or "")
        if not failure and not (one / AFTER).exists():
            failure = "was not finished"
        joules = {key: record.get(key) for key in ("joules", "true_joules")}
        found.append(_Place(int(one.name), one, FORMER_WITNESS_LOG, failure, joules))
    return found


def _checked(
    id_: str,
    created_ns: int | None,
    virtual: bool,
    definition: Mapping[str, Any],
    subjects: list[Subject],
    places: Mapping[str, list[_Place]],
) -> PowerCuts:
    cuts: dict[str, list[Cut]] = {}
    failed: dict[str, list[str]] = {}
    for subject in subjects:
        cuts[subject.name], failed[subject.name] = _cuts(places[subject.name], subject)
    return PowerCuts(id_, created_ns, virtual, definition, subjects, cuts, failed)


def _cuts(places: list[_Place], subject: Subject) -> tuple[list[Cut], list[str]]:
    """Check the cuts of a subject in their order.

    On a file system each cut has its own folder, in which there was nothing before; a drive is held
    against what the cut before left, or the survey after its last preparation.
    """
    cuts: list[Cut] = []
    failed: list[str] = []
    before: survey.Survey = {}
    for place in places:
        folder = place.folder
        try:
            if place.number == 0:  # of a former campaign: what was there before its first cut
                before = survey.parse((folder / AFTER).read_text())
                continue
            if (folder / BEFORE).exists():
                before = survey.parse((folder / BEFORE).read_text())
            if place.failure:
                failed.append(f"cut {place.number}: {place.failure}")
                before = {}
                continue
            text = (folder / AFTER).read_text()
            log = witness_log.read(folder / place.witness_log)
            if subject.application:
                findings = transactions.check(log, transactions.parse(text), subject.application)
            else:
                after = survey.parse(text)
                findings = _check_writes(log, after, before, subject)
                before = {} if subject.filesystem else after
        except (OSError, witness_log.WitnessLogError, survey.SurveyError) as error:
            raise PowerCutError(f"{folder}: {error}") from None
        record = {**_json(folder / CUT), **place.joules}
        cuts.append(Cut(place.number, record, log, findings, durable_writes(log)))
    return cuts, failed


def _json(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json_text.read(path) if path.exists() else {}
    return found


def _check_writes(
    log: WitnessLog, after: survey.Survey, before: survey.Survey, subject: Subject
) -> CutFindings:
    if DRIVE in after and DRIVE not in before:
        # What was there before is not known (the cut before was not finished): nothing can be said
        # of rest.
        before = {DRIVE: after[DRIVE]}
    return check(
        log,
        after,
        before,
        atomic_rename=subject.atomic_rename,
        # Where the drive's cache is safe a missing flush does not matter.
        fsync_flushes=subject.fsync_flushes or subject.plp,
    )
