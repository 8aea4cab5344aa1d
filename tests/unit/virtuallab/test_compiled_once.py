# SPDX-License-Identifier: GPL-3.0-or-later
"""A virtual host's Python compiles what comes in an archive once."""

from __future__ import annotations

import subprocess
import sys
import zipfile

import pytest

from tests.support import ROOT

GUEST = ROOT / "virtuallab" / "guest"


@pytest.fixture
def start(tmp_path):
    """Have a new Python with the hook import `thing` from an archive; what it printed."""

    def started(source, before="", name="archive.zip"):
        archive = tmp_path / name
        with zipfile.ZipFile(archive, "w") as packed:
            packed.writestr("thing.py", source)
        code = (
            f"import sys; sys.path[:0] = [{str(archive)!r}, {str(GUEST)!r}]\n"
            f"import compiled_once\ncompiled_once.FOLDER = {str(tmp_path / 'kept')!r}\n{before}\n"
            "import thing\n"
        )
        done = subprocess.run([sys.executable, "-B", "-c", code], capture_output=True, text=True, timeout=60)
        return done.stdout + done.stderr[-200:]

    return started


REFUSE = "def refuse(*_): raise RuntimeError('compiled')\ncompiled_once._compile = refuse"


def test_what_was_compiled_is_not_compiled_again_wherever_the_archive_lies(start):
    assert start("print('one')") == "one\n"
    assert start("print('one')", REFUSE, name="another.zip") == "one\n"


def test_another_source_is_compiled(start):
    start("print('one')")
    assert start("print('two')") == "two\n"
    assert "compiled" in start("print('three')", REFUSE)


@pytest.mark.parametrize("content", [b"", b"not code", b"\xe3\x01"])
def test_what_is_kept_and_no_code_is_compiled_again(start, tmp_path, content):
    start("print('one')")
    [kept] = (tmp_path / "kept").iterdir()
    kept.write_bytes(content)
    assert start("print('one')") == "one\n"
    assert start("print('one')", REFUSE) == "one\n"


def test_where_nothing_can_be_kept_it_is_compiled_each_time(start, tmp_path):
    (tmp_path / "kept").write_text("a file")
    assert start("print('one')") == "one\n"
    assert start("print('one')") == "one\n"


def test_what_a_folder_has_is_compiled_before_an_archive_comes(start, tmp_path):
    below = tmp_path / "sent" / "package"
    below.mkdir(parents=True)
    (below / "thing.py").write_bytes(b"print('one')")
    (below / "later.py").write_bytes(b"match without a colon")  # of a newer Python, say
    assert start("print('one')", f"compiled_once.compile_folder({str(below.parent)!r})\n{REFUSE}") == "one\n"


def test_an_error_of_a_source_is_what_it_was(start):
    assert "SyntaxError" in start("print('one'")
