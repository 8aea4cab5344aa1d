# SPDX-License-Identifier: GPL-3.0-or-later
"""A twin that is an NVMe/TCP controller, and the host of tests."""

from tests.support import nvme_client
from tests.support.nvme_client import Host
from tests.support.twins import Twin

NAME = "nqn.2026-11.test:drive"
RAIL = "3v3,3.3,0.01,0.35,2.2e-9,3.3e-9,1.5e-5,1.2e-3,8.14"


class NvmeTwin(Twin):
    """A twin with an NVMe target at `address`."""

    def __init__(self, folder, options=(), **changed):
        self.address = nvme_client.free_address()
        target = [f"nvme={self.address[0]}:{self.address[1]}", f"nvme_name={NAME}"]
        target += ["nvme_model=Joulerig test twin", *options]
        super().__init__(folder, options=target, **{"rails": [RAIL], **changed})

    def host(self, **options):
        return Host(self.address, NAME, **options)
