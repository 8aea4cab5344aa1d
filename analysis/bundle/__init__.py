# SPDX-License-Identifier: GPL-3.0-or-later
"""A campaign as one self-contained file: raw data, journal, tables, report and hashes."""
