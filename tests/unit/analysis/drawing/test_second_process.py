# SPDX-License-Identifier: GPL-3.0-or-later
"""The second process of a report: what it computes is what this one would, and how it fails."""

from __future__ import annotations

import math
import os
import sys
import time

import pytest

from joulerig.analysis import report, results
from joulerig.analysis.drawing.second_process import FEWEST_TO_SHARE, SecondProcess, SecondProcessError
from joulerig.analysis.report import document
from tests.support import simulated_campaign


def process_of(number: int, seconds: float) -> tuple[int, int]:
    time.sleep(seconds)
    return number, os.getpid()


def ends() -> None:
    os._exit(3)


def prints() -> str:
    print("on standard output")
    return "a value"


@pytest.fixture(scope="module")
def second():
    with SecondProcess() as one:
        one.begin(math.sqrt, 4.0).result()  # it is ready
        yield one


def test_it_calls_a_function_elsewhere(second):
    assert second.begin(os.getpid).result() != os.getpid()


def test_an_error_is_raised_where_the_value_is_asked_for_and_the_process_goes_on(second):
    failed, done = second.begin(math.sqrt, -1.0), second.begin(math.sqrt, 9.0)
    with pytest.raises(ValueError, match=r"math domain error|nonnegative"):
        failed.result()
    assert done.result() == 3.0


def test_what_a_function_prints_is_no_value(second):
    assert second.begin(prints).result() == "a value"


def test_two_processes_share_calls_and_the_values_keep_their_order(second):
    found = second.map(process_of, [{"number": number, "seconds": 0.2} for number in range(FEWEST_TO_SHARE)])
    assert [number for number, _ in found] == list(range(FEWEST_TO_SHARE))
    assert len({process for _, process in found}) == 2


def test_calls_do_not_wait_for_it_to_be_ready():
    with SecondProcess() as one:
        found = one.map(process_of, [{"number": number, "seconds": 0.0} for number in range(FEWEST_TO_SHARE)])
    assert found == [(number, os.getpid()) for number in range(FEWEST_TO_SHARE)]


def test_one_that_ends_early_is_an_error_of_one_line():
    with SecondProcess() as one:
        with pytest.raises(
            SecondProcessError, match=r"^the process that makes figures and PDF ended with 3$"
        ):
            one.begin(ends).result()
        with pytest.raises(SecondProcessError):
            one.begin(math.sqrt, 4.0).result()


def test_it_is_gone_afterwards_also_with_work_left():
    with SecondProcess() as one:
        one.begin(time.sleep, 60)
        process = one._process
    assert process.returncode is not None


def test_the_report_is_the_one_that_a_single_process_makes(tmp_path):
    folder = simulated_campaign.build(tmp_path / "c", filesystems=["ext4"], traces=True)
    html, pdf = report.write(folder)
    alone = document.html(results.load(folder))
    assert html.read_text() == alone
    assert pdf.read_bytes() == document.pdf(alone)


def test_figures_drawn_there_are_the_same(tmp_path, second):
    folder = simulated_campaign.build(
        tmp_path / "c", workloads=["varmail", "oltp", "webserver"], schedulers=["none", "bfq"], replicates=2
    )
    campaign = results.load(folder)

    def there(function, calls):
        return [second.begin(_called, function, keywords).result() for keywords in calls]

    assert document.html(campaign, there) == document.html(campaign)


def _called(function, keywords):
    return function(**keywords)


def test_it_finds_modules_where_this_process_does(second):
    assert {one for one in sys.path if one} <= set(second.begin(paths).result())


def paths() -> list[str]:
    return sys.path
