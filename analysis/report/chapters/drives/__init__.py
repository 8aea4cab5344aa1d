# SPDX-License-Identifier: GPL-3.0-or-later
"""Chapters on what a campaign says of each drive, rather than of its cells."""
