# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab as its inventory describes it, and everything a lab can declare by name."""
