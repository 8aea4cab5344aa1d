# SPDX-License-Identifier: GPL-3.0-or-later
import os

import power_processes
import pytest


@pytest.fixture(autouse=True, scope="session")
def programs():
    for program in (power_processes.SRCAP, power_processes.POWERD):
        if not os.access(program, os.X_OK):
            pytest.exit(f"{program} is not built: make -C collectors/srcap && go build -o build/powerd ./collectors/powerd", 2)
