# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures of drives under load: greatest power by standards' windows, and wear."""
