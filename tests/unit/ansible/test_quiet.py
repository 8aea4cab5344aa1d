# SPDX-License-Identifier: GPL-3.0-or-later
"""Background units are masked while a campaign uses a host, and come back also without it."""

from __future__ import annotations

import fcntl
import json
import subprocess
from pathlib import Path

import joulerig_quiet
import pytest
import yaml
from ansible.module_utils.testing import patch_module_args

from ansible.module_utils.joulerig import quiet
from ansible.module_utils.joulerig.host_lock import HostLock
from ansible.module_utils.joulerig.tools import Failed
from tests.support import ROOT
from tests.support.fake_systemd import FakeSystemd

TRIM, SMART, ABSENT = "fstrim.timer", "smartmontools.service", "mdcheck_start.timer"
MASKED, RUNNING = {"file": "masked-runtime", "active": "inactive"}, {"file": "enabled", "active": "active"}
HERE = "bench:/results/"
ONE, OTHER = HERE + "one", HERE + "other"


@pytest.fixture
def host(fake, tool, monkeypatch):
    fake.stand_in(monkeypatch)
    uptime(fake, 1000)
    return fake


@pytest.fixture
def systemd(host, tmp_path):
    return FakeSystemd(tmp_path / "bin", {TRIM: RUNNING, SMART: {"file": "disabled", "active": "inactive"}})


@pytest.fixture
def watcher(systemd, tool):
    """The log of the services that were started to undo the masks."""
    return tool("systemd-run", "")


def uptime(fake, seconds: float) -> None:
    fake.put(fake.proc / "uptime", f"{seconds:.2f} 1.00\n")


def until(host) -> int:
    return int((host.sys.parent / "run/joulerig/quiet/until").read_text())


def boot(host, systemd) -> None:
    """Empty /run and start what is enabled, as a boot does."""
    subprocess.run(["rm", "-rf", str(host.sys.parent / "run")], check=True)
    systemd.set(TRIM, **RUNNING)
    systemd.set(SMART, file="disabled", active="inactive")
    uptime(host, 20)


def test_a_campaign_masks_and_stops_for_this_boot_what_the_host_has(systemd, watcher):
    assert quiet.begin([TRIM, SMART, ABSENT], ONE)
    assert systemd.calls == [f"stop {TRIM}", f"mask --runtime {TRIM} {SMART}"]
    assert systemd.units[TRIM] == systemd.units[SMART] == MASKED


def test_what_undoes_the_masks_runs_before_they_are_made(systemd, watcher, tool):
    tool("systemd-run", "exit 1")
    with pytest.raises(Failed):
        quiet.begin([TRIM], ONE)
    assert systemd.units[TRIM] == RUNNING


def test_what_undoes_the_masks_is_started_again_where_it_is_killed(systemd, watcher):
    quiet.begin([TRIM], ONE)
    assert watcher.read_text().startswith(
        "--quiet --unit=joulerig-quiet.service --collect --property=Restart=on-failure /bin/sh "
    )


def test_a_unit_that_its_owner_masked_is_left_alone(systemd, watcher):
    systemd.set(TRIM, file="masked", active="inactive")
    quiet.begin([TRIM], ONE)
    quiet.end(ONE)
    assert systemd.units[TRIM]["file"] == "masked"
    assert systemd.calls == []


def test_the_end_of_a_campaign_brings_back_what_was_there(systemd, watcher):
    before = systemd.units
    quiet.begin([TRIM, SMART], ONE)
    assert quiet.end(ONE)
    assert systemd.units == before
    assert f"start --no-block {TRIM}" in systemd.calls  # SMART was not active


def test_after_the_end_nothing_is_left_and_a_second_end_changes_nothing(host, systemd, watcher):
    quiet.begin([TRIM], ONE)
    quiet.end(ONE)
    assert not (host.sys.parent / "run/joulerig/quiet").exists()
    assert not (host.sys.parent / "var/lib/joulerig/quiet.json").exists()
    calls = systemd.calls
    assert not quiet.end(ONE)
    assert systemd.calls == calls


