# SPDX-License-Identifier: GPL-3.0-or-later
"""What drives' tools of many versions printed is read, or refused, as it should be."""

from __future__ import annotations

import json

import pytest

from joulerig.analysis.runs.temperature import celsius
from joulerig.rig.campaign.drive_record import counter_bytes
from joulerig.rig.lab import forms
from tests.support import fake_host  # noqa: F401  finds the host's library
from tests.support.tool_output import Facts, captures, smart_log, smartctl

from ansible.module_utils.joulerig.facts import disks  # isort: skip
from ansible.module_utils.joulerig.tools import run_json  # isort: skip

SMARTCTL, SMART_LOG, WWNS = captures("smartctl"), captures("smart_log"), captures("wwn")
UNIT = 512_000


def number(text: str) -> int | None:
    return int(text) if text else None


def named(facts: Facts) -> str:
    return facts["source"]


def test_there_are_captures_of_many_versions():
    assert len(SMARTCTL) + len(SMART_LOG) + len(WWNS) >= 200
    assert {"6.6", "6.7", "7.0", "7.1", "7.2", "7.3", "7.4", "7.5"} == {one["version"] for one in SMARTCTL}


@pytest.mark.parametrize("facts", SMARTCTL, ids=named)
def test_smartctl(facts):
    if facts["version"] == "6.6":
        with pytest.raises(ValueError, match="Expecting value"):
            json.loads(smartctl(facts))
        return
    report = json.loads(smartctl(facts))
    assert celsius(report) == number(facts["celsius"])
    assert disks.passed(report) == {"yes": True, "no": False, "": None}[facts["passed"]]
    sectors = number(facts["sectors_written"])
    assert counter_bytes(report) == (None if sectors is None else sectors * int(facts["block"]))


def test_a_version_without_json_gives_no_report(tool):
    old = next(one for one in SMARTCTL if one["version"] == "6.6")
    tool("smartctl", f"cat <<'END'\n{smartctl(old)}END\nexit 1")
    report = run_json(["smartctl", "--json"])
    assert (report, celsius(report), counter_bytes(report), disks.passed(report)) == (None,) * 4


def digits(facts: Facts) -> str:
    return facts["wwn"].replace(":", "")


@pytest.mark.parametrize("facts", [one for one in SMARTCTL if one["wwn"]], ids=named)
def test_the_wwn_that_smartctl_has_in_parts(facts):
    report = json.loads(smartctl(facts))
    parts = report["wwn"] if "wwn" in report else report["nvme_namespaces"][0]["eui64"]
    kind = "naa" if "wwn" in report else "eui"
    interface = "hdd" if kind == "naa" else "nvme"
    if not digits(facts).strip("0"):
        with pytest.raises(ValueError, match="drives without a WWN report"):
            forms.as_wwn(parts, interface)
        return
    assert forms.as_wwn(parts, interface) == f"{kind}.{digits(facts)}"


@pytest.mark.parametrize("facts", SMART_LOG, ids=named)
def test_nvme_smart_log(facts):
    report = json.loads(smart_log(facts))
    kelvins, units = int(facts["kelvins"]), number(facts["units_written"])
    assert celsius(report) == (kelvins - 273 if kelvins else None)
    assert counter_bytes(report) == (None if units is None else units * UNIT)


@pytest.mark.parametrize("facts", WWNS, ids=lambda facts: facts["printed"])
def test_a_wwn_as_tools_print_it(facts):
    if facts["kernel"]:
        assert forms.as_wwn(facts["printed"], facts["interface"]) == facts["kernel"]
        return
    with pytest.raises(ValueError, match="allowed: "):
        forms.as_wwn(facts["printed"], facts["interface"])


def test_half_a_wwn_names_where_the_whole_is():
    with pytest.raises(ValueError, match=r"the first half of a WWN.*/dev/disk/by-id/wwn-"):
        forms.as_wwn("0x600508b1001c57fe", "hdd")
