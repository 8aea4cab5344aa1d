# SPDX-License-Identifier: GPL-3.0-or-later
"""Text from elsewhere is text on every page, in a real browser."""

from __future__ import annotations

import time

import pytest
from playwright.sync_api import Page, expect

from tests.support.dashboard_lab import Lab
from tests.support.dashboard_powerd import meter
from tests.support.hostile_text import NAMES, evaluated

SECOND = 1_000_000_000
TEXT = NAMES["template and markup"]


@pytest.mark.parametrize("path", ["", "campaign", "history", "rig"])
def test_markup_and_templates_from_elsewhere_are_shown_as_they_are(lab: Lab, page: Page, path: str):
    lab.powerd.meters["hostile"] = meter(TEXT, "failed", TEXT)
    now = time.time_ns()
    for number, finished in enumerate((True, False)):
        journal = lab.journal(f"demo-2026112{number}-201500", now - 60 * SECOND, question=TEXT, name=TEXT)
        first, second, third, *_ = journal.plan((TEXT, "nvme-plp"), (TEXT,), (TEXT,), (TEXT,), replicates=2)
        journal.end(first, now - 50 * SECOND, ops=20000, joules=100.0)
        journal.end(second, now - 40 * SECOND, "failed", TEXT)
        journal.event("hold", now - 30 * SECOND, reason=TEXT)
        journal.begin(third, now - 20 * SECOND)
        if finished:
            journal.finish(now - 10 * SECOND)
    page.goto(lab.dashboard.url + path)
    expect(page.locator("body")).to_contain_text("<hostile-x>")
    assert page.locator("hostile-x").count() == 0
    assert evaluated(page.locator("body").inner_text()) == []
