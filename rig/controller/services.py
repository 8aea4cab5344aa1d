# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the controller's own services: InfluxDB, powerd, the dashboard; give their addresses."""

from __future__ import annotations

import datetime
import json
import socket
import sys
from pathlib import Path
from typing import Any

import httpx

from joulerig.rig import protocols
from joulerig.rig.common import files, paths, supervisor
from joulerig.rig.common.errors import RIG_UP, UserError
from joulerig.rig.controller import influxdb
from joulerig.rig.lab import inventory, virtual
from joulerig.rig.lab.meters import calibration, connections, source
from joulerig.rig.lab.model import Lab, Rail

PROCESSES = ("influxd", "powerd", "dashboard")
# How often powerd sends: the record of each run waits for the points of its last moment.
POWER_FLUSH_SECONDS = 0.25


def start(lab: Lab) -> None:
    """Start InfluxDB, powerd and the dashboard; leaves alone what runs already as it should."""
    for built in ("powerd", "srcap"):
        if not paths.program(built).exists():
            raise UserError(f"{paths.short(paths.program(built))}: not built; 'make build' builds it")
    influxdb.start(lab)
    supervisor.start([_powerd(lab)])
    supervisor.start([_dashboard(lab)])


def stop() -> list[str]:
    """Stop the controller's services."""
    return supervisor.stop(lambda name: name in PROCESSES)


def check(lab: Lab) -> None:
    """Raise UserError, in one line, unless InfluxDB and powerd serve."""
    influxdb.check(lab)
    powerd_status()


def powerd_status() -> dict:
    """Return powerd's status of its meters (docs/reference/protocols/powerd.md).

    Raises UserError.
    """
    return powerd("GET", "/status")


def power_sessions() -> frozenset[str]:
    """Return the sessions that powerd has had here: points of any other are not powerd's."""
    path = paths.var() / "powerd" / "sessions"
    try:
        return frozenset(path.read_text().split())
    except FileNotFoundError:
        return frozenset()
    except (OSError, ValueError) as error:
        raise UserError(f"{paths.short(path)}: cannot be read: {error}") from None


def change_setting(meter: str, key: str, value: str) -> None:
    """Have powerd change a setting of an instrument that it captures. Raises UserError."""
    request = protocols.powerd.SettingRequest(meter=meter, key=key, value=value)
    powerd("POST", "/settings", request.model_dump())


def powerd(method: str, path: str, body: dict | None = None) -> dict:
    """Return powerd's reply to a request on its socket (docs/reference/protocols/powerd.md).

    Raises UserError.
    """
    socket_path = _status_socket()
    try:
        # Without TLS, what it trusts need not be read; that takes longer than the request.
        transport = httpx.HTTPTransport(uds=str(socket_path), verify=False)
        with httpx.Client(transport=transport, trust_env=False) as client:
            answer = client.request(method, f"http://powerd{path}", json=body, timeout=30)
            if answer.is_client_error:
                raise UserError(f"powerd: {' '.join(answer.text.split())}")
            return answer.raise_for_status().json()
    except (httpx.HTTPError, ValueError) as error:
        raise UserError(f"powerd does not answer ({paths.short(socket_path)}): {error}; {RIG_UP}") from None


def clock_listen(lab: Lab) -> str:
    """Return the address on which powerd answers SNTP requests."""
    address, _, port = lab.controller.clock_listen.rpartition(":")
    return f"{address}:{port if port != '0' else files.kept_port('clock')}"


def dashboard_url() -> str:
    return f"http://127.0.0.1:{files.kept_port('dashboard')}/"


def deployment(lab: Lab, host: str) -> dict:
    """Return what provisioning puts on a test host: agent configuration, password, lab clock."""
    spec = lab.hosts[host]
    writer = influxdb.host_access(lab, host)
    drives = [
        # Of one NVMe drive's namespaces the WWN says which is meant.
        {"name": name, "serial": drive.serial, **({"wwid": drive.wwn} if drive.wwn else {})}
        for name, drive in spec.drives.items()
    ]
    drives += [{"name": name, "md": name} for name, array in spec.arrays.items() if not array.pool]
    return {
        "rig_build": str(paths.programs()),
        "rig_clock_server": f"{spec.controller_in_url}:{clock_listen(lab).rpartition(':')[2]}",
        "rig_agent": {
            "password": writer.password,
            "config": protocols.iod.Config.model_validate(
                {
                    "host": host,
                    "interval_seconds": 0.1,
                    "health_interval_seconds": 30,
                    "spool_dir": "/var/lib/joulerig/spool",
                    "socket": "/run/joulerig/iod.sock",
                    "influx": {
                        **writer.as_config(),
                        "password_file": "/etc/joulerig/influx-password",
                    },
                    "drives": drives,
                }
            ).model_dump(exclude_unset=True),
        },
    }


def _status_socket() -> Path:
    return paths.run() / "powerd.sock"


