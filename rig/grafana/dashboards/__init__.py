# SPDX-License-Identifier: GPL-3.0-or-later
"""The dashboards: of a lab, of a campaign, and of its meters."""

from __future__ import annotations

from joulerig.rig.grafana.dashboard import Dashboard, Lab
from joulerig.rig.grafana.dashboards import campaign, lab, meters


def all_of(described: Lab) -> list[Dashboard]:
    """Return the dashboards of a lab."""
    return [lab.dashboard(described), campaign.dashboard(described), meters.dashboard(described)]
