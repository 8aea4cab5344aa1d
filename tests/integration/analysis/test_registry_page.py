# SPDX-License-Identifier: GPL-3.0-or-later
"""The registry's page in a browser: by keyboard, on a phone, with nothing from outside."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from joulerig.analysis.bundle import environment, writer
from joulerig.analysis.bundle.check import OK, Check
from joulerig.analysis.registry import entries, site
from joulerig.analysis.registry.entries import Refused
from tests.support import ROOT, verifiable_campaign
from tests.support.dashboard_page import launch

AXE = ROOT / "rig/dashboard/node_modules/axe-core/axe.min.js"
CAMPAIGNS = {
    "demo": {"drives": ("nvme-plp", "nvme-consumer"), "filesystems": ("ext4", "f2fs")},
    "other": {
        "drives": ("sata-plp",),
        "filesystems": ("xfs",),
        "schedulers": ("none", "bfq"),
        "virtual": False,
    },
}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("registry")
    for name, given in CAMPAIGNS.items():
        built = verifiable_campaign.build(folder / name, name=name, **given)
        writer.write(built, folder / f"{name}.zip", environment.here(None))
    listed, _ = entries.gather(folder, {}, lambda path: [Check("manifest", OK)])
    site.write(folder / "site", listed, [Refused(Path("bad.zip"), ("manifest: a file differs",))])
    return (folder / "site" / "index.html").as_uri()


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        found = launch(playwright)
        yield found
        found.close()


@pytest.fixture
def page(browser, address):
    """The page; a request for anything but it, and an error of its script, fail the test."""
    opened = browser.new_page()
    asked, errors = [], []
    opened.on("request", lambda request: asked.append(request.url))
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.on("console", lambda line: errors.append(line.text) if line.type == "error" else None)
    opened.goto(address)
    yield opened
    assert {url.partition("?")[0].partition("#")[0] for url in asked} == {address}
    assert not errors
    opened.close()


def shown(page: Page) -> int:
    return page.locator("#rows tr:visible").count()


def test_filters_narrow_and_the_address_keeps_them(page: Page, address: str) -> None:
    assert shown(page) == 6
    page.get_by_label("Drive").select_option("sata-plp")
    expect(page.get_by_role("status")).to_have_text("2 of 6 cells")
    page.get_by_label("Scheduler").select_option("bfq")
    assert shown(page) == 1
    assert page.url.endswith("?drive=sata-plp&scheduler=bfq")
    page.reload()
    assert shown(page) == 1
    page.get_by_role("button", name="Show all").click()
    expect(page.get_by_role("status")).to_have_text("6 of 6 cells")
    assert page.url == address


def test_words_are_searched_in_all_of_a_cell(page: Page) -> None:
    page.get_by_label("Text").fill("F2FS nvme-c")
    expect(page.get_by_role("status")).to_have_text("1 of 6 cells")
    page.get_by_label("Text").fill("nothing like it")
    expect(page.get_by_role("status")).to_have_text("0 of 6 cells")


def test_an_address_with_a_level_that_is_not_there_shows_all(page: Page, address: str) -> None:
    page.goto(f"{address}?drive=gone")
    assert shown(page) == 6


def test_the_keyboard_reaches_all(page: Page) -> None:
    reached = []
    for _ in range(8):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.className"))
    assert reached[0] == "skip"
    assert reached[1:6] == ["f-drive", "f-filesystem", "f-scheduler", "f-workload", "f-text"]
    assert reached[7] == "wide"


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_only_the_table_scrolls_sideways(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [pytest.param(390, marks=pytest.mark.long), 1280])
def test_axe_finds_nothing(browser, address: str, width: int, scheme: str) -> None:
    context = browser.new_context(
        viewport={"width": width, "height": 800}, color_scheme=scheme, bypass_csp=True
    )
    opened = context.new_page()
    opened.add_init_script(path=AXE)
    opened.goto(address)
    violations = opened.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
    assert [(one["id"], [node["target"] for node in one["nodes"]]) for one in violations] == []
    context.close()
