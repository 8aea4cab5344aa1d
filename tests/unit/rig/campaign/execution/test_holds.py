# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run waits for before it begins, for how long, and what is said of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import polars as pl
import pytest

from joulerig.rig.campaign import opening
from joulerig.rig.campaign.execution.holds import Condition, Holds, of_controller, of_host
from joulerig.rig.controller import services
from joulerig.rig.lab.meters import calibration
from joulerig.rig.lab.model import VirtualHost

RUN = {"id": "study-0001", "host": "bench1", "drive": "fast", "factors": {}}


class Controller:
    """A controller with one service, which is away for so many `seconds` from 0 on."""

    def __init__(self, seconds: float) -> None:
        self.now, self._away, self.said = 0.0, seconds, list[str]()
        self.noted: list[tuple[str, str, str]] = []

    def check(self, run: Mapping[str, Any]) -> str:
        return "InfluxDB: connection refused" if self.now < self._away else ""

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def holds(self, seconds: float | None) -> Callable[[], None]:
        made = self.made(Condition("InfluxDB", self.check, seconds, "energy arrives later"))
        return lambda: made.wait(RUN, self.said.append, lambda: False)

    def made(self, *conditions: Condition) -> Holds:
        return Holds(conditions, self.note, clock=lambda: self.now, sleep=self.sleep)

    def note(self, run: Mapping[str, Any], condition: str, why: str) -> None:
        self.noted.append((run["id"], condition, why))


def test_nothing_is_said_where_everything_is_there():
    controller = Controller(0)
    controller.holds(600)()
    assert (controller.now, controller.said) == (0, [])


def test_a_run_waits_until_it_is_back_and_both_are_said():
    controller = Controller(60)
    controller.holds(600)()
    assert controller.now == 60
    assert controller.said == ["waiting: InfluxDB: connection refused", "InfluxDB: in order again"]


def test_it_goes_on_after_its_time_and_the_next_run_does_not_wait_again():
    controller = Controller(10_000)
    wait = controller.holds(600)
    wait()
    assert controller.now == 600
    assert controller.said[-1] == "InfluxDB: connection refused: going on without it; energy arrives later"
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
    made = controller.made(Condition("disk", controller.check))
    made.wait(RUN, controller.said.append, lambda: controller.now >= 30)
    assert controller.now == 30


def test_a_wait_is_noted_with_its_run_and_so_is_its_end():
    controller = Controller(60)
    controller.holds(600)()
    assert controller.noted == [
        ("study-0001", "InfluxDB", "InfluxDB: connection refused"), ("study-0001", "InfluxDB", ""),
    ]  # fmt: skip


def test_a_condition_without_time_warns_once_and_holds_nothing():
    controller = Controller(100_000)
    wait = controller.holds(0)
    wait()
    wait()
    assert (controller.now, controller.said) == (0, ["InfluxDB: connection refused"])


def test_what_one_drive_was_given_up_for_is_not_forgotten_by_another_ones_run():
    controller = Controller(0)
    bad = Condition("meters", lambda run: "silent" if run["drive"] == "fast" else "", 600, of_drive=True)
    made = controller.made(bad)
    for drive in ("fast", "bare", "fast"):
        made.wait({**RUN, "drive": drive}, controller.said.append, lambda: False)
    assert controller.now == 600


@pytest.fixture
def campaign(state, bench, mapping, services_up):
    """campaign(KEY=VALUE) opens one with these rules of `holds`; `run` has its first run."""
    journals = []

    def opened(**rules: Any) -> opening.OpenCampaign:
        asked = {**mapping, "name": f"study-{len(journals)}", "holds": rules}  # ids are by the second
        journals.append(opening.open_campaign(asked, bench, "playbooks/study.yml"))
        return opening.OpenCampaign.load(journals[-1], bench)

    yield opened
    for journal in journals:
        journal.close()


@pytest.fixture
def check(campaign):
    """check(NAME, KEY=VALUE) is what a condition says of the first run."""

    def checked(name: str, **rules: Any) -> str:
        opened = campaign(**rules)
        return named(opened)[name].check(opened.journal.upcoming("bench1"))

    return checked


def named(opened: opening.OpenCampaign) -> dict[str, Condition]:
    return {one.name: one for one in [*of_controller.conditions(opened), *of_host.conditions(opened)]}


def test_a_full_disk_is_waited_for_without_limit(campaign, monkeypatch):
    disk = named(campaign())["disk"]
    assert disk.seconds is None
    assert disk.check(RUN) == ""
    monkeypatch.setattr(of_controller, "LEAST_FREE_BYTES", 10**18)
    assert "MB are free, a run needs 1000000000000 MB" in disk.check(RUN)


def test_services_that_do_not_answer_are_named(campaign):
    conditions = named(campaign())
    assert conditions["InfluxDB"].seconds == conditions["powerd"].seconds == 600
    assert conditions["InfluxDB"].check(RUN).startswith("InfluxDB at ")
    assert conditions["powerd"].check(RUN) == ""


def test_a_lab_switches_conditions_off(campaign):
    off = {"drive_celsius": None, "host_load": None, "meters": False, "calibration": None}
    assert set(named(campaign(**off))) == {"InfluxDB", "powerd", "disk"}
    assert set(named(campaign())) - {"InfluxDB", "powerd", "disk"} == {
        "meters", "calibration", "temperature", "load",
    }  # fmt: skip


def reports(monkeypatch, **states: str) -> None:
    meters = [{"name": name, "state": state, "reason": "no frames"} for name, state in states.items()]
    monkeypatch.setattr(services, "powerd_status", lambda: {"meters": meters})


