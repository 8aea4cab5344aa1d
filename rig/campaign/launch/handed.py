# SPDX-License-Identifier: GPL-3.0-or-later
"""Hand data to a playbook, and read them in its action plugins, past Ansible's variables.

Ansible takes the text of a variable for a template: `{{ lookup('pipe', ...) }}` in the name of a
file system would be executed. So what `rig` hands to a playbook travels as a JSON file that an
environment variable names, and an action plugin gives it to its module
(docs/decisions/079-data-are-never-templates.md). tools/templates.py refuses other ways.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ENVIRONMENT = "JOULERIG_HANDED"
CONTROLLER = "controller"  # to whom a campaign's own arguments are handed

Handed = Mapping[str, Mapping[str, Any]]
"""Arguments of a playbook's action, by the host that they are for."""


@contextmanager
def file(data: Handed) -> Iterator[dict[str, str]]:
    """Write `data` to a file of this user's alone; yield the environment of the playbook."""
    with tempfile.TemporaryDirectory(prefix="joulerig-") as folder:
        path = Path(folder) / "handed.json"
        path.write_text(json.dumps(data))
        yield {ENVIRONMENT: str(path)}


def read(name: str) -> dict[str, Any] | None:
    """Return what was handed for the host `name`; None: nothing.

    A playbook that a person started has nothing.
    """
    path = os.environ.get(ENVIRONMENT)
    found: dict[str, dict[str, Any]] = json.loads(Path(path).read_text()) if path else {}
    return found.get(name)
