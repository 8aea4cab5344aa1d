# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures of campaigns that are executed here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from joulerig.rig.campaign import opening
from joulerig.rig.campaign.opening import OpenCampaign
from joulerig.rig.lab.model import Lab


@pytest.fixture
def open_campaign() -> Iterator[Callable[[dict[str, Any], Lab], OpenCampaign]]:
    """open_campaign(ASKED, LAB) opens a campaign, until the test's end."""
    journals = []

    def opened(asked: dict[str, Any], lab: Lab) -> OpenCampaign:
        journals.append(opening.open_campaign(asked, lab, "playbooks/study.yml"))
        return OpenCampaign.load(journals[-1], lab)

    yield opened
    for journal in journals:
        journal.close()
