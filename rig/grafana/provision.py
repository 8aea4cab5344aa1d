# SPDX-License-Identifier: GPL-3.0-or-later
"""Put a lab's data source and dashboards on an existing Grafana, or take them away again.

What is there as it should be is left alone, so that a second time changes nothing. The secret of
the data source cannot be read back: whether it is right is seen by a query that Grafana makes.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from joulerig.analysis.results.influxdb.schema import Writer
from joulerig.rig.common.errors import UserError
from joulerig.rig.controller import influxdb
from joulerig.rig.grafana import dashboards
from joulerig.rig.grafana.api import Api
from joulerig.rig.grafana.dashboard import SOURCE_TYPE, Dashboard, Lab, Meter, uid, version_numbers
from joulerig.rig.lab import model
from joulerig.rig.lab.meters import calibration

OLDEST = (9, 0)
USER = "grafana"  # of the rig's own InfluxDB
FORBIDDEN, UNAUTHORISED = 403, 401
# Grafana may add to what it was given, and rewrites this one.
NOT_COMPARED = ("schemaVersion",)


@dataclass(frozen=True)
class Reader:
    """Grafana's access to InfluxDB. `near`: the URL that the controller uses.

    `database`: the one that it asks unless a panel names others, which the dashboards' do.
    """

    url: str
    near: str
    database: str
    username: str
    password: str


def present(lab: model.Lab, *, pretend: bool = False) -> list[str]:
    """Provision; return what was changed, in words. `pretend`: what would be. Raises UserError."""
    settings, described, reader = _settings(lab), describe(lab), _reader(lab)
    raise_unless_read_only(reader, influxdb.databases(lab))
    with Api(settings.url, _secret("grafana.token_file", settings.token_file)) as api:
        version = _version(api)
        send: Callable[[str, str, Mapping[str, Any]], Any] = _nothing if pretend else api.send
        changes = _folder(api, send, described)
        changes += _source(api, send, described, reader, pretend=pretend)
        for one in dashboards.all_of(described):
            changes += _dashboard(api, send, described, one, version)
        return changes


def absent(lab: model.Lab, *, pretend: bool = False) -> list[str]:
    """Take away what `present` made; return what was. Raises UserError.

    The folder stays where it holds anything else.
    """
    settings, described = _settings(lab), describe(lab)
    with Api(settings.url, _secret("grafana.token_file", settings.token_file)) as api:
        _version(api)

        def delete(path: str, what: str) -> list[str]:
            there = api.get(path) is not None if pretend else api.delete(path)
            return [f"deleted {what}"] if there else []

        changes: list[str] = []
        for one in dashboards.all_of(described):
            changes += delete(f"/api/dashboards/uid/{uid(described, one.name)}", f"dashboard {one.title}")
        changes += delete(f"/api/datasources/uid/{described.uid}", "data source")
        own = {uid(described, one.name) for one in dashboards.all_of(described)}
        inside = [one for one in api.get("/api/search", limit=5000) if one.get("folderUid") == described.uid]
        if all(one["uid"] in own for one in inside):
            changes += delete(f"/api/folders/{described.uid}", "folder")
        return changes


def describe(lab: model.Lab) -> Lab:
    """Return what the dashboards say of a lab."""
    settings = lab.controller.grafana
    meters = [
        Meter(name, meter.driver, meter.sample_rate_hz, _calibrations(lab, name))
        for name, meter in sorted(lab.controller.meters.items())
    ]
    return Lab(
        settings.uid if settings else "joulerig",
        settings.title if settings else "Joulerig",
        lab.virtual,
        lab.controller.influxdb.database,
        list(lab.hosts),
        meters,
    )


def _calibrations(lab: model.Lab, meter: str) -> list[str]:
    today = datetime.datetime.now(datetime.UTC).date()
    found = calibration.load(lab, meter)
    return (
        [
            f"{channel}: {record.date}, {record.state(today)} until {record.expires}"
            if record.state(today) == "valid"
            else f"{channel}: {record.date}, expired on {record.expires}"
            for channel, record in sorted(found.records.items())
        ]
        if found
        else []
    )


def raise_unless_read_only(reader: Reader, databases: Sequence[str]) -> None:
    """Raise UserError unless InfluxDB knows the user and lets it write to none of these databases.

    Who may look at a panel may have Grafana send any statement as this user.
    """
    for database in databases:
        status = influxdb.write_status(reader.near, database, reader.username, reader.password)
        if status == UNAUTHORISED:
            raise UserError(
                f"InfluxDB at {reader.near} does not know user {reader.username!r} with this password;"
                " 'rig up' makes that of the rig's own server"
            )
        if status != FORBIDDEN:
            raise UserError(
                f"InfluxDB at {reader.near}: user {reader.username!r} can write to {database!r}; allowed for"
                " Grafana: one that can only read, as everyone who sees a panel can send any statement"
            )


def _settings(lab: model.Lab) -> model.Grafana:
    if lab.controller.grafana is None:
        raise UserError(
            f"{lab.inventory}: the controller has no 'grafana'; allowed: a mapping with url and token_file"
        )
    return lab.controller.grafana


def _reader(lab: model.Lab) -> Reader:
    settings, spec = _settings(lab), lab.controller.influxdb
    database = Writer.POWERD.database(spec.database)
    if not spec.url:
        own = influxdb.access(lab, USER)
        return Reader(settings.influxdb_url or own.url, own.url, database, own.username, own.password)
    if settings.influxdb_token_file is None:
        raise UserError(
            "grafana.influxdb_token_file: missing; Grafana is not given the controller's token, which can"
            " write: allowed: a file of one that can only read"
        )
    password = _secret("grafana.influxdb_token_file", settings.influxdb_token_file)
    return Reader(settings.influxdb_url or spec.url, spec.url, database, settings.influxdb_username, password)


def _secret(key: str, path: Path) -> str:
    try:
        return path.expanduser().read_text().strip()
    except OSError as error:
        raise UserError(f"{key}: {path}: {error.strerror}") from None


def _version(api: Api) -> tuple[int, ...]:
    health = api.get("/api/health")
    if not isinstance(health, dict) or "database" not in health:
        raise UserError(f"{api.url}: is no Grafana (/api/health)")
    version = version_numbers(str(health.get("version") or ""))  # some hide it
    if version and version < OLDEST:
        raise UserError(f"Grafana at {api.url} is {health['version']}; allowed: 9.0 or later")
    return version


def _nothing(method: str, path: str, body: Mapping[str, Any]) -> None:
    return None


def _folder(api: Api, send: Callable[..., Any], lab: Lab) -> list[str]:
    found = api.get(f"/api/folders/{lab.uid}")
    if found is None:
        send("POST", "/api/folders", {"uid": lab.uid, "title": lab.title})
        return ["made folder"]
    if found.get("title") == lab.title:
        return []
    send("PUT", f"/api/folders/{lab.uid}", {"title": lab.title, "overwrite": True})
    return ["named folder"]


def source_as_json(lab: Lab, reader: Reader) -> dict[str, Any]:
    """Return the data source as Grafana takes it, without its secret."""
    return {
        "uid": lab.uid,
        "name": lab.title,
        "type": SOURCE_TYPE,
        "access": "proxy",  # Grafana's server asks, so that no browser has the password
        "url": reader.url,
        "user": reader.username,
        "database": reader.database,  # Grafana 9
        "jsonData": {
            "dbName": reader.database,
            "httpMode": "GET",
            "version": "InfluxQL",
            "timeInterval": "1s",
        },
    }


def _source(api: Api, send: Callable[..., Any], lab: Lab, reader: Reader, *, pretend: bool) -> list[str]:
    wanted, found = source_as_json(lab, reader), api.get(f"/api/datasources/uid/{lab.uid}")
    whole = {**wanted, "secureJsonData": {"password": reader.password}}
    problem = partial(_reading_problem, api, lab, reader)
    if found is None:
        send("POST", "/api/datasources", whole)
        change = ["made data source"]
    elif not is_contained(wanted, found) or problem():
        send("PUT", f"/api/datasources/uid/{lab.uid}", whole)
        change = ["changed data source"]
    else:
        return []
    if not pretend and (why := problem()):
        raise UserError(f"Grafana at {api.url} cannot read InfluxDB at {reader.url}: {why}")
    return change


def _reading_problem(api: Api, lab: Lab, reader: Reader) -> str:
    """Return why Grafana cannot read InfluxDB, or an empty text where it can."""
    answer = api.through(lab.uid, "query", db=reader.database, q="SHOW MEASUREMENTS LIMIT 1")
    # A database that is not there is reported with HTTP 200.
    if answer.is_success and '"error"' not in answer.text:
        return ""
    return f"HTTP {answer.status_code}: {' '.join(answer.text.split())[:200]}"


def _dashboard(
    api: Api, send: Callable[..., Any], lab: Lab, one: Dashboard, version: tuple[int, ...]
) -> list[str]:
    wanted, found = one.as_json(lab, version), api.get(f"/api/dashboards/uid/{uid(lab, one.name)}")
    compared = {key: value for key, value in wanted.items() if key not in NOT_COMPARED}
    if found and is_contained(compared, found["dashboard"]) and found["meta"].get("folderUid") == lab.uid:
        return []
    body = {"dashboard": wanted, "folderUid": lab.uid, "overwrite": True, "message": "Provisioned by the rig"}
    send("POST", "/api/dashboards/db", body)
    return [f"{'changed' if found else 'made'} dashboard {one.title}"]


def is_contained(wanted: Any, found: Any) -> bool:
    """Return whether all that is wanted is there, whatever else is; nothing may be left out.

    >>> is_contained({"a": [{"b": 1}], "c": {}}, {"a": [{"b": 1, "id": 7}]})
    True
    >>> is_contained([1, 2], [1])
    False
    """
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(
            is_contained(value, found[key]) if key in found else value in ({}, [], "", None, False)
            for key, value in wanted.items()
        )
    if isinstance(wanted, list):
        return (
            isinstance(found, list)
            and len(wanted) == len(found)
            and all(is_contained(one, other) for one, other in zip(wanted, found, strict=True))
        )
    return bool(wanted == found)
