# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig watch`: follow the newest campaign, or one, at a terminal."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer
from rich.console import RenderableType
from rich.live import Live
from rich.text import Text

from joulerig.errors import UNREADABLE
from joulerig.rig.cli.options import CampaignArgument, out
from joulerig.rig.common.errors import UserError

if TYPE_CHECKING:
    from joulerig.rig.cli.watch.received import Received

RECONNECT_SECONDS = 2.0
SILENT_SECONDS = 15.0  # the server sends several times a second
REFRESHES_PER_SECOND = 2


def watch(
    campaign: CampaignArgument = None,
    url: Annotated[
        str, typer.Option(metavar="URL", help="A dashboard's address (default: this lab's).")
    ] = "",
    once: Annotated[bool, typer.Option("--once", help="Print the screen once and end.")] = False,
) -> None:
    """Show campaign, watts and I/O of drives, and meters, as the dashboard does, until Ctrl-C."""
    from joulerig.rig.cli.watch.received import Received
    from joulerig.rig.controller import services as controller

    address = _live_address(url or controller.dashboard_url(), campaign)
    received = Received()
    try:
        if once:
            for message in _messages(address):
                assert not isinstance(message, UserError)
                if (shown := _shown(received, message, address)) is not None:
                    out.print(shown)
                    return
        with Live(console=out, screen=out.is_terminal, refresh_per_second=REFRESHES_PER_SECOND) as live:
            for message in _messages(address, reconnect=True):
                if isinstance(message, UserError):
                    live.update(Text(f"{message}; trying again"))
                    received = Received()
                    continue
                if (shown := _shown(received, message, address)) is not None:
                    live.update(shown)
    except KeyboardInterrupt:
        return


def _shown(received: Received, message: str | bytes, address: str) -> RenderableType | None:
    """Take a message; return the screen once there is one. Raises UserError.

    The dashboard may be another lab's.
    """
    from joulerig.rig.cli.watch import screen

    try:
        received.take(message)
        return screen.render(received) if received.is_complete else None
    except (*UNREADABLE, struct.error) as error:
        raise UserError(f"{address}: a message cannot be read: {type(error).__name__}") from None


def _live_address(url: str, campaign: str | None) -> str:
    if not url.startswith(("http://", "https://")):
        raise UserError(f"--url {url!r}: is no address of a dashboard; allowed: http://HOST:PORT/")
    query = f"?campaign={quote(campaign)}" if campaign else ""
    return f"ws{url.removeprefix('http').rstrip('/')}/live{query}"


def _messages(address: str, *, reconnect: bool = False) -> Iterator[str | bytes | UserError]:
    """Yield what a dashboard sends.

    Where it cannot be reached raises UserError; with `reconnect` yields it, and tries again. What
    it refuses raises UserError in any case.
    """
    from websockets.exceptions import InvalidStatus, WebSocketException
    from websockets.sync.client import connect

    while True:
        try:
            with connect(address, proxy=None, open_timeout=5, max_size=None) as socket:
                while True:
                    yield socket.recv(timeout=SILENT_SECONDS)
        except InvalidStatus as error:
            said = (error.response.body or b"").decode(errors="replace").strip()
            raise UserError(f"{address}: refused: {said or error.response.status_code}") from None
        except TimeoutError:
            problem = UserError(f"{address}: the dashboard is silent")
        except (OSError, WebSocketException) as error:
            why = getattr(error, "strerror", None) or str(error) or type(error).__name__
            problem = UserError(f"{address}: the dashboard cannot be reached: {why}")
        if not reconnect:
            raise problem
        yield problem
        time.sleep(RECONNECT_SECONDS)
