# SPDX-License-Identifier: GPL-3.0-or-later
"""Comparisons of cells and of campaigns: what the runs separate, drift, outliers, Cemp."""
