# SPDX-License-Identifier: GPL-3.0-or-later
"""Provide InfluxDB: influxd as the user's own process, or an existing server by URL.

Each writer has a database that no other account writes to (analysis/results/influxdb/schema.py).
"""

from __future__ import annotations

import contextlib
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx

from joulerig.analysis.results.influxdb import schema
from joulerig.analysis.results.influxdb.schema import Writer
from joulerig.rig.common import files, paths, supervisor
from joulerig.rig.common.errors import RIG_UP, UserError
from joulerig.rig.lab.model import Lab, TestHost

# The accounts of the controller: each writes one database, or reads all of them. Besides, each test
# host has one, which writes that host's database.
WRITERS = {"powerd": Writer.POWERD, "campaign": Writer.CAMPAIGN}
READERS = ("reader", "grafana")
HOST_USER = "iod-"  # and the host's name
REFUSED = (401, 403)
LOOPBACK = "127.0.0.1"
EVERYWHERE = ("0.0.0.0", "::")
# The first version whose debug endpoints can be had with a password only.
DEBUG_WITH_PASSWORD = (1, 8)


@dataclass(frozen=True)
class Access:
    """Access of one account to its own database, or to all whose names begin with `database`."""

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
    """Return the access of a user of WRITERS or READERS, with the URL that the controller uses."""
    spec = lab.controller.influxdb
    database = WRITERS[user].database(spec.database) if user in WRITERS else spec.database
    if spec.url:
        return Access(spec.url, database, spec.username, spec.token_file.expanduser())
    return Access(_own_url(lab), database, user, files.secret(user))


def host_access(lab: Lab, host: str) -> Access:
    """Return the access that a test host is given, with the URL that it uses; it cannot read.

    Raises UserError where the server is another's and the inventory has nothing for hosts.
    """
    spec = lab.controller.influxdb
    url = url_from_host(lab, lab.hosts[host])
    database = Writer.HOST.database(spec.database, host)
    if not spec.url:
        user = f"{HOST_USER}{host}"
        return Access(url, database, user, files.secret(user))
    if not spec.host_token_file:
        raise UserError(
            "influxdb.host_token_file: missing; test hosts are not given the controller's token, which can"
            " read; allowed: a file of one that can only write to the host's database, with '{host}' in its"
            " name"
        )
    path = Path(str(spec.host_token_file).replace("{host}", host)).expanduser()
    user = (spec.host_username or spec.username).replace("{host}", host)
    return Access(url, database, user, path)


def databases(lab: Lab) -> list[str]:
    """Return the names of all databases of the lab."""
    return schema.databases(lab.controller.influxdb.database, lab.hosts)


def is_made(lab: Lab) -> bool:
    """Return whether there is a server to ask: `rig up` has made ours, or the inventory has one."""
    return bool(lab.controller.influxdb.url) or _users_made().exists()


def _users_made() -> Path:
    """Return the file that says that the rig's own server has users."""
    return paths.var() / "influxdb" / "has-users"


def write_status(url: str, database: str, username: str, password: str) -> int:
    """Return the HTTP status of a write without points, which changes nothing. Raises UserError."""
    try:
        return httpx.post(
            f"{url}/write",
            params={"db": database},
            auth=(username, password),
            timeout=10,
            trust_env=False,
            verify=url.startswith("https:"),
        ).status_code
    except httpx.HTTPError as error:
        raise UserError(f"InfluxDB at {url} does not answer: {error}") from None


def wrong_rights(lab: Lab) -> Iterator[str]:
    """Yield what test hosts' accounts may do and must not, or the reverse. Raises UserError.

    An account that writes to more than its host's database could spoil the energy of any run.
    """
    near = access(lab, "reader").url
    for host in lab.hosts:
        account = host_access(lab, host)
        password = account.password
        for database in databases(lab):
            status = write_status(near, database, account.username, password)
            if database == account.database and not 200 <= status < 300:
                yield (
                    f"InfluxDB at {near} does not let the account of test host {host} write to {database!r}"
                    f" (HTTP {status}); allowed: a database of this name, and that right"
                )
            elif database != account.database and status not in REFUSED:
                yield (
                    f"InfluxDB at {near} lets the account of test host {host} write to {database!r}"
                    f" (HTTP {status}); allowed: one that can write to {account.database!r} alone"
                    " (influxdb.host_token_file)"
                )


