# SPDX-License-Identifier: GPL-3.0-or-later
"""A static site of bundles, each verified before it is listed."""
