# SPDX-License-Identifier: GPL-3.0-or-later
"""Filling a file system as far as a campaign asks for."""

import os
from types import SimpleNamespace

import pytest

from ansible.module_utils.joulerig.preconditioning import filler
from ansible.module_utils.joulerig.tools import Failed

MIB = 1 << 20


@pytest.fixture
def space(tmp_path, monkeypatch):
    """A file system of 64 MiB that uses 4 MiB itself; `.room` is what it takes at most."""
    volume = SimpleNamespace(folder=tmp_path, room=64 * MIB)

    def statvfs(folder):
        used = 4 * MIB + sum(path.stat().st_size for path in tmp_path.iterdir())
        free = max(0, volume.room - used)
        return SimpleNamespace(f_frsize=4096, f_blocks=64 * MIB // 4096, f_bfree=free // 4096)

    monkeypatch.setattr(os, "statvfs", statvfs)
    return volume


@pytest.mark.parametrize("part", [0.25, 0.5, 0.9])
def test_a_file_system_is_filled_to_the_requested_fraction(space, part):
    filled = filler.fill(str(space.folder), part)
    assert filled["used"] == pytest.approx(part, abs=0.001)
    assert filled["bytes"] == (space.folder / filler.NAME).stat().st_size == int(part * 64 * MIB) - 4 * MIB


def test_what_is_full_enough_already_stays_so(space):
    assert filler.fill(str(space.folder), 0.05)["bytes"] == 0


def test_no_block_of_the_filler_comes_twice(space):
    filler.fill(str(space.folder), 0.5)
    data = (space.folder / filler.NAME).read_bytes()
    blocks = [data[at : at + 4096] for at in range(0, len(data), 4096)]
    assert len(set(blocks)) == len(blocks)


def test_less_room_than_asked_for_fails(space, monkeypatch):
    monkeypatch.setattr(filler, "_used_bytes", lambda folder: 4 * MIB)
    with pytest.raises(Failed, match=r"filling 0.5 of .*: 0.062 of it is in use after"):
        filler.fill(str(space.folder), 0.5)


def test_a_write_without_space_reports_how_much_was_written(space, monkeypatch):
    class Full:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def write(self, data):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(filler, "open", lambda *_: Full(), raising=False)
    with pytest.raises(Failed, match=r"filling 0.5 of .*: No space left on device after 0 bytes"):
        filler.fill(str(space.folder), 0.5)
