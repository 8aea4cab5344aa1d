# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of the journal of a campaign that is planned: of `campaign`, and of `run`."""

from __future__ import annotations

import json
from typing import Any

CAMPAIGN = {
    "id": "study-1",
    "name": "study",
    "question": "Which?",
    "created_ns": 1,
    "definition": json.dumps({"seed": 1}),
    "lab": json.dumps({}),
    "virtual": 1,
    "provenance": json.dumps({}),
}


def row(ordinal: int, host: str = "h1", status: str = "planned") -> dict[str, Any]:
    return {
        "id": f"study-1-{ordinal:04d}", "ordinal": ordinal, "block": 1, "replicate": 1, "host": host,
        "drive": "fast", "filesystem": "ext4", "scheduler": "none", "workload": "seqwrite",
        "cell": "fast/ext4/none/seqwrite", "factors": "{}", "status": status, "reason": "",
    }  # fmt: skip
