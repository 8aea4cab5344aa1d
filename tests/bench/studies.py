# SPDX-License-Identifier: GPL-3.0-or-later
"""The short form of every study on a virtual lab, one after the other: results/bench/studies.json.

With --folder it goes on where it was interrupted: a study whose campaign is over there is judged,
one that is not is resumed, the others are begun. With --study and --only, a study takes several
sittings: each of its parts (some drives, workloads or levels) is a campaign, and an entry in the
file, where the study has the claims of all its parts. Each claim has, over the runs on its drive,
the slowness of the lab and the fraction of the load in which the drive set the pace, least and
greatest, and QEMU's accelerator.

Prints each claim's verdict, and where the reports are. Ends with 1 where a run that was not
excluded is not ok (a virtual lab can do all of them), a report was not built, or a claim that
follows from the I/O path alone did not come out as published.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from joulerig.analysis import results, studies
from joulerig.analysis.results.schema import Status
from joulerig.analysis.runs import pace
from joulerig.analysis.studies import claims
from joulerig.analysis.tables import comparisons
from joulerig.rig.campaign import playbook as playbooks
from tests.support import ROOT
from tests.support.lab_driver import BIN, Lab

MOST_SECONDS = 43_200  # of one study, whose kernels may have to be built
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


def playbook_of(lab: Lab, name: str, slow_motion: float | None, part: Part) -> Path:
    """Return a study's playbook.

    Of another slow motion than its own where one is given; its short form's part.
    """
    shipped = ROOT / "playbooks" / f"{name}.yml"
    if slow_motion is None and not part.only:
        return shipped
    fields = playbooks.mapping(shipped)
    if slow_motion is not None:
        fields["slow_motion"] = slow_motion
    return lab.write_playbook({**fields, "short": part.part_of(fields)})


def repeated(lab: Lab, name: str, slow_motion: float | None, part: Part) -> dict[str, Any]:
    """Run a study's short form and build its report; its entry of studies.json, and `problems`."""
    began = time.monotonic()
    before = begun(lab, name)
    if before is None or not is_over(lab, before):
        playbook = playbook_of(lab, name, slow_motion, part)
        command = ["timeout", "--signal=INT", "--kill-after=120", str(MOST_SECONDS), BIN / "rig"]
        done = subprocess.run(
            [*command, *words(playbook, before)],
            cwd=ROOT,
            env=lab.environment,
            stdout=sys.stdout,
            stderr=sys.stderr,
        )
        returncode = done.returncode
    else:
        returncode = 0
    opened = begun(lab, name)
    if opened is None:
        return {"seconds": None, "claims": [], "problems": [f"no campaign was opened (exit {returncode})"]}
    built = lab.rig("report", opened, "--format", "html,pdf")
    folder = lab.results / opened
    problems = [] if built.returncode == 0 else [f"no report: {built.stderr.strip()}"]
    if returncode == TIMED_OUT:
        problems.append(f"ended after {MOST_SECONDS} s")
    campaign = results.load(folder)
    verdicts = judged(campaign)
    problems += problems_of(name, campaign, verdicts)
    return {
        "seconds": round(time.monotonic() - began, 1),
        "campaign": opened,
        "runs": {status: sum(run.status == status for run in campaign.runs) for status in Status},
        "claims": verdicts,
        "problems": problems,
    }


