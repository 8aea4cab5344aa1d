# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts as JUnit XML, which build servers show as tests.

There is no standard; the elements and attributes are those of Ant's JUnit report, which the
servers' readers have in common.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree

from joulerig.analysis.gate.verdicts import Outcome, Verdict, fails, summary
from joulerig.analysis.results.campaign import Campaign

NOT_IN_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # XML 1.0, production Char


def document(
    before: Campaign, after: Campaign, verdicts: Sequence[Verdict], *, decided: bool = False
) -> bytes:
    """Return the document: a test for each verdict, which fails where it fails the campaign.

    Another one that is open is skipped; `decided`: it fails too. A test's time is that of the
    cell's runs in `after`, in seconds.
    """
    failed = [one for one in verdicts if fails(one, decided=decided)]
    skipped = [one for one in verdicts if one.outcome is Outcome.UNDECIDED and one not in failed]
    counts = {"tests": str(len(verdicts)), "failures": str(len(failed)), "skipped": str(len(skipped))}
    root = ElementTree.Element("testsuites", {**counts, "errors": "0"})
    suite = ElementTree.SubElement(root, "testsuite", {"name": _text(after.id), **counts, "errors": "0"})
    properties = ElementTree.SubElement(suite, "properties")
    for name, value in (
        ("baseline", before.id),
        ("virtual_lab", str(after.virtual).lower()),
        ("summary", summary(verdicts)),
    ):
        ElementTree.SubElement(properties, "property", {"name": name, "value": _text(value)})
    seconds = _seconds(after)
    for one in verdicts:
        case = ElementTree.SubElement(
            suite,
            "testcase",
            {
                "name": _text(one.cell),
                "classname": _text(after.name),
                "time": f"{seconds.get(one.cell, 0.0):.3f}",
            },
        )
        if one in failed:
            message = {"message": _text(one.why), "type": str(one.outcome)}
            ElementTree.SubElement(case, "failure", message).text = _text(one.why)
        elif one in skipped:
            ElementTree.SubElement(case, "skipped", {"message": _text(one.why)})
        else:
            ElementTree.SubElement(case, "system-out").text = _text(one.why)
    ElementTree.indent(root)
    return bytes(ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)) + b"\n"


def _text(value: str) -> str:
    return NOT_IN_XML.sub("�", value)


def _seconds(campaign: Campaign) -> dict[str, float]:
    return {
        cell: sum((run.ended_ns - run.started_ns) / 1e9 for run in runs if run.started_ns and run.ended_ns)
        for cell, runs in campaign.cells().items()
    }
