# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel files that factors set for a run: set, read back, put back."""

from contextlib import ExitStack

import pytest

from ansible.module_utils.joulerig.drives.host import Host
from ansible.module_utils.joulerig.settings.kernelfile import KernelFiles
from ansible.module_utils.joulerig.tools import Failed, Refused, Unable

READ_AHEAD = "/sys/block/{device}/queue/read_ahead_kb"


@pytest.fixture
def kernel(tmp_path):
    """Roots of /sys and /proc with two drives; gives a function that makes a run's files."""
    for device in ("sda", "sdb"):
        queue = tmp_path / "sys/block" / device / "queue"
        queue.mkdir(parents=True)
        (queue / "read_ahead_kb").write_text("128\n")
        (queue / "rotational").write_text("0\n")
    (tmp_path / "proc/sys/vm").mkdir(parents=True)
    (tmp_path / "proc/sys/vm/dirty_ratio").write_text("20\n")

    def files(*asked, drives=None):
        return KernelFiles(
            [
                {"factor": factor, "path": path, "value": value, "needs": "".join(needs)}
                for factor, path, value, *needs in asked
            ],
            drives or {"fast": "sda"},
            Host(sys=str(tmp_path / "sys"), proc=str(tmp_path / "proc")),
        )

    files.root = tmp_path
    return files


def read(kernel, path):
    return (kernel.root / path).read_text().strip()


def test_a_file_is_set_read_back_and_put_back(kernel):
    files = kernel(("read_ahead_kb", READ_AHEAD, "4"))
    with ExitStack() as undo:
        files.remember(undo)
        assert files.apply() == {"read_ahead_kb": {"before": "128", "in_effect": "4"}}
        assert read(kernel, "sys/block/sda/queue/read_ahead_kb") == "4"
        files.check_unchanged()
    assert read(kernel, "sys/block/sda/queue/read_ahead_kb") == "128"


def test_every_drive_of_the_run_is_set_and_no_other(kernel):
    (kernel.root / "sys/block/sdc/queue").mkdir(parents=True)
    (kernel.root / "sys/block/sdc/queue/read_ahead_kb").write_text("128\n")
    files = kernel(("read_ahead_kb", READ_AHEAD, "4"), drives={"fast": "sda", "log": "sdb"})
    with ExitStack() as undo:
        files.remember(undo)
        assert files.apply()["read_ahead_kb"] == {
            "fast": {"before": "128", "in_effect": "4"},
            "log": {"before": "128", "in_effect": "4"},
        }
        assert read(kernel, "sys/block/sdc/queue/read_ahead_kb") == "128"


def test_a_file_of_the_whole_host_is_set_once(kernel):
    files = kernel(("dirty", "/proc/sys/vm/dirty_ratio", "5"), drives={"fast": "sda", "log": "sdb"})
    with ExitStack() as undo:
        files.remember(undo)
        assert files.apply() == {"dirty": {"before": "20", "in_effect": "5"}}
    assert read(kernel, "proc/sys/vm/dirty_ratio") == "20"


def test_it_is_put_back_after_a_load_that_failed(kernel):
    files = kernel(("read_ahead_kb", READ_AHEAD, "4"))

    def run():
        with ExitStack() as undo:
            files.remember(undo)
            files.apply()
            raise RuntimeError("the load failed")

    with pytest.raises(RuntimeError):
        run()
    assert read(kernel, "sys/block/sda/queue/read_ahead_kb") == "128"


def test_of_a_list_of_choices_the_one_in_brackets_is_in_effect(kernel):
    (kernel.root / "sys/block/sda/queue/scheduler").write_text("none [mq-deadline] bfq\n")
    files = kernel(("scheduler", "/sys/block/{device}/queue/scheduler", "mq-deadline"))
    with ExitStack() as undo:
        files.remember(undo)
        assert files.apply()["scheduler"]["before"] == "mq-deadline"


def test_a_value_that_the_kernel_does_not_take_fails_the_run(kernel, monkeypatch):
    files = kernel(("read_ahead_kb", READ_AHEAD, "4"))
    with ExitStack() as undo:
        files.remember(undo)
        text = (kernel.root / "sys/block/sda/queue/read_ahead_kb").as_posix()
        real = open

        def deaf(path, mode="r"):
            return real("/dev/null", mode) if path == text and mode == "w" else real(path, mode)

        monkeypatch.setattr("builtins.open", deaf)
        with pytest.raises(Failed, match=r"read_ahead_kb: .*set to '4', reads back as '128'"):
            files.apply()


def test_a_file_that_changed_during_the_run_fails_it(kernel):
    files = kernel(("read_ahead_kb", READ_AHEAD, "4"))
    with ExitStack() as undo:
        files.remember(undo)
        files.apply()
        (kernel.root / "sys/block/sda/queue/read_ahead_kb").write_text("64\n")
        with pytest.raises(Failed, match="changed during the run from '4' to '64'"):
            files.check_unchanged()


def test_a_file_that_this_kernel_lacks_is_refused_before_any_change(kernel):
    with pytest.raises(Unable, match=r"odd: /sys/block/sda/queue/odd: No such file"):
        kernel(("read_ahead_kb", READ_AHEAD, "4"), ("odd", "/sys/block/{device}/queue/odd", "1"))
    assert read(kernel, "sys/block/sda/queue/read_ahead_kb") == "128"


