# SPDX-License-Identifier: GPL-3.0-or-later
"""A campaign's tables: runs, cells and comparisons as polars frames."""
