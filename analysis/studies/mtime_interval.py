# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge what Son, Lee and Won (2016) found: what an fsync writes, by the interval of the mtime.

**Question.** How much less does an fsync write where the inode's mtime changes once a second
instead of once a tick?

**Published.** Random write and fsync on ext4. An mtime interval of 1 s against 1 ms: 75 % less
written, 3.1 times the throughput. Against 10 ms: 28 % less, 1.2 times.

**Why.** fsync journals the inode only where its mtime changed since the last one, and mtime follows
the kernel's coarse clock, which advances once a tick. `lazytime` does not help: fsync writes times
all the same.

**Inferred, and measured on Debian 12's kernel.** With R syncs a second, a fraction f = min(1, 1 /
(interval R)) of them finds a new mtime; a sync of a 4 KiB overwrite then writes 4 + 12 f KiB (4 KiB
blocks: the data, and descriptor, inode and commit block) and flushes 1 + f times. f = 1 against f =
0 is 75 % exactly.

That f assumes an even pace. Where some syncs take longer than others, fewer find a new mtime (the
mean of min(1, time / interval) is at most that of the mean time), so the load counts them as well:
before each write it reads the clock that files are stamped by (`stamps` in `load.json`).

| level here | mtime interval |
|---|---|
| `ext4` (256-byte inodes), fsync | one tick: 4 ms (`installed`), 10 ms (`hz100`), 1 ms (`hz1000`) |
| `ext4-inode128` (128-byte inodes have no room for nanoseconds), fsync | 1 s |
| either, `overwrite-fdatasync` | never: mtime need not be journalled |

