# SPDX-License-Identifier: GPL-3.0-or-later
"""Provide InfluxDB: Debian's influxd as the user's own process, or an existing server by URL."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import httpx

from joulerig.rig.common import files, paths, supervisor
from joulerig.rig.common.errors import RIG_UP, UserError
from joulerig.rig.lab.model import Lab, TestHost

# Who uses the rig's own server, and how: a test host's secret cannot read, a reader's cannot write.
PRIVILEGES = {"powerd": "WRITE", "iod": "WRITE", "reader": "READ"}


@dataclass(frozen=True)
class Access:
    """How one user reaches the database."""

    url: str
    database: str
    username: str
    password_file: Path

    @property
    def password(self) -> str:
        try:
            return self.password_file.read_text().strip()
        except OSError as error:
            raise UserError(
                f"{self.password_file}: {error.strerror}; it must contain InfluxDB's token"
            ) from None

    def as_config(self) -> dict[str, str]:
        """Return it as powerd, iod and dashboard take it (docs/reference/protocols/README.md)."""
        return {
            "url": self.url,
            "database": self.database,
            "username": self.username,
            "password_file": str(self.password_file),
        }


def access(lab: Lab, user: str) -> Access:
    """Return the access of `user` (one of PRIVILEGES), with the URL that the controller uses."""
    spec = lab.controller.influxdb
    if spec.url:
        return Access(spec.url, spec.database, spec.username, spec.token_file.expanduser())
    return Access(_own_url(), spec.database, user, files.secret(user))


def url_from_host(lab: Lab, spec: TestHost) -> str:
    """Return the server's URL as a test host reaches it."""
    influx = lab.controller.influxdb
    if influx.url_from_hosts:
        return influx.url_from_hosts
    if influx.url:
        return influx.url
    return f"http://{spec.controller_in_url}:{files.kept_port('influxdb')}"


def start_hint(lab: Lab) -> str:
    """Return what starts a server that does not answer; "" where it is not the rig's own."""
    return "" if lab.controller.influxdb.url else f"; {RIG_UP}"


def check(lab: Lab) -> None:
    """Raise UserError, in one line, unless the server answers and knows us."""
    reader = access(lab, "reader")
    try:
        answer = httpx.get(
            f"{reader.url}/query",
            params={"db": reader.database, "q": "SHOW MEASUREMENTS LIMIT 1"},
            auth=(reader.username, reader.password),
            timeout=5,
            trust_env=False,
            verify=reader.url.startswith("https:"),  # reading what TLS trusts takes longer than the rest
        )
    except httpx.HTTPError as error:
        raise UserError(f"InfluxDB at {reader.url} does not answer: {error}{start_hint(lab)}") from None
    # A database that is not there is reported with HTTP 200.
    if answer.status_code != 200 or '"error"' in answer.text:
        text = " ".join(answer.text.split())[:200]
        raise UserError(f"InfluxDB at {reader.url}: HTTP {answer.status_code}: {text}")


def start(lab: Lab) -> None:
    """Start the rig's own server unless the inventory names another; create database and users."""
    if lab.controller.influxdb.url:
        check(lab)
        return
    if not shutil.which("influxd"):
        raise UserError("influxd: not found; 'make setup' (or: apt-get install influxdb) installs it")
    port = files.kept_port("influxdb")
    place = paths.var() / "influxdb"
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    empty = place / "influxdb.conf"
    empty.touch()
    listen = "0.0.0.0" if any(not host.virtual for host in lab.hosts.values()) else "127.0.0.1"
    environment = {
        "INFLUXDB_META_DIR": f"{place}/meta",
        "INFLUXDB_DATA_DIR": f"{place}/data",
        "INFLUXDB_DATA_WAL_DIR": f"{place}/wal",
        "INFLUXDB_DATA_INDEX_VERSION": "tsi1",
        "INFLUXDB_DATA_QUERY_LOG_ENABLED": "false",
        # What is not flushed yet is searched by every query: kept small, a live dashboard costs a
        # third less.
        "INFLUXDB_DATA_CACHE_SNAPSHOT_MEMORY_SIZE": "2m",
        "INFLUXDB_HTTP_BIND_ADDRESS": f"{listen}:{port}",
        "INFLUXDB_HTTP_AUTH_ENABLED": "true",
        "INFLUXDB_HTTP_LOG_ENABLED": "false",
        "INFLUXDB_BIND_ADDRESS": f"127.0.0.1:{files.kept_port('influxdb-rpc')}",
        "INFLUXDB_REPORTING_DISABLED": "true",
        "INFLUXDB_MONITOR_STORE_ENABLED": "false",
    }

    def ready() -> bool:
        try:
            return httpx.get(f"{_own_url()}/ping", timeout=1, trust_env=False).status_code == 204
        except httpx.HTTPError:
            return False

    supervisor.start(
        [
            supervisor.Program(
                "influxd", ["influxd", "-config", str(empty)], ready, priority=10, environment=environment
            )
        ]
    )
    _make_users(lab.controller.influxdb.database)
    check(lab)


def _own_url() -> str:
    return f"http://127.0.0.1:{files.kept_port('influxdb')}"


def _make_users(database: str) -> None:
    admin = files.secret("influxdb-admin").read_text()
    # The first user needs no password; later this is refused, which is all right.
    _administer(f"CREATE USER admin WITH PASSWORD '{admin}' WITH ALL PRIVILEGES", None)
    _administer(f'CREATE DATABASE "{database}"', admin)
    for user, privilege in PRIVILEGES.items():
        password = files.secret(user).read_text()
        _administer(f"CREATE USER {user} WITH PASSWORD '{password}'", admin)
        _administer(f'GRANT {privilege} ON "{database}" TO {user}', admin)


def _administer(statement: str, password: str | None) -> None:
    answer = httpx.post(
        f"{_own_url()}/query",
        data={"q": statement},
        auth=("admin", password) if password else None,
        timeout=10,
        trust_env=False,
    )
    if password and (answer.status_code != 200 or "error" in answer.text):
        what = " ".join(statement.split()[:3])
        raise UserError(f"InfluxDB at {_own_url()}: {what}: HTTP {answer.status_code}: {answer.text.strip()}")
