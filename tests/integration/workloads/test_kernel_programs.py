# SPDX-License-Identifier: GPL-3.0-or-later
"""kernel-grep and kernel-make with the real grep, make and compiler, on a source of a few files."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from tests.support.program_script import Script, packed
from tests.support.programs import installed

MAKEFILE = """
ifneq ($(O),)
vpath %.c $(CURDIR)/lib
endif
tinyconfig:
\techo CONFIG_TINY=y > $(O)/.config
emptyconfig:
\t@true
lib/: $(O)/one.o $(O)/two.o
$(O)/%.o: %.c $(O)/.config
\t$(CC) -c -o $@ $<
broken: $(O)/broken.o
"""
FILES = {
    "Makefile": MAKEFILE,
    "lib/one.c": "int one(void) { return 1; }\n",
    "lib/two.c": "int two(void) { return 2; }\n",
    "lib/broken.c": "int broken(void) { return what; }\n",
}


@pytest.fixture
def source(tmp_path):
    return packed(tmp_path / "linux.tar.gz", **FILES)


def test_grep_searches_every_file_in_each_pass(tmp_path, source):
    script = Script("kernel_grep", tmp_path / "load", source=source, pattern="return", cold=False)
    script.lay_out()
    report = script.load(0.2)
    lengths = report["details"]["pass_seconds"]
    assert (report["ended"], report["unit"]) == ("completed", "file")
    assert report["ops"] == 4 * len(lengths)
    assert report["read_bytes"] == sum(map(len, FILES.values())) * len(lengths)
    assert report["details"]["lines_found"] == 3
    assert report["details"]["source"] == "linux.tar.gz"
    assert report["details"]["grep"].startswith("grep ")
    assert report["figure"] == {
        "name": "pass",
        "unit": "s",
        "value": pytest.approx(sum(lengths) / len(lengths)),
        "better": "lower",
    }


def test_grep_that_finds_nothing_has_done_its_work(tmp_path, source):
    script = Script("kernel_grep", tmp_path / "load", source=source)
    script.lay_out()
    report = script.load(0)
    assert (report["ops"], report["details"]["lines_found"]) == (4, 0)
    assert len(report["details"]["pass_seconds"]) == 1


def test_grep_that_fails_is_a_failed_load(tmp_path, source):
    script = Script("kernel_grep", tmp_path / "load", source=source, pattern="[")
    script.lay_out()
    done = script.run("load", 1)
    assert done.returncode == 1
    assert done.stderr.startswith("kernel-grep: grep: exit 2: grep: ")
    assert script.report()["ended"] == "failed"


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    found = tarfile.TarInfo(name)
    found.type, found.linkname = kind, target
    return found


@pytest.mark.parametrize(
    ("members", "complaint"),
    [
        ([member("/tmp/joulerig-left")], "/tmp/joulerig-left: leaves the folder"),
        ([member("../left")], "../left: leaves the folder"),
        ([member("a/../../left")], "a/../../left: leaves the folder"),
        ([member("a", tarfile.SYMTYPE, "/etc")], "a: leaves the folder"),
        ([member("a", tarfile.SYMTYPE, "../..")], "a: leaves the folder"),
        ([member("d/up", tarfile.SYMTYPE, ".."), member("d/a", tarfile.SYMTYPE, "up/../..")], "d/a: leaves"),
        ([member("a", tarfile.LNKTYPE, "/etc/hostname")], "a: leaves the folder"),
        ([member("a", tarfile.LNKTYPE, "../../load.json")], "a: leaves the folder"),
        ([member("a", tarfile.BLKTYPE)], "a: a device; allowed: files, folders and links"),
        ([member("a", tarfile.CHRTYPE)], "a: a device"),
        ([member("a", tarfile.FIFOTYPE)], "a: a device"),
    ],
)
def test_an_archive_that_leaves_the_folder_is_not_unpacked(tmp_path, members, complaint):
    archive = tmp_path / "linux.tar"
    with tarfile.open(archive, "w") as tar:
        for one in [member("first"), *members, member("last")]:
            tar.addfile(one)
    done = Script("kernel_grep", tmp_path / "load", source=str(archive)).run("layout")
    assert done.returncode == 1
    assert done.stderr.startswith(f"kernel-grep: {archive}: {complaint}")
    assert done.stderr.count("\n") == 1
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if not path.is_dir()}
    assert left - {"linux.tar", "load/joulerig-kernel-grep/d/up"} == {"load/joulerig-kernel-grep/first"}


def test_links_within_an_archive_are_unpacked(tmp_path):
    archive = tmp_path / "linux.tar"
    with tarfile.open(archive, "w") as tar:
        tar.addfile(member("a/file"))
        tar.addfile(member("b/up", tarfile.SYMTYPE, "../a/file"))
        tar.addfile(member("c", tarfile.LNKTYPE, "a/file"))
    Script("kernel_grep", tmp_path / "load", source=str(archive)).lay_out()
    folder = tmp_path / "load" / "joulerig-kernel-grep"
    assert (folder / "b/up").readlink() == Path("../a/file")
    assert (folder / "c").samefile(folder / "a/file")


@pytest.fixture
def tools():
    installed("make", "make")
    installed("gcc", "gcc")


@pytest.mark.usefixtures("tools")
def test_make_builds_from_nothing_in_each_pass(tmp_path, source):
    script = Script("kernel_make", tmp_path / "load", source=source, cold=False)
    script.lay_out()
    report = script.load(0.2)
    lengths = report["details"]["pass_seconds"]
    assert (report["ended"], report["unit"]) == ("completed", "object file")
    assert report["ops"] == 2 * len(lengths)
    assert report["write_bytes"] > 0
    assert report["read_bytes"] is None
    assert report["details"]["source"] == "linux.tar.gz"
    assert report["details"]["gcc"].startswith("gcc ")
    assert report["figure"]["value"] == pytest.approx(sum(lengths) / len(lengths))
    assert (report["figure"]["name"], report["figure"]["better"]) == ("pass", "lower")


@pytest.mark.usefixtures("tools")
def test_make_that_fails_says_the_compilers_error(tmp_path, source):
    script = Script("kernel_make", tmp_path / "load", source=source, target="broken", cold=False)
    script.lay_out()
    done = script.run("load", 1)
    assert done.returncode == 1
    assert done.stderr.startswith("kernel-make: make: exit 2: ")
    assert "what" in done.stderr
    assert done.stderr.count("\n") == 1
    report = script.report()
    assert (report["ended"], report["ops"], report["figure"]) == ("failed", 0, None)


@pytest.mark.usefixtures("tools")
@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"config": "emptyconfig"}, "make emptyconfig: left no .config; allowed: a configuration target"),
        ({"config": "hugeconfig"}, "make: exit 2: "),
    ],
)
def test_a_configuration_that_is_none(tmp_path, source, settings, complaint):
    done = Script("kernel_make", tmp_path / "load", source=source, **settings).run("layout")
    assert done.returncode == 1
    assert done.stderr.startswith(f"kernel-make: {complaint}")


def test_a_source_without_a_makefile(tmp_path):
    source = packed(tmp_path / "text.tar.gz", README="nothing to make\n")
    done = Script("kernel_make", tmp_path / "load", source=source).run("layout")
    assert done.returncode == 1
    assert "has no */Makefile; allowed: a kernel's source below one folder" in done.stderr