`installed` is Debian's kernel (HZ = 250). The other kernels are built, put on the host and booted
for a block of runs ([campaigns](../how-to/campaigns.md)). The tick is read from the running one's
configuration (`tick_hertz` in a run's settings), and runs are compared on one kernel only. Without
`hz1000`, a tick of 4 ms stands for 1 ms where at least 95 % of the syncs find a new mtime anyway
(`overwrite-fsync-paced`: one sync in 10 ms): a shorter one could change nothing.

The ratio against 10 ms depends on R: (4 + 12/R) / (4 + 1200/R) is the published 0.72 at R = 760
syncs a second, and 0.25 at R = 100 or less, where even a tick of 10 ms is new at every sync. A
drive at another R contradicts the published figure and agrees with the model; the verdict names the
ratio that the model expects at these rates.

**Judged.** Volume ratio within 10 % of 0.25 (0.72), throughput ratio within 15 % of 3.1 (1.2),
every run within 5 % of the model, with f of an even pace and with f as counted; in addition,
inferred: a sync takes less energy with the 1 s interval. Throughput and energy only where the drive
set the pace. Volume ratios and the model of an even pace depend on the rate of syncs, so on the
virtual lab on its slow motion; what was counted does not.

**Figure.** KiB written per sync against syncs a second: runs as points, the model as lines.

**On the virtual lab.** A sync that finds a new mtime waits for two flushes instead of one, and
writes 12 KiB more. On `sata-consumer` a flush is nearly all of a sync: 430 a second with a new
mtime, 920 without, so the throughput doubles and does not become 3.1 times as much. `nvme-plp`,
whose flush is cheap, does 5000 to 15,000 syncs a second, more often than a tick of 1 ms: most find
the mtime of the sync before. Volumes are the model's there, not the published ones, and the
throughput is 1.14 times as much.

**Traps.** Kernels from 6.13 have multigrain timestamps: a stat() between two writes makes the stamp
a fine one, so nothing may look at the file within the loop (flowop does not). A drive faster than
the tick finds the same mtime several times: f < 1 then, which the model has, but the 75 % has not.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np

from joulerig.analysis.compare import cells
from joulerig.analysis.drawing import COLOURS, INK, MARKERS, Svg, canvas, scale_x_in_1_2_5, to_svg
from joulerig.analysis.results.campaign import Campaign, ResultsError, Run
from joulerig.analysis.results.schema import Status
from joulerig.analysis.runs import derived
from joulerig.analysis.studies import claims
from joulerig.analysis.studies.claims import Claim, Measured
from joulerig.analysis.studies.study import Study, StudyFigure
from joulerig.plural import counted

HEIGHT_INCHES = 2.9
NEVER, SECOND = math.inf, 1.0
EVERY_SYNC = 0.95  # part of the syncs that find a new mtime, from which on it counts as all of them
KIBIBYTES, FLUSHES = (4.0, 12.0), (1.0, 1.0)  # without a new mtime, and more with one

VOLUME_1S = Claim("volume_1s", "An mtime interval of 1 s writes 75 % less than one of 1 ms.")
RATE_1S = Claim("rate_1s", "An mtime interval of 1 s gives 3.1 times the throughput of one of 1 ms.")
VOLUME_10MS = Claim("volume_10ms", "An mtime interval of 1 s writes 28 % less than one of 10 ms.")
RATE_10MS = Claim("rate_10ms", "An mtime interval of 1 s gives 1.2 times the throughput of one of 10 ms.")
MODEL = Claim(
    "model", "A sync writes 4 + 12 f KiB, f = min(1, 1 / (interval R)) at R syncs a second.", "inferred"
)
COUNTED = Claim(
    "counted",
    "A sync writes 4 + 12 f KiB, f the counted part of syncs with a new mtime.",
    "inferred",
    from_the_io_path=True,
)
ENERGY = Claim("energy_1s", "With a 1 s mtime interval a sync takes less energy.", "inferred")
VOLUME_MARGIN, RATE_MARGIN, MODEL_MARGIN = 0.10, 0.15, 0.05
MODEL_BAND = 1 - MODEL_MARGIN, 1 + MODEL_MARGIN


@dataclass(frozen=True)
class Point:
    """A run as the model sees it.

    `interval`: seconds between changes of mtime, infinite for never; `rate`: syncs a second; bytes
    and flushes are those of the block layer, by sync. `counted`: the part of the syncs that found a
    new mtime, as the load counted it; None where it did not.
    """

    run: Run
    interval: float
    rate: float
    kibibytes: float
    flushes: float
    counted: float | None

    @property
    def part(self) -> float:
        """Return the part of the syncs that find a new mtime, by the model."""
        return part_with_new_mtime(self.interval, self.rate)

    @property
    def modelled_kibibytes(self) -> float:
        return _kibibytes(self.part)


def _kibibytes(part: float) -> float:
    """Return the KiB that a sync writes, where this part of them finds a new mtime."""
    return KIBIBYTES[0] + KIBIBYTES[1] * part


def part_with_new_mtime(interval: float, rate: float) -> float:
    """Return ``min(1, 1 / (interval rate))``; 0 where mtime never changes."""
    return 0.0 if math.isinf(interval) else min(1.0, 1.0 / (interval * rate))


def points(campaign: Campaign) -> list[Point]:
    """Return the point of every run that is ok and has all that it takes.

    Its interval is known, and its syncs and I/O were counted.
    """
    found = []
    for run in campaign.runs:
        amounts = derived.amounts(campaign, run) if run.status == Status.OK else {}
        seconds, syncs, written, flushes = (
            amounts.get(name) for name in ("seconds", "syncs", "block_write_bytes", "flushes")
        )
        interval = interval_seconds(run) if syncs and seconds else None
        if interval is not None and written is not None and flushes is not None:
            counted = _counted(run, interval, syncs)
            found.append(
                Point(run, interval, syncs / seconds, written / 1024 / syncs, flushes / syncs, counted)
            )
    return found


def _counted(run: Run, interval: float, syncs: float) -> float | None:
    """Return the part of the syncs whose write was stamped otherwise than the one before.

    The one before is that to the same file. None where the load did not count its stamps.
    """
    if interval == NEVER:
        return 0.0
    stamps = (run.load or {}).get("stamps")
    return stamps["new_second" if interval == SECOND else "new_tick"] / syncs if stamps else None


def interval_seconds(run: Run) -> float | None:
    """Return how long mtime stays as it is, by the run's own settings.

    None where they do not say.
    """
    try:
        load, settings = run.load, run.settings
    except ResultsError:
        return None
    if not load:
        return None
    if load.get("parameters", {}).get("call") == "fdatasync":
        return NEVER
    made = [str(word) for word in settings.get("mkfs") or []]
    if "-I" in made and made[made.index("-I") + 1 : made.index("-I") + 2] == ["128"]:
        return SECOND
    hertz = (settings.get("host") or {}).get("tick_hertz")
    return 1.0 / hertz if hertz else None


def measure(campaign: Campaign) -> list[Measured]:
    """Measure by drive and workload, in the order of the campaign's definition."""
    found = points(campaign)
    measured: list[Measured] = []
    for drive in cells.levels(campaign, "drive", {run.drive for run in campaign.runs}):
        on_drive = [point for point in found if point.run.drive == drive]
        for workload in cells.levels(campaign, "workload", {run.workload for run in campaign.runs}):
            mine = [point for point in on_drive if point.run.workload == workload]
            if any(point.interval != NEVER for point in mine):
                compared = _measure_workload(campaign, f"{drive}, {workload}", mine)
                measured += claims.about(compared, drive=drive, workload=workload)
        measured += claims.about(_model(drive, on_drive), drive=drive)
    return measured


def _measure_workload(campaign: Campaign, where: str, mine: Sequence[Point]) -> list[Measured]:
    second = [point for point in mine if point.interval == SECOND]
    found = []
    for tick, (volume, less), (rate, more) in (
        (0.001, (VOLUME_1S, 0.25), (RATE_1S, 3.1)),
        (0.010, (VOLUME_10MS, 0.72), (RATE_10MS, 1.2)),
    ):
        short, why = _standing_for(tick, mine)
        kernels = {_kernel(point) for point in short}
        long = [point for point in second if _kernel(point) in kernels]
        if not second:
            why = "no file system with 128-byte inodes ran"
        runs = [point.run for point in (*long, *short)]
        host = why or claims.no_measure_of_a_drive(campaign, runs)
        volumes = claims.within_margin(
            volume, where, _ratio(long, short, attrgetter("kibibytes")), less, VOLUME_MARGIN, why
        )
        found += [
            dataclasses.replace(volumes, note=_at_these_rates(long, short)),
            claims.within_margin(
                rate, where, _ratio(long, short, attrgetter("rate")), more, RATE_MARGIN, host
            ),
        ]
        if tick == 0.001:

            def joules(point: Point) -> float | None:
                return derived.figures([derived.amounts(campaign, point.run)])["joules_per_sync"]

            effect = _ratio(short, long, joules)
            found.append(claims.greater(ENERGY, where, effect, "above 1: J/sync, 1 ms over 1 s", host))
    return found


def _kernel(point: Point) -> str | None:
    """Return the kernel that a run was on: what is compared is compared on one."""
    return point.run.factors.get("kernel")


def _standing_for(tick: float, mine: Sequence[Point]) -> tuple[list[Point], str]:
    """Return the points of a kernel with this tick (seconds), and why there are none.

    Those of a longer tick stand for 1 ms too where all their syncs find a new mtime as it is: a
    shorter one would change nothing.
    """
    ticks = [point for point in mine if point.interval not in (NEVER, SECOND)]
    if exact := [point for point in ticks if math.isclose(point.interval, tick)]:
        return exact, ""
    if tick != 0.001 or not ticks:
        return [], f"no kernel with a tick of {1000 * tick:g} ms ran"
    if every := [point for point in ticks if point.part >= EVERY_SYNC]:
        return every, ""
    most = max(point.part for point in ticks)
    return [], f"at most {100 * most:.0f} % of the syncs found a new mtime: too fast for the kernel's tick"


def _at_these_rates(long: Sequence[Point], short: Sequence[Point]) -> str:
    """Describe the ratio of volumes that the model expects; empty without runs of both.

    It depends on how many syncs there are in a second.
    """
    expected = _ratio(long, short, attrgetter("modelled_kibibytes"))
    if expected is None:
        return ""
    rates = [point.rate for point in (*long, *short)]
    return f"{expected.value:.3g} by the model, at {min(rates):.0f} to {max(rates):.0f} syncs a second"


def _model(drive: str, mine: Sequence[Point]) -> list[Measured]:
    """Measure the model on all points, with f of the model and with f as counted."""
    if not mine:
        why = "no run has syncs, block-layer counts and a known mtime interval"
        return [claims.undecided(claim, drive, why) for claim in (MODEL, COUNTED)]
    found = [_farthest(MODEL, drive, mine, attrgetter("modelled_kibibytes"))]
    with_count = [point for point in mine if point.counted is not None]
    if uneven := [point for point in with_count if point.counted < (1 - MODEL_MARGIN) * point.part]:
        least = min(uneven, key=lambda point: point.counted / point.part)
        cause = f"the pace is uneven: f is {least.part:.2f} modelled and {least.counted:.2f} counted at worst"
        found = [dataclasses.replace(one, note=f"{one.note}; {cause}") for one in found]
    if all(point.interval == NEVER for point in with_count):
        return [*found, claims.undecided(COUNTED, drive, "no load counted its stamps")]
    return [*found, _farthest(COUNTED, drive, with_count, lambda point: _kibibytes(point.counted))]


def _farthest(
    claim: Claim, drive: str, mine: Sequence[Point], modelled: Callable[[Point], float]
) -> Measured:
    """Measure the point that is farthest from what was modelled."""
    over = sorted(point.kibibytes / modelled(point) for point in mine)
    worst = max(over, key=lambda one: abs(math.log(one)))
    blocks = len({point.run.block for point in mine})
    return Measured(
        claim,
        drive,
        f"{MODEL_BAND[0]:.3g} to {MODEL_BAND[1]:.3g}: measured over modelled volume, of every run",
        claims.Effect(worst, over[0], over[-1], blocks),
        MODEL_BAND,
        note=f"the worst of {counted(len(over), 'run')}, and from the least to the greatest of them",
    )


def _ratio(
    first: Sequence[Point], second: Sequence[Point], figure: Callable[[Point], float | None]
) -> claims.Effect | None:
    by_run = {point.run.id: point for point in (*first, *second)}
    return claims.ratio(
        [point.run for point in first],
        [point.run for point in second],
        lambda run: figure(by_run[run.id]),
    )


def _draw_volume_by_rate(campaign: Campaign) -> Svg | None:
    """Draw the written volume of a sync against syncs a second.

    Measured points, and the model as lines.
    """
    found = points(campaign)
    if not found:
        return None
    with canvas(HEIGHT_INCHES) as figure:
        axes = figure.subplots()
        rates = [point.rate for point in found]
        over = np.geomspace(min(rates) / 1.5, max(rates) * 1.5, 300)
        intervals = sorted({point.interval for point in found})
        for number, interval in enumerate(intervals):
            mine = [point for point in found if point.interval == interval]
            colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
            parts = np.array([part_with_new_mtime(interval, rate) for rate in over])
            modelled = KIBIBYTES[0] + KIBIBYTES[1] * parts
            axes.plot(
                over, modelled, color=colour, linewidth=0.9, label=f"{_interval_label(interval)}: model"
            )
            axes.plot(
                [point.rate for point in mine],
                [point.kibibytes for point in mine],
                marker,
                color=colour,
                markersize=5,
                markeredgecolor=INK,
                markeredgewidth=0.4,
                label=f"{_interval_label(interval)}: measured",
            )
        axes.set(xscale="log", xlabel="syncs/s", ylabel="KiB written per sync", ylim=(0, None))
        scale_x_in_1_2_5(axes)
        axes.legend(fontsize=8, frameon=False, ncols=2)
        return to_svg(figure, campaign.virtual)


def _interval_label(seconds: float) -> str:
    return "mtime never" if math.isinf(seconds) else f"mtime each {1000 * seconds:g} ms"


STUDY = Study(
    title="Timer interval and fsync",
    reference="Son, Lee, Won 2016, IC-NIDC, pp. 99-102, doi 10.1109/ICNIDC.2016.7974543",
    factors=("drive", "filesystem", "workload", "kernel", "sync"),
    claims=(
        VOLUME_1S,
        RATE_1S,
        VOLUME_10MS,
        RATE_10MS,
        MODEL,
        COUNTED,
        ENERGY,
    ),
    measure=measure,
    figures=(
        StudyFigure(
            _draw_volume_by_rate,
            "What a sync writes, by how many there are in a second and how often mtime may change. Lines:"
            " KiB/sync = 4 + 12 min(1, 1 / (interval × syncs/s)), inferred from the study.",
        ),
    ),
)