def test_a_second_begin_changes_nothing(systemd, watcher):
    quiet.begin([TRIM], ONE)
    calls = systemd.calls
    assert not quiet.begin([TRIM], ONE)
    assert systemd.calls == calls
    assert len(watcher.read_text().splitlines()) == 1


def test_the_last_of_two_campaigns_brings_the_units_back(systemd, watcher):
    quiet.begin([TRIM], ONE)
    quiet.begin([TRIM, SMART], OTHER)
    assert quiet.end(ONE)
    assert systemd.units[TRIM] == systemd.units[SMART] == MASKED
    assert quiet.end(OTHER)
    assert systemd.units[TRIM] == RUNNING


def test_an_end_of_a_campaign_that_is_unknown_here_leaves_the_others(systemd, watcher):
    quiet.begin([TRIM], ONE)
    assert not quiet.end(OTHER)
    assert systemd.units[TRIM] == MASKED


def test_each_module_that_takes_the_hosts_lock_puts_the_end_off(host, systemd, watcher):
    quiet.begin([TRIM], ONE)
    assert until(host) == 1000 + quiet.IDLE_SECONDS
    uptime(host, 2000)
    with HostLock():
        assert until(host) == 2000 + quiet.IDLE_SECONDS
        uptime(host, 9000)
    assert until(host) == 9000 + quiet.IDLE_SECONDS


def test_the_lock_masks_again_after_a_boot(host, systemd, watcher):
    quiet.begin([TRIM], ONE)
    boot(host, systemd)
    with HostLock():
        assert systemd.units[TRIM] == MASKED
    quiet.end(ONE)
    assert systemd.units[TRIM] == RUNNING


def test_the_lock_masks_nothing_without_a_campaign(host, systemd, watcher):
    quiet.begin([TRIM], ONE)
    quiet.end(ONE)
    calls = systemd.calls
    with HostLock():
        pass
    assert systemd.calls == calls
    assert not (host.sys.parent / "run/joulerig/quiet").exists()


def test_a_lock_whose_masks_fail_is_not_held(host, systemd, watcher, tool):
    quiet.begin([TRIM], ONE)
    boot(host, systemd)
    tool("systemd-run", "exit 1")
    with pytest.raises(Failed):
        HostLock().__enter__()
    tool("systemd-run", "")
    with HostLock():
        pass


# --- the host alone


def undo_script(host) -> subprocess.Popen:
    """Start what systemd runs; it reads the uptime of this machine."""
    return subprocess.Popen(["/bin/sh", str(host.sys.parent / "run/joulerig/quiet/undo")])


def this_uptime() -> float:
    return float(Path("/proc/uptime").read_text().split()[0])


@pytest.fixture
def campaign(host, systemd, watcher):
    """A campaign on this machine's time whose controller is gone."""
    uptime(host, this_uptime())
    quiet.begin([TRIM, SMART], ONE)
    return host


def end_in(host, seconds: int) -> None:
    until = host.sys.parent / "run/joulerig/quiet/until"
    until.with_name("next").write_text(f"{int(this_uptime()) + seconds}\n")
    until.with_name("next").rename(until)  # whole, as the module writes it: the script may read it now


def test_the_host_brings_the_units_back_where_no_module_came_for_long(campaign, systemd):
    end_in(campaign, 1)
    assert undo_script(campaign).wait(10) == 0
    assert systemd.units == {TRIM: RUNNING, SMART: {"file": "disabled", "active": "inactive"}}


def test_the_host_does_nothing_before(campaign, systemd):
    end_in(campaign, 100)
    running = undo_script(campaign)
    with pytest.raises(subprocess.TimeoutExpired):
        running.wait(1)
    assert systemd.units[TRIM] == MASKED
    with HostLock():  # it does not hold the lock while it waits
        pass
    running.kill()
    running.wait()


