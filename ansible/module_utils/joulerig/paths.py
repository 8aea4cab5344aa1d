# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a test host keeps what modules read and write. Read at each use: tests name other paths."""

SYS = "/sys"
PROC = "/proc"
DEV = "/dev"
RUN_LOCK = "/run/joulerig/run.lock"
ETC = "/etc"
# What this rig made on the drives, and which of them a person adopted.
DRIVES = "/var/lib/joulerig/drives.json"
# What a module call has yet to put back: gone with a reboot, as what it describes.
LEFTOVERS = "/run/joulerig/leftovers.json"
# What its calls are executed from.
CODE = "/run/joulerig/code"
# What the rig keeps on this host, of all boots; and which background units a campaign masked.
STATE = "/var/lib/joulerig"
QUIET = "/run/joulerig/quiet"
