# SPDX-License-Identifier: GPL-3.0-or-later
"""Uses that the kernel does not list: of processes, in configuration, by what moves on a drive."""
