# SPDX-License-Identifier: GPL-3.0-or-later
"""Energy of an interval from a cumulative joule counter, its uncertainty, and work per joule."""
