# SPDX-License-Identifier: GPL-3.0-or-later
"""What a client must see of a drive, where no drive is needed to say so."""

from __future__ import annotations

import pytest

from tests.support.drive_figures import rate_of_several


def test_one_at_a_time_takes_its_own_time_and_the_servers():
    assert rate_of_several(1, 90.0, 10.0) == pytest.approx(1e4)


def test_two_wait_for_each_other_as_often_as_they_meet():
    meets = 10 / 100  # the share of its time that the one is at the server
    assert rate_of_several(2, 90.0, 10.0) == pytest.approx(2e6 / (90 + 10 * (1 + meets)))


def test_very_many_are_served_as_fast_as_the_server_can():
    assert rate_of_several(1000, 90.0, 10.0) == pytest.approx(1e5, rel=1e-3)


def test_none_waits_for_a_server_that_takes_no_time():
    assert rate_of_several(32, 64.0, 0.0) == pytest.approx(5e5)
