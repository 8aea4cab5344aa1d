# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernels by name, what a build follows from, and how a host comes to run one."""

import json

import pytest

from joulerig.rig.campaign.execution.kernels import HostKernels, InstalledKernel
from joulerig.rig.common import paths
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab import kernels, model
from joulerig.rig.lab.kernels import build


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


# --- by name


def test_the_shipped_kernels():
    known = kernels.load(model.load(paths.ROOT / "inventory.ini"))
    assert {name: one.tick_hertz for name, one in known.items()} == {
        "installed": None,
        "hz100": 100,
        "hz250": 250,
        "hz1000": 1000,
    }


def test_a_lab_adds_its_own_kernels(lab_files):
    described = lab_files.load()
    own = described.inventory.parent / "kernels.yml"
    own.write_text("slow: {description: a slow one, tick_hertz: 100}\n")
    assert kernels.load(described)["slow"].tick_hertz == 100
    own.write_text("slow: {description: a slow one, tick_hertz: 60}\n")
    with pytest.raises(UserError, match=r"kernels.yml: slow.tick_hertz: 60; allowed: 100, 250, 300 or 1000"):
        kernels.load(described)
    own.write_text("hz100: {description: mine, tick_hertz: 100}\n")
    with pytest.raises(UserError, match="hz100: is a shipped kernel; give another name"):
        kernels.load(described)


# --- what a build follows from


def test_a_build_is_known_by_all_that_it_follows_from():
    recipes = [build.Recipe(tick, kind) for tick in (100, 1000) for kind in ("virtual", "debian")]
    assert len({one.digest for one in recipes}) == 4
    assert build.Recipe(100, "virtual").digest == build.Recipe(100, "virtual").digest
    assert build.Recipe(100, "virtual").local_version.startswith("-hz100-")


def test_a_bench_gets_the_whole_of_debians_configuration():
    bench, virtual = build.Recipe(1000, "debian"), build.Recipe(1000, "virtual")
    assert bench.modules == ""
    assert bench.guest == ""
    assert "nvme" in virtual.modules.split()
    assert "fua_by_flush" in virtual.guest
    assert "CONFIG_HZ_1000=y\n" in bench.options
    assert "# CONFIG_HZ_250 is not set\n" in bench.options
    assert "USB_SUPPORT" in virtual.options
    assert "USB_SUPPORT" not in bench.options


def test_what_the_source_took_of_the_configuration_is_checked():
    wanted = build.Recipe(100, "debian")
    taken = "\n" + wanted.options + "CONFIG_HZ=100\n"
    build._check_configuration(wanted, taken)
    with pytest.raises(UserError, match="no CONFIG_HZ=100"):
        build._check_configuration(wanted, taken.replace("CONFIG_HZ=100", "CONFIG_HZ=250"))
    with pytest.raises(UserError, match="lacks CONFIG_KEXEC=y"):
        build._check_configuration(wanted, taken.replace("CONFIG_KEXEC=y\n", ""))


def test_a_built_kernel_is_taken_from_the_cache():
    wanted = build.Recipe(100, "virtual")
    assert build.cached(wanted) is None
    wanted.folder.mkdir(parents=True)
    manifest = {"release": "6.1.1-hz100", "source": "6.1.1-1", "seconds": 400.0, "tick_hertz": 100}
    (wanted.folder / "manifest.json").write_text(json.dumps(manifest))
    assert build.build(wanted) == build.Built(wanted.folder / "kernel.tar", "6.1.1-hz100", "6.1.1-1", 400.0)


def test_what_a_build_lacks_is_named_and_nothing_is_left(monkeypatch):
    monkeypatch.setattr(build, "NEEDED", {"no-such-flex": "flex"})
    with pytest.raises(UserError, match="kernels: flex: missing; 'make setup'"):
        build.build(build.Recipe(100, "virtual"))
    assert not build.Recipe(100, "virtual").folder.exists()


def test_a_build_that_fails_says_where_its_log_is_and_leaves_nothing_else(monkeypatch, tmp_path):
    fake = tmp_path / "bin"
    fake.mkdir()
    (fake / "apt-get").write_text("#!/bin/sh\necho E: no such package; exit 100\n")
    (fake / "apt-get").chmod(0o755)
    monkeypatch.setattr(build, "_check_tools", lambda: None)
    monkeypatch.setattr(
        build.kernel_source, "archive", lambda part: tmp_path / "linux-source-6.1_6.1.1-1.tar.xz"
    )
    monkeypatch.setenv("PATH", f"{fake}:/usr/bin:/bin")
    wanted = build.Recipe(100, "virtual")
    killed = wanted.folder.parent / f".{wanted.digest}-killed" / "linux"
    killed.mkdir(parents=True)
    with pytest.raises(UserError, match=r"apt-get: .*exit 100.*its output: (.*\.log)") as caught:
        build.build(wanted, lambda text: None)
    log = wanted.folder.with_suffix(".log")
    assert str(log) in str(caught.value)
    assert "no such package" in log.read_text()
    left = sorted(path.suffix for path in wanted.folder.parent.iterdir())
    assert left == [".lock", ".log"]


# --- on a host

READY = {"hz100": InstalledKernel("6.1.1-hz100-a", 100), "hz1000": InstalledKernel("6.1.1-hz1000-b", 1000)}


