# SPDX-License-Identifier: GPL-3.0-or-later
"""Zips at the bounds of what is unpacked."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from joulerig.analysis.bundle import archive
from joulerig.analysis.bundle.archive import BundleError


@pytest.fixture
def zipped(tmp_path):
    """Makes a zip of members that are `size` zeros each."""

    def make(*names: str, size: int = 1, packing: int = zipfile.ZIP_DEFLATED) -> Path:
        with zipfile.ZipFile(tmp_path / "b.zip", "w", packing) as made:
            for name in names:
                made.writestr(name, b"\0" * size)
        return tmp_path / "b.zip"

    return make


@pytest.fixture
def target(tmp_path) -> Path:
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


def test_all_members_together_may_unpack_to_so_much(zipped, target, monkeypatch):
    monkeypatch.setattr(archive, "FREELY_BYTES", 2_500_000)
    assert archive.extract(zipped("a", "b", size=1_000_000), target) == (2, [])
    with pytest.raises(BundleError, match="unpack to 3000000, over 100 times as much"):
        archive.extract(zipped("a", "b", "c", size=1_000_000), target)


def test_a_large_zip_may_unpack_to_many_times_its_size(zipped, target, monkeypatch):
    monkeypatch.setattr(archive, "FREELY_BYTES", 1000)
    assert archive.extract(zipped("a", size=100_000, packing=zipfile.ZIP_STORED), target) == (1, [])


def test_what_does_not_fit_the_disk_is_not_begun(zipped, target, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1999))
    archive.extract(zipped("a", size=1999), target)
    (target / "a").unlink()
    with pytest.raises(BundleError, match="needs 2000 bytes to be unpacked, 1999 are free"):
        archive.extract(zipped("a", size=2000), target)
    assert list(target.iterdir()) == []


def test_a_zip_has_at_most_so_many_members(zipped, target, monkeypatch):
    monkeypatch.setattr(archive, "MOST_MEMBERS", 2)
    archive.extract(zipped("a", "b"), target)
    with pytest.raises(BundleError, match="3 files in it; at most 2"):
        archive.extract(zipped("a", "b", "c"), target)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("/".join("f" * 16), ""),
        ("/".join("f" * 17), "17 folders deep"),
        ("é" * 127, ""),
        ("é" * 128, "longer than 255 bytes"),
        ("a/b/", ""),
        ("", "no name"),
        ("a:b", "absolute"),
        ("ab:c", ""),
        ("a..b", ""),
    ],
)
def test_a_name_is_as_deep_and_as_long_as_file_systems_take_it(name, why):
    assert why in archive.unsafe(name)
    assert bool(archive.unsafe(name)) == bool(why)


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (("a/b", "A/B"), "is there twice"),
        (("\u00e9", "e\u0301"), "is there twice"),
        (("a", "a/b"), "is a file, and a folder as well"),
        (("a/b", "a"), "is a file, and a folder as well"),
        (("a/", "a/b", "a/c"), ""),
    ],
)
def test_a_name_is_one_file_or_one_folder_on_every_file_system(zipped, target, names, why):
    if why:
        with pytest.raises(BundleError, match=why):
            archive.extract(zipped(*names), target)
    else:
        archive.extract(zipped(*names, size=0), target)


def test_an_encrypted_member_is_refused(zipped, target):
    path = zipped("a")
    content = bytearray(path.read_bytes())
    content[content.rindex(b"PK\x01\x02") + 8] |= 1  # the flags in the central directory
    path.write_bytes(bytes(content))
    with pytest.raises(BundleError, match="refused: 'a' is encrypted"):
        archive.extract(path, target)
