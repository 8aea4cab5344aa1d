# SPDX-License-Identifier: GPL-3.0-or-later
"""Published studies that a campaign can repeat, and whether their claims hold in it.

A study is one module of this folder. It assigns a `Study` to `STUDY`: title, reference, claims, how
they are measured and its figures. Its docstring is the text of its documentation page. Nothing else
lists the studies: a campaign's `study` key, the report, `make studies` and the documentation take
them from here.
"""

from __future__ import annotations

import importlib
import inspect
import math
import pkgutil
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from joulerig.analysis.compare import cells
from joulerig.analysis.results.campaign import Campaign
from joulerig.analysis.runs import pace
from joulerig.analysis.studies import attempts
from joulerig.analysis.studies.attempts import Attempt
from joulerig.analysis.studies.claims import Measured, Verdict, joined
from joulerig.analysis.studies.registration import Registration, cells_not_run
from joulerig.analysis.studies.study import Study

SAME_SLOWNESS = 0.05  # how far a run's slowness may be from the one that was asked for
_INDEX_HEAD = "| study | reference | playbook |\n"


def _discover() -> Iterator[Study]:
    """Yield the study of each module here that declares one, in the order of their names."""
    for found in pkgutil.iter_modules(__path__):
        if found.name == "__main__":
            continue
        module = importlib.import_module(f"{__name__}.{found.name}")
        declared = getattr(module, "STUDY", None)
        if isinstance(declared, Study):
            _, _, text = inspect.cleandoc(module.__doc__ or "").partition("\n\n")
            yield replace(declared, name=found.name, text=text)


STUDIES: dict[str, Study] = {study.name: study for study in _discover()}


def find_study(campaign: Campaign) -> Study | None:
    """Return the study that a campaign repeats.

    None where it names none, or one that is unknown here.
    """
    return STUDIES.get(campaign.definition.get("study") or "")


def verdicts(campaign: Campaign) -> list[Verdict]:
    """Judge each claim of the campaign's study by this campaign alone, as one attempt.

    Empty where the campaign repeats no study.
    """
    mine = attempt(campaign)
    return attempts.judge([mine], mine.registration)


def attempt(campaign: Campaign) -> Attempt:
    """Return what a campaign measured of each claim of its study, as an attempt.

    It is measured separately for each level of the factors that the study does not know.
    """
    study = find_study(campaign)
    registration = Registration.read(campaign.definition)
    measured = [
        replace(one, where=f"{one.where}, {levels}" if levels else one.where)
        for levels, part in (split_by_other_factors(campaign) if study else ())
        for one in _with_missing_cells(study.measure(part), part, registration)
    ]
    return Attempt(campaign.id, _slow_motion(campaign), campaign.virtual, registration, measured)


def _with_missing_cells(
    measured: Iterable[Measured], campaign: Campaign, registration: Registration | None
) -> Iterator[Measured]:
    """Yield what was measured, each with the cells of its claim that did not run."""
    for one in measured:
        cells = registration.claim(one.claim.key).cells if registration else {}
        missing = cells_not_run(cells, one.levels, campaign.runs)
        yield replace(one, obstacle=joined(missing, one.obstacle))


def _slow_motion(campaign: Campaign) -> float | None:
    """Return the factor of slow motion that was asked for, if all runs had it; else theirs.

    Hosts under KVM are not slowed down whatever was asked for. None where runs differ, or neither
    is known.
    """
    asked, measured = campaign.definition.get("slow_motion"), pace.slowness(campaign)
    if isinstance(asked, int | float) and all(
        math.isclose(k, asked, rel_tol=SAME_SLOWNESS) for k in measured or ()
    ):
        return float(asked)
    least, most = measured or (None, None)
    return least if least == most else None


def split_by_other_factors(campaign: Campaign) -> list[tuple[str, Campaign]]:
    """Split a campaign by the levels of those factors that its study does not distinguish.

    No claim then compares runs that such a factor sets apart.

    Returns
    -------
    list of (str, Campaign)
        The levels, for example "fill 0.5, kernel hz100", and the campaign with the runs that have
        them. A factor with a single level is not named.
    """
    study = find_study(campaign)
    known = study.factors if study else ()
    campaign = campaign.without_controls
    parts = [("", campaign)]
    for factor in sorted({name for run in campaign.runs for name in run.factors} - {*known}):
        present = {_level(run.factors.get(factor)) for run in campaign.runs}
        if len(present) > 1:
            parts = [
                (", ".join(filter(None, (levels, f"{factor} {level}"))), with_level)
                for levels, part in parts
                for level in cells.levels(campaign, factor, present)
                if (with_level := _keep_level(part, factor, level)).runs
            ]
    return parts


def _keep_level(campaign: Campaign, factor: str, level: str) -> Campaign:
    runs = tuple(run for run in campaign.runs if _level(run.factors.get(factor)) == level)
    return replace(campaign, runs=runs)


def _level(level: object) -> str:
    return "as it is" if level is None else str(level)


def index() -> str:
    """Return a Markdown table of the studies, with links to their pages in the same folder."""
    rows = "\n".join(
        f"| [{study.title}]({study.name}.md) | {study.reference} | `playbooks/{study.name}.yml` |"
        for study in STUDIES.values()
    )
    return f"{_INDEX_HEAD}|---|---|---|\n{rows}\n"


def update_index(text: str) -> str:
    """Return a Markdown text with its table of the studies replaced by today's."""
    return re.sub(rf"^{re.escape(_INDEX_HEAD)}(\|.*\n)*", lambda _: index(), text, flags=re.MULTILINE)


def write_pages(folder: Path) -> list[Path]:
    """Write the documentation page of every study into `folder`, and return their paths.

    The folder is made where it is missing. The table in its README.md, if it has one, is updated.
    """
    folder.mkdir(parents=True, exist_ok=True)
    pages = {folder / f"{study.name}.md": study.page() for study in STUDIES.values()}
    readme = folder / "README.md"
    if readme.is_file():
        pages[readme] = update_index(readme.read_text(encoding="utf-8"))
    for path, text in pages.items():
        path.write_text(text, encoding="utf-8")
    return list(pages)