def _meter(lab: Lab, name: str, rails: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a meter as powerd takes it (docs/reference/protocols/powerd.md), without defaults."""
    meter = lab.controller.meters[name]
    corrections = calibration.corrections(lab, name)
    settings = source.settings(meter)
    channels = lab.meter_channels(name)
    full_scale = {ch: meter.full_scale[kind] for ch, kind in channels.items() if kind in meter.full_scale}
    return {
        "name": name,
        **source.powerd_driver(lab, name),
        **({"capturer": source.program(meter.family, meter)} if meter.family.capturer else {}),
        "sample_rate_hz": meter.sample_rate_hz,
        "samples": meter.samples,
        **({"bandwidth_hz": meter.bandwidth_hz} if meter.bandwidth_hz else {}),
        "rails": rails,
        **({"timing": meter.timing} if meter.timing != "stream" else {}),
        **({"silence_seconds": meter.silence_seconds} if meter.silence_seconds else {}),
        **({"clock_ppm": meter.clock_ppm} if meter.clock_ppm else {}),
        **({"open_seconds": meter.family.open_seconds} if meter.family.open_seconds else {}),
        **({"fixed_settings": True} if meter.family.fixed_settings else {}),
        **({"set": settings} if settings else {}),
        **({"expected": expected} if (expected := connections.expected(meter)) else {}),
        **({"full_scale": full_scale} if full_scale else {}),
        **({"calibration": corrections} if corrections else {}),
        **({"calibration_serial": owner} if (owner := calibration.serial(lab, name)) else {}),
    }


def meters(lab: Lab) -> list[dict[str, Any]]:
    """Return the lab's meters that measure a rail, as powerd takes them."""
    rails: dict[str, list[dict[str, Any]]] = {name: [] for name in lab.controller.meters}
    for host, spec in lab.hosts.items():
        for drive, model in spec.drives.items():
            for rail, wiring in model.rails.items():
                rails[wiring.meter].append({"rail": rail, "host": host, "drive": drive, **_rail(wiring)})
    needed = [name for name in lab.controller.meters if rails[name] or lab.lent_channels(name)]
    return [_meter(lab, name, rails[name]) for name in needed]


def _rail(wiring: Rail) -> dict[str, Any]:
    """Return how a rail is measured, as powerd takes it."""
    found: dict[str, Any] = dict(wiring.channels)
    if wiring.volts_meter:
        found |= {"volts": wiring.volts, "volts_meter": wiring.volts_meter}
    if wiring.stated:
        found |= {"constant_volts": wiring.stated.volts, "volts_tolerance": wiring.stated.tolerance}
    if wiring.supply:
        found["greatest_watts"] = wiring.supply.greatest_watts
    return found


def _powerd(lab: Lab) -> supervisor.Program:
    config = protocols.powerd.Config.model_validate(
        {
            "state_dir": str(paths.var() / "powerd"),
            "srcap": str(paths.program("srcap")),
            "status_socket": str(_status_socket()),
            "recordings_dir": str(paths.results()),
            "clock_listen": clock_listen(lab),
            "points_per_second": lab.controller.points_per_second,
            "influx": {
                **influxdb.access(lab, "powerd").as_config(),
                "flush_interval_seconds": POWER_FLUSH_SECONDS,
            },
            "meters": meters(lab),
        }
    )
    path = paths.var() / "powerd" / "config.json"
    files.replace(path, config.model_dump_json(indent=1, exclude_unset=True))

    def ready() -> bool:
        try:
            powerd_status()
        except UserError:
            return False
        return True

    # The configuration is part of the command's identity: a changed one restarts powerd.
    environment = {"JOULERIG_CONFIG": files.digest(path), **virtual.clock_environment(lab)}
    command = [str(paths.program("powerd")), "--config", str(path)]
    return supervisor.Program("powerd", command, ready, priority=250, environment=environment)


def control_token_file() -> Path:
    """Return the file of the token for the dashboard's controls, made at first use."""
    return files.secret("dashboard-control")


def _write_lab(lab: Lab) -> Path:
    """Write the lab as it is now for the dashboard's pages, which read no inventory themselves.

    An inventory may run programs: not because of a request from a browser.
    """
    written = inventory.read(lab.inventory, ("ansible_host",))
    content = {
        "lab": lab.without_secrets(),
        "addresses": {host: written.values[host].get("ansible_host") or host for host in lab.hosts},
        "calibration": calibration.provenance(lab, datetime.datetime.now(datetime.UTC).date()),
    }
    path = paths.var() / "dashboard" / "lab.json"
    files.replace(path, json.dumps(content, indent=1), mode=0o600)
    return path


def _dashboard(lab: Lab) -> supervisor.Program:
    port = files.kept_port("dashboard")
    config = {
        "listen": f"127.0.0.1:{port}",
        "results_dir": str(paths.results()),
        "influx": {**influxdb.access(lab, "reader").as_config(), "hosts": list(lab.hosts)},
        "powerd_status_socket": str(_status_socket()),
        "state_dir": str(paths.var()),
        "lab_file": str(_write_lab(lab)),
        "inventory": str(lab.inventory),
        "control_token_file": str(control_token_file()),
        "virtual": lab.virtual,
        "notifications": [one.model_dump() for one in lab.controller.notifications],
        "notified_file": str(paths.var() / "dashboard" / "notified.json"),
    }
    path = paths.var() / "dashboard" / "config.json"
    files.replace(path, json.dumps(config, indent=1), mode=0o600)  # a webhook's address is a secret

    def ready() -> bool:
        with socket.socket() as probe:
            probe.settimeout(1)
            return probe.connect_ex(("127.0.0.1", port)) == 0

    environment = {"JOULERIG_CONFIG": files.digest(path)}
    command = [sys.executable, "-m", "joulerig.rig.dashboard", "--config", str(path)]
    return supervisor.Program("dashboard", command, ready, priority=600, environment=environment)
