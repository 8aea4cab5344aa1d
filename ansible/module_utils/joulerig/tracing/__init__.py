# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the kernel's counters and tracepoints of a test host."""
