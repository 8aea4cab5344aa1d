# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run waits for before it begins, for how long, and what is said of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from joulerig.rig.campaign import opening
from joulerig.rig.campaign.execution import holds
from joulerig.rig.campaign.execution.holds import Condition, Holds


class Controller:
    """A controller with one service, which is away for so many `seconds` from 0 on."""

    def __init__(self, seconds: float) -> None:
        self.now, self._away, self.said, self.checks = 0.0, seconds, list[str](), 0

    def check(self) -> str:
        self.checks += 1
        return "InfluxDB: connection refused" if self.now < self._away else ""

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def holds(self, seconds: float | None) -> Callable[[], None]:
        made = Holds([Condition("InfluxDB", self.check, seconds)], clock=lambda: self.now, sleep=self.sleep)
        return lambda: made.wait(self.said.append, lambda: False)


def test_nothing_is_said_where_everything_is_there():
    controller = Controller(0)
    controller.holds(600)()
    assert (controller.now, controller.said) == (0, [])


def test_a_run_waits_until_it_is_back_and_both_are_said():
    controller = Controller(60)
    controller.holds(600)()
    assert controller.now == 60
    assert controller.said == ["waiting: InfluxDB: connection refused", "InfluxDB: is back"]


def test_it_goes_on_after_its_time_and_the_next_run_does_not_wait_again():
    controller = Controller(10_000)
    wait = controller.holds(600)
    wait()
    assert controller.now == 600
    assert "going on without it" in controller.said[-1]
    wait()
    assert controller.now == 600


def test_a_second_outage_is_waited_for_like_the_first():
    controller = Controller(700)
    wait = controller.holds(600)
    wait()
    controller.now = 800
    wait()  # it is there
    controller._away = 900
    wait()
    assert controller.now == 900


def test_without_a_limit_it_waits_as_long_as_it_takes():
    controller = Controller(100_000)
    controller.holds(None)()
    assert controller.now == 100_000


def test_a_stop_ends_the_wait():
    controller = Controller(100_000)
    made = Holds([Condition("disk", controller.check)], clock=lambda: controller.now, sleep=controller.sleep)
    made.wait(controller.said.append, lambda: controller.now >= 30)
    assert controller.now == 30


@pytest.fixture
def conditions(state, bench, mapping, services_up):
    journal = opening.open_campaign(mapping, bench, "playbooks/study.yml")
    found = holds.of_controller(opening.OpenCampaign.load(journal, bench))
    journal.close()
    return {one.name: one for one in found}


def test_a_full_disk_is_waited_for_without_limit(conditions, monkeypatch):
    assert conditions["disk"].seconds is None
    assert conditions["disk"].check() == ""
    monkeypatch.setattr(holds, "LEAST_FREE_BYTES", 10**18)
    assert "MB are free, a run needs 1000000000000 MB" in conditions["disk"].check()


def test_services_that_do_not_answer_are_named(conditions):
    assert conditions["InfluxDB"].seconds == conditions["powerd"].seconds == 600
    assert conditions["InfluxDB"].check().startswith("InfluxDB at ")
    assert conditions["powerd"].check() == ""
