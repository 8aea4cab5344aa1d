# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge what Oral et al. (2010) found: writes that wait for a journal commit, and two remedies.

**Question.** How much does an external journal gain on an array of hard disks where every write
waits for a commit, and how much do rarer commits gain?

**Published.** On Lustre's object store each write waited for a journal commit: requests were
serialised and the head sought each time. Remedies: external journal devices, and asynchronous
commits. Up to 93 % better write performance; an application saw 37 % fewer journal updates, each
with a seek, and 56.3 % more bandwidth.

**Here.** Lustre is out of scope; the local analogue writes 1 MiB at a time on an array of hard
disks:

| | level | |
|---|---|---|
| A | `seqwrite-fsync`, `journal: internal` | a commit for every write |
| B | `seqwrite-fsync`, `journal: DRIVE` | journal (128 MiB) on a disk off the array, or an SSD |
| C | `seqwrite-fsync-16`, `journal: internal` | a commit for 16 writes |

The published percentages are of Lustre's clients and servers, so only orders are judged.

**Judged**, by file system and journal's drive: seeks for each MiB written, of the drives that the
data is on, A over B above 1; MB/s, B over A, C over A and (inferred) C over B above 1; J/MB of all
drives, the journal's too, A over B above 1 (inferred); journal updates for each MiB, where the
kernel counts them (jbd2), A over C above 1. Seeks and updates are judged everywhere, speed and
energy only where the drives set the pace.

**Seeks** are counted by the kernel's trace of issued requests (`count_seeks`): a request that does
not begin where the previous one on that drive ended. Flushes without data and discards do not
count.

**On the virtual lab.** With the journal on an SSD it is the external journal that gives more: it
leaves the array less than a hundredth of its seeks, a commit for 16 writes leaves a 16th of the
journal updates. With the journal on a hard disk each commit still waits for that disk to turn, and
amortised commits give more.

**Figure.** MB/s, seeks and journal updates for each MiB, and J/MB of A, B and C.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from joulerig.analysis.drawing import COLOURS, INK, Svg, canvas, to_svg
from joulerig.analysis.results.campaign import Campaign, ResultsError, Run
from joulerig.analysis.results.schema import Status
from joulerig.analysis.studies import claims
from joulerig.analysis.studies.claims import Claim, Measured
from joulerig.analysis.studies.study import Study, StudyFigure

MIB = 2**20
WRITE_BYTES = MIB  # of a write
AMORTISED = 2.0  # writes for each sync, from which on commits are shared

SEEKS = Claim(
    "seeks", "An external journal removes the seeks between data and journal.", from_the_io_path=True
)
EXTERNAL = Claim("external", "With an external journal more is written in a second.")
AMORTISE = Claim("amortise", "With a commit for many writes more is written in a second.")
UPDATES = Claim(
    "updates", "With a commit for many writes the journal is updated less often.", from_the_io_path=True
)
ORDER = Claim("order", "Amortised commits give more than an external journal.", "inferred")
ENERGY = Claim("energy", "With an external journal a megabyte takes less energy.", "inferred")


@dataclass(frozen=True)
class Placements:
    """Runs of one drive and file system, by how the journal is used.

    `external` is by the journal's drive.
    """

    levels: Mapping[str, str]
    internal: list[Run]
    amortised: list[Run]
    external: Mapping[str, list[Run]]

    @property
    def where(self) -> str:
        """Return drive and file system."""
        return ", ".join(self.levels.values())


def placements(campaign: Campaign) -> list[Placements]:
    """Group the runs that are ok by drive and file system."""
    found: dict[str, Placements] = {}
    for run in campaign.runs:
        if run.status != Status.OK or not run.performance or not run.performance.syncs:
            continue
        levels = {"drive": run.drive, "filesystem": run.filesystem}
        mine = found.setdefault(", ".join(levels.values()), Placements(levels, [], [], {}))
        amortised = (run.performance.write_bytes or 0) / WRITE_BYTES >= AMORTISED * run.performance.syncs
        journal = run.factors.get("journal", "internal")
        if journal == "internal":
            (mine.amortised if amortised else mine.internal).append(run)
        elif not amortised:
            mine.external.setdefault(journal, []).append(run)
    return list(found.values())


def seeks_per_mib(campaign: Campaign, run: Run) -> float | None:
    """Return the seeks for each MiB that the load wrote; None where not counted.

    They are those of the drives that the data is on.
    """
    try:
        counted = run.seeks
    except ResultsError:
        return None
    journal = run.factors.get("journal")
    drives = [drive for drive in campaign.drives(run) if drive != journal]
    written = run.performance.write_bytes if run.performance else None
    if not written or not all(drive in counted for drive in drives):
        return None
    return sum(counted[drive]["seeks"] for drive in drives) / (written / MIB)


