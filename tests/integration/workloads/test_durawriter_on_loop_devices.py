# SPDX-License-Identifier: GPL-3.0-or-later
"""The writer of power cuts on block devices of 512 and of 4096 bytes a sector, with O_DIRECT."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator

import pytest

from tests.support import ROOT
from tests.support.power_cut_witness import Witness

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: loop devices")

PROGRAM = str(ROOT / "build" / "durawriter")
CAMPAIGN = "000102030405060708090a0b0c0d0e0f"
MIB = 1 << 20


@pytest.fixture(params=[512, 4096])
def device(request: pytest.FixtureRequest) -> Iterator[tuple[int, int]]:
    """The descriptor of a block device of memory, and the bytes of its sectors."""
    image = tempfile.NamedTemporaryFile(dir="/dev/shm")  # noqa: SIM115  (the loop device keeps it)
    image.truncate(8 * MIB)
    words = ["losetup", "--show", "--find", "--sector-size", str(request.param), image.name]
    name = subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
    descriptor = os.open(name, os.O_RDWR | os.O_DIRECT | os.O_EXCL)
    try:
        yield descriptor, request.param
    finally:
        os.close(descriptor)
        subprocess.run(["losetup", "--detach", name], check=True)


def durawriter(descriptor: int, *words: str) -> subprocess.CompletedProcess[str]:
    command = [PROGRAM, *words, "--campaign", CAMPAIGN, "--device-fd", str(descriptor)]
    return subprocess.run(command, pass_fds=[descriptor], capture_output=True, text=True, timeout=60)


def test_what_is_written_in_whole_sectors_reads_back(device):
    descriptor, sector_bytes = device
    witness = Witness()
    witness.start()
    done = durawriter(descriptor, "write", "--generation", "1", "--witness", f"tcp:127.0.0.1:{witness.port}")
    assert (done.returncode, done.stderr) == (0, "")
    witness.join(10)
    witness.check_whole_blocks(sector_bytes)
    survey = durawriter(descriptor, "survey", "--generation", "1")
    assert survey.returncode == 0, survey.stderr
    witness.check_survey(survey.stdout)


def test_a_region_or_slots_of_parts_of_a_sector_are_refused_on_a_drive_of_large_ones(device):
    descriptor, sector_bytes = device
    code = 1 if sector_bytes == 4096 else 0
    done = durawriter(descriptor, "survey", "--region-bytes", str(MIB + 512))
    assert done.returncode == code
    witness = Witness()
    witness.start()
    address = f"tcp:127.0.0.1:{witness.port}"
    done = durawriter(descriptor, "write", "--generation", "1", "--witness", address, "--slot-sectors", "12")
    assert done.returncode == code
    if code:
        assert "--slot-sectors: 12: expected a multiple of 8" in done.stderr
