# SPDX-License-Identifier: GPL-3.0-or-later
"""The checks of `make check`: what they find, what they let pass, and how suites are counted."""

from __future__ import annotations

import sys

import pytest

from tools import imports, prose, ratchet, suites, templates

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


LAB = frozenset({"drives", "virtual", "controller_address"})


@pytest.mark.parametrize(
    ("file", "text", "fault"),
    [
        ("rig/a.py", "run(['ansible', '-e', data])", "extra vars"),
        ("rig/a.py", "run(['--extra-vars=' + data])", "extra vars"),
        ("rig/a.py", "run([f'-e{data}'])", "extra vars"),
        ("rig/a.py", "run(['ansible-playbook', x])", "starts ansible-playbook"),
        (
            "rig/a.py",
            "run(['-m', 'joulerig.rig.campaign.launch.ansible_playbook'])",
            "starts ansible-playbook",
        ),
        ("rig/a.py", "import yaml\nline = f\"model: '{model}'\"", "quotes a value"),
        ("rig/a.py", "import yaml\nline = f'serial: \"{serial}\"'", "quotes a value"),
        ("rig/a.py", "import yaml\nline = f'# - {serial}'", "a comment"),
        ("rig/a.py", "import yaml\nline = f'a: 1 # {serial}'", ""),
        ("rig/a.py", "import yaml\nline = f'# {one_line(head)}'", ""),
        ("rig/a.py", "import yaml\nline = f'{key}: {value}'", ""),
        ("rig/a.py", "run(['--end', '-else'])", ""),
        ("a.yml", "- joulerig_command: '{{ asked }}'", "all its arguments are a variable"),
        ("a.yml", "- ansible.builtin.debug: '{{ asked }}'", "all its arguments are a variable"),
        ("a.yml", "- joulerig_drives: {drives: '{{ drives }}'}", "drives of the inventory"),
        ("a.yml", "- joulerig_drives: {drives: '{{ drives | combine(a) }}'}", "drives of the inventory"),
        ("a.yml", "- {a.b.debug: {}, loop: '{{ x.drives }}'}", ""),
        ("a.yml", "- {a.b.debug: {}, when: drives is defined}", "drives of the inventory"),
        ("a.yml", "- {a.b.debug: {}, when: virtual is not defined}", ""),
        ("a.yml", "- ansible.builtin.shell: echo {{ word }}", "not quoted"),
        ("a.yml", "- ansible.builtin.shell: {cmd: 'echo {{ word }}'}", "not quoted"),
        ("a.yml", "- joulerig_change: {ansible.builtin.shell: {cmd: 'echo {{ word }}'}}", "not quoted"),
        ("a.yml", "- ansible.builtin.shell: echo {{ word | quote }} {{ x | map('quote') | join(' ') }}", ""),
        ("a.yml", "- ansible.builtin.shell: echo {{ x | join(' ') }}", "not quoted"),
        ("a.j2", "server {{ controller_address }}", "controller_address of the inventory"),
        ("a.j2", "server {{ other }}", ""),
    ],
)
def test_data_that_could_become_a_template_is_found(file, text, fault):
    find = {
        ".py": templates.find_in_python,
        ".yml": templates.find_in_yaml,
        ".j2": templates.find_in_template,
    }
    suffix = file[file.index(".") :]
    found = list(find[suffix](file, text, *([] if suffix == ".py" else [LAB])))
    assert [fault in one.what for one in found] == ([True] if fault else [])


def test_shipped_code_hands_data_over_in_one_way():
    assert templates.find_all() == []


