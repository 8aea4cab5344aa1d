# SPDX-License-Identifier: GPL-3.0-or-later
"""One module call at a time that changes a test host's drives."""

import fcntl
import os
import time

from ansible.module_utils.joulerig import paths, quiet
from ansible.module_utils.joulerig.tools import Busy


class HostLock:
    """One run at a time on a host; a run whose controller went away is waited for, not overrun.

    Background units that the campaign keeps quiet stay so while it is held, and for a while after.
    """

    def __init__(self, patience_seconds=0.0, path=None):
        self._patience_seconds, self._path = patience_seconds, path or paths.RUN_LOCK

    def __enter__(self):
        os.makedirs(os.path.dirname(self._path), exist_ok=True)
        self._file = open(self._path, "a+")  # it stays open as long as the lock is held
        end = time.monotonic() + self._patience_seconds
        while True:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() >= end:
                    self._file.close()
                    raise Busy("another run is in progress on this host") from None
            time.sleep(0.2)
        try:
            quiet.hold()
        except BaseException:
            self._file.close()
            raise
        return self

    def __exit__(self, *_):
        try:
            quiet.put_off()
        finally:
            self._file.close()
