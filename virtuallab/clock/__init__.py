# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's clock: one page by which all programs of a virtual lab have the same time."""
