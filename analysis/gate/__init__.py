# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a campaign passes next to a baseline, and since which of a series a cell differs."""
