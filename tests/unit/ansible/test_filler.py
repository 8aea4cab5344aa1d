# SPDX-License-Identifier: GPL-3.0-or-later
"""Filling a file system as far as a campaign asks for."""

import os
import shutil
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
        used = 4 * MIB + sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
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


def sizes(space):
    return {path.name: path.stat().st_size for path in (space.folder / filler.NAME).iterdir()}


@pytest.mark.parametrize("age", [0.5, 1, 3])
def test_an_old_file_system_is_as_full_as_a_new_one(space, age):
    filled = filler.fill(str(space.folder), 0.5, age, seed=1)
    assert filled["used"] == pytest.approx(0.5, abs=0.001)
    found = sizes(space)
    assert filled["bytes"] == sum(found.values()) == 28 * MIB
    assert filled["files"] == len(found) > 10
    assert all(size <= filler.LARGEST_BYTES for size in found.values())


@pytest.mark.parametrize("age", [0.5, 1, 3])
def test_as_much_is_written_in_addition_as_asked_for(space, age):
    filled = filler.fill(str(space.folder), 0.5, age, seed=1)
    assert filled["written_bytes"] == (1 + age) * filled["bytes"]


def test_it_was_full_before_files_were_deleted(space, monkeypatch):
    seen, unlink = [], os.unlink

    def unlinked(path):
        seen.append(filler._used_bytes(str(space.folder)))
        unlink(path)

    monkeypatch.setattr(os, "unlink", unlinked)
    filler.fill(str(space.folder), 0.5, 2, seed=1)
    assert max(seen) == pytest.approx(filler.FULL * 64 * MIB, rel=0.001)


def test_files_of_a_seed_are_the_same_again(space):
    filler.fill(str(space.folder), 0.5, 1, seed=7)
    first = sizes(space)
    shutil.rmtree(space.folder / filler.NAME)
    filler.fill(str(space.folder), 0.5, 1, seed=7)
    assert sizes(space) == first
    shutil.rmtree(space.folder / filler.NAME)
    filler.fill(str(space.folder), 0.5, 1, seed=8)
    assert sizes(space) != first


def test_files_are_deleted_all_over(space):
    filler.fill(str(space.folder), 0.5, 1, seed=1)
    numbers = set(map(int, sizes(space)))
    gaps = sum(number + 1 not in numbers for number in numbers - {max(numbers)})
    assert gaps > 5


def test_what_is_full_enough_already_has_no_files_to_age(space):
    filled = filler.fill(str(space.folder), 0.05, 2, seed=1)
    assert (filled["bytes"], filled["files"], filled["extents_per_file"]) == (0, 0, None)


def test_a_file_of_one_piece_has_one_extent(tmp_path):
    (tmp_path / "file").write_bytes(b"x" * 8192)
    os.sync()
    assert filler.extents(tmp_path / "file") in (1, None)  # where these files are may not say it


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
