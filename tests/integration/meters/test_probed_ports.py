# SPDX-License-Identifier: GPL-3.0-or-later
"""A serial port that no inventory names, asked as each family of serial instruments is asked."""

import pytest

from joulerig.rig.lab import meters
from joulerig.rig.lab.meters import discovery
from tests.support import emulated_dps, emulated_load


@pytest.mark.parametrize(
    ("line", "driver"), [(emulated_dps.line, "rdtech-dps"), (emulated_load.line, "arachnid-labs-re-load-pro")]
)
def test_an_instrument_at_an_undeclared_port_is_found(line, driver):
    with line() as there:
        port = discovery.Port(there.connection, "USB Serial")
        (found,) = discovery.probe(port, meters.shipped(), 1.0)
    assert (found["driver"], found["connection"]) == (driver, port.connection)


def test_where_nothing_answers_nothing_is_found():
    with emulated_dps.line() as there:
        there.instrument.mute = True
        assert discovery.probe(discovery.Port(there.connection, ""), meters.shipped(), 1.0) == []
