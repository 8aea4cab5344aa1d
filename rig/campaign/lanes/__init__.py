# SPDX-License-Identifier: GPL-3.0-or-later
"""Drives of one host side by side (`side_by_side` of a campaign): what is planned and allowed.

Each drive of a host is a lane: its runs follow each other in the order of the plan, alongside those
of other lanes (docs/decisions/038-side-by-side.md).
"""
