# SPDX-License-Identifier: GPL-3.0-or-later
"""Queries against a real influxd with authentication on."""

from __future__ import annotations

import http.server
import re
import threading
from base64 import b64decode
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import httpx
import polars as pl
import pytest

from joulerig.analysis.results.influxdb.client import (
    BadQuery,
    Client,
    Databases,
    InfluxError,
    Unauthorised,
    Unreachable,
    quote_identifier,
    quote_string,
)
from tests.support.influxd import Influxd, servers

T0 = 1_700_000_000_000_000_000


@pytest.fixture(scope="module", params=servers())
def influxd_server(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Influxd]:
    """Each server that there is."""
    with Influxd(tmp_path_factory.mktemp("influxd"), program=request.param) as server:
        yield server


@pytest.fixture
def client(influxd) -> Iterator[Client]:
    with Client(influxd.url, influxd.database, *influxd.reader) as client:
        yield client


def test_group_by_gives_tags_as_columns(influxd, client):
    client = client.on(influxd.power)
    influxd.write(
        f'power,meter=tap1a,rail=3v3,host=vhost1,drive=d1 joules=1.5,samples=10i,session="s1" {T0}',
        f'power,meter=tap1a,rail=12v,host=vhost1,drive=d2 joules=2.5,samples=11i,session="s1" {T0 + 1}',
    )
    frame = client.query(
        "SELECT joules, samples, session FROM power WHERE meter = 'tap1a' GROUP BY drive, rail"
    )
    assert frame.sort("time").to_dicts() == [
        {
            "measurement": "power",
            "drive": "d1",
            "rail": "3v3",
            "time": T0,
            "joules": 1.5,
            "samples": 10,
            "session": "s1",
        },
        {
            "measurement": "power",
            "drive": "d2",
            "rail": "12v",
            "time": T0 + 1,
            "joules": 2.5,
            "samples": 11,
            "session": "s1",
        },
    ]


def test_time_keeps_its_nanoseconds(influxd, client):
    influxd.write(f"ns_kept reads=1i {T0 + 123_456_789}")
    assert client.query("SELECT reads FROM ns_kept")["time"].to_list() == [T0 + 123_456_789]


def test_a_float_field_is_float_even_where_every_value_is_whole(influxd, client):
    influxd.write(f"whole joules=12,samples=12i {T0}")
    frame = client.query("SELECT joules, samples FROM whole")
    assert frame.schema["joules"] == pl.Float64
    assert frame.schema["samples"] == pl.Int64


def test_a_string_of_digits_stays_a_string(influxd, client):
    influxd.write(f'digits session="0012" {T0}')
    assert client.query("SELECT session FROM digits")["session"].to_list() == ["0012"]


def test_an_absent_field_is_null(influxd, client):
    influxd.write(f"sparse reads=1i {T0}", f"sparse writes=2i {T0 + 1}")
    frame = client.query("SELECT reads, writes FROM sparse")
    assert frame["reads"].to_list() == [1, None]
    assert frame["writes"].to_list() == [None, 2]


def test_the_type_of_an_unknown_column_follows_all_its_values(influxd, client):
    influxd.write(
        *(f'unknown a={i},b={i}i,c=true,d="x" {T0 + i}' for i in range(200)), f"unknown a=0.5 {T0 + 300}"
    )
    frame = client.query("SELECT a, b, c, d FROM unknown")
    assert [frame.schema[name] for name in "abcd"] == [pl.Float64, pl.Int64, pl.Boolean, pl.String]


def test_the_caller_may_give_a_type(influxd, client):
    influxd.write(f"alias joules=3 {T0}")
    frame = client.query("SELECT last(joules) AS total FROM alias", types={"total": pl.Float64})
    assert frame.schema["total"] == pl.Float64


def test_a_large_integer_loses_no_digit(influxd, client):
    influxd.write(f"large write_bytes=9007199254740993i {T0}")
    assert client.query("SELECT write_bytes FROM large")["write_bytes"].to_list() == [9007199254740993]


def test_a_small_float_loses_no_digit(influxd, client):
    influxd.write(f"small joules=0.1234567890123456 {T0}", f"small joules=1.5e-12 {T0 + 1}")
    assert client.query("SELECT joules FROM small")["joules"].to_list() == [0.1234567890123456, 1.5e-12]


def test_more_rows_than_a_chunk_come_whole(influxd, client):
    influxd.write(*(f"many,rail=a joules={i} {T0 + i}" for i in range(15_000)))
    influxd.write(*(f"many,rail=b joules={i} {T0 + i}" for i in range(15_000)))
    frame = client.query("SELECT joules FROM many GROUP BY rail")
    assert frame.group_by("rail").agg(pl.len(), pl.col("joules").sum()).sort("rail").rows() == [
        ("a", 15_000, 15_000 * 14_999 / 2),
        ("b", 15_000, 15_000 * 14_999 / 2),
    ]


