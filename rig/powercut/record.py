# SPDX-License-Identifier: GPL-3.0-or-later
"""The results folder of a power-cut campaign, as it is written: docs/interfaces.md."""

from __future__ import annotations

import dataclasses
import json
import secrets
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from analysis.powercut import folder as folders
from analysis.powercut.folder import Subject
from rig import files, paths


class Record:
    """A new campaign's folder in results/."""

    def __init__(self, name: str, subjects: list[Subject], **more: Any) -> None:
        created = time.time_ns()
        self.id = f"{name}-{datetime.fromtimestamp(created / 1e9, UTC):%Y%m%d-%H%M%S}"
        self.campaign = secrets.token_hex(16)
        self.folder = paths.results() / self.id
        self.folder.mkdir(parents=True)
        manifest = {
            "version": 1,
            "id": self.id,
            "campaign": self.campaign,
            "created_ns": created,
            "subjects": [dataclasses.asdict(subject) for subject in subjects],
            **more,
        }
        files.replace(self.folder / folders.MANIFEST, json.dumps(manifest, indent=1))

    def cut(self, subject: Subject, number: int) -> Path:
        """The folder of one cut; number 0 holds what was there before the first."""
        place = self.folder / "cuts" / subject.name / f"{number:04d}"
        place.mkdir(parents=True, exist_ok=True)
        return place
