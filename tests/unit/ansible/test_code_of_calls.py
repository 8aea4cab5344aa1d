# SPDX-License-Identifier: GPL-3.0-or-later
"""The archive that a detached call is executed from: compiled once, and never another one's."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from ansible.module_utils.joulerig import paths
from ansible.module_utils.joulerig.detached import code

MODULE = "ansible/legacy/stand_in.py"
WHERE_FROM = "import ansible.legacy.stand_in as one; print(one.VALUE, one.__file__.rpartition('.')[2])"


@pytest.fixture(autouse=True)
def kept(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "CODE", str(tmp_path / "kept"))


def sent(path: Path, value: int = 1, *, year: int = 2026, more: tuple[str, ...] = ()) -> str:
    """Write an archive such as Ansible sends; return its path."""
    files = {f"ansible/{name}__init__.py": "" for name in ("", "legacy/", "module_utils/")}
    files |= {"ansible/module_utils/basic.py": "", MODULE: f"VALUE = {value}\n", **dict.fromkeys(more, "")}
    files["sitecustomize.py"] = f"import sys; sys.path.insert(0, {str(path)!r})"  # the host's own
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name, (year, 1, 1, 0, 0, 0)), text)
    return str(path)


def imported(archive: str) -> list[str]:
    """Return the stand-in's value, and whether it came as source or compiled."""
    program = f"import sys; sys.path.insert(0, {archive!r}); {WHERE_FROM}"
    return subprocess.run(
        [sys.executable, "-S", "-E", "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()


def test_what_a_call_loads_is_compiled_and_nothing_else_is_kept(tmp_path):
    archive = sent(tmp_path / "sent.zip")
    assert imported(archive) == ["1", "py"]
    assert imported(code.compiled(archive)) == ["1", "pyc"]
    with zipfile.ZipFile(code.compiled(archive)) as kept:
        assert not {"ansible/module_utils/basic.py", "sitecustomize.py"} & set(kept.namelist())


def test_it_is_compiled_once_however_often_it_is_sent(tmp_path, monkeypatch):
    first = code.compiled(sent(tmp_path / "first.zip"))
    monkeypatch.setattr(code, "_compile", lambda *_: pytest.fail("compiled again"))
    assert code.compiled(sent(tmp_path / "later.zip", year=2027)) == first


@pytest.mark.parametrize("other", [{"value": 2}, {"more": ("ansible/module_utils/joulerig/new.py",)}])
def test_other_code_is_not_taken_for_it(tmp_path, other):
    first = code.compiled(sent(tmp_path / "first.zip"))
    second = code.compiled(sent(tmp_path / "second.zip", **other))
    assert second != first
    assert imported(second)[0] == str(other.get("value", 1))


def test_only_the_newest_are_kept(tmp_path):
    made = [code.compiled(sent(tmp_path / "sent.zip", value)) for value in range(code.KEPT)]
    code.compiled(sent(tmp_path / "sent.zip", 0))  # used again
    code.compiled(sent(tmp_path / "sent.zip", code.KEPT))
    assert [Path(one).exists() for one in made] == [True, False, *[True] * (code.KEPT - 2)]


def test_a_mistake_in_the_code_leaves_nothing_half_made(tmp_path):
    archive = sent(tmp_path / "sent.zip")
    with zipfile.ZipFile(archive, "a") as more:
        more.writestr("ansible/legacy/mistake.py", "def (:")
    with pytest.raises(Exception, match="mistake"):
        code.compiled(archive)
    assert list(Path(paths.CODE).iterdir()) == []
