# SPDX-License-Identifier: GPL-3.0-or-later
"""Execute power-cut campaigns: prepare, cut, read back, record."""
