# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep other calls from something of a test host for a moment: a file that is read and written."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator

from ansible.module_utils.joulerig import paths


@contextlib.contextmanager
def alone_with(what: str) -> Iterator[None]:
    """Keep others that name `what` waiting while the body is executed. It is not re-entrant."""
    folder = os.path.dirname(paths.RUN_LOCK)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, f"{what}.lock"), "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
