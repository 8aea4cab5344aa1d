# SPDX-License-Identifier: GPL-3.0-or-later
"""Back-pressure: a page that does not keep up loses frames, not the server its memory."""

from __future__ import annotations

import asyncio

from joulerig.rig.dashboard.web.hub import LONGEST_QUEUE, Client


def test_a_full_queue_is_dropped_for_the_whole_window_and_counted():
    client = Client(campaign=None)
    client.show_whole(lambda: b"whole")
    for number in range(LONGEST_QUEUE - 1):
        assert not client.needs_whole
        client.show(b"%d" % number)
    assert client.needs_whole
    client.show_whole(lambda: b"whole again %d" % client.dropped)
    assert client.dropped == LONGEST_QUEUE
    assert list(client.frames) == [b"whole again %d" % LONGEST_QUEUE]


def test_of_each_kind_of_message_only_the_newest_waits():
    client = Client(campaign=None)
    for number in range(1000):
        client.tell("live", f"live {number}")
    client.tell("layout", "layout")
    assert client.messages == {"live": "live 999", "layout": "layout"}


def test_messages_go_before_the_frames_that_need_them():
    async def scenario() -> list[str | bytes]:
        sent: list[str | bytes] = []
        client = Client(campaign=None)

        async def take(what: str | bytes) -> None:
            sent.append(what)

        client.show(b"frame")
        client.tell("layout", "layout")
        task = asyncio.create_task(client.send(take, take))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        return sent

    assert asyncio.run(scenario()) == ["layout", b"frame"]


def test_a_page_that_takes_nothing_holds_up_no_other():
    async def scenario() -> tuple[Client, int]:
        client = Client(campaign=None)
        stuck = asyncio.Event()

        async def never(_: str | bytes) -> None:
            await stuck.wait()

        task = asyncio.create_task(client.send(never, never))
        for _ in range(100):
            client.show_whole(lambda: b"w") if client.needs_whole else client.show(b"f")
            await asyncio.sleep(0)
        task.cancel()
        return client, len(client.frames)

    client, waiting = asyncio.run(scenario())
    assert waiting <= LONGEST_QUEUE
    assert client.dropped + waiting + 1 == 100  # one is on its way for ever
