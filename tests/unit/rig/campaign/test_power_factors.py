# SPDX-License-Identifier: GPL-3.0-or-later
"""Factors of power management: their levels, and what a host is asked for."""

import pytest

from ansible.module_utils.joulerig.settings.drive_settings import SETTINGS
from joulerig.rig.campaign import factors
from joulerig.rig.campaign.execution.request import make_request
from joulerig.rig.campaign.factors.factor import Setting
from joulerig.rig.campaign.plan import make_plan
from joulerig.rig.common.errors import UserError

LEVELS = {
    "power_state": [0, 2],
    "power_limit": [False, 4.5, 12],
    "apst": [False, "any", 25000],
    "link_power": ["max_performance", "min_power"],
    "apm": [False, 1, 254],
    "standby_timer": [False, 60, 1800],
    "aspm": ["performance", "powersave"],
    "runtime_pm": [True, "auto"],
    "governor": ["performance", "schedutil"],
    "c_states": ["none", "any", 20],
}


def requests(mapping, lab, factor, levels):
    plan = make_plan(
        {**mapping, "factors": {**mapping["factors"], factor: levels}}, lab, "playbooks/study.yml"
    )
    return {
        run.levels[factor]: make_request(plan.campaign, lab, run, run_id="r", campaign_id="c")
        for run in plan.runs
    }


@pytest.mark.parametrize("factor", LEVELS)
def test_levels_are_text_as_they_were_written(bench, mapping, factor):
    """YAML reads `off` and `on` as booleans."""
    expected = [{False: "off", True: "on"}.get(one, str(one)) if isinstance(one, bool) else str(one)
                for one in LEVELS[factor]]  # fmt: skip
    assert set(requests(mapping, bench, factor, LEVELS[factor])) == set(expected)


@pytest.mark.parametrize("factor", ["power_state", "power_limit", "apst", "apm", "standby_timer"])
def test_a_host_is_asked_to_set_its_drives(bench, mapping, factor):
    for level, request in requests(mapping, bench, factor, LEVELS[factor]).items():
        assert [(one.factor, one.level) for one in request.drive_settings] == [(factor, level)]
        assert request.kernel_files == []


def test_a_host_is_asked_to_set_files(bench, mapping):
    [file] = requests(mapping, bench, "c_states", ["none"])["none"].kernel_files
    assert (file.value, file.needs) == ("n/a", "/sys/devices/system/cpu/cpu0/cpuidle/state0/name")
    [file] = requests(mapping, bench, "runtime_pm", [True])["on"].kernel_files
    assert (file.path, file.value) == ("/sys/{powered}/power/control", "on")


@pytest.mark.parametrize(
    ("factor", "level", "allowed"),
    [
        ("power_state", 32, "allowed: 0 to 31"),
        ("power_limit", 0, "allowed: off, 0.01 to 655.35 W"),
        ("power_limit", "any", "allowed: off, 0.01 to 655.35 W"),
        ("apst", "on", "words: off, any"),
        ("apst", 0, "allowed: off"),
        ("apm", 255, "allowed: 1 to 254"),
        ("standby_timer", 7, "allowed: 5 to 1200 in steps of 5"),
        ("link_power", "performance", "med_power_with_dipm"),
        ("governor", "fast/../x", "should match pattern"),
        ("c_states", "poll", "words: none, any"),
        ("runtime_pm", "off", "auto"),
    ],
)
def test_a_level_that_is_none_is_one_line(bench, mapping, factor, level, allowed):
    mapping["factors"][factor] = [level]
    with pytest.raises(UserError, match=rf"^playbooks/study.yml: .*{factor}.*{allowed}") as caught:
        make_plan(mapping, bench, "playbooks/study.yml")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("path", "of_drives"),
    [("/sys/{powered}/power/control", True), ("/sys/module/pcie_aspm/parameters/policy", False)],
)
def test_whose_file_a_setting_is(path, of_drives):
    assert Setting(path).of_drives is of_drives


def test_another_placeholder_is_refused():
    with pytest.raises(ValueError, match=r"allowed placeholders: \{device\}, \{controller\}"):
        Setting("/sys/{disk}/x")


def test_every_setting_of_drives_is_a_factor_that_asks_for_it():
    assert {name for name, one in factors.shipped().items() if one.drive_setting} == set(SETTINGS)
