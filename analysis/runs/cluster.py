# SPDX-License-Identifier: GPL-3.0-or-later
"""The same function on many things: in this process, in a few of this machine, or on a Dask cluster."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from joulerig.errors import JoulerigError

One, Found = TypeVar("One"), TypeVar("Found")
Map = Callable[[Callable[[One], Found], Sequence[One]], list[Found]]

PAYS = 256  # things; for fewer a local cluster's start, some seconds, costs more than it saves
_SECONDS_TO_CONNECT = 15


class ClusterError(JoulerigError):
    """A cluster that cannot be used; the message is one line."""


@contextlib.contextmanager
def mapping(address: str | None, things: int) -> Iterator[Map]:
    """A function that maps, results in the order of what was given.

    `address`: a Dask scheduler's, "tcp://HOST:PORT"; its workers need this program, and the same files at the
    same paths. Without one: a process for each processor of this machine where there are `PAYS` things or
    more, else this process. Raises ClusterError; what the function raises comes through as it is.
    """
    processes = len(os.sched_getaffinity(0))
    if address is None and (things < PAYS or processes < 2):
        yield lambda function, given: list(map(function, given))
        return
    import distributed  # here: it takes a second, which what needs no cluster should not wait

    with contextlib.ExitStack() as stack:
        if address is None:
            address = stack.enter_context(_local(processes)).scheduler_address
        try:
            client = stack.enter_context(distributed.Client(address, timeout=_SECONDS_TO_CONNECT))
        except (OSError, ValueError, TimeoutError) as error:
            raise ClusterError(f"--dask: {address!r}: no scheduler there: {error}") from None
        if not client.scheduler_info()["workers"]:
            raise ClusterError(f"--dask: {address!r}: the scheduler has no workers")

        def mapped(function: Callable[[One], Found], given: Sequence[One]) -> list[Found]:
            try:
                return client.gather(client.map(function, list(given), pure=False))
            except (distributed.scheduler.KilledWorker, ModuleNotFoundError) as error:
                raise ClusterError(f"the cluster's workers: {' '.join(str(error).split())[:200]}") from None

        yield mapped


def _local(processes: int):
    """A cluster of this machine's own; polars is held to one thread a process."""
    import dask
    import distributed

    with dask.config.set({"distributed.nanny.pre-spawn-environ.POLARS_MAX_THREADS": 1}):
        return distributed.LocalCluster(
            n_workers=processes, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=50
        )
