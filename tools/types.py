# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the types of the Python packages with mypy, strictly, save where errors are still allowed.

    python -m tools.types            check
    python -m tools.types --all      print all errors, also the allowed ones
    python -m tools.types --lower    lower the ceilings to the counts of today
    python -m tools.types --rewrite  write the counts of today as ceilings, after moving modules

tools/ceilings/types.json has the errors that each module may have. A module that is not in it may
have none.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from joulerig.plural import counted
from tools import ratchet

ROOT = Path(__file__).resolve().parents[1]
ERROR = re.compile(r"(?P<file>[^:]+):\d+: error: ")


def find_errors() -> dict[str, list[str]]:
    """Run mypy. Returns its error lines by file; a fault of mypy's own raises SystemExit."""
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "--hide-error-context", "--no-pretty"]
    result = subprocess.run(
        [*command, "-p", "joulerig", "-p", "tools"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if result.returncode not in (0, 1):
        raise SystemExit(result.stdout.strip())
    errors: dict[str, list[str]] = defaultdict(list)
    for line in result.stdout.splitlines():
        if match := ERROR.match(line):
            file = os.path.relpath(os.path.realpath(ROOT / match["file"]), ROOT)
            errors[file].append(line)
    return errors


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="tools.types", description="Check types, strictly where none is excepted."
    )
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--all", action="store_true", help="print all errors, also the allowed ones")
    mode.add_argument("--lower", action="store_true", help="lower the ceilings to the counts of today")
    mode.add_argument("--rewrite", action="store_true", help="write the counts of today as ceilings")
    options = parser.parse_args(arguments)
    errors = find_errors()
    counts = {file: len(lines) for file, lines in errors.items()}
    allowed = counts if options.rewrite else ratchet.read("types")
    if options.rewrite or options.lower:
        allowed = ratchet.lower(counts, allowed)
        ratchet.write("types", allowed)
    exceeded = ratchet.find_exceeded(counts, allowed)
    for file in sorted(errors) if options.all else exceeded:
        print("\n".join(errors[file]))
    for file in exceeded:
        print(f"{file}: {counted(counts[file], 'type error')}; {allowed.get(file, 0)} allowed")
    found = f"{counted(sum(counts.values()), 'type error')} in {counted(len(counts), 'module')}"
    print(f"{found}; {sum(allowed.values())} allowed")
    return 1 if exceeded else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
