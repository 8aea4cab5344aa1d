# SPDX-License-Identifier: GPL-3.0-or-later
"""Debian's Chromium, headless, without its own requests to the network."""

from __future__ import annotations

import time
from typing import Any

from playwright.sync_api import Browser, Page, Playwright, expect

PATIENCE_MS = 30_000  # with what a page is to show, of a machine that does other things too
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-domain-reliability",
    "--no-first-run",
]


def launch(playwright: Playwright) -> Browser:
    expect.set_options(timeout=PATIENCE_MS)
    return playwright.chromium.launch(executable_path="/usr/bin/chromium", args=ARGUMENTS)


def wait_for(page: Page, expression: str, seconds: float = PATIENCE_MS / 1000) -> Any:
    """Return the first true value of a JavaScript expression; the page forbids eval."""
    end = time.monotonic() + seconds
    while True:
        value = page.evaluate(expression)
        if value:
            return value
        assert time.monotonic() < end, f"never true within {seconds} s: {expression}"
        page.wait_for_timeout(50)
