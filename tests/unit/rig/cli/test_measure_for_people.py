# SPDX-License-Identifier: GPL-3.0-or-later
"""What `rig measure` measures, and how it says so."""

import pytest

from joulerig.rig.cli.measure import measured
from joulerig.rig.cli.measure.command import chosen, line
from joulerig.rig.cli.measure.measured import DriveEnergy
from joulerig.rig.common.errors import UserError


def test_all_drives_with_rails_of_the_only_host(bench):
    host, drives = chosen(bench, "", [])
    assert host == "bench1"
    assert drives == [name for name, one in bench.hosts["bench1"].drives.items() if one.rails]
    assert drives


@pytest.mark.parametrize(
    ("on", "names", "drives"),
    [("bench1", [], None), ("", ["bench1/fast"], ["fast"]), ("bench1", ["fast", "fast"], ["fast"]),
     ("", ["bare"], ["bare"]), ("", ["pair"], ["pair"])],
)  # fmt: skip
def test_drives_are_named_alone_or_with_their_host(bench, on, names, drives):
    host, found = chosen(bench, on, names)
    assert host == "bench1"
    assert drives is None or found == drives


@pytest.mark.parametrize(
    ("on", "names", "message"),
    [
        ("bench9", [], "--on 'bench9': is no test host; allowed: bench1"),
        ("", ["bench9/fast"], "--drive: 'bench9' is no test host; allowed: bench1"),
        ("", ["slow"], "--drive 'slow': is no drive of bench1; allowed: .*fast"),
        ("bench1", ["bench2/fast"], "name the drives of one host, as HOST/DRIVE; hosts: bench1"),
    ],
)
def test_what_cannot_be_meant_is_refused(bench, on, names, message):
    with pytest.raises(UserError, match=message):
        chosen(bench, on, names)


ENERGY = DriveEnergy("fast", 12.5, 12.4, 12.625, 5.0, [], None, [])
IO = {"reads": 10, "read_bytes": 40960, "writes": 2000, "write_bytes": 8_192_000, "flushes": 3}


def test_a_drive_has_one_line():
    assert line(ENERGY, 2.5) == "fast: 12.5 J [12.4, 12.625], 5 W for 2.500 s"


def test_what_it_did_follows():
    found = DriveEnergy(*[*vars(ENERGY).values()][:6], IO, [])
    assert line(found, 2.5).endswith("2.500 s, 10 reads (0.04096 MB), 2000 writes (8.192 MB), 3 flushes")


def test_joules_without_bounds_say_so():
    assert line(DriveEnergy("fast", 12.5, None, None, 5.0, [], None, []), 2.5).startswith(
        "fast: 12.5 J no bounds"
    )


def test_no_joules_say_why():
    found = DriveEnergy("fast", None, None, None, None, [], None, ["meter tap1 is silent"])
    assert line(found, 2.5) == "fast: no joules: meter tap1 is silent"


@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137)])
def test_a_command_here_has_its_code_and_its_time(bench, script, code):
    done = measured.here(["sh", "-c", f"sleep 0.05; {script}"], bench)  # so that it takes some time
    assert done.code == code
    assert 0.05 <= done.phase.seconds < 5
    assert done.phase.clock_error_ns == 0


def test_a_command_that_cannot_start_is_named(bench):
    with pytest.raises(UserError, match=r"no-such-program: No such file or directory"):
        measured.here(["no-such-program"], bench)
