# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a test host keeps what modules read and write. Read at each use: tests name other paths."""

SYS = "/sys"
PROC = "/proc"
DEV = "/dev"
RUN_LOCK = "/run/joulerig/run.lock"
