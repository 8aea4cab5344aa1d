# SPDX-License-Identifier: GPL-3.0-or-later
"""Slows the clock of a virtual lab down, on which this host is, while a drive is measured.

The host asks at a port that only virtual hosts have (virtuallab/clock/keeper.py is its other end).
What it asks for ends by itself unless it is asked for again.
"""

import contextlib
import os
import select
import threading
import time

from ansible.module_utils.joulerig.tools import Failed

PORT = "/dev/virtio-ports/joulerig.clock"
# Asked for so long, and again so often, in seconds of this host's clock: waking a processor every
# ten seconds does not show in what is measured.
LEASE_SECONDS, AGAIN_SECONDS = 25, 10
GONE_SECONDS = 0.05
REPLY_SECONDS = 10  # by the host's clock; the other end answers within some tenths


class SlowMotion:
    """Asks for `slowness` seconds of the machine's for one of the lab, between `begin` and `end`.

    With a slowness of 1 it asks for nothing, and needs no port. A context manager, which opens the
    port: where a run is fenced in it can no longer be found. Raises Failed where it cannot.
    """

    def __init__(self, slowness, port=PORT):
        self._slowness, self._path = slowness, port
        self._file = None
        self._thread = None
        self._over = threading.Event()
        self._asking = threading.Lock()

    def __enter__(self):
        if self._slowness != 1:
            try:
                self._file = os.open(self._path, os.O_RDWR | os.O_NONBLOCK)
            except OSError as error:
                raise Failed(f"slow motion: {self._path}: {error.strerror}") from None
            self._ask(1, 0)  # what a run that was killed asked for goes on until then
        return self

    def __exit__(self, *_):
        with contextlib.suppress(Failed):
            self.end()
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def begin(self):
        """Have the lab go slowly from now on; raises Failed where it does not."""
        if self._file is None:
            return
        self._ask(self._slowness, LEASE_SECONDS)
        self._over.clear()
        self._thread = threading.Thread(target=self._ask_again, daemon=True)
        self._thread.start()

    def end(self):
        """Have the lab go on as the machine does."""
        if self._thread is None:
            return
        self._over.set()
        self._thread.join()
        self._thread = None
        self._ask(1, 0)

    def _ask_again(self):
        while not self._over.wait(AGAIN_SECONDS):
            with contextlib.suppress(Failed):  # the next one may be heard again
                self._ask(self._slowness, LEASE_SECONDS)

    def _ask(self, slowness, seconds):
        with self._asking:
            until = time.monotonic() + REPLY_SECONDS
            self._drain()
            self._write(f"slow {slowness:g} {seconds:g}\n".encode(), until)
            reply = self._line(until)
        # Another host may have asked for more.
        if not reply.replace(".", "", 1).isdigit() or float(reply) < slowness:
            raise Failed(f"slow motion: {self._path}: {reply or 'no answer'}")

    def _drain(self):
        """Forget replies to what was asked by one that did not wait for them."""
        with contextlib.suppress(OSError):
            while os.read(self._file, 4096):
                pass

    def _write(self, text, until):
        while text:
            self._await(select.POLLOUT, until)
            with contextlib.suppress(BlockingIOError):
                text = text[os.write(self._file, text) :]

    def _line(self, until):
        found = b""
        while not found.endswith(b"\n"):
            if not self._await(select.POLLIN, until):
                return ""
            with contextlib.suppress(BlockingIOError):
                found += os.read(self._file, 4096)
        return found.decode(errors="replace").strip()

    def _await(self, event, until):
        """Wait until the port is ready; False where it is not in time."""
        poller = select.poll()
        poller.register(self._file, event)
        left = until - time.monotonic()
        if left <= 0:
            raise Failed(f"slow motion: {self._path}: no answer within {REPLY_SECONDS} s")
        found = poller.poll(1000 * left)
        if found and not found[0][1] & event:
            time.sleep(GONE_SECONDS)  # hung up: the other end is being started again
        return bool(found)
