# SPDX-License-Identifier: GPL-3.0-or-later
"""A thin InfluxQL client: one dialect (`/query`, HTTP Basic, CSV) for InfluxDB 1.x, 2.x and 3.x.

On 2.x and 3.x the password is the token (2.x needs a DBRP mapping, which it makes itself for a
bucket that is named as the database). `Databases` reads a lab; `Client` reads one database.
"""

from __future__ import annotations

import copy
import csv
import io
import re
from collections.abc import Collection, Mapping
from typing import Protocol, Self

import polars as pl

from joulerig.analysis.results.influxdb.schema import MEASUREMENTS, Writer, column_type
from joulerig.errors import JoulerigError

_LONGEST_URL_QUERY = 4096  # longer ones go in the body: servers and proxies limit the length of a URL


class InfluxError(JoulerigError):
    """A query that gave no answer; the message is one line that names the server."""


class Unreachable(InfluxError):
    """No server answers there, or the answer broke off."""


class Unauthorised(InfluxError):
    """The user, password or token is refused, or may not read this database."""


class BadQuery(InfluxError):
    """The server refuses the query, or does not have the database."""


def quote_string(value: str) -> str:
    """Quote `value` as an InfluxQL string literal: for tag values and string fields.

    >>> quote_string("it's")
    "'it\\\\'s'"
    """
    return "'" + _escape(value, "'") + "'"


def quote_identifier(name: str) -> str:
    """Quote `name` as an InfluxQL identifier: for databases, measurements, tags and fields.

    >>> quote_identifier("read bytes")
    '"read bytes"'
    """
    return '"' + _escape(name, '"') + '"'


def _escape(text: str, quote: str) -> str:
    return text.replace("\\", "\\\\").replace(quote, "\\" + quote).replace("\n", "\\n")