def test_an_end_that_was_put_off_holds(campaign, systemd):
    end_in(campaign, 3)
    running = undo_script(campaign)
    end_in(campaign, 100)
    with pytest.raises(subprocess.TimeoutExpired):
        running.wait(4)
    assert systemd.units[TRIM] == MASKED
    running.kill()
    running.wait()


def test_a_run_that_takes_long_is_waited_for(campaign, systemd):
    with open(campaign.sys.parent / "run.lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        end_in(campaign, -1)
        running = undo_script(campaign)
        with pytest.raises(subprocess.TimeoutExpired):
            running.wait(1)
        assert systemd.units[TRIM] == MASKED
    assert running.wait(10) == 0
    assert systemd.units[TRIM] == RUNNING


def test_a_campaign_that_goes_on_after_that_is_quiet_again(campaign, systemd):
    end_in(campaign, -1)
    undo_script(campaign).wait(10)
    with HostLock():
        assert systemd.units[TRIM] == MASKED


def test_what_was_undone_by_the_host_is_not_undone_twice(campaign, systemd):
    end_in(campaign, -1)
    undo_script(campaign).wait(10)
    calls = systemd.calls
    assert quiet.end(ONE)
    assert systemd.calls == calls


def test_a_begin_after_that_masks_again(campaign, systemd):
    end_in(campaign, -1)
    undo_script(campaign).wait(10)
    assert quiet.begin([TRIM], ONE)
    assert systemd.units[TRIM] == MASKED


def test_a_campaign_that_is_dead_for_long_is_forgotten_by_the_next_one(campaign, systemd):
    end_in(campaign, -1)
    undo_script(campaign).wait(10)
    quiet.begin([TRIM], OTHER)
    assert quiet.end(OTHER)
    assert systemd.units[TRIM] == RUNNING
    with HostLock():
        assert systemd.units[TRIM] == RUNNING


def test_a_state_that_cannot_be_read_is_an_error(host, systemd, watcher):
    quiet.begin([TRIM], ONE)
    (host.sys.parent / "var/lib/joulerig/quiet.json").write_text("{")
    with pytest.raises(Failed, match="cannot be read"):
        quiet.hold()


# --- the module


def call(capsys, **arguments):
    with patch_module_args(arguments), pytest.raises(SystemExit):
        joulerig_quiet.main()
    return json.loads(capsys.readouterr().out)


def test_the_module_begins_and_ends(systemd, watcher, capsys):
    assert call(capsys, state="begin", campaign=ONE, units=[TRIM])["changed"]
    assert not call(capsys, state="begin", campaign=ONE, units=[TRIM])["changed"]
    assert systemd.units[TRIM] == MASKED
    assert call(capsys, state="end", campaign=ONE)["changed"]
    assert not call(capsys, state="end", campaign=ONE)["changed"]
    assert systemd.units[TRIM] == RUNNING


def test_the_module_does_not_end_while_a_run_is_in_progress(systemd, watcher, capsys, host, monkeypatch):
    monkeypatch.setattr(joulerig_quiet, "PATIENCE_SECONDS", 0)
    call(capsys, state="begin", campaign=ONE, units=[TRIM])
    with HostLock():
        assert call(capsys, state="end", campaign=ONE)["msg"] == "another run is in progress on this host"
    assert systemd.units[TRIM] == MASKED


# --- the playbooks


def test_units_are_masked_by_the_campaign_alone():
    """Provisioning would leave them masked while no one measures."""
    users = {path.stem for path in (ROOT / "playbooks").glob("*.yml") if "name: quiet" in path.read_text()}
    assert users == {"campaign"}
    plays = yaml.safe_load((ROOT / "playbooks/campaign.yml").read_text())
    blocks = [task for play in plays for task in play["tasks"] if "always" in task]
    [block] = [one for one in blocks if any("joulerig_campaign" in task for task in one["block"])]
    first, last = block["block"][0], block["always"][0]
    assert first["ansible.builtin.import_role"] == last["ansible.builtin.import_role"] == {"name": "quiet"}
    assert "quiet_state" not in first["vars"]
    assert last["vars"]["quiet_state"] == "end"
