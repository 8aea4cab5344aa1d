# SPDX-License-Identifier: GPL-3.0-or-later
"""Run suites of checks and tests, and print a table of their times and counts.

    python -m tools.suites check     style, types and unit tests: the inner loop
    python -m tools.suites test      everything but the long tests
    python -m tools.suites types     one suite by name
    python -m tools.suites --list    what each of them runs

The output of each suite goes to build/suites/NAME.log; that of a suite that fails is also printed.
The last line is "N passed, M failed", for a CI to read. Exits 1 where a suite fails.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOGS = ROOT / "build" / "suites"
PYTHON = ".venv/bin/python"
PYTEST = (PYTHON, "-m", "pytest", "-q", "--durations=20")
CLOCK_UNDER_LOAD = "tests/integration/collectors/test_clock_under_load.py"  # make test-clock
C_PARTS = ("virtuallab/clock", "virtuallab/twin", "firmware/power_tap", "collectors/srcap")
C_TESTED = ("virtuallab/clock", "virtuallab/twin", "firmware/power_tap")


@dataclass(frozen=True)
class Counts:
    """How many tests passed, failed and were skipped."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped)


@dataclass(frozen=True)
class Suite:
    """Commands that run one after the other, and how their tests are counted.

    A suite without a counter counts its commands as its tests.
    """

    name: str
    commands: tuple[Sequence[str], ...]
    count: Callable[[str], Counts] | None = None
    environment: dict[str, str] = field(default_factory=dict)
    nice: int = 0


@dataclass(frozen=True)
class Result:
    suite: Suite
    counts: Counts
    seconds: float
    processor_seconds: float
    log: Path

    @property
    def ok(self) -> bool:
        return self.counts.failed == 0


def count_pytest(log: str) -> Counts:
    """Count the tests in pytest's closing line, "3 failed, 120 passed, 2 skipped in 4.20s"."""
    closing = [line for line in log.splitlines() if re.search(r"\d+ \w+.* in [\d.]+s", line)]
    found = re.findall(r"(\d+) (\w+)", closing[-1]) if closing else []
    number = {word: int(digits) for digits, word in found}
    failed = number.get("failed", 0) + number.get("error", 0) + number.get("errors", 0)
    return Counts(number.get("passed", 0), failed, number.get("skipped", 0))


def count_go(log: str) -> Counts:
    """Count the tests, without their sub-tests, in the output of "go test -json"."""
    counted = {"pass": 0, "fail": 0, "skip": 0}
    for line in log.splitlines():
        if not line.startswith("{"):
            continue
        event = json.loads(line)
        if "/" not in event.get("Test", "/") and event["Action"] in counted:
            counted[event["Action"]] += 1
    return Counts(counted["pass"], counted["fail"], counted["skip"])


def count_vitest(log: str) -> Counts:
    """Count the tests in Vitest's closing line, "Tests  2 failed | 142 passed (144)"."""
    closing = re.findall(r"^\s*Tests  (.*)$", log, re.MULTILINE)
    number = {
        word: int(digits) for digits, word in re.findall(r"(\d+) (\w+)", closing[-1] if closing else "")
    }
    return Counts(number.get("passed", 0), number.get("failed", 0), number.get("skipped", 0))


def count_c(log: str) -> Counts:
    """Count the C test programs; each prints "NAME: ok" at its end."""
    return Counts(len(re.findall(r"^[A-Za-z ]+: ok\b", log, re.MULTILINE)))


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
        ),
        Suite("c-lint", tuple((*quiet_make, "-C", part, "check") for part in C_PARTS)),
        Suite("c", tuple((*quiet_make, "-C", part, "test", build) for part in C_TESTED), count_c),
        Suite("c-unit", tuple((*quiet_make, "-C", part, "unit", build) for part in C_TESTED), count_c),
        Suite("go", (("tools/go", "test", "-json", "./..."),), count_go, {"CGO_ENABLED": "1"}),
        Suite("go-unit", (("tools/go", "test", "-short", "-json", "./..."),), count_go, {"CGO_ENABLED": "1"}),
        Suite("unit", ((*PYTEST, "-n", "2", "--dist", "loadfile", "tests/unit"),), count_pytest),
        Suite("page-unit", (("tools/npm", "test"),), count_vitest, {"NO_COLOR": "1"}),
        Suite(
            "integration",
            (
                (
                    *PYTEST,
                    "-m",
                    "not lab and not alongside",
                    f"--ignore={CLOCK_UNDER_LOAD}",
                    "tests/integration",
                ),
            ),
            count_pytest,
        ),
        Suite(
            "alongside-lab",
            ((*PYTEST, "-m", "alongside", "tests/integration"),),
            count_pytest,
            nice=5,
        ),
        Suite("lab", ((*PYTEST, "-m", "lab", "tests/lab"),), count_pytest),
    ]
    return {suite.name: suite for suite in suites}