@pytest.mark.parametrize(
    "value", ["it's", 'say "hi"', "a,b", "a=b", "a b", "back\\slash", "größe", "x' OR 'a'='a"]
)
def test_quoting_finds_exactly_the_tag_value_meant_and_reads_it_back(influxd, client, value):
    escaped = re.sub(r"([,= ])", r"\\\1", value)
    influxd.write(f"quoted,drive={escaped} joules=1 {T0}", f"quoted,drive=other joules=2 {T0}")
    frame = client.query(f"SELECT joules FROM quoted WHERE drive = {quote_string(value)} GROUP BY drive")
    assert frame.select("drive", "joules").rows() == [(value, 1.0)]


def test_identifiers_are_quoted(influxd, client):
    influxd.write(f'odd\\ name,a\\ tag=x the\\ "field"=1.5 {T0}')
    field, tag, measurement = map(quote_identifier, ('the "field"', "a tag", "odd name"))
    frame = client.query(f"SELECT {field} FROM {measurement} GROUP BY {tag}")
    assert frame.columns == ["measurement", "a tag", "time", 'the "field"']
    assert frame.row(0) == ("odd name", "x", T0, 1.5)


def test_a_series_without_the_tag_has_null_there(influxd, client):
    influxd.write(f"partly,drive=d1 joules=1 {T0}", f"partly joules=2 {T0}")
    assert sorted(
        client.query("SELECT joules FROM partly GROUP BY drive").select("joules", "drive").rows()
    ) == [
        (1.0, "d1"),
        (2.0, None),
    ]


def test_a_long_query_goes_in_the_body(influxd, client):
    influxd.write(f"long joules=1 {T0}")
    condition = " OR ".join(f"drive = 'drive-{i}'" for i in range(2_000))
    assert client.query(f"SELECT joules FROM long WHERE drive = '' OR {condition}").height == 1


def test_show_statements_answer_too(influxd, client):
    influxd.write(f"shown joules=1 {T0}")
    assert "shown" in client.query("SHOW MEASUREMENTS")["name"].to_list()


def test_no_rows_is_an_empty_frame(client):
    assert client.query("SELECT joules FROM nothing_of_that_name").is_empty()


def one_line(error: pytest.ExceptionInfo[InfluxError], *parts: str) -> None:
    text = str(error.value)
    assert "\n" not in text
    for part in parts:
        assert part in text


def test_a_missing_database_is_an_error_though_1x_answers_200_with_nothing(influxd):
    client = Client(influxd.url, "no_such_db", *influxd.admin)
    with pytest.raises(BadQuery) as error:
        client.query("SELECT joules FROM power")
    one_line(error, influxd.url, "database not found: no_such_db")


def test_a_query_that_fails_while_it_runs_is_an_error_though_1x_answers_200_with_nothing(influxd, client):
    influxd.write(f'failing session="s" {T0}')
    with pytest.raises(BadQuery) as error:
        client.query("SELECT mean(session) FROM failing")
    one_line(error, influxd.url, "mean")


def test_a_syntax_error_names_url_and_query(influxd, client):
    with pytest.raises(BadQuery) as error:
        client.query("SELCT joules\nFROM power")
    one_line(error, influxd.url, "HTTP 400", "found SELCT", "SELCT joules FROM power")


def test_a_wrong_password_is_unauthorised_and_not_repeated_in_the_message(influxd):
    with pytest.raises(Unauthorised) as error:
        Client(influxd.url, influxd.database, "reader", "wr0ng-pass").query("SELECT joules FROM power")
    one_line(error, influxd.url, "'reader'", "HTTP 401")
    assert "wr0ng-pass" not in str(error.value)


def test_a_user_without_the_right_to_read_is_unauthorised(influxd):
    with pytest.raises(Unauthorised) as error:
        Client(influxd.url, influxd.database, *influxd.stranger).query("SELECT joules FROM power")
    one_line(error, influxd.url, influxd.database, "HTTP 403")


def test_credentials_in_a_url_are_never_shown():
    with pytest.raises(Unreachable) as error:
        Client("http://me:s3cret@127.0.0.1:9", "d").query("SHOW DATABASES")
    one_line(error, "http://127.0.0.1:9")
    assert "s3cret" not in str(error.value)


def test_no_server_is_unreachable():
    with pytest.raises(Unreachable) as error:
        Client("http://127.0.0.1:9", "d", "u", "p").query("SELECT joules FROM power")
    one_line(error, "http://127.0.0.1:9: InfluxDB cannot be reached")


@pytest.mark.parametrize("url", ["127.0.0.1:8086", "ftp://127.0.0.1", "http://"])
def test_a_url_that_is_none_is_refused(url):
    with pytest.raises(InfluxError, match=re.escape(repr(url))):
        Client(url, "d")


def test_two_statements_are_refused(influxd, client):
    influxd.write(f"two joules=1,reads=2i {T0}")
    with pytest.raises(InfluxError, match="one statement at a time"):
        client.query("SELECT joules FROM two; SELECT reads FROM two")


