# SPDX-License-Identifier: GPL-3.0-or-later
"""The virtual lab, which stands in for a bench.

It has test hosts in QEMU, twins for drives and virtual power taps.
"""
