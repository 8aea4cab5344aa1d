# SPDX-License-Identifier: GPL-3.0-or-later
"""A results folder that is merged with others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from joulerig import json_text
from joulerig.analysis import results
from joulerig.analysis.results import journal
from joulerig.analysis.results.schema import TABLES
from joulerig.errors import JoulerigError

KEY = "merged"  # of the provenance of a merged campaign


class MergeError(JoulerigError):
    """Campaigns that are not parts of one; the message is one line that names them."""


@dataclass(frozen=True, eq=False)
class Source:
    """A results folder, its journal's rows by table in the current version."""

    folder: Path
    rows: dict[str, list[dict[str, Any]]]

    @classmethod
    def read(cls, folder: Path) -> Source:
        """Read a results folder. Raises joulerig.analysis.results.campaign.ResultsError."""
        results.load(folder)  # says what is wrong with it
        copy = journal.copy(folder / journal.FILE)
        try:
            rows = {table: copy.rows(table).by_name() for table in TABLES}
            for event in rows["event"]:
                json_text.parse_object(event["detail"])
        except (ValueError, journal.JournalError) as error:
            raise MergeError(f"{folder}: table event: {error}") from None
        return cls(folder, rows)

    @property
    def campaign(self) -> dict[str, Any]:
        return self.rows["campaign"][0]

    @property
    def name(self) -> str:
        """Return the campaign's id."""
        return str(self.campaign["id"])

    @cached_property
    def definition(self) -> dict[str, Any]:
        found: dict[str, Any] = json_text.parse(self.campaign["definition"])
        return found

    @cached_property
    def lab(self) -> dict[str, Any]:
        found: dict[str, Any] = json_text.parse(self.campaign["lab"])
        return found

    @cached_property
    def provenance(self) -> dict[str, Any]:
        found: dict[str, Any] = json_text.parse(self.campaign["provenance"])
        return found

    def of_run(self, table: str, run: str) -> list[Mapping[str, Any]]:
        """Return a run's rows of a table."""
        return self._by_run[table].get(run, [])

    @cached_property
    def _by_run(self) -> dict[str, dict[str, list[Mapping[str, Any]]]]:
        found: dict[str, dict[str, list[Mapping[str, Any]]]] = {}
        for table, rows in self.rows.items():
            by_run = found.setdefault(table, {})
            for row in rows:
                if row.get("run") is not None:
                    by_run.setdefault(row["run"], []).append(row)
        return found
