# SPDX-License-Identifier: GPL-3.0-or-later
"""Energy of the workload phases from full-rate waveforms, for the checklist of `rig verify`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from joulerig.analysis.bundle.check import Check, judged
from joulerig.analysis.results.campaign import Campaign, Run
from joulerig.analysis.results.schema import PhaseName, RailEnergy
from joulerig.analysis.results.waveform import WaveformError
from joulerig.analysis.runs import waveform_chunks
from joulerig.analysis.runs.cluster import Map
from joulerig.analysis.runs.waveform_chunks import Block, Joules, Stretch
from joulerig.plural import counted

PHASE = PhaseName.WORKLOAD
NAME = "waveforms"


@dataclass(frozen=True)
class Sum:
    """The energy of a rail in a run's workload phase.

    `rail`: the journal's; `waveform`: the sum over the waveform's samples.
    """

    run: str
    rail: RailEnergy
    waveform: Joules


@dataclass(frozen=True)
class _Failure:
    """Why a block could not be read."""

    problem: str


def kept(campaign: Campaign) -> bool:
    """Return whether any run kept a waveform of its workload phase."""
    return any(True for _ in _files(campaign))


def check(campaign: Campaign, mapped: Map[Block, list[Stretch] | _Failure]) -> Check:
    """Compare the waveforms' energy with the journal's; fail where a file cannot be read.

    The difference is stated, not judged: samples that were lost are in no sum, and a sample belongs
    to the phase in which it ends.
    """
    sums, problems = compute(campaign, mapped)
    return judged(NAME, describe(sums), problems)


def compute(campaign: Campaign, mapped: Map[Block, list[Stretch] | _Failure]) -> tuple[list[Sum], list[str]]:
    """Sum the samples of each run's waveforms that end in its workload phase, in joules.

    A waveform is a file `waveform-METER.parquet`. Returns the sums in the order of runs and rails,
    and a line for each file that cannot be read. The sums do not depend on how `mapped` distributes
    the blocks.
    """
    blocks: dict[tuple[str, Path], list[Block]] = {}
    problems: dict[str, None] = {}
    for run, path in _files(campaign):
        phase = run.phases[PHASE]
        try:
            blocks[run.id, path] = waveform_chunks.split_file(path, (phase.start_ns, phase.end_ns))
        except WaveformError as error:
            problems[_line(run.id, path, error)] = None
    found = iter(mapped(_stretches, [block for file_blocks in blocks.values() for block in file_blocks]))
    summed: dict[tuple[str, str, str, str], Joules] = {}
    for (run_id, path), file_blocks in blocks.items():
        results = [next(found) for _ in file_blocks]
        failures = [one for one in results if isinstance(one, _Failure)]
        if failures:
            problems[_line(run_id, path, failures[0].problem)] = None
            continue
        stretches = (one for one in results if not isinstance(one, _Failure))
        meter = path.stem.removeprefix("waveform-")
        for (_, drive, rail), joules in waveform_chunks.joules(path, stretches).items():
            summed[run_id, drive, meter, rail] = joules
    return list(_matched(campaign.runs, summed)), list(problems)


def describe(sums: Iterable[Sum]) -> str:
    """Describe the sums in one line: samples, and how far they are from the counters' joules."""
    sums = list(sums)
    samples = sum(one.waveform.samples for one in sums)
    expected = sum(one.rail.expected or 0 for one in sums)
    parts = [
        f"{counted(len(sums), 'phase and rail', 'phases and rails')},"
        f" {counted(samples, 'sample')} of {expected} expected"
    ]
    percent = [
        100 * (1 - one.waveform.joules / one.rail.joules)
        for one in sums
        if one.rail.joules is not None and one.rail.joules > 0
    ]
    if percent:
        parts.append(
            f"less than the counters' joules by {min(percent):.4f} to {max(percent):.4f} %,"
            f" mean {sum(percent) / len(percent):.4f} %"
        )
    return "; ".join(parts)


def _files(campaign: Campaign) -> Iterator[tuple[Run, Path]]:
    for run in campaign.runs:
        if PHASE in run.phases:
            for path in sorted(run.folder.glob("waveform-*.parquet")):
                yield run, path


def _stretches(block: Block) -> list[Stretch] | _Failure:
    """Call waveform_chunks.stretches, but return an error as a result.

    So one bad file does not end the others.
    """
    try:
        return waveform_chunks.stretches(block)
    except WaveformError as error:
        return _Failure(str(error))


def _matched(runs: Iterable[Run], summed: dict[tuple[str, str, str, str], Joules]) -> Iterator[Sum]:
    for run in runs:
        for rail in run.energy:
            waveform = summed.get((run.id, rail.drive, rail.meter, rail.rail))
            if rail.phase == PHASE and waveform is not None:
                yield Sum(run.id, rail, waveform)


def _line(run: str, path: Path, error: object) -> str:
    return f"{run}: {' '.join(str(error).split())}".replace(f"{path.parent}/", "")
