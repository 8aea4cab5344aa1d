# SPDX-License-Identifier: GPL-3.0-or-later
"""The results folder of a power-cut campaign, as written: docs/reference/protocols/power-cut.md."""

from __future__ import annotations

import dataclasses
import json
import secrets
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from joulerig.analysis.powercut import folder as folders
from joulerig.analysis.powercut.folder import Subject
from joulerig.rig.common import files, paths


class Record:
    """A campaign's folder in results/."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        manifest = json.loads((folder / folders.MANIFEST).read_text())
        self.id: str = manifest["id"]
        self.campaign: str = manifest["campaign"]
        self.definition: dict[str, Any] = manifest["definition"]
        self.subjects = [Subject(**entry) for entry in manifest["subjects"]]

    @classmethod
    def create(cls, name: str, subjects: list[Subject], definition: dict[str, Any], virtual: bool) -> Record:
        """A new one."""
        created = time.time_ns()
        id_ = f"{name}-{datetime.fromtimestamp(created / 1e9, UTC):%Y%m%d-%H%M%S}"
        folder = paths.results() / id_
        folder.mkdir(parents=True)
        manifest = {
            "version": 1,
            "id": id_,
            "campaign": secrets.token_hex(16),
            "created_ns": created,
            "virtual": virtual,
            "definition": definition,
            "subjects": [dataclasses.asdict(subject) for subject in subjects],
        }
        files.replace(folder / folders.MANIFEST, json.dumps(manifest, indent=1))
        return cls(folder)

    def cut(self, subject: Subject, number: int) -> Path:
        """The folder of one cut; number 0 holds what was there before the first."""
        place = self.folder / "cuts" / subject.name / f"{number:04d}"
        place.mkdir(parents=True, exist_ok=True)
        return place
