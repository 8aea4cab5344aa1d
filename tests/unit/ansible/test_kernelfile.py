# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel files that factors set for a run: set, read back, put back."""

from contextlib import ExitStack

import pytest

from ansible.module_utils.joulerig.tools import Failed, Refused
from ansible.module_utils.joulerig.tracing.kernelfile import KernelFiles

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
            [{"factor": factor, "path": path, "value": value} for factor, path, value in asked],
            drives or {"fast": "sda"},
            str(tmp_path / "sys"),
            str(tmp_path / "proc"),
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
    files = kernel(("read_ahead_kb", READ_AHEAD, "4"), ("odd", "/sys/block/{device}/queue/odd", "1"))
    with ExitStack() as undo, pytest.raises(Refused, match=r"odd: /sys/block/sda/queue/odd: No such file"):
        files.remember(undo)
    assert read(kernel, "sys/block/sda/queue/read_ahead_kb") == "128"


@pytest.mark.parametrize("path", ["/etc/passwd", "/sys/../etc/passwd", "/proc/1/mem", "sys/block"])
def test_a_path_outside_the_kernels_settings_is_refused(kernel, path):
    with pytest.raises(Refused, match="allowed: a file under /sys or /proc/sys"):
        kernel(("odd", path, "1"))