class Client:
    """A client of one database of one server.

    Parameters
    ----------
    url : str
        `http://127.0.0.1:8086`; a path is kept (a server behind a proxy).
    database : str
        Database; on 2.x a bucket's name.
    username, password : str
        HTTP Basic. On 2.x and 3.x the password is the token and the username is of no account.
    timeout_seconds : float
        For each of connect, read and write.
    """

    def __init__(
        self,
        url: str,
        database: str,
        username: str = "",
        password: str = "",
        *,
        timeout_seconds: float = 30.0,
    ) -> None:
        import httpx  # here, as a folder of results is read and analysed without

        parsed = httpx.URL(url)
        if parsed.scheme not in ("http", "https") or not parsed.host:
            raise InfluxError(f"InfluxDB URL {url!r}: not http://HOST:PORT or https://HOST:PORT")
        self.url = str(parsed.copy_with(username=None, password=None)).rstrip("/")
        self.database = database
        self.username = username
        auth = httpx.BasicAuth(username or "token", password) if username or password else None
        # trust_env off: a proxy of the environment has no business between the rig and its own
        # database. What TLS trusts is read for TLS alone: that takes longer than most queries.
        self._http = httpx.Client(
            auth=auth, timeout=timeout_seconds, trust_env=False, verify=url.startswith("https:")
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def on(self, database: str) -> Client:
        """Return a client of another database of the same server, which shares the connection."""
        other = copy.copy(self)
        other.database = database
        return other

    def query(self, influxql: str, *, types: Mapping[str, type[pl.DataType]] | None = None) -> pl.DataFrame:
        """Return the rows of one InfluxQL statement.

        Parameters
        ----------
        influxql : str
            One statement. Build it with `quote_string` and `quote_identifier`.
        types : mapping of column name to polars type, optional
            For columns that the schema does not declare (an alias, a function's
            result), or to override it. A column that neither knows is an integer if all its values
            are, else a float, a boolean or a string.

        Returns
        -------
        polars.DataFrame
            Columns `measurement`, the tags of GROUP BY (strings), `time` (int64, UTC ns), then the
            selected columns. An absent value is null; so is an empty string, which CSV cannot tell
            from it. No rows: no columns.

        Raises
        ------
        Unreachable, Unauthorised, BadQuery
        """
        text = self._ask(influxql, "application/csv")
        if not text.strip():
            # InfluxDB 1.x answers 200 and nothing at all, in CSV, where the database does not exist
            # or the query fails while it runs; only JSON carries the reason.
            self._raise_hidden_error(influxql)
            return pl.DataFrame()
        try:
            return _frame(text, types or {}, self.url)
        except pl.exceptions.PolarsError as error:  # a writer may have used another type than declared
            reason = _one_line(str(error).partition("\n")[0])
            raise BadQuery(f"{self.url}: {self.database}: cannot be read: {reason}") from None

    def _ask(self, influxql: str, accept: str) -> str:
        import httpx

        parameters = {"db": self.database, "epoch": "ns", "chunked": "true"}
        headers = {"Accept": accept}
        try:
            if len(influxql) <= _LONGEST_URL_QUERY:
                response = self._http.get(
                    f"{self.url}/query", params={**parameters, "q": influxql}, headers=headers
                )
            else:
                response = self._http.post(
                    f"{self.url}/query", params=parameters, data={"q": influxql}, headers=headers
                )
        except httpx.HTTPError as error:
            raise Unreachable(
                f"{self.url}: InfluxDB cannot be reached: {_one_line(str(error)) or type(error).__name__}"
            ) from None
        if response.is_success:
            return response.text
        reason = response.headers.get("X-Influxdb-Error") or _reason(response.text) or response.reason_phrase
        reason = f"HTTP {response.status_code}: {_one_line(reason)}"
        if response.status_code in (401, 403):
            raise Unauthorised(
                f"{self.url}: InfluxDB refuses user {self.username!r} on {self.database!r} ({reason})"
            )
        if response.status_code >= 500:
            raise Unreachable(f"{self.url}: InfluxDB cannot answer ({reason})")
        raise BadQuery(f"{self.url}: InfluxDB refuses the query ({reason}): {_one_line(influxql)}")

    def _raise_hidden_error(self, influxql: str) -> None:
        reason = _reason(self._ask(influxql, "application/json"))
        if reason:
            reason = _one_line(reason)
            raise BadQuery(f"{self.url}: InfluxDB refuses the query ({reason}): {_one_line(influxql)}")


class Queries(Protocol):
    """The interface of `Databases` that readers need."""

    def query(self, influxql: str, *, host: str | None = None) -> pl.DataFrame: ...


class Databases:
    """Read the databases of a lab: each query goes to the one of its measurement's writer.

    `base`: the beginning of their names. `hosts`: the lab's test hosts. The other parameters are
    those of `Client`.
    """

    def __init__(
        self,
        url: str,
        base: str,
        username: str = "",
        password: str = "",
        *,
        hosts: Collection[str],
        timeout_seconds: float = 30.0,
    ) -> None:
        self._base, self._hosts = base, tuple(hosts)
        self._client = Client(url, base, username, password, timeout_seconds=timeout_seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def query(self, influxql: str, *, host: str | None = None) -> pl.DataFrame:
        """Return the rows of a SELECT, as `Client.query` does.

        `host`: reads what this test host wrote; left out: what all of them did, one after another.
        A host speaks for itself: rows that it wrote with the tag `host` of another are left out,
        and if its points cannot be read, those of the others are returned. Raises InfluxError.
        """
        found = re.search(r'\bFROM "?(\w+)', influxql)
        if found is None or found[1] not in MEASUREMENTS:
            raise BadQuery(f"no declared measurement: {_one_line(influxql)}")
        writer = MEASUREMENTS[found[1]].writer
        if writer is not Writer.HOST:
            return self._client.on(writer.database(self._base)).query(influxql)
        frames, problems = [], []
        for one in (host,) if host else self._hosts:
            try:
                frames.append(self._written_by(one, influxql))
            except BadQuery as error:
                problems.append(error)
        if problems and not frames:
            raise problems[0]
        frames = [frame for frame in frames if frame.height]
        return pl.concat(frames, how="diagonal_relaxed") if frames else pl.DataFrame()

    def _written_by(self, host: str, influxql: str) -> pl.DataFrame:
        frame = self._client.on(Writer.HOST.database(self._base, host)).query(influxql)
        return frame.filter(pl.col("host") == host) if "host" in frame.columns else frame


def _one_line(text: str, longest: int = 300) -> str:
    text = " ".join(text.split())
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _reason(body: str) -> str:
    """Return the error text of a JSON or CSV answer, empty where there is none."""
    found = re.search(r'"(?:error|message)"\s*:\s*"((?:[^"\\]|\\.)*)"', body)
    if found:
        return found[1].replace('\\"', '"')
    first, _, rest = body.partition("\n")
    return rest.strip().strip('"') if first.strip() == "error" else ""


def _frame(text: str, types: Mapping[str, type[pl.DataType]], url: str) -> pl.DataFrame:
    header = next(csv.reader(io.StringIO(text)))
    if header[0] == "error":
        raise BadQuery(f"{url}: InfluxDB refuses the query ({_one_line(_reason(text))})")
    if header[:2] != ["name", "tags"]:
        raise InfluxError(f"{url}: not an answer of InfluxDB: {_one_line(text, 80)!r}")
    # Read by position: SHOW statements have a column "name" of their own.
    positions = [f"column_{number}" for number in range(1, len(header) + 1)]
    raw = pl.read_csv(
        io.BytesIO(text.encode()),
        has_header=False,
        new_columns=positions,
        infer_schema=False,
        truncate_ragged_lines=True,
    )
    is_header = (raw["column_1"] == "name") & (raw["column_2"] == "tags").fill_null(False)
    columns = [row[: len(header)] for row in raw.filter(is_header).unique().rows()]
    if columns != [tuple(header)]:
        raise InfluxError(f"{url}: the answer holds several tables; ask one statement at a time")
    raw = raw.filter(~is_header & raw["column_1"].is_not_null())
    tags = _tags(raw["column_2"])
    series = {"measurement": raw["column_1"], **tags}
    for name, position in zip(header[2:], positions[2:], strict=True):
        series.setdefault(name, raw[position])
    return pl.DataFrame([_typed(values.alias(name), name, tags, types) for name, values in series.items()])


def _typed(
    values: pl.Series, name: str, tags: Mapping[str, pl.Series], types: Mapping[str, type[pl.DataType]]
) -> pl.Series:
    if name in tags:
        return values
    if name == "time":
        return values.cast(pl.Int64)
    # Types cannot be read off the values: InfluxDB's CSV prints the float 12.0 as "12" and the
    # string "0012" bare.
    if known := types.get(name) or column_type(name):
        return _boolean(values) if known == pl.Boolean else values.cast(known)
    for kind in (pl.Int64, pl.Float64):
        cast = values.cast(kind, strict=False)
        if cast.null_count() == values.null_count():
            return cast
    return _boolean(values) if values.drop_nulls().is_in(["true", "false"]).all() else values


def _boolean(values: pl.Series) -> pl.Series:
    return values.replace_strict({"true": True, "false": False}, return_dtype=pl.Boolean)


def _tags(packed: pl.Series) -> dict[str, pl.Series]:
    """Return the tag columns of InfluxDB's packed one: `host=h\\ 1,rail=3v3`.

    In it comma, equals sign and space are escaped by InfluxDB 1.6, and by 1.13 they are not.
    """
    sets = {text: _tag_set(text) for text in packed.unique().to_list() if text}
    names = sorted({name for tags in sets.values() for name in tags})
    return {
        name: packed.replace_strict(
            {text: tags.get(name) for text, tags in sets.items()}, default=None, return_dtype=pl.String
        )
        for name in names
    }


def _tag_set(text: str) -> dict[str, str | None]:
    pairs: list[list[str]] = []
    for part in re.split(r"(?<!\\),", text):
        pair = re.split(r"(?<!\\)=", part, maxsplit=1)
        if len(pair) == 2:
            pairs.append(pair)
        elif pairs:
            pairs[-1][1] += f",{part}"  # of a value with a comma that is not escaped
    return {_unescape(name): _unescape(value) or None for name, value in pairs}


def _unescape(text: str) -> str:
    return re.sub(r"\\([,= ])", r"\1", text)
