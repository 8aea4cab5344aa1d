# SPDX-License-Identifier: GPL-3.0-or-later
"""Energy, work per joule, and the lab report, from InfluxDB and a campaign's results folder."""
