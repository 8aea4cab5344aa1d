# SPDX-License-Identifier: GPL-3.0-or-later
"""The short form of every study on a virtual lab, one after the other: results/bench/studies.json.

A study's short form is run once at each factor of slow motion of the ladder that its playbook
registers; each is a campaign, and an attempt. All attempts stay in the file, and its verdicts are
of all of them together (tests/bench/studies_file.py). No attempt is begun after the registered
hours are spent.

With --folder it goes on where it was interrupted: an attempt whose campaign is over there is
measured, one that is not is resumed, the others are begun. With --study and --only, a study takes
several sittings: each of its parts (some drives, workloads or levels) is an attempt. --judge runs
nothing: it judges what the file has, with the attempts of other files that are named, also of files
of before there were registrations. Each claim of an attempt has, over the runs on its drive, the
slowness of the lab and the fraction of the load in which the drive set the pace, least and
greatest, and QEMU's accelerator.

Prints each claim's verdict, and where the reports are. Ends with 1 where a run that was not
excluded is not ok (a virtual lab can do all of them), a report was not built, or a claim that
follows from the I/O path alone did not come out as published.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from joulerig.analysis import results, studies
from joulerig.analysis.results.schema import Status
from joulerig.analysis.runs import pace
from joulerig.analysis.studies import claims
from joulerig.analysis.studies.claims import Verdict
from joulerig.analysis.studies.registration import Registration
from joulerig.rig.campaign import playbook as playbooks
from tests.bench import studies_file
from tests.support import ROOT
from tests.support.lab_driver import BIN, Lab

TIMED_OUT = 124  # of coreutils' timeout


@dataclass(frozen=True)
class Part:
    """The part of a study with these drives, workloads or levels of another factor; all without."""

    only: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @classmethod
    def read(cls, words: Sequence[str]) -> Part:
        """Read "drive=a,b" and "workload=c"; the values of a name that is there twice are joined.

        Raises ValueError for a word that is no such pair.
        """
        only: dict[str, list[str]] = {}
        for word in words:
            name, _, values = word.partition("=")
            if not (name and values):
                raise ValueError(f"{word}: not of the form NAME=VALUE,VALUE")
            only.setdefault(name, []).extend(values.split(","))
        return cls(dict(sorted(only.items())))

    def __str__(self) -> str:
        return " ".join(f"{name}={','.join(values)}" for name, values in self.only.items())

    def part_of(self, study: Mapping[str, Any]) -> dict[str, Any]:
        """Return the part of a study's short form.

        What the study excludes is kept where it excludes any of it: a rule about nothing is
        refused.
        """
        short = study["short"]
        factors = {name: list(values) for name, values in self.only.items() if name != "drive"}
        part = {**short, "factors": {**short.get("factors", {}), **factors}}
        if "drive" in self.only:
            part["drives"] = list(self.only["drive"])
        rules = (self._left_of(rule) for rule in short.get("exclude", study.get("exclude", [])))
        return {**part, "exclude": [rule for rule in rules if rule is not None]}

    def _left_of(self, rule: Mapping[str, Any]) -> dict[str, Any] | None:
        left = dict(rule)
        for name in self.only.keys() & rule.keys():
            excluded = rule[name] if isinstance(rule[name], list) else [rule[name]]
            left[name] = [value for value in excluded if value in self.only[name]]
            if not left[name]:
                return None
        return left


def playbook_of(lab: Lab, name: str, slow_motion: float, part: Part) -> Path:
    """Return a study's playbook with a factor of slow motion, of its short form's part."""
    shipped = ROOT / "playbooks" / f"{name}.yml"
    fields = playbooks.mapping(shipped)
    if slow_motion == fields["slow_motion"] and not part.only:
        return shipped
    return lab.write_playbook({**fields, "slow_motion": slow_motion, "short": part.part_of(fields)})


def attempted(lab: Lab, name: str, slow_motion: float, part: Part, most_seconds: float) -> dict[str, Any]:
    """Run a study's short form and build its report; return its attempt of studies.json."""
    began = time.monotonic()
    before = begun(lab, name, slow_motion)
    returncode = 0
    if before is None or not is_over(lab, before):
        playbook = playbook_of(lab, name, slow_motion, part)
        limit = str(max(1, round(most_seconds)))
        command = ["timeout", "--signal=INT", "--kill-after=120", limit, BIN / "rig"]
        done = subprocess.run(
            [*command, *words(playbook, before)],
            cwd=ROOT,
            env=lab.environment,
            stdout=sys.stdout,
            stderr=sys.stderr,
        )
        returncode = done.returncode
    opened = begun(lab, name, slow_motion)
    attempt = {"campaign": opened, "part": str(part), "slow_motion": slow_motion, "virtual": True}
    if opened is None:
        problem = f"no campaign was opened (exit {returncode})"
        return {
            **attempt,
            "registered": None,
            "seconds": None,
            "runs": {},
            "problems": [problem],
            "measured": [],
        }
    built = lab.rig("report", opened, "--format", "html,pdf")
    problems = [] if built.returncode == 0 else [f"no report: {built.stderr.strip()}"]
    if returncode == TIMED_OUT:
        problems.append(f"ended after {most_seconds:.0f} s: the registered hours are spent")
    campaign = results.load(lab.results / opened)
    problems += problems_of(name, campaign, studies.verdicts(campaign))
    mine = studies.attempt(campaign)
    return {
        **attempt,
        "slow_motion": mine.slow_motion,
        "registered": {key: campaign.definition.get(key) for key in ("registered", "replicates")},
        "seconds": round(time.monotonic() - began, 1),
        "runs": {status: sum(run.status == status for run in campaign.runs) for status in Status},
        "problems": problems,
        "measured": [
            {**studies_file.measured_row(one), **paced(campaign, one.where)} for one in mine.measured
        ],
    }


