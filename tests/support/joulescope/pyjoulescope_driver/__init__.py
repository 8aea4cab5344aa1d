# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in of the interface of pyjoulescope_driver that the capturer uses.

It is put on PYTHONPATH where the real one would be installed. JOULESCOPES names its devices,
JOULESCOPE_LOSES "FIRST,N" full-rate samples that do not come, JOULESCOPE_DEAF devices that do not
open.
"""

from __future__ import annotations

import os
import threading
import time

import numpy as np

FULL_RATE = {"js110": 2_000_000, "js220": 1_000_000}
LEVELS = {"v": 5.0, "i": 0.8, "p": 4.0}


class Driver:
    def __init__(self, timeout=None):
        self._topics, self._values, self._opened = {}, {}, set()
        self._end = threading.Event()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.finalize()

    def finalize(self, timeout=None):
        self._end.set()

    def device_paths(self, timeout=None):
        return [path for path in os.environ.get("JOULESCOPES", "").split(",") if path]

    def open(self, path, mode=None, timeout=None):
        if os.environ.get("JOULESCOPE_DEAF"):
            raise TimeoutError("open timed out")
        assert mode == "defaults"
        self._opened.add(path)

    def close(self, path, timeout=None):
        self._opened.discard(path)

    def subscribe(self, topic, flags, fn, timeout=None):
        assert flags == ["pub"]
        self._topics[topic] = fn

    def publish(self, topic, value, timeout=None):
        assert any(topic.startswith(path + "/") for path in self._opened), topic
        if topic.endswith(("/range/mode", "/range/select")):
            assert value in ("auto", "15 V"), value
        self._values[topic] = value
        if topic.endswith("/ctrl") and value == 1:
            threading.Thread(target=self._stream, args=(topic.removesuffix("/ctrl"),), daemon=True).start()

    def _stream(self, signal):
        path = "/".join(signal.split("/")[:3])
        full = FULL_RATE[path.split("/")[1]]
        factor = full // self._values[f"{path}/h/fs"]
        lost, n = (int(text) for text in os.environ.get("JOULESCOPE_LOSES", "0,0").split(","))
        level = LEVELS[signal[-1]]
        # A signal's counter runs since the instrument has power; the second signal begins later.
        at = 7_000_000 if signal.endswith("v") else 7_000_000 + 16 * factor
        begin, per = time.monotonic() - at / full, full // 50
        while not self._end.wait(max(0.0, begin + (at + per) / full - time.monotonic())):
            if n and at <= 7_000_000 + lost < at + per:
                at += n // factor * factor
            values = np.full(per // factor, level, np.float32)
            fn = self._topics.get(f"{signal}/!data")
            if fn:
                fn(f"{signal}/!data", {"sample_id": at, "sample_rate": full, "decimate_factor": factor,
                                       "utc": 0, "data": values})  # fmt: skip
            at += per
