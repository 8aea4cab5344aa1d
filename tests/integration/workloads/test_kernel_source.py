# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel source in the cache, of a package that has a few of its files."""

from __future__ import annotations

import subprocess
import tarfile
from pathlib import Path

import pytest

from joulerig.rig.common.errors import UserError
from joulerig.rig.lab.kernels import source as kernel_source
from tests.support.program_script import packed

FILES = (
    "Makefile", "Kconfig", "COPYING", "lib/ctype.c", "lib/Kconfig.debug", "include/linux/ctype.h",
    "include/uapi/asm.h", "arch/x86/Kbuild", "arch/arm/Kconfig", "arch/arm/mm/init.c", "drivers/net/Kconfig",
    "drivers/net/tun.c", "scripts/Makefile.build", "kernel/bounds.c", "kernel/fork.c", "mm/slab.h",
    "mm/slab.c",
)  # fmt: skip


def package(folder: Path, *files: str, name: str = kernel_source.PACKAGE) -> Path:
    """A package as Debian's: a tar of the source, below a folder of its name."""
    tree = folder / "tree"
    (tree / "usr/src").mkdir(parents=True)
    (tree / "DEBIAN").mkdir()
    (tree / "DEBIAN/control").write_text(
        f"Package: {name}\nVersion: 6.1.9-1\nArchitecture: all\nMaintainer: none\nDescription: of a test\n"
    )
    source = packed(folder / "source.tar.gz", **{file: f"/* {file} */\n" for file in files})
    with tarfile.open(source) as given, tarfile.open(tree / f"usr/src/{name}.tar.xz", "w:xz") as tar:
        for member in given:
            tar.addfile(member, given.extractfile(member))
    made = folder / f"{kernel_source.PACKAGE}_6.1.9-1_all.deb"
    subprocess.run(["dpkg-deb", "-b", str(tree), str(made)], check=True, capture_output=True)
    return made


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = tmp_path / "joulerig" / "kernel-source"
    folder.mkdir(parents=True)
    return folder


def held(archive: Path) -> set[str]:
    with tarfile.open(archive) as tar:
        assert all(member.name.startswith("linux/") for member in tar.getmembers())
        return {member.name.removeprefix("linux/") for member in tar.getmembers()}


@pytest.mark.parametrize(
    ("part", "without"),
    [
        ("whole", set()),
        ("library-build", {"arch/arm/mm/init.c", "drivers/net/tun.c", "kernel/fork.c", "mm/slab.c"}),
        ("library", set(FILES) - {"Makefile", "lib/ctype.c", "lib/Kconfig.debug", "include/linux/ctype.h"}),
    ],
)
def test_a_part_has_what_it_is_for(cache, tmp_path, part, without):
    package(tmp_path, *FILES).rename(cache / "linux-source-6.1_6.1.9-1_all.deb")
    archive = kernel_source.archive(part)
    assert archive.parent == cache
    assert archive.name.startswith("linux-source-6.1_6.1.9-1")
    assert held(archive) == set(FILES) - without


def test_it_is_made_once(cache, tmp_path):
    made = package(tmp_path, *FILES).rename(cache / "linux-source-6.1_6.1.9-1_all.deb")
    archive = kernel_source.archive("library")
    first = archive.stat().st_mtime_ns
    made.write_bytes(b"")  # it is not read again
    assert kernel_source.archive("library").stat().st_mtime_ns == first


def test_the_package_is_downloaded_where_it_is_missing(cache, tmp_path, monkeypatch):
    fake = tmp_path / "bin" / "apt-get"
    fake.parent.mkdir()
    fake.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/words\ncp {package(tmp_path, *FILES)} .\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:/usr/bin:/bin")
    assert held(kernel_source.archive("whole")) == set(FILES)
    assert (tmp_path / "words").read_text().split() == ["download", "-q", "linux-source-6.1"]
    assert (cache / "linux-source-6.1_6.1.9-1_all.deb").is_file()


def test_a_download_that_fails_is_one_line(cache, tmp_path, monkeypatch):
    fake = tmp_path / "bin" / "apt-get"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\necho 'E: no network' >&2\nexit 100\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:/usr/bin:/bin")
    with pytest.raises(
        UserError, match=r"^apt-get download -q linux-source-6\.1: E: no network; fix that, or put"
    ):
        kernel_source.archive("whole")
    assert [path.name for path in cache.iterdir()] == ["lock"]


@pytest.mark.parametrize("part", kernel_source.CHOICES)
@pytest.mark.parametrize("content", ["no package", None])
def test_a_package_that_is_none_is_refused_and_leaves_nothing(cache, tmp_path, part, content):
    name = "linux-source-6.1_6.1.9-1_all.deb"
    if content is None:
        package(tmp_path, *FILES, name="linux-source-9").rename(cache / name)
    else:
        (cache / name).write_text(content)
    with pytest.raises(UserError, match=r"allowed: Debian's linux-source-6\.1$"):
        kernel_source.archive(part)
    assert sorted(path.name for path in cache.iterdir()) == [name, "lock"]
