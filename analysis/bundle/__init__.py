# SPDX-License-Identifier: GPL-3.0-or-later
"""A campaign as one file that can be checked by itself: raw data, journal, tables, report, hashes."""
