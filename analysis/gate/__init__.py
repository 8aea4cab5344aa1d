# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a campaign passes next to a baseline: for machines that build and test by themselves."""