@pytest.mark.parametrize("path", ["/etc/passwd", "/sys/../etc/passwd", "/proc/1/mem", "sys/block"])
def test_a_path_outside_the_kernels_settings_is_refused(kernel, path):
    with pytest.raises(Refused, match="allowed: a file under /sys or /proc/sys"):
        kernel(("odd", path, "1"))


def test_all_files_that_a_star_stands_for_are_set(kernel):
    policies = kernel.root / "sys/devices/system/cpu/cpufreq"
    for number, governor in enumerate(("powersave", "schedutil")):
        (policies / f"policy{number}").mkdir(parents=True)
        (policies / f"policy{number}/scaling_governor").write_text(governor + "\n")
    declared = "/sys/devices/system/cpu/cpufreq/policy*/scaling_governor"
    files = kernel(("governor", declared, "performance"))
    with ExitStack() as undo:
        files.remember(undo)
        assert files.apply() == {
            "governor": {
                "/sys/devices/system/cpu/cpufreq/policy0/scaling_governor": {
                    "before": "powersave",
                    "in_effect": "performance",
                },
                "/sys/devices/system/cpu/cpufreq/policy1/scaling_governor": {
                    "before": "schedutil",
                    "in_effect": "performance",
                },
            }
        }
        (policies / "policy1/scaling_governor").write_text("schedutil\n")
        with pytest.raises(Failed, match=r"policy1/scaling_governor: changed during the run"):
            files.check_unchanged()
    assert [(policies / f"policy{n}/scaling_governor").read_text() for n in (0, 1)] == [
        "powersave",
        "schedutil\n",
    ]


def test_files_that_are_alike_are_one_setting(kernel):
    for number in range(12):
        folder = kernel.root / f"sys/devices/system/cpu/cpu{number}/power"
        folder.mkdir(parents=True)
        (folder / "pm_qos_resume_latency_us").write_text("0\n")
    files = kernel(("c_states", "/sys/devices/system/cpu/cpu*/power/pm_qos_resume_latency_us", "20"))
    with ExitStack() as undo:
        files.remember(undo)
        assert files.apply() == {"c_states": {"before": "0", "in_effect": "20"}}


def test_a_file_without_effect_here_is_a_level_that_the_host_cannot_do(kernel):
    needs = "/sys/devices/system/cpu/cpu0/cpuidle/state0/name"
    with pytest.raises(Unable, match=f"c_states: {needs}: No such file"):
        kernel(("c_states", "/proc/sys/vm/dirty_ratio", "5", needs))


def test_no_file_for_a_star_is_a_level_that_the_host_cannot_do(kernel):
    with pytest.raises(Unable, match=r"governor: /sys/.*/policy\*/scaling_governor: No such file"):
        kernel(("governor", "/sys/devices/system/cpu/cpufreq/policy*/scaling_governor", "performance"))


def test_a_value_that_the_kernel_refuses_is_a_level_that_the_host_cannot_do(kernel, monkeypatch):
    files = kernel(("aspm", "/proc/sys/vm/dirty_ratio", "powersave"))
    real = open

    def refusing(path, mode="r"):
        if mode == "w":
            raise PermissionError(1, "Operation not permitted")
        return real(path, mode)

    with ExitStack() as undo:
        files.remember(undo)
        monkeypatch.setattr("builtins.open", refusing)
        with pytest.raises(Unable, match=r"aspm: .*: 'powersave' was refused by the kernel: Operation not"):
            files.apply()


def test_a_file_is_set_again_where_another_setting_undid_it(kernel):
    """A scheduler resets some files: what was there before it counts, but not as set."""
    path = kernel.root / "sys/block/sda/queue/read_ahead_kb"
    files = kernel(("read_ahead_kb", READ_AHEAD, "128"))
    with ExitStack() as undo:
        files.remember(undo)
        path.write_text("64\n")
        assert files.apply() == {"read_ahead_kb": {"before": "128", "in_effect": "128"}}


def test_files_of_what_a_drive_hangs_on(fake):
    place = "devices/pci0000:00/0000:00:17.0/ata3/host2/target2:0:0/2:0:0:0/block"
    real = fake.disk("sda", "SERIAL-1", vpd=True, place=place)
    device = fake.sys / "devices/pci0000:00/0000:00:17.0/ata3/host2/target2:0:0/2:0:0:0"
    (real / "device/vpd_pg80").unlink()
    (real / "device").rmdir()
    (real / "device").symlink_to(device)
    fake.put(device / "power/control", "on\n")
    policy = fake.sys / "class/scsi_host/host2/link_power_management_policy"
    fake.put(policy, "max_performance\n")
    asked = [
        {"factor": "runtime_pm", "path": "/sys/{powered}/power/control", "value": "auto"},
        {
            "factor": "link_power",
            "path": "/sys/class/scsi_host/{adapter}/link_power_management_policy",
            "value": "min_power",
        },
    ]
    files = KernelFiles(asked, {"slow": "sda"}, fake.system())
    with ExitStack() as undo:
        files.remember(undo)
        assert files.apply() == {
            "runtime_pm": {"before": "on", "in_effect": "auto"},
            "link_power": {"before": "max_performance", "in_effect": "min_power"},
        }
        assert (device / "power/control").read_text() == "auto"
    assert policy.read_text() == "max_performance"
    with pytest.raises(Unable, match=r"apst: .*: /dev/sda has no controller in /sys"):
        KernelFiles(
            [{"factor": "apst", "path": "/sys/class/nvme/{controller}/x", "value": "1"}],
            {"slow": "sda"},
            fake.system(),
        )