def test_junit_files_are_read(tmp_path):
    (tmp_path / "unit.xml").write_text("""<?xml version="1.0"?><testsuites><testsuite>
<testcase classname="tests.unit.test_a" name="test_one[x]" time="1.25"/>
<testcase classname="tests.unit.test_a" name="test_two" time="0.5"><failure message="no"/></testcase>
<testcase classname="tests.unit.test_a" name="test_three"><error message="set-up"/></testcase>
<testcase classname="tests.unit.test_a" name="test_four"><skipped message="long"/></testcase>
</testsuite></testsuites>""")
    assert suites.read_junit(tmp_path / "unit.log") == [
        suites.Test("tests.unit.test_a::test_one[x]", "passed", 1.25),
        suites.Test("tests.unit.test_a::test_two", "failed", 0.5),
        suites.Test("tests.unit.test_a::test_three", "failed"),
        suites.Test("tests.unit.test_a::test_four", "skipped"),
    ]


def test_go_tests_are_read_without_their_sub_tests(tmp_path):
    log = tmp_path / "go.log"
    log.write_text("""$ go test
{"Action":"pass","Package":"m/p","Test":"TestA/one","Elapsed":0.25}
{"Action":"pass","Package":"m/p","Test":"TestA","Elapsed":0.5}
{"Action":"fail","Package":"m/p","Test":"TestB"}
{"Action":"skip","Package":"m/p","Test":"TestC"}
{"Action":"fail","Package":"m/p"}
""")
    assert suites.read_go(log) == [
        suites.Test("p.TestA", "passed", 0.5),
        suites.Test("p.TestB", "failed"),
        suites.Test("p.TestC", "skipped"),
    ]


def test_c_test_programs_are_read_by_their_last_lines(tmp_path):
    log = tmp_path / "c.log"
    log.write_text("counters: 4 KiB idle\ncounters: ok\nJSON writer: ok\n")
    assert [test.name for test in suites.read_c(log)] == ["counters", "JSON writer"]


@pytest.fixture
def logs(tmp_path, monkeypatch):
    monkeypatch.setattr(suites, "ROOT", tmp_path)
    monkeypatch.setattr(suites, "LOGS", tmp_path / "build" / "suites")


def run_python(text: str, read=None, **options) -> suites.Result:
    return suites.run(suites.Suite("s", ((sys.executable, "-c", text),), read, **options))


@pytest.mark.usefixtures("logs")
def test_a_command_that_fails_fails_its_suite_whatever_its_tests_say():
    result = run_python("print('a: ok'); raise SystemExit(1)", suites.read_c)
    assert [result.count(outcome) for outcome in ("passed", "failed")] == [1, 1]
    assert result.verdict == "FAILED"


@pytest.mark.usefixtures("logs")
def test_a_suite_that_ran_no_test_has_not_passed():
    assert not run_python("pass", suites.read_c).ok
    assert run_python("pass").ok  # a linter: its command is its test


@pytest.mark.usefixtures("logs")
def test_the_results_of_an_earlier_run_do_not_count():
    suites.LOGS.mkdir(parents=True)
    suites.junit_of(suites.LOGS / "s.log").write_text("<testsuite><testcase name='old'/></testsuite>")
    assert not run_python("pass", suites.read_junit).ok


@pytest.mark.usefixtures("logs")
def test_a_suite_beyond_its_budget_of_processor_time_fails():
    work = "import time\nwhile time.process_time() < 0.3: pass"
    assert not run_python(work, budget=0.3 / suites.TOLERANCE).ok
    assert run_python(work, budget=60).ok


@pytest.mark.usefixtures("logs")
def test_the_table_names_the_suite_that_failed_and_its_log():
    lines = suites.table([run_python("raise SystemExit(1)")], 1).splitlines()
    assert lines[1].startswith("s ")
    assert "FAILED" in lines[1]
    assert lines[-1] == "failed: s (build/suites/s.log)"


@pytest.mark.usefixtures("logs")
def test_the_table_names_the_slowest_tests():
    tests = [suites.Test(f"t{number}", "passed", number) for number in range(suites.SLOWEST + 2)]
    result = suites.Result(suites.Suite("s", ()), tests, 1, 1, suites.LOGS / "s.log")
    lines = suites.table([result], 1).splitlines()
    assert lines[-suites.SLOWEST :] == [
        f"{number:7.1f} s  s: t{number}" for number in range(suites.SLOWEST + 1, 1, -1)
    ]
