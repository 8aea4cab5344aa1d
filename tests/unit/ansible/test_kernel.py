# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel that a host runs, and how it is made to run another."""

import platform

import pytest

from ansible.module_utils.joulerig import kernel
from ansible.module_utils.joulerig.tools import Failed, Refused
from joulerig.rig.common import paths

RELEASE = "6.1.1-hz100-a"


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "kernels" / RELEASE
    place.mkdir(parents=True)
    for name in ("vmlinuz", "initrd"):
        (place / name).write_text("")
    return tmp_path / "kernels"


def test_what_runs(fake, folder, monkeypatch):
    monkeypatch.setattr(platform, "release", lambda: RELEASE)
    monkeypatch.setattr(kernel, "tick_hertz", lambda system, release: {RELEASE: 100}.get(release))
    assert kernel.running(str(folder), fake.system()) == {
        "release": RELEASE,
        "tick_hertz": 100,
        "boot_id": "boot-1",
        "of_rig": True,
    }
    monkeypatch.setattr(platform, "release", lambda: "6.1.0-none-such")
    reported = kernel.running(str(folder), fake.system())
    assert (reported["tick_hertz"], reported["of_rig"]) == (None, False)


def test_the_tick_is_the_configurations(fake, tmp_path):
    (tmp_path / f"config-{RELEASE}").write_text(
        "CONFIG_HZ_100=y\nCONFIG_HZ=100\n# CONFIG_HZ_250 is not set\n"
    )
    assert kernel.tick_hertz(fake.system(), RELEASE, str(tmp_path)) == 100
    assert kernel.tick_hertz(fake.system(), "6.1.0-none-such", str(tmp_path)) is None


def test_a_kernel_of_the_rigs_is_started_from_the_running_one(fake, folder, tool):
    loaded, later = tool("kexec", ""), tool("systemd-run", "")
    kernel.start(RELEASE, str(folder), fake.system())
    place = folder / RELEASE
    assert loaded.read_text() == f"--load {place}/vmlinuz --initrd={place}/initrd --reuse-cmdline\n"
    assert later.read_text().endswith("systemctl kexec\n")


def test_the_hosts_own_comes_back_by_a_reboot(fake, folder, tool):
    loaded, later = tool("kexec", ""), tool("systemd-run", "")
    kernel.start("", str(folder), fake.system())
    assert later.read_text().endswith("systemctl reboot\n")
    assert not loaded.exists()


def test_that_a_host_is_reached_is_noted_where_its_guard_looks(tmp_path):
    kernel.reached(str(tmp_path / "reached"))
    assert (tmp_path / "reached").exists()
    unit = paths.ROOT / "ansible/roles/kernels/files/joulerig-kernel-guard.service"
    assert f"test -e {kernel.REACHED} ||" in unit.read_text()
    assert f"ConditionPathExists={kernel.FOLDER}/%v\n" in unit.read_text()


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("proc/sys/kernel/kexec_load_disabled", "1\n", "kexec_load_disabled is 1"),
        ("sys/kernel/security/lockdown", "none [integrity] confidentiality\n", "locked down"),
    ],
)
def test_a_host_that_starts_no_kernel_says_why(fake, folder, tool, path, text, expected):
    later = tool("systemd-run", "")
    fake.put(fake.sys.parent / path, text)
    with pytest.raises(Refused, match=expected):
        kernel.start(RELEASE, str(folder), fake.system())
    assert not later.exists()


def test_a_host_without_the_kernel_is_not_taken_down(fake, folder, tool):
    later = tool("systemd-run", "")
    (folder / RELEASE / "initrd").unlink()
    with pytest.raises(Refused, match=f"kernel {RELEASE}: no initrd in "):
        kernel.start(RELEASE, str(folder), fake.system())
    tool("kexec", "echo kexec_load failed: Operation not permitted >&2; exit 255")
    (folder / RELEASE / "initrd").write_text("")
    with pytest.raises(Failed, match="kexec: exit 255: kexec_load failed"):
        kernel.start(RELEASE, str(folder), fake.system())
    assert not later.exists()


def test_a_boot_is_over_when_its_services_are_up(tool, tmp_path):
    again = tmp_path / "again"
    tool(
        "systemctl",
        f"if [ -e {again} ]; then echo degraded; exit 1; fi; touch {again}; echo starting; exit 1",
    )
    kernel.await_booted(10)
    tool("systemctl", "echo starting; exit 1")
    with pytest.raises(Failed, match="still booting"):
        kernel.await_booted(0.1)
