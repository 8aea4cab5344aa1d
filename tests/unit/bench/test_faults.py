# SPDX-License-Identifier: GPL-3.0-or-later
"""The catalogues of planted faults, and what plants them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.bench import faults
from tests.support import ROOT

ADDITION = "def add(a, b):\n    return a + b\n"
CATALOGUE = """
area: sums
build: [python3 -m py_compile add.py]
tests: [python3 check.py]
faults:
  - fault: a difference
    file: add.py
    old: a + b
    new: a - b
  - fault: no difference
    file: add.py
    old: a + b
    new: b + a
  - fault: an endless sum
    file: add.py
    old: return a + b
    new: |-
      while True:
              pass
    hangs: true
  - fault: no Python
    file: add.py
    old: a + b
    new: a +
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    (root / "sums").mkdir(parents=True)
    (root / "add.py").write_text(ADDITION)
    (root / "check.py").write_text(
        "import sys, add\nif add.add(2, 3) != 5:\n    sys.exit('FAILED check.py::test_the_sum')\n"
    )
    (root / "faults.yml").write_text(CATALOGUE)
    subprocess.run(["git", "init", "-q", root], check=True)
    return root


def test_every_fault_of_the_catalogues_still_fits_the_code():
    areas = faults.read_catalogues()
    assert areas
    stale = []
    for area in areas:
        for fault in area.faults:
            try:
                fault.plant((ROOT / fault.file).read_text())
            except faults.CatalogueError as error:
                stale.append(str(error))
        texts = [fault.text for fault in area.faults]
        assert len(texts) == len(set(texts)), area.name
    assert stale == []


def test_each_fault_is_planted_alone_and_what_catches_it_is_named(tree, tmp_path):
    copy = tmp_path / "copy"
    faults.update_copy(tree, copy)
    (area,) = faults.read_catalogues(tree)
    difference, same, endless, no_python = area.faults
    assert faults.try_fault(area, difference, copy, 300).caught_by == "check.py::test_the_sum"
    survived = faults.try_fault(area, same, copy, 300)
    assert (survived.caught_by, survived.error) == ("", "")
    assert faults.try_fault(area, endless, copy, 1).caught_by == "the time limit"
    assert "does not build" in faults.try_fault(area, no_python, copy, 300).error
    assert (tree / "add.py").read_text() == (copy / "add.py").read_text() == ADDITION


def test_a_fault_that_is_known_to_be_caught_is_not_planted(tree, tmp_path):
    faults.update_copy(tree, tmp_path / "copy")
    (area,) = faults.read_catalogues(tree)
    caught = {fault.key: "a test" for fault in area.faults if fault.text != "no difference"}
    outcomes = list(faults.try_area(area, tmp_path / "copy", caught))
    assert [outcome.caught_by for outcome in outcomes] == ["a test", "", "a test", "a test"]


def test_a_test_that_never_ends_has_caught_nothing_that_does_not_say_so(tree, tmp_path):
    (tree / "faults.yml").write_text(CATALOGUE.replace("    hangs: true\n", ""))
    faults.update_copy(tree, tmp_path / "copy")
    (area,) = faults.read_catalogues(tree)
    assert faults.try_fault(area, area.faults[2], tmp_path / "copy", 1).caught_by == ""


def test_tests_that_fail_without_a_fault_catch_none(tree, tmp_path):
    (tree / "check.py").write_text("raise SystemExit('no module named so')\n")
    faults.update_copy(tree, tmp_path / "copy")
    (area,) = faults.read_catalogues(tree)
    with pytest.raises(faults.CatalogueError, match="fail without a fault\nno module named so"):
        list(faults.try_area(area, tmp_path / "copy", {}))


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("a * b", "a - b", "stands in it 0 times"),
        ("a", "b", "stands in it 3 times"),
        ("a + b", "a + b", "equals `new`"),
    ],
)
def test_a_fault_that_cannot_be_planted_is_an_error(tree, old, new, complaint):
    fault = faults.Fault("some", Path("add.py"), old, new)
    with pytest.raises(faults.CatalogueError, match=complaint):
        fault.plant(ADDITION)


@pytest.mark.parametrize("key", ["fault: a difference", "file: add.py", "tests: [python3 check.py]"])
def test_a_catalogue_with_an_unknown_or_missing_key_is_refused_by_its_name(tree, key):
    (tree / "faults.yml").write_text(CATALOGUE.replace(key, f"un{key}", 1))
    with pytest.raises(faults.CatalogueError, match=f"un{key.split(':')[0]}"):
        faults.read_catalogues(tree)


def test_the_copy_follows_the_working_tree(tree, tmp_path):
    copy = tmp_path / "copy"
    faults.update_copy(tree, copy)
    (copy / "add.py").write_text("a fault that was left")
    (tree / "check.py").unlink()
    (tree / "more.py").write_text("")
    (tree / "link").symlink_to("nowhere")
    faults.update_copy(tree, copy)
    assert sorted(path.name for path in copy.glob("*.py")) == ["add.py", "more.py"]
    assert (copy / "link").readlink() == Path("nowhere")
    assert (copy / "add.py").read_text() == ADDITION


def test_some_areas_must_be_caught_wholly_and_all_together_nearly():
    half = {"planted": 10, "caught": 9, "survivors": ["one"]}
    whole = {"planted": 100, "caught": 100, "survivors": []}
    assert faults.find_below_bar({"clock": half, "twin": whole}) == []
    assert faults.find_below_bar({"energy": half, "twin": whole}) == ["energy"]
    assert faults.find_below_bar({"clock": half}) == ["all"]


@pytest.mark.parametrize(
    ("output", "name"),
    [
        ("=== RUN\n--- FAIL: TestSum (0.00s)\n    --- FAIL: TestSum/two (0.00s)\n", "TestSum"),
        ("FAILED tests/unit/test_x.py::test_y - assert 1\n", "tests/unit/test_x.py::test_y"),
        ("tests/test_cut.c:12: holds: failed: x == 1\ntwin cut: FAILED\n", "test_cut.c:12: holds"),
        (" FAIL  page/view.test.ts > a view > ends\n", "page/view.test.ts > a view > ends"),
        ("core/scpi.c:1:2: runtime error: index 9 out of bounds\n", "runtime error: index 9 out of bounds"),
        ("idle: 2, expected 1\npower: FAILED\nmake: *** [Makefile:40: unit] Error 1\n", "power"),
        ("something else\n\n", "something else"),
    ],
)
def test_the_failed_test_is_named_in_each_language(output, name):
    assert faults.failed_test(output) == name
