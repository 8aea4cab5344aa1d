# SPDX-License-Identifier: GPL-3.0-or-later
"""The virtual lab: test hosts in QEMU, twins for drives, virtual power taps; it stands in for a bench."""
