# SPDX-License-Identifier: GPL-3.0-or-later
"""A campaign is refused as a whole where a drive holds what this rig may not wipe."""

import pytest

from joulerig.rig.campaign import adoption, contents
from joulerig.rig.common.errors import UserError

BLANK = {"device": "/dev/sda", "holds": "nothing", "free": "blank", "problem": "", "serial": "S-1"}
FOREIGN = {**BLANK, "holds": "ntfs 'Photos' (0A1B)", "free": ""}
MISSING = {"problem": "fast: no drive with serial 'S-1' on this host; present: none"}


def check(**found):
    adoption.check("bench1", {"found": found, "changed": False})


@pytest.mark.parametrize(
    "found",
    [
        {},
        {"fast": BLANK},
        {"fast": {**BLANK, "holds": "ext4 (1)", "free": "made by this rig"}, "slow": {**FOREIGN, "free": "adopted"}},
        {"fast": MISSING},
        {"fast": {**FOREIGN, "problem": "fast: /dev/sda is mounted at /srv"}},
    ],
    ids=["none asked", "blank", "the rig's and an adopted one", "missing", "in use"],
)  # fmt: skip
def test_a_campaign_goes_on_where_no_drive_is_foreign(found):
    """Of a drive that is missing or in use, each run is refused with its own reason."""
    check(**found)


def test_one_foreign_drive_refuses_it():
    with pytest.raises(UserError) as refused:
        check(fast=BLANK, slow=FOREIGN)
    assert str(refused.value) == (
        "bench1/slow (serial S-1) holds ntfs 'Photos' (0A1B), which this rig did not make;"
        " 'rig drives adopt bench1 slow' shows it and can release it; no run was executed"
    )


def test_each_foreign_drive_is_named():
    with pytest.raises(UserError, match=r"bench1/fast .* bench1/slow .* no run was executed"):
        check(fast=FOREIGN, slow=FOREIGN)


def test_a_module_that_failed_refuses_it():
    with pytest.raises(UserError, match=r"bench1: /var/lib/joulerig/drives\.json: cannot be read"):
        adoption.check("bench1", {"failed": True, "msg": "/var/lib/joulerig/drives.json:\ncannot be read"})


class Rows:
    """A journal of such runs. `in_a_run`: the host that may still be in one."""

    def __init__(self, *runs, in_a_run=""):
        self.in_a_run = in_a_run
        self._runs = [
            {"host": host, "drive": drive, "status": status, "factors": {"journal": journal}}
            for host, drive, status, journal in runs
        ]

    def goes_on(self, host):
        return host == self.in_a_run

    def runs(self):
        return self._runs


def test_the_drives_that_are_asked_for_are_those_of_planned_runs_and_their_journals():
    journal = Rows(
        ("bench1", "fast", "planned", "internal"),
        ("bench1", "fast", "planned", "slow"),
        ("bench1", "done", "ok", "internal"),
        ("bench1", "never", "excluded", "internal"),
        ("bench2", "other", "planned", "internal"),
    )
    assert adoption.drives(journal, "bench1") == ["fast", "slow"]


def test_a_host_that_is_in_a_run_of_the_campaign_is_not_asked():
    """Its drives were looked at before that run, which may hold the host for hours."""
    runs = [("bench1", "fast", "planned", "internal"), ("bench2", "other", "planned", "internal")]
    journal = Rows(*runs, in_a_run="bench1")
    assert adoption.drives(journal, "bench1") == []
    assert adoption.drives(journal, "bench2") == ["other"]


def test_drives_that_the_rig_makes_of_memory_are_not_asked_for(lab_files, tmp_path, monkeypatch):
    monkeypatch.setenv("JOULERIG_VAR", str(tmp_path))
    lab_files.drives["ram"] = {"interface": "ram", "serial": "ram0", "size_bytes": 1 << 27}
    asked = contents.arguments(lab_files.load(), "bench1", ["fast", "ram", "pair", "fast"])
    assert asked["names"] == ["fast", "pair"]
    assert list(asked["arrays"]) == ["pair"]
    assert list(asked["drives"]) == ["fast", *asked["arrays"]["pair"]]
    assert asked["drives"]["fast"]["known"] is None