def problems_of(name: str, campaign: results.Campaign, verdicts: Sequence[Verdict]) -> list[str]:
    """Return what is wrong with a study's campaign, a line each.

    That is a run that should be ok and is not, and a claim that holds on any machine and does not.
    """
    problems = [
        f"run {run.ordinal}, {run.cell}, is {run.status}: {run.reason or 'without a reason'}"
        for run in campaign.runs
        if run.status not in (Status.OK, Status.EXCLUDED)
    ]
    for key in (claim.key for claim in studies.STUDIES[name].claims_from_the_io_path):
        mine = [one for one in verdicts if one.claim.key == key]
        problems += [
            f"{key}, {one.where}: {one.verdict} ({one.why})" for one in mine if one.verdict == claims.DOES_NOT
        ]
        if mine and all(one.verdict != claims.HOLDS for one in mine):
            problems.append(f"{key}: holds nowhere")
    return problems


def words(playbook: Path, begun: str | None) -> list[str]:
    """Return the words of `rig` that run a playbook's short form, or go on with its campaign."""
    return ["run", "--short", str(playbook), *(["--resume", begun] if begun else [])]


def begun(lab: Lab, study: str, slow_motion: float) -> str | None:
    """Return a study's newest campaign at this slow motion in the lab's results; None without."""
    of_campaigns = ((one, results.load(lab.results / one).definition) for one in lab.campaigns())
    mine = [
        one
        for one, definition in of_campaigns
        if (definition.get("study"), definition.get("slow_motion")) == (study, slow_motion)
    ]
    return mine[-1] if mine else None


def is_over(lab: Lab, campaign: str) -> bool:
    return results.load(lab.results / campaign).finished_ns is not None


def paced(campaign: results.Campaign, where: str) -> dict[str, Any]:
    """Return how the runs were paced on the drive that a verdict names first, or all of them."""
    mine = [run for run in campaign.runs if run.drive == where.partition(", ")[0]]
    paced_runs = replace(campaign, runs=tuple(mine or campaign.runs))
    found = pace.of_campaign(paced_runs)
    processors = campaign.provenance.get("processors") or {}
    return {
        "k": pace.slowness(paced_runs),
        "device_bound_fraction": found and found.drives,
        "accelerator": ", ".join(sorted({one["accelerator"] for one in processors.values()})) or None,
    }


