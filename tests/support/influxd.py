# SPDX-License-Identifier: GPL-3.0-or-later
"""A real influxd 1.x with authentication, in its own folder, which tests stop and restart."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import httpx

from joulerig.analysis.results.influxdb import schema
from joulerig.analysis.results.influxdb.client import Databases
from joulerig.analysis.results.influxdb.schema import Writer
from tests.support import ROOT
from tests.support.programs import end, free_port, installed, wait_for


def servers() -> list[str]:
    """Return the influxd programs there are: Debian's, then the one of `make influxdb`."""
    built = ROOT / "build" / "influxd"
    return [installed("influxd", "influxdb"), *([str(built)] if built.is_file() else [])]


class Influxd:
    """A server, a lab's databases and one of no lab, and users: one for each right, one with none.

    The writer may write to all of them: that each account has but one is tested on the rig's own
    server. The quotes in the passwords are on purpose.
    """

    database = "joulerig"  # of no lab, and the beginning of the others' names
    power = Writer.POWERD.database(database)
    results = Writer.CAMPAIGN.database(database)
    hosts = ("bench1", "bench2", "vhost1", "vhost2", "h")
    admin = ("admin", "an admin's secret")
    reader = ("reader", "r'eader\"")
    writer = ("writer", "a writer's secret")
    stranger = ("stranger", "stranger")

    def __init__(self, folder: Path, *, program: str = "", **settings: str) -> None:
        """`program`: the one that the rig would run, unless another is named.

        `settings`: further ones of influxd, as environment variables without INFLUXDB_.
        """
        self.folder = folder
        self.program = program or servers()[-1]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "empty.conf").touch()
        ports = free_port(), free_port()
        self.url = f"http://127.0.0.1:{ports[0]}"
        self._http = httpx.Client(trust_env=False, timeout=10)
        self._process: subprocess.Popen[bytes] | None = None
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "INFLUXDB_META_DIR": str(folder / "meta"),
            "INFLUXDB_DATA_DIR": str(folder / "data"),
            "INFLUXDB_DATA_WAL_DIR": str(folder / "wal"),
            "INFLUXDB_DATA_INDEX_VERSION": "tsi1",
            "INFLUXDB_DATA_QUERY_LOG_ENABLED": "false",
            "INFLUXDB_HTTP_LOG_ENABLED": "false",
            "INFLUXDB_HTTP_BIND_ADDRESS": f"127.0.0.1:{ports[0]}",
            "INFLUXDB_BIND_ADDRESS": f"127.0.0.1:{ports[1]}",
            "INFLUXDB_HTTP_AUTH_ENABLED": "true",
            "INFLUXDB_MONITOR_STORE_ENABLED": "false",
            "INFLUXDB_REPORTING_DISABLED": "true",
            **{f"INFLUXDB_{name}": value for name, value in settings.items()},
        }

    def __enter__(self) -> Influxd:
        self.start()
        try:
            name, password = self.admin
            self.statement(
                f"CREATE USER {name} WITH PASSWORD {_quoted(password)} WITH ALL PRIVILEGES", auth=None
            )
            for name, password in (self.reader, self.writer, self.stranger):
                self.statement(f"CREATE USER {name} WITH PASSWORD {_quoted(password)}")
            self.empty()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._http.close()

    @property
    def pid(self) -> int:
        assert self._process
        return self._process.pid

    def start(self) -> None:
        """Start the server, also after stop(), on the same port with the same data."""
        if self._process:
            return
        command = [self.program, "-config", str(self.folder / "empty.conf")]
        with (self.folder / "influxd.log").open("ab") as log:
            self._process = subprocess.Popen(command, env=self._environment, stdout=log, stderr=log)
        try:
            wait_for(self._answers, 20, "influxd answers")
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        if self._process:
            end(self._process, 20)
            self._process = None

    def kill(self) -> None:
        """As the kernel does where memory is short: nothing is flushed."""
        assert self._process
        self._process.kill()
        self._process.wait()
        self._process = None

    def _answers(self) -> bool:
        assert self._process
        assert self._process.poll() is None, (self.folder / "influxd.log").read_text()[-2000:]
        try:
            return self._http.get(f"{self.url}/ping").status_code == 204
        except httpx.TransportError:
            return False

    def empty(self) -> None:
        """Recreates the databases, with the users' rights on them."""
        self.statement(
            "; ".join(
                f"DROP DATABASE {one}; CREATE DATABASE {one};"
                f" GRANT READ ON {one} TO {self.reader[0]}; GRANT WRITE ON {one} TO {self.writer[0]}"
                for one in [self.database, *schema.databases(self.database, self.hosts)]
            )
        )

    def databases(self) -> Databases:
        """Return what reads the lab, as the rig does."""
        return Databases(self.url, self.database, *self.reader, hosts=self.hosts)

    def database_of(self, measurement: str, host: str) -> str:
        """Return the database of a measurement's points; one that no lab has is in `database`."""
        if measurement not in schema.MEASUREMENTS:
            return self.database
        return schema.MEASUREMENTS[measurement].writer.database(self.database, host)

    def statement(
        self, influxql: str, auth: tuple[str, str] | None = admin, database: str = database
    ) -> dict[str, Any]:
        """Return the first result of a statement, made as administrator unless `auth` differs."""
        answer = self._http.post(
            f"{self.url}/query", params={"db": database, "q": influxql, "epoch": "ns"}, auth=auth
        )
        assert answer.status_code == 200, answer.text
        assert '"error"' not in answer.text, answer.text
        return answer.json()["results"][0]

    def rows(self, influxql: str) -> list[dict[str, Any]]:
        """The rows of a query's first series."""
        measurement = re.search(r"\bFROM (\w+)", influxql)
        assert measurement, influxql
        series = self.statement(influxql, database=self.database_of(measurement[1], "")).get("series")
        return (
            [dict(zip(series[0]["columns"], row, strict=True)) for row in series[0]["values"]]
            if series
            else []
        )

    def write(self, *lines: str) -> None:
        """Write points, each into the database of who would have written it."""
        by_database: dict[str, list[str]] = {}
        for line in lines:
            series = dict(one.partition("=")[::2] for one in line.partition(" ")[0].split(","))
            database = self.database_of(next(iter(series)), series.get("host", self.hosts[0]))
            by_database.setdefault(database, []).append(line)
        for database, some in by_database.items():
            answer = self._http.post(
                f"{self.url}/write",
                params={"db": database, "precision": "ns"},
                content="\n".join(some).encode(),
                auth=self.writer,
            )
            assert answer.status_code == 204, answer.text


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "\\'") + "'"