def problems_of(name: str, campaign: results.Campaign, verdicts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what is wrong with a study's campaign, a line each.

    That is a run that should be ok and is not, and a claim that holds on any machine and does not.
    """
    problems = [
        f"run {run.ordinal}, {run.cell}, is {run.status}: {run.reason or 'without a reason'}"
        for run in campaign.runs
        if run.status not in (Status.OK, Status.EXCLUDED)
    ]
    for key in (claim.key for claim in studies.STUDIES[name].claims_from_the_io_path):
        mine = [one for one in verdicts if one["claim"] == key]
        problems += [
            f"{key}, {one['where']}: {one['verdict']} ({one['why']})"
            for one in mine
            if one["verdict"] == claims.DOES_NOT
        ]
        if all(one["verdict"] != claims.HOLDS for one in mine):
            problems.append(f"{key}: holds nowhere")
    return problems


def words(playbook: Path, begun: str | None) -> list[str]:
    """Return the words of `rig` that run a playbook's short form, or go on with its campaign."""
    return ["run", "--short", str(playbook), *(["--resume", begun] if begun else [])]


def begun(lab: Lab, study: str) -> str | None:
    """Return the newest campaign of a study in the lab's results; None where there is none."""
    mine = [
        one for one in lab.campaigns() if results.load(lab.results / one).definition.get("study") == study
    ]
    return mine[-1] if mine else None


def is_over(lab: Lab, campaign: str) -> bool:
    return results.load(lab.results / campaign).finished_ns is not None


def judged(campaign: results.Campaign) -> list[dict[str, Any]]:
    """Claim, where, verdict, effect, low, high, why and pace of each verdict."""
    rows = comparisons.claims(campaign, ()).rename({"effect_low": "low", "effect_high": "high"})
    rows = rows.select("claim", "where", "verdict", "effect", "low", "high", "why")
    return [{**row, **paced(campaign, row["where"])} for row in rows.to_dicts()]


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


def with_entries(
    before: Mapping[str, Any], found: Mapping[str, dict[str, Any]], part: Part
) -> dict[str, Any]:
    """Return the file's entries with those of the studies that were run, or of a part of each."""
    if not part.only:
        return {**before, **{name: _continued(before.get(name, {}), one) for name, one in found.items()}}
    return {**before, **{name: _with_part(before.get(name, {}), one, part) for name, one in found.items()}}


def _with_part(study: Mapping[str, Any], entry: dict[str, Any], part: Part) -> dict[str, Any]:
    """Return a study's entry with one of its parts; what was run as a whole before is one, "".

    A claim is judged by the part that has its runs: others leave it undecided. Of several that
    decide it, or else of several that measured it, the one that was run last does.
    """
    before = study.get("parts") or ({str(Part()): study} if study else {})
    others = {name: one for name, one in before.items() if name != str(part)}
    parts = {**others, str(part): _continued(before.get(str(part), {}), entry)}
    claims_of: dict[tuple[str, str], dict[str, Any]] = {}
    for one in parts.values():
        for claim in one["claims"]:
            known = claims_of.setdefault((claim["claim"], claim["where"]), claim)
            if _says(claim) >= _says(known):
                claims_of[claim["claim"], claim["where"]] = claim
    runs: Counter[str] = Counter()
    for one in parts.values():
        runs.update(one.get("runs", {}))
    return {
        "seconds": round(sum(one["seconds"] or 0.0 for one in parts.values()), 1),
        "runs": dict(runs),
        "claims": list(claims_of.values()),
        "problems": [problem for one in parts.values() for problem in one["problems"]],
        "parts": parts,
    }


def _continued(before: Mapping[str, Any], entry: dict[str, Any]) -> dict[str, Any]:
    """Return an entry with the seconds of earlier sittings, if it goes on with their campaign."""
    campaign = entry.get("campaign")
    if campaign is None or before.get("campaign") != campaign:
        return entry
    return {**entry, "seconds": round(before["seconds"] + entry["seconds"], 1)}


def _says(claim: Mapping[str, Any]) -> tuple[bool, bool]:
    """Return how much is said of a claim: whether it is decided, and whether it was measured."""
    return claim["verdict"] != claims.OPEN, claim["effect"] is not None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--study", action="append", choices=[*studies.STUDIES], help="this one alone")
    parser.add_argument(
        "--slow-motion", type=float, help="seconds that one of the lab lasts; else the studies' own"
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME=VALUE,...", help="these drives or levels alone"
    )
    parser.add_argument("--folder", type=Path, help="of the lab's state and results; by default a new one")
    parser.add_argument("--output", type=Path, help="by default results/bench/studies.json")
    args = parser.parse_args()
    try:
        part = Part.read(args.only)
    except ValueError as error:
        parser.error(str(error))
    folder = args.folder or Path(tempfile.mkdtemp(prefix="joulerig-studies-"))
    folder.mkdir(parents=True, exist_ok=True)
    lab = Lab(folder)
    if part.only:
        lab = lab.with_results(folder / "parts" / re.sub(r"[^\w-]+", "-", str(part)))
        lab.results.mkdir(parents=True, exist_ok=True)
    try:
        up = lab.rig("up", timeout=1800)
        if up.returncode:
            print(up.stderr, file=sys.stderr)
            return 2
        wanted = args.study or studies.STUDIES
        found = {name: repeated(lab, name, args.slow_motion, part) for name in wanted}
    finally:
        lab.rig("down")
    output = args.output or ROOT / "results" / "bench" / "studies.json"
    output.parent.mkdir(parents=True, exist_ok=True)
    before = json.loads(output.read_text()) if output.exists() else {}
    output.write_text(json.dumps(with_entries(before, found, part), indent=1) + "\n")
    for name, one in found.items():
        print(f"\n{studies.STUDIES[name].title}: {one['seconds']} s")
        for claim in one["claims"]:
            effect = "" if claim["effect"] is None else f"  {claim['effect']:.3g}"
            if claim["low"] is not None:
                effect += f" ({claim['low']:.3g} to {claim['high']:.3g})"
            print(f"  {claim['verdict']:>14}  {claim['claim']}, {claim['where']}{effect}  {claim['why']}")
        for problem in one["problems"]:
            print(f"  PROBLEM: {problem}")
    print(f"\nreports: {lab.results}/*/report/report.html")
    return 1 if any(one["problems"] for one in found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
