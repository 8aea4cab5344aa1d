# SPDX-License-Identifier: GPL-3.0-or-later
"""What follows a run that did not end well: which are attempted again, by whom, and when not."""
