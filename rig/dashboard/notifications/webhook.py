# SPDX-License-Identifier: GPL-3.0-or-later
"""Post happenings to the addresses that want them; a slow or dead one delays no other."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import httpx

from joulerig.errors import JoulerigError
from joulerig.rig.common.bounded import one_line
from joulerig.rig.dashboard.notifications.happenings import Happening
from joulerig.rig.dashboard.notifications.watcher import TASK, Watcher
from joulerig.rig.dashboard.supervision import Supervisor
from joulerig.rig.lab.model import Webhook

LOOK_SECONDS = 2.0
TIMEOUT_SECONDS = 10.0
WAITS_SECONDS = (1.0, 10.0, 60.0)  # before the next attempt
MOST_WAITING = 200  # for one address; more than that, and the oldest are given up
log = logging.getLogger(__name__)


class DeliveryError(JoulerigError):
    """A message that cannot be posted, for another reason than the network's."""


class Receiver:
    """One address with what waits for it."""

    def __init__(
        self, webhook: Webhook, client: httpx.AsyncClient, waits: Sequence[float] = WAITS_SECONDS
    ) -> None:
        self._webhook, self._client, self._waits = webhook, client, waits
        self._queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue(MOST_WAITING)
        self._name = urlsplit(webhook.url).hostname  # the rest of an address may be a secret

    def offer(self, happening: Happening, *, virtual: bool) -> None:
        """Queue it, where the address wants such."""
        if happening.kind not in self._webhook.on:
            return
        if self._queue.full():
            lost = self._queue.get_nowait()
            log.warning("%s: takes too long; given up: %s", self._name, one_line(lost["text"]))
        self._queue.put_nowait(body_of(happening, virtual=virtual))

    async def deliver(self) -> None:
        """Post what is queued, for ever, each until it arrives or was tried often enough."""
        while True:
            body = await self._queue.get()
            problem = await self._post(body)
            for wait in self._waits if problem else ():
                await asyncio.sleep(wait)
                problem = await self._post(body)
                if not problem:
                    break
            if problem:
                log.warning("%s: %s; given up: %s", self._name, problem, one_line(body["text"]))

    async def _post(self, body: dict[str, Any]) -> str:
        """Return why it did not arrive, or an empty text."""
        try:
            answer = await self._client.post(self._webhook.url, json=body, timeout=TIMEOUT_SECONDS)
        except httpx.HTTPError as error:
            return type(error).__name__
        except Exception as error:  # its text may have the address, which may be a secret
            raise DeliveryError(f"{self._name}: {type(error).__name__}") from None
        return "" if answer.is_success else f"status {answer.status_code}"


def body_of(happening: Happening, *, virtual: bool) -> dict[str, Any]:
    """Return what is posted; `text` is what chat programs show."""
    return {
        "text": happening.text + (" (virtual lab)" if virtual else ""),
        "kind": happening.kind,
        "campaign": happening.campaign,
        "run": happening.run,
        "why": happening.why,
        "time": datetime.fromtimestamp(happening.time_ns / 1e9, UTC).isoformat(timespec="milliseconds"),
        "virtual": virtual,
    }


async def run(
    webhooks: Sequence[Webhook], watcher: Watcher, supervisor: Supervisor, *, virtual: bool
) -> None:
    """Look at the journals every two seconds and post what is new, until cancelled."""
    async with httpx.AsyncClient(trust_env=True, follow_redirects=False) as client:
        receivers = [Receiver(one, client) for one in webhooks]
        tasks = [asyncio.create_task(supervisor.keep(TASK, one.deliver)) for one in receivers]
        try:
            while True:
                for happening in await asyncio.to_thread(watcher.look):
                    for receiver in receivers:
                        receiver.offer(happening, virtual=virtual)
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            for task in tasks:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
