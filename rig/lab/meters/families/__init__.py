# SPDX-License-Identifier: GPL-3.0-or-later
"""Families of meters, one module each: every module here is found and has a `FAMILY`."""
