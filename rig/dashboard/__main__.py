# SPDX-License-Identifier: GPL-3.0-or-later
"""`python -m joulerig.rig.dashboard --config FILE`: serve the dashboard until SIGTERM or SIGINT."""

from __future__ import annotations

import argparse
import os
import socket
import sys
from functools import partial
from pathlib import Path

# Answers are small: polars' pool of threads costs more than it gives here, and the machine is busy
# emulating.
os.environ.setdefault("POLARS_MAX_THREADS", "1")

import uvicorn

from joulerig.analysis.results.influxdb.client import Databases, InfluxError
from joulerig.rig.common.errors import UserError
from joulerig.rig.dashboard import app, config
from joulerig.rig.dashboard.api.control import Control, Token
from joulerig.rig.dashboard.api.routes import Api, Sources
from joulerig.rig.dashboard.metrics import Metrics
from joulerig.rig.dashboard.notifications import webhook
from joulerig.rig.dashboard.notifications.watcher import TASK, Watcher
from joulerig.rig.dashboard.poller import Poller
from joulerig.rig.dashboard.supervision import Supervisor
from joulerig.rig.dashboard.web.connections import BoundedConnection
from joulerig.rig.dashboard.web.guard import Hosts
from joulerig.rig.dashboard.web.hub import Hub
from joulerig.rig.lab import virtual

MOST_CONNECTIONS = 300  # a page has a WebSocket, and a few more while it loads
LONGEST_MESSAGE = 1024  # bytes; a page sends none on its WebSocket


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m joulerig.rig.dashboard", description=__doc__)
    parser.add_argument(
        "--config", type=Path, required=True, metavar="FILE", help="JSON; see rig/dashboard/README.md"
    )
    options = parser.parse_args(arguments)
    try:
        serve(options.config)
    except UserError as error:
        print(f"dashboard: {error}", file=sys.stderr)
        return 1
    return 0


def serve(path: Path) -> None:
    """Serve what the configuration at `path` says. Raises UserError."""
    settings, password = config.load(path)
    if not app.BUNDLE.is_file():
        raise UserError(f"{app.BUNDLE}: No such file; 'make build' bundles the page")
    token = config.control_token(settings, path)
    influx = settings.influx
    try:
        client, queries = (
            Databases(
                influx.url,
                influx.database,
                influx.username,
                password,
                hosts=influx.hosts,
                timeout_seconds=timeout,
            )
            for timeout in (5.0, 20.0)  # requests from pages may take longer than the live figures
        )
    except InfluxError as error:
        raise UserError(f"{path}: influx.url: {error}") from None
    host, port = settings.address
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(128)  # before the address is printed: who reads it may connect at once
    except OSError as error:
        raise UserError(f"{path}: listen: {settings.listen!r}: {error.strerror or error}") from None
    hub = Hub()
    clock = virtual.clock(is_virtual=settings.virtual)
    slowness = partial(virtual.slowness_now, is_virtual=settings.virtual)
    results, powerd = settings.results_dir, settings.powerd_status_socket
    metrics = Metrics(
        results,
        powerd,
        version=app.release(),
        virtual=settings.virtual,
        pages=lambda: len(hub.clients),
        clock=clock,
        slowness=slowness,
    )
    supervisor = Supervisor()
    poller = Poller(client, results, powerd, hub, supervisor, clock, slowness)
    api = Api(
        Sources(
            results,
            queries,
            powerd,
            clock,
            slowness,
            settings.virtual,
            settings.state_dir,
            settings.lab_file,
        ),
        _control(settings, token),
    )
    tasks = [partial(supervisor.keep, "live figures", poller.run)]
    if settings.notifications:
        kept = settings.notified_file or settings.results_dir / ".notified.json"
        watcher = Watcher(settings.results_dir, kept, clock, supervisor)
        run = partial(webhook.run, settings.notifications, watcher, supervisor, virtual=settings.virtual)
        tasks.append(partial(supervisor.keep, TASK, run))
    server = uvicorn.Server(
        uvicorn.Config(
            app.build(hub, metrics, Hosts(host, settings.names), api.routes(), api.changes, tasks),
            http=BoundedConnection,
            limit_concurrency=MOST_CONNECTIONS,
            ws_max_size=LONGEST_MESSAGE,
            log_level="warning",
            access_log=False,
            ws_per_message_deflate=False,  # it would cost more than loopback's bytes
            timeout_graceful_shutdown=2,  # pages hold their WebSocket open for ever
        )
    )
    shown = f"[{host}]" if ":" in host else host
    print(f"dashboard: http://{shown}:{listener.getsockname()[1]}/", flush=True)
    server.run(sockets=[listener])


def _control(settings: config.Config, token: str | None) -> tuple[Control, Token] | None:
    """Return what controls campaigns, and the token for it; None where nothing is to be changed."""
    if token is None:
        return None
    given = {
        "JOULERIG_VAR": settings.state_dir,
        "JOULERIG_RESULTS": settings.results_dir,
        "JOULERIG_INVENTORY": settings.inventory,
    }
    environment = {name: str(path.absolute()) for name, path in given.items() if path}
    return Control(settings.results_dir, settings.state_dir, environment), Token(token)


if __name__ == "__main__":
    sys.exit(main())
