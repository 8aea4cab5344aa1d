# SPDX-License-Identifier: GPL-3.0-or-later
"""Real twins that report their power, true or wrong, are judged rightly (analysis/audit).

All of them are audited at a time: each has its own process, and mostly waits.
"""

from concurrent.futures import ThreadPoolExecutor

import pytest

from joulerig.analysis.audit.checks import Verdict
from joulerig.analysis.audit.findings import Finding
from tests.support.audited_twin import audit

NOT = Finding.NONE
pytestmark = pytest.mark.long

TWINS = {
    "honest": (["reports=energy,1,3"], {}, None, NOT),
    "20 % off": (["reports=energy,1.2,3"], {}, Verdict.CONTRADICTED, Finding.SCALE),
    "stuck": (["reports=energy,1,3", "reports=flaw,stuck"], {}, Verdict.CONTRADICTED, Finding.STUCK),
    "resets": (
        ["reports=energy,4000,100", "reports=flaw,resets"],
        {"power_cycle": True},
        Verdict.CONTRADICTED,
        None,
    ),
    "unit": (["reports=energy,1,3", "reports=flaw,unit"], {}, Verdict.CONTRADICTED, Finding.UNIT),
    "no field": ([], {}, Verdict.NOT_REPORTED, NOT),
    "histogram": (
        ["reports=energy,1,3", "reports=flaw,histogram"],
        {},
        Verdict.CONTRADICTED,
        Finding.HISTOGRAM,
    ),
    "no idle": (["reports=energy,1,3", "reports=flaw,no_idle"], {}, Verdict.CONTRADICTED, Finding.NO_IDLE),
}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Return the audit of each twin, by name."""
    folder = tmp_path_factory.mktemp("twins")
    with ThreadPoolExecutor(len(TWINS)) as pool:
        begun = {
            name: pool.submit(audit, folder / name.replace(" ", "-").replace("%", "percent"), options, **more)
            for name, (options, more, *_) in TWINS.items()
        }
    return {name: one.result() for name, one in begun.items()}


@pytest.mark.parametrize("name", [name for name in TWINS if name not in ("honest", "resets")])
def test_a_lie_of_a_twin_is_named(found, name):
    _, _, verdict, finding = TWINS[name]
    assert (found[name].verdict, found[name].finding) == (verdict, finding), found[name].sentence


def test_an_honest_twin_is_not_accused(found):
    honest = found["honest"]
    assert honest.finding == NOT, honest.sentence
    assert honest.verdict in (Verdict.HOLDS, Verdict.UNDECIDED)  # with two runs of a condition
    measured = [one for one in honest.powers if one.quantity == "interval"]
    assert {one.condition for one in measured} == {"idle", "writes", "flushes", "reads"}
    assert all(abs(one.ratio - 1) < 0.01 + one.open_share for one in measured), measured


def test_a_counter_that_starts_over_with_power_is_seen_to_fall(found):
    lifetime = found["resets"].lifetime
    assert [how for _, how in lifetime.falls] == ["starts over with power"]