def test_a_meter_of_the_runs_rails_that_delivers_nothing_holds_it(check, monkeypatch):
    reports(monkeypatch, tap1="silent", tap2="streaming")
    assert check("meters") == "meter tap1 is silent: no frames"


def test_a_meter_of_other_drives_holds_nothing(check, monkeypatch):
    reports(monkeypatch, tap1="streaming", tap2="failed")
    assert check("meters") == ""


def test_a_meter_is_waited_for_as_long_as_powerd_is(campaign):
    assert named(campaign())["meters"].seconds == 600


def expire(monkeypatch) -> None:
    found = {"state": "expired", "reason": "since 2020-01-01", "channels": {}}
    monkeypatch.setattr(calibration, "summary", lambda lab, meter, today: found)


def test_an_expired_calibration_is_named_with_its_meter(check, monkeypatch):
    expire(monkeypatch)
    assert check("calibration") == (
        "meter tap1: calibration expired since 2020-01-01; 'rig meters calibrate' renews it"
    )


def test_an_expired_calibration_only_warns_unless_a_lab_says_otherwise(campaign):
    assert named(campaign())["calibration"].seconds == 0
    assert named(campaign(calibration="hold"))["calibration"].seconds is None


def agent(influxd, *lines: str) -> None:
    if lines:
        influxd.write(*lines)


S = 1_000_000_000


def test_a_hot_drive_holds_its_run_and_a_cooler_one_does_not(check, influxd):
    agent(influxd, f"drive_health,host=bench1,drive=fast temperature_celsius=71 {S}")
    assert check("temperature") == "fast: 71 °C, a run begins below 60 °C"
    assert check("temperature", drive_celsius=75) == ""
    agent(influxd, f"drive_health,host=bench1,drive=fast temperature_celsius=52 {2 * S}")
    assert check("temperature") == ""


def test_another_drives_heat_holds_nothing(check, influxd):
    agent(influxd, f"drive_health,host=bench1,drive=bare temperature_celsius=71 {S}")
    assert check("temperature") == ""


def test_heat_that_an_agent_reported_long_ago_holds_nothing(campaign, influxd):
    agent(influxd, f"drive_health,host=bench1,drive=fast temperature_celsius=71 {S}")
    opened, now = campaign(), [0.0]
    hot = {one.name: one for one in of_host.conditions(opened, clock=lambda: now[0])}["temperature"]
    run = opened.journal.upcoming("bench1")
    assert hot.check(run)
    now[0] = 91
    assert hot.check(run) == ""
    agent(influxd, f"drive_health,host=bench1,drive=fast temperature_celsius=70 {2 * S}")
    assert hot.check(run)


def load(busy: Callable[[float], float], seconds: float = 12) -> list[str]:
    """Points of an agent, ten a second: `busy` processor seconds after so many."""
    return [
        f"hostload,host=bench1 cpu_busy_seconds={busy(n / 10):.3f},agent_cpu_seconds={0.9 * n / 10:.3f}"
        f" {S + n * S // 10}"
        for n in range(int(10 * seconds) + 1)
    ]


def test_a_host_that_something_else_loads_holds_its_run(check, influxd):
    agent(influxd, *load(lambda t: 2.9 * t))
    assert check("load") == "bench1: something keeps 2 processors busy, a run begins at 0.5 at most"
    assert check("load", host_load=2.5) == ""


def test_an_idle_host_is_waited_for_as_long_as_powerd_is(campaign):
    """The processes of a controller that is its own test host never end."""
    assert named(campaign())["load"].seconds == 600


def test_a_virtual_host_is_not_asked_for_its_load(campaign, influxd, monkeypatch):
    agent(influxd, *load(lambda t: 2.9 * t))
    opened = campaign()
    virtual = opened.lab.hosts["bench1"].model_copy(update={"virtual": VirtualHost()})
    monkeypatch.setitem(opened.lab.hosts, "bench1", virtual)
    assert named(opened)["load"].check(opened.journal.upcoming("bench1")) == ""


def test_the_agents_own_time_is_no_load(check, influxd):
    agent(influxd, *load(lambda t: 1.0 * t))
    assert check("load") == ""


def test_what_a_run_left_behind_on_its_host_holds_nothing(check, influxd):
    """Busy to the end of what the module does, but not for all of the last ten seconds."""
    agent(influxd, *load(lambda t: 0.9 * t + 2 * max(0.0, t - 7)))
    assert check("load") == ""


def test_the_load_of_a_run_of_this_campaign_holds_nothing(campaign, influxd):
    agent(influxd, *load(lambda t: 2.9 * t))
    opened = campaign()
    opened.journal.take("bench1")
    assert named(opened)["load"].check(opened.journal.upcoming("bench1")) == ""


@pytest.mark.parametrize("lines", [[], load(lambda t: 2.9 * t, seconds=4)])
def test_a_host_without_an_agent_is_not_known_to_be_loaded(check, influxd, lines):
    agent(influxd, *lines)
    assert check("load") == ""


def test_the_least_busy_of_the_last_seconds_counts():
    """Two processors, of the ten seconds two not at all."""
    seconds = [n / 10 for n in range(101)]
    busy = [2 * (t - min(max(t - 4, 0), 2)) for t in seconds]
    frame = pl.DataFrame(
        {"time": [int(t * S) for t in seconds], "cpu_busy_seconds": busy, "agent_cpu_seconds": 0.0}
    )
    assert of_host.least_busy(frame) == pytest.approx(0.0)
