# SPDX-License-Identifier: GPL-3.0-or-later
"""Show every feature of this folder on one virtual lab: results/bench/beyond.json.

Prints a line for each. With `--folder` what was shown is kept there, and not shown again: one that
was interrupted goes on. With `--only` the file keeps what it has of the other features. Exit
code: 0 if all were shown, 1 if not, 2 if the lab did not come up.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pkgutil
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.bench import beyond
from tests.support import ROOT
from tests.support.lab_driver import Lab


def features() -> list[str]:
    return sorted(module.name for module in pkgutil.iter_modules(beyond.__path__) if module.name[0] != "_")


def show(name: str, lab: Lab) -> dict[str, Any]:
    """Return seconds, and `shown`: what came out, or null with the `problem`."""
    began = time.monotonic()
    found: dict[str, Any] = {"seconds": 0.0, "shown": None}
    try:
        found["shown"] = importlib.import_module(f"tests.bench.beyond.{name}").show(lab)
    except beyond.NotShownError as problem:
        found["problem"] = str(problem)
    except Exception as error:  # the others are shown all the same
        traceback.print_exc()
        found["problem"] = f"{type(error).__name__}: {error}"
    return {**found, "seconds": round(time.monotonic() - began, 1)}


def record(output: Path, found: Mapping[str, dict[str, Any]]) -> None:
    """Write what was found to a file, which keeps what it has of other features that there are."""
    output.parent.mkdir(parents=True, exist_ok=True)
    before = json.loads(output.read_text()) if output.exists() else {}
    entries = {name: {**before, **found}.get(name) for name in features()}
    output.write_text(json.dumps({name: one for name, one in entries.items() if one}, indent=1) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", choices=features(), help="this one alone")
    parser.add_argument("--folder", type=Path, help="of the lab's state and results; else a new one")
    parser.add_argument("--output", type=Path, default=ROOT / "results" / "bench" / "beyond.json")
    args = parser.parse_args()
    folder = args.folder or Path(tempfile.mkdtemp(prefix="joulerig-beyond-"))
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / "beyond.json"
    found = json.loads(kept.read_text()) if kept.exists() else {}
    asked = args.only or features()
    lab = Lab(folder)
    try:
        up = lab.rig("up", timeout=1800)
        if up.returncode:
            print(up.stderr, file=sys.stderr)
            return 2
        for name in asked:
            if not found.get(name, {}).get("shown"):
                found[name] = show(name, lab)
                kept.write_text(json.dumps(found))
            record(args.output, {name: found[name]})
            print(f"{name}: {found[name]['shown'] or 'NOT SHOWN: ' + found[name]['problem']}", flush=True)
    finally:
        lab.rig("down")
    return 0 if all(found[name]["shown"] for name in asked) else 1


if __name__ == "__main__":
    sys.exit(main())