class Recorder(http.server.BaseHTTPRequestHandler):
    """A server that replies as `server.reply` says and keeps the requests."""

    def do_GET(self) -> None:
        self.server.seen.append((self.path, dict(self.headers)))
        status, kind, body = self.server.reply
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def recorder():
    server = http.server.HTTPServer(("127.0.0.1", 0), Recorder)
    server.seen = []
    server.reply = (200, "text/csv", "name,tags,time,joules\npower,,1,2\n")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_token_goes_as_the_password_as_2x_takes_it(recorder):
    Client(f"http://127.0.0.1:{recorder.server_port}", "bucket", password="tok:en==").query(
        "SELECT joules FROM power"
    )
    path, headers = recorder.seen[0]
    assert b64decode(headers["Authorization"].removeprefix("Basic ")).decode().endswith(":tok:en==")
    assert headers["Accept"] == "application/csv"
    assert parse_qs(urlsplit(path).query) == {
        "db": ["bucket"],
        "epoch": ["ns"],
        "chunked": ["true"],
        "q": ["SELECT joules FROM power"],
    }


def test_the_json_error_of_2x_is_read(recorder):
    recorder.reply = (401, "application/json", '{"code":"unauthorized","message":"unauthorized access"}')
    with pytest.raises(Unauthorised, match="unauthorized access"):
        Client(f"http://127.0.0.1:{recorder.server_port}", "b", password="t").query(
            "SELECT joules FROM power"
        )


def test_a_web_page_is_not_taken_for_an_answer(recorder):
    recorder.reply = (200, "text/html", "<html>\n<body>hello, there</body></html>")
    with pytest.raises(InfluxError, match="not an answer of InfluxDB"):
        Client(f"http://127.0.0.1:{recorder.server_port}", "b").query("SELECT joules FROM power")


def test_figures_of_a_class_of_operations_have_their_type_whatever_the_class(influxd, client):
    client = client.on(influxd.database_of("workload", "bench1"))
    influxd.write(f"workload,host=bench1,run=r1 class_whole_file_ops=3i,class_whole_file_p999_seconds=2 {T0}")
    frame = client.query("SELECT class_whole_file_ops, class_whole_file_p999_seconds FROM workload")
    assert frame.dtypes[-2:] == [pl.Int64, pl.Float64]


# --- a lab's databases


@pytest.fixture
def lab(influxd) -> Iterator[Databases]:
    with influxd.databases() as databases:
        yield databases


def test_each_measurement_is_read_from_the_database_of_its_writer(influxd, lab):
    for database, watts in ((influxd.power, 1.0), ("joulerig_host_bench1", 1e6), (influxd.results, 1e6)):
        raw(influxd, database, f"power,host=bench1 watts={watts} {T0}")
    assert lab.query("SELECT watts FROM power")["watts"].to_list() == [1.0]


def test_what_all_hosts_wrote_is_one_frame(influxd, lab):
    influxd.write(f"blockio,host=bench1 writes=1i {T0}", f"blockio,host=bench2 writes=2i,reads=3i {T0}")
    found = lab.query("SELECT reads, writes FROM blockio GROUP BY host").sort("host")
    assert found.select("host", "reads", "writes").rows() == [("bench1", None, 1), ("bench2", 3, 2)]
    assert lab.query("SELECT writes FROM blockio", host="bench2")["writes"].to_list() == [2]


def test_a_host_cannot_speak_for_another(influxd, lab):
    influxd.write(f"phase,host=bench1,run=r start_ns=1i {T0}")
    raw(influxd, "joulerig_host_bench2", f"phase,host=bench1,run=r start_ns=9i {T0}")
    assert lab.query("SELECT start_ns FROM phase GROUP BY host")["start_ns"].to_list() == [1]
    assert lab.query("SELECT start_ns FROM phase WHERE host = 'bench1'", host="bench1").height == 1


def test_what_one_host_wrote_in_another_type_hides_no_other_host(influxd, lab):
    raw(influxd, "joulerig_host_bench1", f'blockio,host=bench1 writes="many" {T0}')
    influxd.write(f"blockio,host=bench2 writes=2i {T0}")
    assert lab.query("SELECT writes FROM blockio GROUP BY host")["host"].to_list() == ["bench2"]
    with pytest.raises(BadQuery, match="joulerig_host_bench1: cannot be read") as error:
        lab.query("SELECT writes FROM blockio", host="bench1")
    one_line(error, influxd.url)


def test_a_measurement_that_is_not_declared_is_refused(lab):
    with pytest.raises(BadQuery, match="no declared measurement"):
        lab.query("SELECT joules FROM elsewhere")


def raw(influxd, database: str, line: str) -> None:
    written = httpx.post(
        f"{influxd.url}/write", params={"db": database}, content=line, auth=influxd.writer, trust_env=False
    )
    assert written.status_code == 204, written.text