# The suites of a stage run at the same time, two at once, in this order: the longest first.
# gofmt lists the files that it would change, and succeeds all the same.
GO_FORMAT = """
files=$("$(tools/go env GOROOT)/bin/gofmt" -l collectors workloads tests) && echo "$files" && test -z "$files"
"""
STATIC = ("types", "go-vet", "ansible-lint", "c-lint", "yaml", "prose", "imports", "ruff", "shell")
# Tests that need little of a processor run alongside the lab's, which wait for their host.
PYTHON_STAGES = (("unit", "page-unit"), ("integration",), ("lab", "alongside-lab"))
PLANS: dict[str, tuple[tuple[str, ...], ...]] = {
    "check": ((*STATIC, "c-unit", "go-unit", "page-unit"), ("unit",)),
    "lint": (STATIC,),
    "python": PYTHON_STAGES,
    "test": (("c", *STATIC), ("go",), *PYTHON_STAGES),
}


def run(suite: Suite) -> Result:
    """Run a suite's commands, also those after one that fails, with their output in its log."""
    LOGS.mkdir(parents=True, exist_ok=True)
    log = LOGS / f"{suite.name}.log"
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
    if suite.count is None:
        counts = Counts(len(suite.commands) - failures, failures)
    else:
        counts = suite.count(log.read_text(errors="replace"))
        if failures and not counts.failed:
            counts += Counts(failed=failures)
        elif not failures and counts == Counts():
            counts = Counts(failed=1)  # a suite that ran no test has not passed
    return Result(suite, counts, time.monotonic() - began, processor_seconds, log)


def readable(result: Result) -> str:
    """Return the log of a suite, of "go test -json" the text that it carries of what failed."""
    text = result.log.read_text(errors="replace")
    if result.suite.count is not count_go:
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
        print(f"{result.suite.name}: ok, {result.counts.passed} in {result.seconds:.0f} s", flush=True)
        return
    print(f"\n{readable(result).rstrip()}\n{result.suite.name}: FAILED ({result.log})\n", flush=True)


def table(results: Iterable[Result], seconds: float) -> str:
    """Format suites, times and counts as a table with totals, and the failed suites below it."""
    results = list(results)
    total = sum((result.counts for result in results), Counts())
    rows = [
        (r.suite.name, f"{r.seconds:.0f}", f"{r.processor_seconds:.0f}", r.counts, "ok" if r.ok else "FAILED")
        for r in results
    ]
    processor = sum(r.processor_seconds for r in results)
    rows.append(("all", f"{seconds:.0f}", f"{processor:.0f}", total, "FAILED" if total.failed else "ok"))
    form = "{:<16}{:>9}{:>9}{:>9}{:>9}{:>9}  {}"
    lines = [form.format("suite", "seconds", "cpu s", "passed", "failed", "skipped", "")]
    lines += [
        form.format(name, wall, cpu, counts.passed, counts.failed, counts.skipped, verdict)
        for name, wall, cpu, counts, verdict in rows
    ]
    lines += [f"failed: {r.suite.name} ({r.log.relative_to(ROOT)})" for r in results if not r.ok]
    return "\n".join(lines)


def run_plan(stages: Iterable[Sequence[str]]) -> int:
    """Run the suites of each stage, then print the table. Returns the exit code."""
    suites = make_suites()
    results: list[Result] = []
    began = time.monotonic()
    for stage in stages:
        with ThreadPoolExecutor(max_workers=2) as pool:
            for result in pool.map(run, [suites[name] for name in stage]):
                report(result)
                results.append(result)
    print("\n" + table(results, time.monotonic() - began))
    total = sum((result.counts for result in results), Counts())
    skipped = f", {total.skipped} skipped" if total.skipped else ""
    print(f"\n{total.passed} passed, {total.failed} failed{skipped}")
    return 1 if total.failed else 0


def main(arguments: Sequence[str]) -> int:
    suites = make_suites()
    parser = argparse.ArgumentParser(prog="tools.suites", description="Run suites of checks and tests.")
    parser.add_argument("--list", action="store_true", help="print the commands of each suite")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join([*PLANS, *suites])}")
    options = parser.parse_args(arguments)
    if options.list:
        for name, stages in PLANS.items():
            print(f"{name}: {' | '.join(' '.join(stage) for stage in stages)}")
        for suite in suites.values():
            print(f"\n{suite.name}:")
            print("\n".join(f"  {' '.join(command)}" for command in suite.commands))
        return 0
    unknown = [name for name in options.names if name not in PLANS and name not in suites]
    if unknown or not options.names:
        parser.error(f"unknown suite {', '.join(unknown)}" if unknown else "name a suite")
    stages: list[Sequence[str]] = []
    for name in options.names:
        stages += PLANS.get(name, ((name,),))
    return run_plan(stages)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