def updates_per_mib(run: Run) -> float | None:
    """Return the journal transactions for each MiB that the load wrote.

    None where none are reported (jbd2 does).
    """
    counted = run.io.get("iod")
    transactions = counted.journal_transactions if counted else None
    written = run.performance.write_bytes if run.performance else None
    return transactions / (written / MIB) if transactions is not None and written else None


def joules_per_mb(run: Run) -> float | None:
    """Return the joules per MB of all drives of the run, the journal's too."""
    ai = run.result.ai_mb_per_joule if run.result else None
    return 1 / ai if ai else None


def mb_per_second(run: Run) -> float | None:
    return run.performance.mb_per_second if run.performance else None


def measure(campaign: Campaign) -> list[Measured]:
    """Measure by drive and file system, and by the journal's drive where there is one."""
    return [one for mine in placements(campaign) for one in _measure_placements(campaign, mine)]


def _measure_placements(campaign: Campaign, mine: Placements) -> Iterator[Measured]:
    def greater(
        claim: Claim, where: str, first: Sequence[Run], second: Sequence[Run], figure, what: str
    ) -> Measured:
        timed = first and second and not claim.from_the_io_path
        obstacle = claims.no_measure_of_a_drive(campaign, [*first, *second]) if timed else ""
        effect = claims.ratio(first, second, figure)
        found = claims.greater(claim, where, effect, f"above 1: {what}", obstacle)
        return replace(found, levels=mine.levels)

    def seeks(run: Run) -> float | None:
        """Return the seeks per MiB, one seek added, so that a run without any has a ratio."""
        found = seeks_per_mib(campaign, run)
        return None if found is None else found + MIB / run.performance.write_bytes

    for journal, external in mine.external.items():
        where = f"{mine.where}, journal on {journal}"
        yield greater(SEEKS, where, mine.internal, external, seeks, "seeks per MiB, internal over external")
        yield greater(EXTERNAL, where, external, mine.internal, mb_per_second, "MB/s, external over internal")
        yield greater(ENERGY, where, mine.internal, external, joules_per_mb, "J/MB, internal over external")
        if mine.amortised:
            yield greater(
                ORDER, where, mine.amortised, external, mb_per_second, "MB/s, amortised over external"
            )
    if mine.amortised:
        if mine.internal and all(updates_per_mib(run) for run in (*mine.internal, *mine.amortised)):
            yield greater(
                UPDATES,
                mine.where,
                mine.internal,
                mine.amortised,
                updates_per_mib,
                "journal updates per MiB, each over amortised",
            )
        yield greater(
            AMORTISE, mine.where, mine.amortised, mine.internal, mb_per_second, "MB/s, amortised over each"
        )


def _draw_placements(campaign: Campaign) -> Svg | None:
    """Draw MB/s, seeks and journal updates per MiB, and J/MB by use of the journal.

    A bar each; runs as points.
    """
    bars = [
        (f"{name}\n{mine.where}", runs)
        for mine in placements(campaign)
        for name, runs in (
            ("A internal", mine.internal),
            *((f"B on {journal}", runs) for journal, runs in mine.external.items()),
            ("C amortised", mine.amortised),
        )
        if runs
    ]
    if not bars:
        return None
    panels: tuple[tuple[str, Callable[[Run], float | None]], ...] = (
        ("MB/s", mb_per_second),
        ("seeks\nper MiB", lambda run: seeks_per_mib(campaign, run)),
        ("journal updates\nper MiB", updates_per_mib),
        ("J/MB", joules_per_mb),
    )
    with canvas(0.7 + 0.42 * len(bars)) as figure:
        for axes, (label, value_of) in zip(figure.subplots(1, len(panels), sharey=True), panels, strict=True):
            for row, (_, runs) in enumerate(bars):
                values = [value for run in runs if (value := value_of(run)) is not None]
                if values:
                    axes.barh(
                        row, np.mean(values), height=0.6, color=COLOURS[4], edgecolor=INK, linewidth=0.4
                    )
                    axes.plot(values, [row] * len(values), "o", color=INK, markersize=2.5)
            axes.set(xlabel=label, xlim=(0, None))
            axes.set_yticks(range(len(bars)), [name for name, _ in bars], fontsize=8)
        axes.invert_yaxis()
        return to_svg(figure, campaign.virtual)


STUDY = Study(
    title="Journal placement on hard disks",
    reference="Oral et al. 2010, FAST",
    factors=("drive", "filesystem", "workload", "journal"),
    claims=(
        SEEKS,
        EXTERNAL,
        AMORTISE,
        UPDATES,
        ORDER,
        ENERGY,
    ),
    measure=measure,
    figures=(
        StudyFigure(
            _draw_placements,
            "A: journal on the disks, a commit for every write. B: journal on another drive. C: journal on"
            " the disks, a commit for many writes. Bars are means, points runs; seeks: of the data's drives.",
        ),
    ),
)