def seconds_left(registration: Registration, entries: Sequence[studies_file.Entry]) -> float:
    """Return what is left of the registered hours, after the attempts that ran with them."""
    mine = [one for one in entries if Registration.read(one["registered"] or {}) == registration]
    return 3600 * registration.hours - sum(one["seconds"] or 0.0 for one in mine)


def run(
    lab: Lab, name: str, rungs: Sequence[float] | None, part: Part, known: Sequence[studies_file.Entry]
) -> Iterator[studies_file.Entry]:
    """Yield a study's attempts at these factors of slow motion; by default all of its ladder.

    Raises ValueError for a factor that is not registered.
    """
    registration = Registration.read(studies_file.registered(name))
    assert registration is not None
    for k in rungs or ():
        if k not in registration.ladder:
            raise ValueError(
                f"slow motion {k:g} is not registered for {name}; allowed: {registration.ladder}"
            )
    found: list[studies_file.Entry] = []
    for k in rungs or registration.ladder:
        left = seconds_left(registration, studies_file.merged(known, found))
        if left <= 0:
            print(
                f"{name} at slow motion {k:g}: not begun, the registered {registration.hours:g} h are spent"
            )
            continue
        found.append(attempted(lab, name, k, part, left))
        yield found[-1]


def print_study(name: str, entry: Mapping[str, Any]) -> None:
    """Print a study's verdicts, and the problems of its attempts."""
    print(f"\n{studies.STUDIES[name].title}: {entry['seconds']} s")
    for claim in entry["claims"]:
        effect = "" if claim["effect"] is None else f"  {claim['effect']:.3g}"
        if claim["low"] is not None:
            effect += f" ({claim['low']:.3g} to {claim['high']:.3g})"
        print(f"  {claim['verdict']:>14}  {claim['claim']}, {claim['where']}{effect}  {claim['why']}")
    for problem in entry["problems"]:
        print(f"  PROBLEM: {problem}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--study", action="append", choices=[*studies.STUDIES], help="this one alone")
    parser.add_argument(
        "--slow-motion",
        action="append",
        type=float,
        metavar="K",
        help="at this factor of the registered ladder alone",
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME=VALUE,...", help="these drives or levels alone"
    )
    parser.add_argument("--folder", type=Path, help="of the lab's state and results; by default a new one")
    parser.add_argument("--output", type=Path, help="by default results/bench/studies.json")
    parser.add_argument(
        "--judge",
        nargs="*",
        type=Path,
        metavar="FILE",
        help="run nothing; judge the output file, and the attempts of these",
    )
    args = parser.parse_args()
    try:
        part = Part.read(args.only)
    except ValueError as error:
        parser.error(str(error))
    output = args.output or ROOT / "results" / "bench" / "studies.json"
    if args.judge is not None:
        for name, entry in studies_file.write(output, studies_file.collected([output, *args.judge])).items():
            print_study(name, entry)
        return 0
    folder = args.folder or Path(tempfile.mkdtemp(prefix="joulerig-studies-"))
    folder.mkdir(parents=True, exist_ok=True)
    lab = Lab(folder)
    if part.only:
        lab = lab.with_results(folder / "parts" / re.sub(r"[^\w-]+", "-", str(part)))
        lab.results.mkdir(parents=True, exist_ok=True)
    found: dict[str, list[studies_file.Entry]] = {}
    written: dict[str, studies_file.Entry] = {}
    try:
        up = lab.rig("up", timeout=1800)
        if up.returncode:
            print(up.stderr, file=sys.stderr)
            return 2
        for name in args.study or studies.STUDIES:
            known = studies_file.read(output)
            before, found[name] = known.get(name, []), []
            written = studies_file.write(output, {**known, name: before})
            for attempt in run(lab, name, args.slow_motion, part, before):
                found[name].append(attempt)
                written = studies_file.write(
                    output, {**known, name: studies_file.merged(before, found[name])}
                )
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    finally:
        lab.rig("down")
    for name in found:
        print_study(name, written[name])
    print(f"\nreports: {lab.results}/*/report/report.html")
    return 1 if any(one["problems"] for mine in found.values() for one in mine) else 0


if __name__ == "__main__":
    sys.exit(main())
