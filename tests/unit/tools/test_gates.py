# SPDX-License-Identifier: GPL-3.0-or-later
"""The checks of `make check`: what they find, what they let pass, and how suites are counted."""

from __future__ import annotations

import sys

import pytest

from tools import imports, prose, ratchet, suites

WORDS = prose.Vocabulary({"utilise": "use", "in order to": "to"}, ("of", "do"))


def keys(file: str, text: str) -> list[str]:
    return [finding.key for finding in prose.find_in(file, text, WORDS)]


@pytest.mark.parametrize(
    "text", ["We utilise it.", "power_utilise = 1", "func utiliseAll()", "allUtilise", "UTILISE"]
)
def test_a_word_is_found_in_prose_and_in_identifiers(text):
    assert keys("a.go", text) == ["utilise"]


@pytest.mark.parametrize("text", ["utilised", "reutilise", "folder", "gold"])
def test_a_word_within_a_word_is_another_word(text):
    assert keys("a.go", text) == []


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("a.py", "    def of(cls, x):"),
        ("a.py", "async def of():"),
        ("a.go", "func (p *Print) of(n int) {"),
        ("a.ts", "export function of(a) {"),
        ("a.ts", "const of = (a) => {"),
        ("a.py", "    of = lambda x: x"),
        ("a.go", "    of := func(n int) {"),
        ("a.py", "def _of(x):"),
        ("a.c", "static struct clock *of(int64_t ns)"),
    ],
)
def test_a_function_named_by_a_bare_word_is_found(file, text):
    assert keys(file, text) == [prose.FUNCTIONS]


def test_a_call_or_a_longer_name_does_not_count_as_such_a_function():
    assert keys("a.py", "x = of(3)\ndef load_of(x):\ndef offer():") == []


def test_a_long_line_of_documentation_is_found_save_in_tables_of_reference_and_code():
    line = "word " * 30
    assert keys("docs/a.md", line) == [prose.LONG_DOCS]
    assert keys("docs/a.md", "| " + line) == [prose.LONG_DOCS]
    assert keys("docs/reference/a.md", "| " + line) == []
    assert keys("docs/studies/a.md", "| " + line) == []
    assert keys("docs/a.md", f"```\n{line}\n```") == []


def test_a_long_comment_is_found_and_long_code_is_left_to_other_linters():
    assert keys("a.go", "// " + "word " * 30) == [prose.LONG_COMMENTS]
    assert keys("a.go", "x := f(" + "word, " * 30) == []


def test_a_count_above_its_ceiling_is_reported_with_files_and_replacement():
    findings = list(prose.find_in("a.py", "utilise utilise", WORDS))
    assert prose.report(findings, {"utilise": 2}, WORDS) == []
    assert prose.report(findings, {"utilise": 1}, WORDS) == [
        "utilise: 2, allowed are 1; write instead: use",
        "    a.py: 2",
    ]


def test_ceilings_only_go_down(tmp_path):
    ratchet.write("x", {"a": 3, "b": 2, "c": 1}, tmp_path)
    ratchet.write("x", ratchet.lower({"a": 5, "b": 1, "new": 4}, ratchet.read("x", tmp_path)), tmp_path)
    assert ratchet.read("x", tmp_path) == {"a": 3, "b": 1}


def test_what_has_no_ceiling_may_have_no_fault():
    assert ratchet.find_exceeded({"new": 1, "old": 2}, {"old": 2}) == ["new"]


def test_modules_that_import_each_other_are_a_cycle():
    graph = {"a": ["b"], "b": ["c"], "c": ["a", "d"], "d": [], "e": ["a"]}
    assert imports.find_cycles(graph) == [["a", "b", "c"]]


def test_a_graph_without_a_way_back_has_no_cycle():
    assert imports.find_cycles({"a": ["b", "c"], "b": ["c"], "c": []}) == []


def test_a_folder_with_more_than_fourteen_modules_is_crowded_and_its_init_does_not_count():
    files = [f"rig/x/m{n}.py" for n in range(14)] + ["rig/x/__init__.py", "rig/x/style.css"]
    assert imports.find_crowded(files) == {}
    assert imports.find_crowded([*files, "rig/x/one.py"]) == {"rig/x": 15}


def test_arrows_are_counted_between_folders_not_inside_them():
    graph = {"joulerig.rig.cli.main": {"joulerig.rig.cli.up", "joulerig.analysis.energy.counter"}}
    assert imports.folder_arrows(graph) == {("rig.cli", "analysis.energy"): 1}


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        ("2061 passed in 410.26s (0:06:50)", suites.Counts(2061)),
        ("=== 1 failed, 2 passed, 3 skipped, 1 error in 4.2s ===", suites.Counts(2, 2, 3)),
        ("no tests ran in 0.01s", suites.Counts()),
    ],
)
def test_pytests_closing_line_is_counted(line, counts):
    assert suites.count_pytest(f"....\n{line}\n") == counts


def test_go_tests_are_counted_without_their_sub_tests():
    log = """$ go test
{"Action":"pass","Package":"p","Test":"TestA/one"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"fail","Package":"p","Test":"TestB"}
{"Action":"skip","Package":"p","Test":"TestC"}
{"Action":"fail","Package":"p"}
"""
    assert suites.count_go(log) == suites.Counts(1, 1, 1)


def test_c_test_programs_are_counted_by_their_last_lines():
    assert suites.count_c("counters: 4 KiB idle\ncounters: ok\nJSON writer: ok\n") == suites.Counts(2)


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        ("      Tests  144 passed (144)", suites.Counts(144)),
        ("      Tests  2 failed | 141 passed | 1 skipped (144)", suites.Counts(141, 2, 1)),
        ("no such line", suites.Counts()),
    ],
)
def test_tests_of_the_page_are_counted_by_vitests_closing_line(line, counts):
    assert suites.count_vitest(f" Test Files  14 passed (14)\n{line}\n   Duration  1s\n") == counts


@pytest.fixture
def logs(tmp_path, monkeypatch):
    monkeypatch.setattr(suites, "ROOT", tmp_path)
    monkeypatch.setattr(suites, "LOGS", tmp_path / "build" / "suites")


def run_python(text: str, count=None) -> suites.Result:
    return suites.run(suites.Suite("s", ((sys.executable, "-c", text),), count))


@pytest.mark.usefixtures("logs")
def test_a_command_that_fails_fails_its_suite_whatever_its_tests_say():
    result = run_python("print('3 passed in 0.1s'); raise SystemExit(1)", suites.count_pytest)
    assert result.counts == suites.Counts(3, 1)


@pytest.mark.usefixtures("logs")
def test_a_suite_that_ran_no_test_has_not_passed():
    assert not run_python("pass", suites.count_pytest).ok
    assert run_python("pass").ok  # a linter: its command is its test


@pytest.mark.usefixtures("logs")
def test_the_table_names_the_suite_that_failed_and_its_log():
    lines = suites.table([run_python("raise SystemExit(1)")], 1).splitlines()
    assert lines[1].startswith("s ")
    assert "FAILED" in lines[1]
    assert lines[-1] == "failed: s (build/suites/s.log)"
