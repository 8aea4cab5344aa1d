# SPDX-License-Identifier: GPL-3.0-or-later
"""Bundle the dashboard's page: TypeScript and what it uses, as one script and one style sheet.

    python -m tools.page

The statuses and phases of a run are the schema's: the page's module of them is written first, so
that the compiler checks that each has its symbol. The licence of what is bundled goes alongside it.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from joulerig.analysis.results.schema import FINISHED, PhaseName, PreconditioningPhase, Status

ROOT = Path(__file__).resolve().parents[1]
DASHBOARD = ROOT / "rig" / "dashboard"
NAMES = DASHBOARD / "page" / "generated" / "names.ts"
BUNDLE = DASHBOARD / "static" / "js"
LISTS: Mapping[str, tuple[str, Iterable[str]]] = {
    "STATUSES": ("Status", Status),
    "FINISHED": ("FinishedStatus", FINISHED),
    "PHASES": ("PhaseName", PhaseName),
    "PRECONDITIONING": ("PreconditioningPhase", PreconditioningPhase),
}


def names_module() -> str:
    """Return the page's module of statuses and phases, as the journal has them."""
    lines = ["// Written by tools/page.py from analysis/results/schema.py."]
    for constant, (name, values) in LISTS.items():
        lines.append(f"export const {constant} = {json.dumps([str(value) for value in values])} as const;")
        lines.append(f"export type {name} = (typeof {constant})[number];")
    return "\n".join(lines) + "\n"


def main() -> None:
    NAMES.parent.mkdir(exist_ok=True)
    NAMES.write_text(names_module())
    subprocess.run([ROOT / "tools" / "npm", "run", "build"], check=True)
    shutil.copy(DASHBOARD / "node_modules" / "uplot" / "LICENSE", BUNDLE / "uPlot.LICENSE")


if __name__ == "__main__":
    main()
