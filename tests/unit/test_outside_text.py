# SPDX-License-Identifier: GPL-3.0-or-later
"""Each module that reads text from elsewhere is in a table of hostile text, or reads the rig's own.

A new one fails here, by its name: give its source's test such text, and add it below.
"""

from __future__ import annotations

import ast
import html
import re

import pytest

from tests.support import ROOT, hostile_text, outside_text

RIG = "tests/integration/rig"
# By the tests that give a source's text: the modules that read it.
TABLE: dict[tuple[str, ...], str] = {
    # journals, bundles, results folders
    (f"{RIG}/test_hostile_results.py", "tests/integration/analysis/test_hostile_bundles.py"): """
        analysis/bundle/archive analysis/bundle/environment analysis/bundle/recompute
        analysis/bundle/tables analysis/bundle/verify analysis/bundle/writer analysis/drives/windows
        analysis/export/frames analysis/merge/__init__ analysis/merge/choice analysis/merge/source
        analysis/powercut/folder analysis/powercut/witness_log analysis/results/campaign
        analysis/results/journal analysis/results/power_points analysis/results/run_file
        analysis/results/waveform analysis/runs/waveform_chunks joulerig/json_text joulerig/spreadsheet
        joulerig/sqlite rig/campaign/forecast/earlier rig/campaign/journal
        rig/campaign/execution/record rig/dashboard/api/campaign rig/dashboard/api/campaigns
        rig/dashboard/api/recorded rig/dashboard/campaign/ai_table rig/dashboard/campaign/eta
        rig/dashboard/campaign/journal rig/dashboard/notifications/happenings
        rig/dashboard/notifications/watcher rig/dashboard/notifications/webhook
    """,
    # test hosts, by Ansible
    (f"{RIG}/test_hostile_text.py",): """
        rig/campaign/events rig/campaign/launch/handed rig/campaign/origin rig/campaign/playbook
        rig/lab/inventory
    """,
    (f"{RIG}/test_reach.py",): "rig/powercut/reach rig/controller/provisioning",
    ("tests/unit/rig/powercut/test_power_cut_witness.py",): "rig/powercut/witness",
    # meters, and files of them
    (f"{RIG}/test_hostile_meters.py", "tests/unit/rig/common/test_yaml_text.py"): """
        rig/lab/meters/discovery rig/lab/meters/kept rig/lab/meters/other rig/lab/meters/source
    """,
    ("tests/unit/rig/lab/test_tap_replies.py",): "rig/lab/meters/tap",
    ("tests/integration/capturers/test_libraries_and_servers.py", "tests/unit/capturers/test_command.py"): """
        collectors/capturers/__main__ collectors/capturers/command collectors/capturers/iio
        collectors/capturers/quarch collectors/capturers/serial_line collectors/capturers/sysfs
    """,
    # switches of power
    (f"{RIG}/test_redfish.py", "tests/unit/rig/power/test_switches.py"): """
        rig/power/program rig/power/redfish
    """,
    # InfluxDB, Grafana, other dashboards
    (f"{RIG}/test_hostile_points.py", "tests/integration/analysis/test_influx_query.py"): """
        analysis/results/influxdb/client rig/campaign/execution/result_points
    """,
    ("tests/unit/rig/grafana/test_grafana_replies.py",): "rig/grafana/api",
    ("tests/unit/rig/cli/test_watch.py",): "rig/cli/watch/command rig/cli/watch/received",
    # people's files and command lines
    (f"{RIG}/test_hostile_command_lines.py", "tests/unit/rig/common/test_yaml_text.py"): """
        analysis/agreement/methods rig/common/paths rig/doctor/hosts rig/lab/definitions
        rig/dashboard/api/routes virtuallab/fit/rows
    """,
    # the rig's own programs and files, which have no text of others but what the above took
    (): """
        analysis/drawing/second_process analysis/gate/junit rig/bisect/session
        rig/campaign/claims/heartbeat rig/campaign/control/detached rig/campaign/drive_record
        rig/campaign/provenance rig/common/files rig/common/logged rig/common/supervisor
        rig/controller/influxdb rig/controller/services rig/dashboard/__main__ rig/dashboard/api/rig
        rig/dashboard/config rig/dashboard/powerd rig/lab/kernels/build rig/lab/kernels/source
        rig/powercut/crash_states rig/workloads/recorded_trace rig/workloads/synthetic_trace
        virtuallab/accelerator virtuallab/blocklog/device virtuallab/blocklog/record
        virtuallab/clock/calibration virtuallab/clock/keeper virtuallab/guest/compiled_once
        virtuallab/hosts virtuallab/image virtuallab/qmp virtuallab/standalone_twin virtuallab/taps
        virtuallab/twins
    """,
}


