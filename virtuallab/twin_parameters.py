# SPDX-License-Identifier: GPL-3.0-or-later
"""A drive profile as parameters of the twin's nbdkit plugin.

See docs/reference/protocols/twin.md, "Twin".
"""

from __future__ import annotations

from joulerig.virtuallab.profile import Disk, Flash, Profile, SelfReport, Thermal

# nbdkit serves as many operations of a connection at once: more than a queue of NVMe or NCQ that
# QEMU keeps.
THREADS = 32


def from_profile(profile: Profile) -> list[str]:
    """Return a profile as `key=value` arguments, rails first: later ones name them."""
    rails = []
    for name, r in profile.rails.items():
        fields = [name, r.volts, r.source_ohms, r.idle_watts, r.read_joules_per_byte, r.write_joules_per_byte]
        fields += [r.command_joules, r.flush_joules]
        if (active := profile.active_watts(name)) is not None:
            fields.append(active)
        rails.append("rail=" + ",".join(map(str, fields)))
    arguments = rails + [
        f"work={name},{cause},{work.joules_per_byte},{work.watts}"
        for name, rail in profile.rails.items()
        for cause, work in rail.work.items()
    ]
    arguments += [
        f"write_cache={profile.write_cache_bytes}",
        f"plp={'yes' if profile.plp else 'no'}",
        f"ready={_ns(profile.ready_seconds)}",
        f"holdup={_ns(profile.holdup_ms * 1e-3)}",
    ]
    if profile.flash:
        arguments += _flash(profile.flash)
    if profile.disk:
        arguments += _disk(profile.disk)
    if profile.thermal:
        arguments += _thermal(profile.thermal)
    if profile.self_report:
        arguments += _self_report(profile.self_report)
    return arguments + _operational(profile) + _dozing(profile)


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)


def _flash(flash: Flash) -> list[str]:
    latency = flash.latency_us
    values: dict[str, object] = {
        "model": "flash",
        "channels": flash.channels,
        "page_bytes": flash.page_bytes,
        "read_command_ns": _ns(latency.read * 1e-6),
        "write_command_ns": _ns(latency.write * 1e-6),
        "flush_ns": _ns(latency.flush * 1e-6),
        "page_read_ns": _ns(latency.page_read * 1e-6),
        "program_ns": _ns(latency.program * 1e-6),
        "erase_ns": _ns(latency.erase * 1e-6),
        "read_bytes_per_second": flash.read_bytes_per_second,
        "write_bytes_per_second": flash.write_bytes_per_second,
        "overprovisioning": flash.overprovisioning,
    }
    if latency.short_read is not None:
        values["short_read_ns"] = _ns(latency.short_read * 1e-6)
    if latency.next_page > 0:
        values["next_page_ns"] = _ns(latency.next_page * 1e-6)
    if flash.block_pages is not None:
        values["block_pages"] = flash.block_pages
    if flash.rated_erases is not None:
        values["rated_erases"] = flash.rated_erases
    if flash.moved_apart:
        values["moved_apart"] = 1
    if flash.slc_fraction > 0 and latency.slc_program is not None:
        values |= {
            "slc_fraction": flash.slc_fraction,
            "slc_program_ns": _ns(latency.slc_program * 1e-6),
            "fold_delay_ns": _ns(flash.fold_delay_seconds),
        }
    return [f"{key}={value}" for key, value in values.items()]


def _disk(disk: Disk) -> list[str]:
    values: dict[str, object] = {
        "model": "disk",
        "rpm": disk.rpm,
        "heads": disk.heads,
        "zones": disk.zones,
        "track_to_track_ns": _ns(disk.seek_ms.track_to_track * 1e-3),
        "average_seek_ns": _ns(disk.seek_ms.average * 1e-3),
        "full_stroke_ns": _ns(disk.seek_ms.full_stroke * 1e-3),
        "head_switch_ns": _ns(disk.head_switch_ms * 1e-3),
        "command_ns": _ns(disk.command_us * 1e-6),
        "outer_bytes_per_second": disk.outer_bytes_per_second,
        "inner_bytes_per_second": disk.inner_bytes_per_second,
        "link_bytes_per_second": disk.link_bytes_per_second,
        "read_ahead_bytes": disk.read_ahead_bytes,
    }
    return [f"{key}={value}" for key, value in values.items()]


def _thermal(thermal: Thermal) -> list[str]:
    return [
        f"ambient_celsius={thermal.ambient_celsius}",
        f"kelvin_per_watt={thermal.kelvin_per_watt}",
        f"thermal_seconds={thermal.seconds}",
    ] + [
        f"throttle={level.enter_celsius},{level.leave_celsius},{level.rate},{level.watts}"
        for level in thermal.throttle
    ]


def _self_report(report: SelfReport) -> list[str]:
    arguments = [f"written,{report.written_factor}", f"temperature,{report.temperature_kelvins}"]
    if report.energy_factor is not None:
        stated = "" if report.error_percent is None else f",{report.error_percent}"
        arguments += [f"energy,{report.energy_factor}{stated}", f"flaw,{report.flaw}"]
    if report.ocp:
        arguments.append("ocp")
    return [f"reports={one}" for one in arguments]


def _operational(profile: Profile) -> list[str]:
    states = profile.operational_states
    arguments = [
        f"operational={_ns(state.entry_us * 1e-6)},{_ns(state.exit_us * 1e-6)},{state.rate}"
        for state in states
    ]
    for rail in profile.rails if states else ():
        watts = ",".join(str(state.watts[rail]) for state in states)
        idle = ",".join(str(profile.idle_watts(state, rail)) for state in states)
        arguments += [f"operational_watts={rail},{watts}", f"operational_idle_watts={rail},{idle}"]
    names = [state.name for state in states]
    return arguments + (
        [f"operating={names.index(profile.operating_state)}"] if profile.operating_state else []
    )


def _dozing(profile: Profile) -> list[str]:
    states = [(state, state.idle_seconds) for state in profile.power_states if state.idle_seconds is not None]
    arguments = [
        f"doze={_ns(idle_seconds)},{_ns(state.entry_us * 1e-6)},{_ns(state.exit_us * 1e-6)}"
        for state, idle_seconds in states
    ]
    if states:
        for rail in profile.rails:
            arguments.append(f"doze_watts={rail}," + ",".join(str(state.watts[rail]) for state, _ in states))
    return arguments + [
        f"declared_watts={number},{state.declared_watts}"
        for number, state in enumerate(profile.power_states)
        if state.declared_watts is not None
    ]
