# SPDX-License-Identifier: GPL-3.0-or-later
"""Shared by every part of the controller: user errors, paths, whole files, SQLite, waiting,
the supervised processes."""
