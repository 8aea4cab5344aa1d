# SPDX-License-Identifier: GPL-3.0-or-later
"""Run suites of checks and tests, and print a table of their times and counts.

    python -m tools.suites check     style, types and unit tests: the inner loop
    python -m tools.suites test      everything but the tests marked `long`
    python -m tools.suites test-all  those too
    python -m tools.suites types     one suite by name
    python -m tools.suites --list    what each of them runs

The output of each suite goes to build/suites/NAME.log; that of a suite that fails is also printed.
The last line is "N passed, M failed", for a CI to read. Exits 1 where a suite fails, or takes more
than TOLERANCE times the processor seconds of its budget.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed, wait
from dataclasses import dataclass, field, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOGS = ROOT / "build" / "suites"
PYTHON = ".venv/bin/python"
CLOCK_UNDER_LOAD = "tests/integration/collectors/test_clock_under_load.py"  # make test-clock
C_PARTS = ("virtuallab/clock", "virtuallab/twin", "firmware/power_tap", "collectors/srcap")
C_TESTED = ("virtuallab/clock", "virtuallab/twin", "firmware/power_tap")
TOLERANCE = 3  # with a load of 18 on two processors, the same work took 2.2 times the time
SLOWEST = 10  # tests that the final table names
# Processor seconds of suites, from a fresh clone on a machine that does nothing else.
BUDGETS = {
    "c": 45,
    "types": 30,
    "go-vet": 190,
    "ansible-lint": 35,
    "c-lint": 15,
    "go": 120,
    "unit": 700,
    "page-unit": 5,
    "lab": 150,
    "lab-all": 400,
    "timed": 20,
    "timed-all": 50,
    "integration": 900,
    "integration-all": 1800,
}


@dataclass(frozen=True)
class Test:
    name: str
    outcome: str  # "passed", "failed", "skipped"
    seconds: float = 0.0  # with its fixtures


@dataclass(frozen=True)
class Suite:
    """Commands that run one after the other, and how their tests are read from its log.

    A suite without a reader has its commands as its tests. `budget`: its processor seconds on a
    machine that does nothing else.
    """

    name: str
    commands: tuple[Sequence[str], ...]
    read: Callable[[Path], list[Test]] | None = None
    environment: dict[str, str] = field(default_factory=dict)
    nice: int = 0
    budget: float = float("inf")


@dataclass(frozen=True)
class Result:
    suite: Suite
    tests: list[Test]
    seconds: float
    processor_seconds: float
    log: Path

    def count(self, outcome: str) -> int:
        return sum(test.outcome == outcome for test in self.tests)

    @property
    def verdict(self) -> str:
        if self.count("failed"):
            return "FAILED"
        allowed = self.suite.budget * TOLERANCE
        return "ok" if self.processor_seconds <= allowed else f"TOO SLOW (at most {allowed:.0f} cpu s)"

    @property
    def ok(self) -> bool:
        return self.verdict == "ok"


def read_junit(log: Path) -> list[Test]:
    """Read the tests from the JUnit file that pytest or Vitest wrote next to a log, if it did."""
    file = junit_of(log)
    if not file.exists():
        return []
    outcomes = {"failure": "failed", "error": "failed", "skipped": "skipped"}
    tests = []
    for case in ElementTree.parse(file).iter("testcase"):
        found = [outcomes[child.tag] for child in case if child.tag in outcomes]
        name = f"{case.get('classname')}::{case.get('name')}"
        tests.append(Test(name, min(found, default="passed"), float(case.get("time", 0))))
    return tests


def junit_of(log: Path) -> Path:
    return log.with_suffix(".xml")


def read_go(log: Path) -> list[Test]:
    """Read the tests, without their sub-tests, from the output of "go test -json"."""
    outcomes = {"pass": "passed", "fail": "failed", "skip": "skipped"}
    events = (json.loads(line) for line in log.read_text().splitlines() if line.startswith("{"))
    return [
        Test(
            f"{event['Package'].rpartition('/')[2]}.{event['Test']}",
            outcomes[event["Action"]],
            event.get("Elapsed", 0),
        )
        for event in events
        if "/" not in event.get("Test", "/") and event["Action"] in outcomes
    ]


def read_c(log: Path) -> list[Test]:
    """Read the C test programs from their output; each prints "NAME: ok" at its end."""
    return [
        Test(name, "passed") for name in re.findall(r"^([A-Za-z ]+): ok\b", log.read_text(), re.MULTILINE)
    ]


def shell_scripts() -> list[str]:
    """List the tracked shell scripts, by their name or by their first line; templates are none."""
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    scripts = []
    for name in filter(None, tracked.decode().split("\0")):
        path = ROOT / name
        if path.is_file() and not path.is_symlink() and path.suffix != ".j2":
            with path.open("rb") as file:
                first = file.readline(64)
            if name.endswith(".sh") or re.match(rb"#!\s*/(usr/)?bin/(env )?(ba)?sh\b", first):
                scripts.append(name)
    return scripts


def pytest_suite(name: str, *words: str, nice: int = 0) -> Suite:
    junit = f"--junitxml={junit_of(LOGS / name)}"
    command = (PYTHON, "-m", "pytest", "-q", junit, *words)
    return Suite(name, (command,), read_junit, nice=nice)


def python_suites(suffix: str, select: str) -> list[Suite]:
    """Make the suites of tests against real parts, of the tests that `select` leaves in."""
    real = ("--ignore", CLOCK_UNDER_LOAD, "tests/integration")
    return [
        pytest_suite(f"lab{suffix}", "-m", f"lab{select}", "tests/lab"),
        pytest_suite(f"timed{suffix}", "-m", f"timed{select}", *real),
        pytest_suite(
            f"integration{suffix}", "-n", "3", "--dist", "loadfile", "-m", f"not timed{select}", *real, nice=5
        ),
    ]


def make_suites() -> dict[str, Suite]:
    """Make all suites, by their names."""
    quiet_make = ("make", "-s", "--no-print-directory")
    tools_first = {"PATH": f"{ROOT / '.venv/bin'}:{os.environ.get('PATH', '')}"}
    build = f"BUILD={ROOT / 'build'}"
    suites = [
        Suite("ruff", ((".venv/bin/ruff", "check", "."), (".venv/bin/ruff", "format", "--check", "."))),
        Suite("types", ((PYTHON, "-m", "tools.types"), ("tools/npm", "run", "types"))),
        Suite("imports", ((PYTHON, "-m", "tools.imports"),)),
        Suite("prose", ((PYTHON, "-m", "tools.prose"),)),
        Suite("templates", ((PYTHON, "-m", "tools.templates"),)),
        Suite("yaml", ((".venv/bin/yamllint", "--strict", "."),)),
        Suite("shell", ((".venv/bin/shellcheck", *shell_scripts()),)),
        Suite(
            "ansible-lint",
            ((".venv/bin/ansible-lint", "-q", "playbooks", "ansible/roles"),),
            environment=tools_first,
        ),
        Suite(
            "go-vet",
            (
                ("sh", "-c", GO_FORMAT),
                ("tools/go", "vet", "./..."),
                ("tools/go", "tool", "staticcheck", "./..."),
            ),
            environment={"CGO_ENABLED": "1"},
        ),
        Suite("c-lint", tuple((*quiet_make, "-C", part, "check") for part in C_PARTS)),
        Suite("c", tuple((*quiet_make, "-C", part, "test", build) for part in C_TESTED), read_c),
        Suite("c-unit", tuple((*quiet_make, "-C", part, "unit", build) for part in C_TESTED), read_c),
        Suite("go", (("tools/go", "test", "-json", "./..."),), read_go, {"CGO_ENABLED": "1"}),
        Suite("go-unit", (("tools/go", "test", "-short", "-json", "./..."),), read_go, {"CGO_ENABLED": "1"}),
        pytest_suite("unit", "-n", "2", "--dist", "loadfile", "tests/unit", nice=5),
        Suite(
            "page-unit",
            (("tools/npm", "test", "--", *VITEST_REPORTS),),
            read_junit,
            {"NO_COLOR": "1"},
        ),
        *python_suites("", " and not long"),
        *python_suites("-all", ""),
    ]
    return {suite.name: replace(suite, budget=BUDGETS.get(suite.name, float("inf"))) for suite in suites}


VITEST_REPORTS = (
    "--reporter=default",
    "--reporter=junit",
    f"--outputFile.junit={junit_of(LOGS / 'page-unit')}",
)
# gofmt lists the files that it would change, and succeeds all the same.
GO_FORMAT = """
files=$("$(tools/go env GOROOT)/bin/gofmt" -l collectors workloads tests) && echo "$files" && test -z "$files"
"""
STATIC = (
    "types",
    "go-vet",
    "ansible-lint",
    "c-lint",
    "yaml",
    "prose",
    "imports",
    "templates",
    "ruff",
    "shell",
)
# The suites of a plan run two at once, in this order, and next to them the lab's and those against
# real parts, which mostly wait. Tests that assert times run last and alone.
PARTS = ("c", *STATIC, "go", "page-unit", "unit")
PLANS: dict[str, tuple[str, ...]] = {
    "check": (*STATIC, "c-unit", "go-unit", "page-unit", "unit"),
    "lint": STATIC,
    "python": ("lab", "page-unit", "unit", "integration", "timed"),
    "test": ("lab", *PARTS, "integration", "timed"),
    "test-all": ("lab-all", *PARTS, "integration-all", "timed-all"),
}


def run(suite: Suite) -> Result:
    """Run a suite's commands, also those after one that fails, with their output in its log."""
    LOGS.mkdir(parents=True, exist_ok=True)
    log = LOGS / f"{suite.name}.log"
    junit_of(log).unlink(missing_ok=True)
    began = time.monotonic()
    processor_seconds = 0.0
    failures = 0
    with log.open("wb") as output:
        for command in suite.commands:
            output.write(f"$ {' '.join(command)}\n".encode())
            output.flush()
            process = subprocess.Popen(
                ["nice", "-n", str(suite.nice), *command],
                cwd=ROOT,
                env=os.environ | suite.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            processor_seconds += usage.ru_utime + usage.ru_stime
            failures += process.returncode != 0
    tests = suite.read(log) if suite.read else [Test(suite.name, "passed")] * (len(suite.commands) - failures)
    failed = any(test.outcome == "failed" for test in tests)
    if (failures and not failed) or not tests:  # a suite that ran no test has not passed
        tests += [Test(suite.name, "failed")] * max(failures, 1)
    return Result(suite, tests, time.monotonic() - began, processor_seconds, log)


def run_after(before: Sequence[Future[Result]], suite: Suite) -> Result:
    """Run a suite when those before it are over."""
    wait(before)
    return run(suite)


def readable(result: Result) -> str:
    """Return the log of a suite, of "go test -json" the text that it carries of what failed."""
    text = result.log.read_text(errors="replace")
    if result.suite.read is not read_go:
        return text
    lines: list[str] = []
    by_test: dict[tuple[str, str], list[str]] = {}
    for line in text.splitlines():
        if not line.startswith("{"):
            lines.append(line + "\n")
            continue
        event = json.loads(line)
        test = (event.get("Package", event.get("ImportPath", "")), event.get("Test", ""))
        if "output" in event["Action"]:
            by_test.setdefault(test, []).append(event["Output"])
        elif event["Action"] in ("fail", "build-fail"):
            lines += by_test.pop(test, [])
    return "".join(lines)


def report(result: Result) -> None:
    """Print that a suite ended, and all its output where it failed."""
    if result.ok:
        print(f"{result.suite.name}: ok, {result.count('passed')} in {result.seconds:.0f} s", flush=True)
        return
    if result.count("failed"):
        print(f"\n{readable(result).rstrip()}")
    print(f"{result.suite.name}: {result.verdict} ({result.log})\n", flush=True)


def table(results: Sequence[Result], seconds: float) -> str:
    """Format the suites as a table, then the slowest tests and the logs of what failed."""
    processor = sum(r.processor_seconds for r in results)
    outcomes = Counter(test.outcome for r in results for test in r.tests)
    form = "{:<16}{:>9}{:>9}{:>8}{:>9}{:>9}{:>9}  {}"
    lines = [form.format("suite", "seconds", "cpu s", "share", "passed", "failed", "skipped", "")]
    for r in results:
        share = f"{100 * r.processor_seconds / processor:.0f} %" if processor else ""
        counts = (r.count("passed"), r.count("failed"), r.count("skipped"))
        cpu = f"{r.processor_seconds:.0f}"
        lines.append(form.format(r.suite.name, f"{r.seconds:.0f}", cpu, share, *counts, r.verdict))
    counts = (outcomes["passed"], outcomes["failed"], outcomes["skipped"])
    verdict = "ok" if all(r.ok for r in results) else "FAILED"
    lines.append(form.format("all", f"{seconds:.0f}", f"{processor:.0f}", "100 %", *counts, verdict))
    slowest = sorted(
        ((test.seconds, r.suite.name, test.name) for r in results for test in r.tests), reverse=True
    )
    named = [f"{taken:7.1f} s  {suite}: {name}" for taken, suite, name in slowest[:SLOWEST] if taken]
    lines += ["", "slowest tests", *named] if named else []
    lines += [f"failed: {r.suite.name} ({r.log.relative_to(ROOT)})" for r in results if not r.ok]
    return "\n".join(lines)


def run_plan(names: Iterable[str]) -> int:
    """Run the suites, then print the table. Returns the exit code."""
    suites = make_suites()
    results: list[Result] = []
    began = time.monotonic()
    with (
        ThreadPoolExecutor(max_workers=1) as lab,
        ThreadPoolExecutor(max_workers=1) as real_parts,
        ThreadPoolExecutor(max_workers=2) as others,
    ):
        pools = {"lab": lab, "integration": real_parts}
        begun: dict[str, Future[Result]] = {}
        for name in names:
            before = list(begun.values()) if name.startswith("timed") else []
            pool = pools.get(name.removesuffix("-all"), others)
            begun[name] = pool.submit(run_after, before, suites[name])
        for done in as_completed(begun.values()):
            report(done.result())
            results.append(done.result())
    print("\n" + table(results, time.monotonic() - began))
    outcomes = Counter(test.outcome for result in results for test in result.tests)
    skipped = f", {outcomes['skipped']} skipped" if outcomes["skipped"] else ""
    print(f"\n{outcomes['passed']} passed, {outcomes['failed']} failed{skipped}")
    return 0 if all(result.ok for result in results) else 1


def main(arguments: Sequence[str]) -> int:
    suites = make_suites()
    parser = argparse.ArgumentParser(prog="tools.suites", description="Run suites of checks and tests.")
    parser.add_argument("--list", action="store_true", help="print the commands of each suite")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join([*PLANS, *suites])}")
    options = parser.parse_args(arguments)
    if options.list:
        for name, plan in PLANS.items():
            print(f"{name}: {' '.join(plan)}")
        for suite in suites.values():
            print(f"\n{suite.name}:")
            print("\n".join(f"  {' '.join(command)}" for command in suite.commands))
        return 0
    unknown = [name for name in options.names if name not in PLANS and name not in suites]
    if unknown or not options.names:
        parser.error(f"unknown suite {', '.join(unknown)}" if unknown else "name a suite")
    return run_plan(suite for name in options.names for suite in PLANS.get(name, (name,)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
