# SPDX-License-Identifier: GPL-3.0-or-later
"""Execute a campaign's plan on test hosts: the loop, what precedes a run, and its record."""
