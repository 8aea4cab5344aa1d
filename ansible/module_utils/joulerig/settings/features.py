# SPDX-License-Identifier: GPL-3.0-or-later
"""What NVMe drives and ATA disks say of their power management, read from their own answers.

Sources: NVM Express Base Specification 2.0, "Identify Controller", "Power Management" and
"Autonomous Power State Transition"; of limits of power, which are newer, how libnvme reads them;
ATA8-ACS, "IDENTIFY DEVICE".
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from ansible.module_utils.joulerig.drives.host import Host

POWER, AUTONOMOUS, POWER_LIMIT = 0x02, 0x0C, 0x23  # numbers of features
STATE_BITS = 0x1F
AUTONOMOUS_BYTES = 256
# Bytes of Identify Controller.
STATES, HAS_AUTONOMOUS, DESCRIPTORS, DESCRIPTOR_BYTES = 263, 265, 2048, 32
ATTRIBUTES, LIMITS_POWER = 96, 1 << 20
SMALL_UNIT, NOT_OPERATIONAL = 1 << 0, 1 << 1  # flags of a power state
# Words of IDENTIFY DEVICE: what it can do, what is on, the level of power management.
CAN, CAN_TOO, ON, LEVEL, EXTENDED = 82, 83, 86, 91, 120
POWER_MANAGEMENT = 1 << 3  # of word 82
APM = 1 << 3  # of words 83 and 86
EPC_ON = 1 << 7


def power_states(controller: bytes) -> list[dict[str, Any]]:
    """Return the power states of an NVMe controller: most watts, whether it serves, times in µs."""
    found = []
    for number in range(controller[STATES] + 1):
        start = DESCRIPTORS + DESCRIPTOR_BYTES * number
        power, flags, entry, leave = struct.unpack_from("<HxBII", controller, start)
        found.append(
            {
                "max_watts": power / (10_000 if flags & SMALL_UNIT else 100) or None,
                "operational": not flags & NOT_OPERATIONAL,
                "entry_microseconds": entry,
                "exit_microseconds": leave,
            }
        )
    return found


def power_state(host: Host, descriptor: int) -> int:
    """Return the power state that an NVMe drive is in. Raises OSError."""
    value, _ = host.calls.nvme_feature(descriptor, POWER)
    return int(value) & STATE_BITS


def limits_power(controller: bytes) -> bool:
    """Return whether an NVMe drive can be given a limit of its power."""
    (attributes,) = struct.unpack_from("<I", controller, ATTRIBUTES)
    return bool(attributes & LIMITS_POWER)


def limit_value(watts: float) -> int:
    """Return a limit as its feature has it: in 0.1 mW, or in 10 mW where these are too many."""
    fine = round(watts * 10_000)
    return fine | 1 << 16 if fine <= 0xFFFF else round(watts * 100) | 2 << 16


def limit_watts(value: int) -> float | None:
    """Return the watts of a limit; None where there is none."""
    number = value & 0xFFFF
    return number / (10_000 if value >> 16 & 3 == 1 else 100) if number else None


def has_autonomous(controller: bytes) -> bool:
    """Return whether an NVMe drive can change power states by itself."""
    return bool(controller[HAS_AUTONOMOUS] & 1)


def autonomous(host: Host, descriptor: int, states: int) -> dict[str, Any]:
    """Return whether an NVMe drive changes power states by itself, and where to after how long.

    {enabled, transitions: [{state, to, idle_milliseconds}]}. Raises OSError.
    """
    value, table = host.calls.nvme_feature(descriptor, AUTONOMOUS, AUTONOMOUS_BYTES)
    found = []
    for number in range(states):
        (entry,) = struct.unpack_from("<Q", table, 8 * number)
        if idle := entry >> 8 & 0xFFFFFF:
            found.append({"state": number, "to": entry >> 3 & STATE_BITS, "idle_milliseconds": idle})
    return {"enabled": bool(value & 1), "transitions": found}


def ata_words(identity: bytes) -> tuple[int, ...]:
    """Return an ATA disk's description of itself, as the standard numbers its words."""
    return struct.unpack("<256H", identity)


def apm(words: Sequence[int]) -> int | None:
    """Return the level of advanced power management; None where it is off, or not there."""
    return words[LEVEL] & 0xFF if words[ON] & APM else None


def has_extended_power(words: Sequence[int]) -> bool:
    """Return whether a disk's own timers of extended power conditions are on."""
    return bool(words[EXTENDED] & EPC_ON)
