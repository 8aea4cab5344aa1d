# SPDX-License-Identifier: GPL-3.0-or-later
"""srcap as the tests of meters run it, and what lets libserialport open pseudo-terminals."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.captures import Capture


@pytest.fixture(scope="module", autouse=True)
def ptys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Let every program that a module's tests start open a pseudo-terminal as a serial line."""
    library = tmp_path_factory.mktemp("shim") / "ptyshim.so"
    source = ROOT / "tests" / "support" / "ptyshim.c"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O2", "-o", str(library), str(source), "-ldl"], check=True)
    before = os.environ.get("LD_PRELOAD")
    os.environ["LD_PRELOAD"] = str(library)
    yield library
    if before is None:
        del os.environ["LD_PRELOAD"]
    else:
        os.environ["LD_PRELOAD"] = before


@pytest.fixture
def capture() -> Iterator[Callable[..., Capture]]:
    """Start srcap on a driver's channels; its silence is 2 s where a test names none."""
    with contextlib.ExitStack() as running:

        def start(driver: str, channels: Sequence[str], *more: str, silence: float = 2.0) -> Capture:
            return running.enter_context(
                contextlib.closing(Capture(driver, channels, *more, silence=silence))
            )

        yield start