def test_each_module_that_reads_is_in_the_table():
    listed = sorted(name for names in TABLE.values() for name in names.split())
    assert listed == sorted(name.removesuffix(".py") for name in outside_text.modules())


@pytest.mark.parametrize("test", sorted({test for tests in TABLE for test in tests}))
def test_each_test_is_there(test):
    assert (ROOT / test).is_file()


@pytest.mark.parametrize("tests", [tests for tests in TABLE if tests])
def test_each_source_gives_hostile_text(tests):
    text = "".join((ROOT / test).read_text() for test in tests)
    assert re.search(r"\bhostile_(text|bundles)\.", text)


@pytest.mark.parametrize(
    "code",
    [
        "json.loads(x)", "answer.json()", "subprocess.run(x, capture_output=True)", "subprocess.Popen(x)",
        "sqlite3.connect(x)", "ElementTree.fromstring(x)", "csv.reader(x)", "httpx.get(x)", "yaml.load(x)",
        "urllib.request.urlopen(x)", "connection.recv(9)", "os.environ.get(x)", "etree.ElementTree.parse(x)",
    ],
)  # fmt: skip
def test_a_way_to_read_is_found(code):
    assert list(outside_text.calls(code))


# What executes text. Those of the rig's own: its second process, and code that it compiled itself.
EXECUTES = {"eval", "exec", "os.system", "os.popen", "compile", "pickle.load", "pickle.loads", "marshal.load"}
OWN = {
    "analysis/drawing/second_process.py": {"pickle.load"},
    "virtuallab/guest/compiled_once.py": {"marshal.load"},
}


def executing(text: str) -> set[str]:
    """Return what of a module executes text."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            shell = any(one.arg == "shell" and ast.unparse(one.value) != "False" for one in node.keywords)
            found |= {name} & EXECUTES | ({"shell=True"} if shell else set())
    return found


@pytest.mark.parametrize("code", ["eval(x)", "os.system(x)", "pickle.loads(x)", "run(x, shell=True)"])
def test_what_executes_text_is_found(code):
    assert executing(code)


def test_nothing_executes_text_but_the_rigs_own():
    found = {name: executing((ROOT / name).read_text()) for name in outside_text.python_files()}
    assert {name: names for name, names in found.items() if names} == OWN


# What takes text for HTML or a script in a browser.
TAKES_HTML = re.compile(
    r"\b(innerHTML|outerHTML|insertAdjacentHTML|createContextualFragment|srcdoc|DOMParser|eval)\b|\bFunction\(|"
    r"document\.write|setTimeout\(\s*[\"'`]|javascript:"
)


@pytest.mark.parametrize("text", ["a.innerHTML = b", "new Function(x)", "document.write(x)", "eval(x)"])
def test_what_takes_html_is_found(text):
    assert TAKES_HTML.search(text)


def test_no_page_takes_text_for_html():
    pages = [*(ROOT / "rig/dashboard/page").rglob("*.ts"), ROOT / "analysis/registry/page.js"]
    own = [path for path in pages if "tests" not in path.parts]
    assert len(own) > 30
    assert [path.name for path in own if TAKES_HTML.search(path.read_text())] == []


@pytest.mark.parametrize(
    ("shown", "kind"),
    [
        ("owned49owned", "text"), ("owned 49", "text"), ("<p title=''><hostile-x>", "html"),
        ("<p hostile-x=1>", "html"), ('a,"=owned"', "csv"), ("@SUM(owned)", "csv"),
    ],
)  # fmt: skip
def test_what_was_evaluated_is_counted(shown, kind):
    assert hostile_text.evaluated(shown, kind)


def test_what_was_executed_is_counted(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "executed-x").touch()
    assert hostile_text.executed(tmp_path) == ["executed-x"]


def test_text_that_stays_text_is_not_counted():
    for text in hostile_text.NAMES.values():
        assert hostile_text.evaluated(text) == []
        assert hostile_text.evaluated(html.escape(text), "html") == []
        assert hostile_text.evaluated("'" + text.replace('"', '""'), "csv") == []
