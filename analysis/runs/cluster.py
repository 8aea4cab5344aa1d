# SPDX-License-Identifier: GPL-3.0-or-later
"""The same function on many things: in this process, or on a Dask cluster (extra `scale`)."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from joulerig.errors import JoulerigError

One = TypeVar("One")
Found = TypeVar("Found")
Map = Callable[[Callable[[One], Found], Sequence[One]], list[Found]]

_SECONDS_TO_CONNECT = 15
# Dask would try to connect to any other text until its time is over.
_ADDRESS = re.compile(
    r"(?:(?:tcp|tls|ucx|wss?)://)?(?:[\w.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\]):[0-9]{1,5}", re.ASCII
)


class ClusterError(JoulerigError):
    """A cluster that cannot be used; the message is one line."""


def in_process(function: Callable[[One], Found], given: Sequence[One]) -> list[Found]:
    """Apply `function` to each of `given` in this process."""
    return [function(one) for one in given]


@contextlib.contextmanager
def mapping(address: str | None) -> Iterator[Map[Any, Any]]:
    """Give a function that maps, with results in the order of what was given.

    `address`: a Dask scheduler's, "tcp://HOST:PORT"; its workers need this program, and the same
    files at the same paths. Without one: `in_process`. Raises ClusterError; what the function
    raises comes through as it is.
    """
    if address is None:
        yield in_process
        return
    if not _ADDRESS.fullmatch(address):
        raise ClusterError(f"--dask: {address!r}: allowed: tcp://HOST:PORT")
    try:
        import distributed  # here: it takes a second, and is of an extra
    except ImportError:
        raise ClusterError("--dask: needs Dask: pip install '.[scale]' in the checkout") from None
    with contextlib.ExitStack() as stack:
        try:
            client = stack.enter_context(distributed.Client(address, timeout=_SECONDS_TO_CONNECT))
        except (OSError, ValueError, TimeoutError) as error:
            raise ClusterError(f"--dask: {address!r}: no scheduler there: {error}") from None
        if not client.scheduler_info()["workers"]:
            raise ClusterError(f"--dask: {address!r}: the scheduler has no workers")

        def mapped(function: Callable[[One], Found], given: Sequence[One]) -> list[Found]:
            try:
                found: list[Found] = client.gather(client.map(function, list(given), pure=False))
            except (distributed.scheduler.KilledWorker, ModuleNotFoundError) as error:
                raise ClusterError(f"the cluster's workers: {' '.join(str(error).split())[:200]}") from None
            return found

        yield mapped
