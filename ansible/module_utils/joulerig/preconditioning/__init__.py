# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring a drive to its steady state: fill it, load it, judge when it is steady."""
