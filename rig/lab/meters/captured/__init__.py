# SPDX-License-Identifier: GPL-3.0-or-later
"""Families that joulerig.capturers reads, one module each: every module here has a `FAMILY`."""
