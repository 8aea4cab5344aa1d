# SPDX-License-Identifier: GPL-3.0-or-later
"""The form of a campaign's id, and of a run's: they name folders, and calls on test hosts."""

ID = r"[A-Za-z0-9][A-Za-z0-9_.-]*"
LONGEST_ID = 120
