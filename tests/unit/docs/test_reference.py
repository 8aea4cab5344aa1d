# SPDX-License-Identifier: GPL-3.0-or-later
"""The reference pages describe each model that a user or a program writes, once."""

from __future__ import annotations

import re
from collections import Counter
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def pages(reference: ModuleType) -> dict[str, str]:
    return {name: text for name, text in reference.pages().items() if name.endswith(".md")}


def headings(text: str) -> Counter[str]:
    return Counter(re.findall(r"^##+ (.+)$", text, re.MULTILINE))


@pytest.mark.parametrize("name", ["inventory", "campaign-file", "messages"])
def test_each_model_has_one_section_and_each_link_leads_to_one(pages: dict[str, str], name: str) -> None:
    text = pages[f"reference/{name}.md"]
    found = headings(text)
    anchors = {heading.replace(" ", "-") for heading in found}
    assert len(found) > 3
    assert {anchor.lower() for anchor in re.findall(r"\]\(#([^)]+)\)", text)} <= {a.lower() for a in anchors}
    if name != "campaign-file":  # the models that both kinds of campaign have are in it for each
        assert max(found.values()) == 1, found.most_common(3)
