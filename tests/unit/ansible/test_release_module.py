# SPDX-License-Identifier: GPL-3.0-or-later
"""joulerig_record and joulerig_release as Ansible calls them."""

from __future__ import annotations

import errno
import json
import platform

import joulerig_packages
import joulerig_record
import joulerig_release
import pytest
from ansible.module_utils.testing import patch_module_args

from ansible.module_utils.joulerig import kernel, quiet, reservation
from ansible.module_utils.joulerig.host_lock import HostLock
from ansible.module_utils.joulerig.reservation import Asker
from tests.support.fake_systemd import FakeSystemd

HERE = {"owner": "ada@boss", "machine": "m1", "host": "bench1"}
FIO = "printf 'fio:\\n  Installed: (none)\\n  Candidate: 3.33\\n'"  # what apt-cache says of it
NOTHING = {"changed": False, "undone": [], "stays": [], "packages": []}


def call(module, capsys, check=False, **arguments):
    with patch_module_args({**arguments, "_ansible_check_mode": check}), pytest.raises(SystemExit):
        module.main()
    answer = json.loads(capsys.readouterr().out)
    answer.pop("invocation", None)
    return answer


@pytest.fixture
def host(fake, tool, monkeypatch, tmp_path):
    fake.stand_in(monkeypatch)
    fake.put(fake.proc / "modules", "")
    fake.put(fake.proc / "uptime", "1000.0 1.0\n")
    tool("systemd-run", "")
    FakeSystemd(tmp_path / "bin", {"fstrim.timer": {"file": "enabled", "active": "active"}})
    return fake.sys.parent


@pytest.fixture
def changed(host, capsys):
    """A host with one file of the rig's, recorded; returns the file."""
    path = host / "etc/joulerig.conf"
    call(joulerig_record, capsys, files=[str(path)])
    path.parent.mkdir()
    path.write_text("")
    return path


def release(capsys, **arguments):
    return call(joulerig_release, capsys, **HERE, **arguments)


def test_a_record_returns_all_that_is_recorded(host, capsys):
    call(joulerig_record, capsys, files=["/etc/a"], trees=["/usr/lib/b"])
    answer = call(joulerig_record, capsys, files=["/etc/c"], afterwards=["update-grub"])
    assert answer["recorded"] == {
        "files": ["/etc/a", "/etc/c"], "trees": ["/usr/lib/b"], "units": [], "modules": [],
        "afterwards": ["update-grub"],
    }  # fmt: skip
    assert answer["changed"] is False


def test_check_mode_records_nothing(host, capsys):
    call(joulerig_record, capsys, check=True, files=["/etc/a"])
    assert not (host / "var/lib/joulerig").exists()


def test_what_cannot_be_recorded_fails_the_task(host, capsys):
    answer = call(joulerig_record, capsys, files=["etc/a"])
    assert answer["failed"]
    assert answer["msg"] == "cannot record what is there before a change: etc/a: is not an absolute path"


def test_a_record_that_cannot_be_written_fails_the_task(host, capsys, monkeypatch):
    def replace(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(joulerig_record.record, "replace", replace)
    answer = call(joulerig_record, capsys, files=["/etc/a"])
    assert answer["failed"]
    assert answer["msg"].endswith("No space left on device")


def test_a_release_of_an_unknown_host_leaves_no_folder(host, capsys):
    release(capsys)
    assert not (host / "var/lib/joulerig").exists()


def test_a_release_undoes_what_is_recorded(host, changed, capsys):
    answer = release(capsys)
    assert (answer["changed"], answer["undone"]) == (True, [f"removed {changed}"])
    assert not changed.exists()
    assert not (host / "var/lib/joulerig").exists()


def test_a_second_release_changes_nothing(changed, capsys):
    release(capsys)
    assert release(capsys) == NOTHING


def test_a_host_that_was_never_provisioned_has_nothing_to_give_back(host, capsys):
    assert release(capsys, packages=True) == NOTHING


def test_check_mode_undoes_nothing(changed, capsys):
    assert release(capsys, check=True) == NOTHING
    assert changed.exists()


def test_a_release_ends_what_a_campaign_that_is_over_masked(changed, capsys):
    quiet.begin(["fstrim.timer"], "boss:/results/one")
    assert release(capsys)["undone"][0] == "unmasked the background units"
    assert quiet.units.look(["fstrim.timer"])["fstrim.timer"] == {"file": "enabled", "active": "active"}


@pytest.mark.parametrize("check", [True, False])
def test_a_release_while_a_run_is_in_progress_is_refused(changed, capsys, check):
    with HostLock():
        answer = release(capsys, check=check)
    assert (answer["failed"], answer["msg"]) == (True, "another run is in progress on this host")
    assert changed.exists()


@pytest.mark.parametrize("check", [True, False])
def test_a_release_of_a_host_that_another_reserved_is_refused(changed, capsys, check):
    reservation.reserve(Asker("bob@lab2", "m2", "bench1"), "a repair", 60)
    answer = release(capsys, check=check)
    assert answer["failed"]
    assert answer["msg"].startswith("bench1: is reserved by bob@lab2 for 'a repair' until ")
    assert changed.exists()


def test_a_release_ends_the_owners_reservation(changed, capsys):
    reservation.reserve(Asker(**HERE), "a repair", 60)
    assert release(capsys)["undone"][0] == "ended the reservation"
    assert reservation.held() == []


def test_a_reservation_is_all_that_is_given_back_of_a_host_that_was_never_provisioned(host, capsys):
    reservation.reserve(Asker(**HERE), "a repair", 60)
    assert release(capsys)["undone"] == ["ended the reservation"]
    assert not (host / "var/lib/joulerig").exists()


@pytest.mark.parametrize("check", [True, False])
def test_a_release_under_a_kernel_of_the_rigs_is_refused(changed, capsys, check, monkeypatch, tmp_path):
    monkeypatch.setattr(platform, "release", lambda: "6.1-hz100")
    (tmp_path / "6.1-hz100").mkdir()
    real = kernel.running
    monkeypatch.setattr(kernel, "running", lambda: real(str(tmp_path)))
    answer = release(capsys, check=check)
    assert answer["msg"] == "kernel 6.1-hz100 of the rig's runs; reboot the host into its own first"
    assert changed.exists()


def test_a_failure_comes_with_what_was_undone(host, changed, capsys, tool):
    other = host / "etc/other.conf"
    other.write_text("before")
    call(joulerig_record, capsys, files=[str(other)])
    other.write_text("after")
    for kept in (host / "var/lib/joulerig/before").iterdir():
        kept.unlink()
    answer = release(capsys)
    assert answer["failed"]
    assert "No such file" in answer["msg"]
    assert answer["undone"] == [f"removed {changed}"]


def test_packages_that_stay_are_named(host, capsys, tool):
    tool("dpkg-query", "exit 1")
    tool("apt-mark", "")
    tool("apt-cache", FIO)
    tool("apt-get", "echo 'Inst fio (3.33 Debian)'")
    assert call(joulerig_packages, capsys, required=["fio"])["installed"] == ["fio"]
    assert release(capsys)["packages"] == ["fio"]
