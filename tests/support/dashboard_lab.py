# SPDX-License-Identifier: GPL-3.0-or-later
"""A dashboard's server with all that stands behind it, and what its page shows of that."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from tests.support.dashboard_feed import Feed
from tests.support.dashboard_journal import WritableJournal
from tests.support.dashboard_powerd import Powerd
from tests.support.dashboard_server import Dashboard
from tests.support.influxd import Influxd

NAME = "demo-20261120-201500"


@dataclass
class Lab:
    """All that stands behind the page."""

    influxd: Influxd
    feed: Feed
    powerd: Powerd
    dashboard: Dashboard
    journals: list[WritableJournal] = field(default_factory=list)

    def journal(self, campaign: str = NAME, created_ns: int | None = None, **more: Any) -> WritableJournal:
        journal = WritableJournal(self.dashboard.results, campaign, created_ns or time.time_ns(), **more)
        self.journals.append(journal)
        return journal
