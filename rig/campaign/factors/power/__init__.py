# SPDX-License-Identifier: GPL-3.0-or-later
"""Factors that say how the power of drives, of their links and of the host is managed."""