class Host:
    """Boots what it is asked to, unless the test says otherwise."""

    def __init__(self):
        self.boots, self.calls, self.said = 0, [], []
        self.kernel = ("6.1.0-40-amd64", 250, False)
        self.refuses, self.stays = "", False
        self.busy = 0  # so many starts find another's run
        self.unreached = 0  # so many starts end in the host's own kernel again
        self.ticks = {one.release: one.tick_hertz for one in READY.values()}

    def call(self, arguments):
        self.calls.append(arguments)
        release, tick, of_rig = self.kernel
        running = {"release": release, "tick_hertz": tick, "of_rig": of_rig, "boot_id": f"boot-{self.boots}"}
        if arguments.get("start"):
            if self.busy:
                self.busy -= 1
                return {"status": "not-run", "reason": "another run is in progress", "cause": "busy"}
            if self.refuses:
                return {"status": "not-run", "reason": self.refuses, "kernel": running}
            if not self.stays:
                self.boots += 1
                wanted = arguments["release"]
                if wanted and self.unreached:
                    self.unreached -= 1
                    wanted = ""
                self.kernel = (wanted, self.ticks[wanted], True) if wanted else ("6.1.0-40-amd64", 250, False)
        return {"status": "ok", "reason": "", "kernel": running}

    def kernels(self, ready=READY):
        say = self.said.append
        return HostKernels("bench1", ready, self.call, lambda: self.call({}), say, return_seconds=180)


def test_a_host_is_booted_only_where_another_kernel_is_wanted():
    host = Host()
    boots = host.kernels()
    for level in ("installed", "hz100", "hz100", "hz1000", "installed"):
        assert boots.ensure(level) is None
    assert host.boots == 3
    assert [call["release"] for call in host.calls if "start" in call] == [
        "6.1.1-hz100-a",
        "6.1.1-hz1000-b",
        "",
    ]
    assert boots.release == "6.1.0-40-amd64"
    assert "hz100" in host.said[0]


def test_a_host_that_can_not_is_asked_once():
    host = Host()
    host.refuses = "is locked down (Secure Boot)"
    boots = host.kernels()
    answers = [boots.ensure("hz100") for _ in range(3)]
    assert answers[0].status == "not-run"
    assert "'hz100'" in answers[0].reason
    assert "Secure Boot" in answers[0].reason
    assert answers[0] == answers[1] == answers[2]
    assert len([call for call in host.calls if "start" in call]) == 1
    assert boots.ensure("installed") is None


def test_anothers_run_is_waited_for_and_said_once(monkeypatch):
    monkeypatch.setattr("joulerig.rig.campaign.execution.kernels.BUSY_LOOK_SECONDS", 0.01)
    host = Host()
    host.busy = 3
    assert host.kernels().ensure("hz100", busy_seconds=60) is None
    assert host.boots == 1
    assert [text for text in host.said if "waiting" in text] == [
        "[bench1] waiting: another run is in progress"
    ]


def test_a_run_that_lasts_too_long_makes_one_run_busy_and_not_its_level():
    host = Host()
    host.busy = 1
    boots = host.kernels()
    outcome = boots.ensure("hz100")
    assert (outcome.status, outcome.cause) == ("not-run", "busy")
    assert boots.ensure("hz100") is None


def test_a_kernel_with_another_tick_is_not_the_one():
    host = Host()
    host.ticks["6.1.1-hz100-a"] = 250
    answer = host.kernels().ensure("hz100")
    assert answer.status == "failed"
    assert "6.1.1-hz100-a with 250 ticks a second" in answer.reason
    assert host.boots == 1


def test_a_kernel_under_which_a_host_was_not_reached_is_started_a_second_time():
    host = Host()
    host.unreached = 1
    boots = host.kernels()
    assert boots.ensure("hz100") is None
    assert boots.release == "6.1.1-hz100-a"
    assert [text.endswith("second attempt") for text in host.said] == [False, True]


def test_a_kernel_under_which_a_host_is_never_reached():
    host = Host()
    host.unreached = 9
    boots = host.kernels()
    answer = boots.ensure("hz100")
    assert answer.status == "failed"
    assert "6.1.0-40-amd64 with 250 ticks a second runs instead" in answer.reason
    assert host.boots == 2
    assert boots.ensure("installed") is None


def test_a_host_that_does_not_come_back(monkeypatch):
    monkeypatch.setattr("joulerig.rig.campaign.execution.kernels.GUARD_SECONDS", -360.0)
    host = Host()
    host.stays = True
    answer = host.kernels().ensure("hz100")
    assert answer.status == "failed"
    assert "not back" in answer.reason


def test_a_kernel_left_by_an_earlier_campaign_is_not_taken_for_the_hosts_own():
    host = Host()
    host.kernel = ("6.1.1-hz100-a", 100, True)
    assert host.kernels({}).ensure("installed") is None
    assert host.boots == 1
    assert host.kernel[0] == "6.1.0-40-amd64"


def test_after_it_may_have_booted_a_host_is_asked_again():
    host = Host()
    boots = host.kernels()
    assert boots.ensure("hz100") is None
    host.kernel, host.boots = ("6.1.0-40-amd64", 250, False), host.boots + 1  # a person reset it
    boots.forget()
    assert boots.release == ""
    assert boots.ensure("hz100") is None
    assert host.boots == 3