def listen_address(lab: Lab) -> str:
    """Return the address at which the rig's own server listens: that of the lab, and no other.

    Raises UserError where the inventory leaves open which one that is, or it is none of this
    machine's.
    """
    near = _reached_at(lab)
    allowed = "allowed: an address of this machine that all test hosts reach"
    if len(near) > 1:
        raise UserError(
            f"influxdb.listen: missing; {allowed}, or 0.0.0.0; they reach the controller at {', '.join(near)}"
        )
    try:
        [(family, *_, where), *_] = socket.getaddrinfo(near[0], 0, type=socket.SOCK_STREAM)
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind(where)
    except OSError as error:
        raise UserError(
            f"influxdb.listen: {near[0]!r} is no address of this machine ({error.strerror}); {allowed}"
        ) from None
    return near[0]


def _reached_at(lab: Lab) -> list[str]:
    """Return the addresses at which the rig's own server has to listen."""
    if listen := lab.controller.influxdb.listen:
        return [listen]
    # A virtual host reaches this machine's loopback.
    return sorted({LOOPBACK if host.virtual else host.controller_address for host in lab.hosts.values()}) or [
        LOOPBACK
    ]


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
    """Raise UserError, in one line, unless the server answers and has the energy of the lab."""
    reader = access(lab, "reader")
    try:
        answer = httpx.get(
            f"{reader.url}/query",
            params={"db": Writer.POWERD.database(reader.database), "q": "SHOW MEASUREMENTS LIMIT 1"},
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
    """Start the rig's own server unless the inventory names another; create databases and users.

    Raises UserError where a test host's account may write what is not its own.
    """
    if not lab.controller.influxdb.url:
        _start_own(lab)
    check(lab)
    for problem in wrong_rights(lab):
        raise UserError(problem)


def _start_own(lab: Lab) -> None:
    place = paths.var() / "influxdb"
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    address = listen_address(lab)
    there = _users_made()
    if address != LOOPBACK and not there.exists():
        # The first client of a server without users may make itself its administrator.
        supervisor.start([_server(place, LOOPBACK)])
        _make_users(lab, LOOPBACK)
    supervisor.start([_server(place, address)])
    _make_users(lab, address)
    there.touch()


def influxd_program() -> str:
    """Return the influxd to run: the one that `make influxdb` built, or Debian's."""
    built = paths.program("influxd")
    found = str(built) if built.exists() else shutil.which("influxd")
    if not found:
        raise UserError("influxd: not found; 'make setup' (or: apt-get install influxdb) installs it")
    return found


def influxd_version(command: str) -> tuple[int, ...]:
    """Return an influxd's version as numbers, such as (1, 6, 7); none where it does not say it."""
    done = subprocess.run([command, "version"], capture_output=True, text=True, timeout=20, check=False)
    found = re.search(r"InfluxDB v?(\d+(?:\.\d+)*)", done.stdout)
    return tuple(map(int, found[1].split("."))) if found else ()


def _debug_endpoints(command: str) -> dict[str, str]:
    """Return the settings with which no one sees the server's inside without the admin's password.

    Before 1.8, /debug/vars and /debug/requests cannot be closed: what they have is counts.
    """
    if influxd_version(command) >= DEBUG_WITH_PASSWORD:
        return {"INFLUXDB_HTTP_PPROF_ENABLED": "true", "INFLUXDB_HTTP_PPROF_AUTH_ENABLED": "true"}
    return {"INFLUXDB_HTTP_PPROF_ENABLED": "false"}


def _server(place: Path, address: str) -> supervisor.Program:
    """Return the server as a process that listens at `address`."""
    command = influxd_program()
    empty = place / "influxdb.conf"
    empty.touch()
    environment = {
        "INFLUXDB_META_DIR": f"{place}/meta",
        "INFLUXDB_DATA_DIR": f"{place}/data",
        "INFLUXDB_DATA_WAL_DIR": f"{place}/wal",
        "INFLUXDB_DATA_INDEX_VERSION": "tsi1",
        "INFLUXDB_DATA_QUERY_LOG_ENABLED": "false",
        # What is not flushed yet is searched by every query: kept small, a live dashboard costs a
        # third less.
        "INFLUXDB_DATA_CACHE_SNAPSHOT_MEMORY_SIZE": "2m",
        "INFLUXDB_HTTP_BIND_ADDRESS": f"{_in_url(address)}:{files.kept_port('influxdb')}",
        "INFLUXDB_HTTP_AUTH_ENABLED": "true",
        "INFLUXDB_HTTP_LOG_ENABLED": "false",
        **_debug_endpoints(command),
        "INFLUXDB_BIND_ADDRESS": f"{LOOPBACK}:{files.kept_port('influxdb-rpc')}",
        "INFLUXDB_REPORTING_DISABLED": "true",
        "INFLUXDB_MONITOR_STORE_ENABLED": "false",
    }

    url = _url(address)

    def ready() -> bool:
        try:
            return httpx.get(f"{url}/ping", timeout=1, trust_env=False).status_code == 204
        except httpx.HTTPError:
            return False

    return supervisor.Program(
        "influxd", [command, "-config", str(empty)], ready, priority=10, environment=environment
    )


def _in_url(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _url(address: str) -> str:
    """Return the URL of the rig's own server that listens at `address`, for the controller."""
    near = LOOPBACK if address in EVERYWHERE else address
    return f"http://{_in_url(near)}:{files.kept_port('influxdb')}"


def _own_url(lab: Lab) -> str:
    return _url(_reached_at(lab)[0])


def _make_users(lab: Lab, address: str) -> None:
    """Create databases and users; drop the users of hosts that have left the lab."""
    base, url = lab.controller.influxdb.database, _url(address)
    admin = files.secret("influxdb-admin").read_text()
    # The first user needs no password; later this is refused, which is all right.
    _administer(url, f"CREATE USER admin WITH PASSWORD '{admin}' WITH ALL PRIVILEGES", None)
    names = databases(lab)
    for database in names:
        _administer(url, f'CREATE DATABASE "{database}"', admin)
    rights = {user: {writer.database(base): "WRITE"} for user, writer in WRITERS.items()}
    rights |= {user: dict.fromkeys(names, "READ") for user in READERS}
    rights |= {f"{HOST_USER}{host}": {Writer.HOST.database(base, host): "WRITE"} for host in lab.hosts}
    for name, *_ in _rows(_administer(url, "SHOW USERS", admin)):
        if name not in rights and name.startswith(HOST_USER):
            _administer(url, f'DROP USER "{name}"', admin)
    for user, wanted in rights.items():
        password = files.secret(user).read_text()
        _administer(url, f"CREATE USER \"{user}\" WITH PASSWORD '{password}'", admin)
        granted = dict(_rows(_administer(url, f'SHOW GRANTS FOR "{user}"', admin)))
        for database, right in granted.items():
            if right not in ("NO PRIVILEGES", wanted.get(database)):
                _administer(url, f'REVOKE ALL PRIVILEGES ON "{database}" FROM "{user}"', admin)
        for database, right in wanted.items():
            if granted.get(database) != right:
                _administer(url, f'GRANT {right} ON "{database}" TO "{user}"', admin)


def _rows(answer: httpx.Response) -> list[list[str]]:
    """Return the rows of a statement's reply, as text."""
    with contextlib.suppress(ValueError, KeyError, IndexError):
        return [
            [str(one) for one in row] for row in answer.json()["results"][0]["series"][0].get("values", [])
        ]
    return []


def _administer(url: str, statement: str, password: str | None) -> httpx.Response:
    answer = httpx.post(
        f"{url}/query",
        data={"q": statement},
        auth=("admin", password) if password else None,
        timeout=10,
        trust_env=False,
    )
    if password and (answer.status_code != 200 or "error" in answer.text):
        what = " ".join(statement.split()[:3])
        raise UserError(f"InfluxDB at {url}: {what}: HTTP {answer.status_code}: {answer.text.strip()}")
    return answer
