# SPDX-License-Identifier: GPL-3.0-or-later
"""The SMART / Health Information log of NVMe drives.

Source: NVM Express Base Specification 2.0, 5.16.1.3. The fields have the names that nvme-cli gives
them in JSON, so that runs of any age read alike; no text of one of its versions stands in between.
"""

from __future__ import annotations

# Name, offset and bytes of each field.
FIELDS = (
    ("critical_warning", 0, 1), ("temperature", 1, 2), ("avail_spare", 3, 1), ("spare_thresh", 4, 1),
    ("percent_used", 5, 1), ("endurance_grp_critical_warning_summary", 6, 1), ("data_units_read", 32, 16),
    ("data_units_written", 48, 16), ("host_read_commands", 64, 16), ("host_write_commands", 80, 16),
    ("controller_busy_time", 96, 16), ("power_cycles", 112, 16), ("power_on_hours", 128, 16),
    ("unsafe_shutdowns", 144, 16), ("media_errors", 160, 16), ("num_err_log_entries", 176, 16),
    ("warning_temp_time", 192, 4), ("critical_comp_time", 196, 4),
    ("thm_temp1_trans_count", 216, 4), ("thm_temp2_trans_count", 220, 4),
    ("thm_temp1_total_time", 224, 4), ("thm_temp2_total_time", 228, 4),
)  # fmt: skip
SENSORS, SENSOR_OFFSET = 8, 200


def parse(log: bytes) -> dict[str, int]:
    """Return the fields of a log by name: temperatures in kelvins, times as the log has them.

    Sensors that a drive lacks are left out. Raises ValueError for a short log.
    """
    if len(log) < 512:
        raise ValueError(f"a health log of {len(log)} bytes")
    found = {name: int.from_bytes(log[at : at + size], "little") for name, at, size in FIELDS}
    for number in range(SENSORS):
        at = SENSOR_OFFSET + 2 * number
        if kelvins := int.from_bytes(log[at : at + 2], "little"):
            found[f"temperature_sensor_{number + 1}"] = kelvins
    return found


# Of OCP's log "SMART / Health Information Extended" (C0h; Datacenter NVMe SSD Specification).
OCP_GUID = bytes.fromhex("c5af1028eabff2a49c4f6f7cc914d5af")


def parse_extended(log: bytes) -> dict[str, int]:
    """Return the bytes that the flash programmed; nothing of a log that is not OCP's."""
    if len(log) < 512 or log[496:512] != OCP_GUID:
        return {}
    return {"physical_media_units_written": int.from_bytes(log[:16], "little")}
