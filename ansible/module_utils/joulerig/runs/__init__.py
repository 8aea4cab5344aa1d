# SPDX-License-Identifier: GPL-3.0-or-later
"""A run of a campaign on this host."""
