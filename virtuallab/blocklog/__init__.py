# SPDX-License-Identifier: GPL-3.0-or-later
"""A twin as a block device of this machine, and the log of what an application writes to it."""
