# SPDX-License-Identifier: GPL-3.0-or-later
"""The loop of a power-cut campaign on a twin, with the real writer: calls, journal, resumption."""

from __future__ import annotations

import itertools
import json
import socket

import polars as pl
import pytest

from joulerig.analysis import report, results
from joulerig.analysis.bundle import environment, verify, writer
from joulerig.analysis.bundle.check import FAILED
from joulerig.analysis.powercut import folder
from joulerig.rig.campaign import opening
from joulerig.rig.campaign.execution.host_channel import HostGoneError
from joulerig.rig.campaign.powercut.cut import Aim
from joulerig.rig.campaign.powercut.executor import PowerCutExecutor
from joulerig.rig.cli import results as shown
from joulerig.rig.common import process
from joulerig.rig.common.errors import UserError
from joulerig.rig.dashboard.campaign import journal as dashboard_journal
from joulerig.rig.dashboard.campaign import state as dashboard_state
from joulerig.rig.powercut.power import SpoiledError
from joulerig.rig.powercut.witness import introduction
from joulerig.virtuallab.standalone_twin import StandaloneTwin
from tests.support.twin_host import TwinHost, power_cut_lab

GONE = HostGoneError("ssh: broken pipe")
PROFILE = "sata-consumer"  # ready soon after a cut
DRIVE_BYTES = 64 << 20

pytestmark = pytest.mark.timeout(300)


class Host(TwinHost):
    """Keeps a trace. `troubles`: by (action, how often it was asked for).

    They are an answer, an error, or what makes an answer of a host's own call and its arguments.
    """

    def __init__(self, twin):
        super().__init__(twin)
        self.trace, self.troubles, self.gone = [], {}, 0
        self.seconds = 0.0

    def call(self, module, arguments):
        action = arguments.get("action", "ping")
        self.trace.append(action)
        if action == "ping" and self.gone:
            self.gone -= 1
            raise GONE
        trouble = self.troubles.get((action, self.trace.count(action)))
        if isinstance(trouble, BaseException):
            raise trouble
        if callable(trouble):
            return trouble(super().call, module, arguments)
        return trouble or super().call(module, arguments)

    def clock(self):
        return self.seconds

    def sleep(self, seconds):
        self.seconds += seconds


class PowerCuts:
    """A campaign of three cuts of one bare drive."""

    def __init__(self, lab, twin, cuts=3):
        mapping = {
            "kind": "power-cut",
            "name": "cuts",
            "question": "Does it keep its word?",
            "subjects": [{"drive": "fast"}],
            "cuts": cuts,
            "seed": 7,
            "off_seconds": 0.01,
            "stop": {"failures_in_a_row": 2},
        }
        self.lab, self.host = lab, Host(twin)
        self.journal = opening.open_campaign(mapping, lab, "playbooks/x.yml")
        self.folder = self.journal.folder

    def execute(self):
        campaign = opening.OpenPowerCuts.load(self.journal, self.lab)
        host = self.host
        return PowerCutExecutor(
            campaign, "bench1", host, switch=host.switch, clock=host.clock, sleep=host.sleep
        ).execute()

    def resume(self):
        self.journal.close()
        self.journal = opening.resume_campaign(self.folder.name, self.lab)
        return self.execute()

    @property
    def statuses(self):
        return [run["status"] for run in self.journal.runs()]

    @property
    def reasons(self):
        return [run["reason"] for run in self.journal.runs()]

    def file(self, number, name):
        return self.folder / "runs" / f"{self.folder.name}-{number:04d}" / name

    def aims(self):
        return [json.loads(self.file(n, "cut.json").read_text())["aimed"] for n in (1, 2, 3)]


@pytest.fixture
def twin(state):
    with StandaloneTwin(PROFILE, DRIVE_BYTES, []) as twin:
        yield twin


@pytest.fixture
def cuts(lab_files, services_up, twin):
    made = PowerCuts(power_cut_lab(lab_files, twin), twin)
    yield made
    made.journal.close()


HERE = environment.here("test")
CUT = ["write", "ping", "survey"]
WELL = ["prepare", "survey", *CUT, *CUT, *CUT]


def test_a_drive_is_prepared_once_and_then_cut_and_read_back(cuts):
    assert cuts.execute() == 3
    assert cuts.host.trace == WELL
    # No meter streams in this test, which makes each run partial.
    assert set(cuts.statuses) == {"partial"}
    assert set(cuts.reasons) == {"no energy of fast 12v: no points"}
    assert cuts.host.said[1].startswith("[bench1] 1/3 fast/none/unset/durawriter cut 1: partial")


def test_a_cut_is_a_run_whose_operations_are_its_durable_writes(cuts):
    cuts.execute()
    found = folder.load(cuts.folder)
    (subject,) = found.subjects
    campaign = results.load(cuts.folder)
    for run, cut in zip(campaign.runs, found.cuts[subject.name], strict=True):
        assert run.performance.unit == "durable write"
        assert run.performance.ops == cut.durable.writes > 0
        assert run.performance.write_bytes == cut.durable.bytes
        assert (run.phases["workload"].start_ns, run.phases["workload"].end_ns) == (
            cut.durable.start_ns, cut.durable.end_ns,
        )  # fmt: skip


@pytest.mark.long
def test_a_cut_in_which_the_controllers_clock_was_set_says_so_and_is_made_again(cuts, monkeypatch, tmp_path):
    booted = itertools.chain([7_000_000_000, 9_000_000_000], itertools.repeat(9_000_000_000))
    monkeypatch.setattr(process, "boot_ns", lambda: next(booted))
    cuts.execute()
    assert cuts.statuses == ["partial"] * 3
    assert cuts.reasons[0] == "the controller's clock was set forward by 2 s in the run"
    assert "clock" not in "".join(cuts.reasons[1:])
    assert json.loads(cuts.file(1, "cut.json").read_text())["controller_step_ns"] == 2_000_000_000
    made = writer.write(cuts.folder, tmp_path / "cuts.zip", HERE)
    found = {check.name: check.state for check in verify.verify(made.path, HERE)}
    assert FAILED not in (found["phases"], found["energy"])
    assert cuts.resume() == 1


def test_cuts_are_aimed_as_the_seed_says(cuts):
    cuts.execute()
    assert cuts.aims() == [Aim.for_block(7, ["bench1-fast-none"], n).phase for n in (1, 2, 3)]


def test_a_cut_that_cannot_be_read_back_is_failed_and_the_next_is_prepared_first(cuts):
    cuts.host.troubles["survey", 2] = {"problem": "read back: I/O error"}
    cuts.execute()
    assert cuts.statuses == ["failed", "partial", "partial"]
    assert cuts.reasons[0] == "bench1: fast: survey: read back: I/O error"
    assert cuts.host.trace == ["prepare", "survey", *CUT, "prepare", "survey", *CUT, *CUT]
    found = folder.load(cuts.folder)
    assert found.failed == {"bench1-fast-none": ["cut 1: failed: bench1: fast: survey: read back: I/O error"]}
    assert found.verdicts()["bench1-fast-none"].cuts == 2
    assert found.broken() == []


@pytest.mark.parametrize(("code", "again"), [(0, []), (4, ["prepare", "survey"])])
def test_no_writer_goes_on_with_a_file_system_that_its_checker_finds_damaged(cuts, code, again):
    def checked(call, *words):
        return {**call(*words), "check": {"command": ["fsck"], "exit": code, "last_lines": []}}

    cuts.host.troubles["survey", 2] = checked
    cuts.execute()
    assert cuts.statuses == ["partial"] * 3
    assert cuts.host.trace == ["prepare", "survey", *CUT, *again, *CUT, *CUT]


def test_a_writer_that_ends_before_the_cut_fails_it_with_its_last_words(cuts):
    def ended(_, module, arguments):
        _, host, port = arguments["witness"].split(":")
        with socket.create_connection((host, int(port))) as witness:
            witness.sendall(introduction(arguments["secret"]))
        return {"problem": "", "boot_id": "1"}

    cuts.host.troubles["write", 1] = ended
    cuts.host.troubles["clean", 1] = {"problem": "", "writer": "durawriter: mkdir: bad message"}
    cuts.execute()
    assert cuts.statuses == ["failed", "partial", "partial"]
    phase = cuts.aims()[0]
    assert cuts.reasons[0] == (
        f"bench1: fast: the writer ended before the cut ({phase}): durawriter: mkdir: bad message"
    )
    assert len(cuts.host.lost) == 2, "of the others"


def test_failures_in_a_row_end_it(cuts):
    for asked in (2, 4):
        cuts.host.troubles["survey", asked] = {"problem": "read back: I/O error"}
    with pytest.raises(
        UserError, match="stopped after 2 failed runs in a row; the remaining runs stay planned"
    ):
        cuts.execute()
    assert cuts.statuses == ["failed", "failed", "planned"]


def test_a_host_that_was_not_restarted_fails_the_cut(cuts):
    cuts.host.restarts = False
    with pytest.raises(UserError, match="2 failed runs"):
        cuts.execute()
    assert cuts.reasons[:2] == ["bench1: fast: the host was not restarted"] * 2


def test_a_cut_that_is_spoiled_is_failed_with_the_reason_and_its_drive_prepared_again(cuts, monkeypatch):
    spoiled = iter([SpoiledError("the cut does not count: bench1: ping still answers")])
    restore = cuts.host.on

    def on():
        restore()
        for error in spoiled:
            raise error

    monkeypatch.setattr(cuts.host, "on", on)
    assert cuts.execute() == 3
    assert cuts.statuses == ["failed", "partial", "partial"]
    assert cuts.reasons[0] == "the cut does not count: bench1: ping still answers"
    failed = ["prepare", "survey", "write", "ping", "clean"]
    assert cuts.host.trace == [*failed, *WELL[: 2 + 2 * len(CUT)]]


def test_a_host_that_could_not_be_shown_to_be_down_is_not_cut(cuts, monkeypatch):
    def check():
        raise UserError("bench1: answers neither ping nor SSH")

    monkeypatch.setattr(cuts.host, "check", check)
    with pytest.raises(UserError, match="2 failed runs"):
        cuts.execute()
    assert cuts.host.lost == []
    assert cuts.reasons[:2] == ["bench1: answers neither ping nor SSH"] * 2


def test_a_refused_drive_was_not_written_to(cuts):
    cuts.host.troubles["prepare", 1] = {"problem": "fast: mounted", "refused": True}
    cuts.execute()
    assert cuts.statuses == ["refused", "partial", "partial"]
    assert cuts.reasons[0] == "bench1: fast: prepare: fast: mounted"
    assert cuts.host.trace == ["prepare", *WELL[: 2 + 2 * len(CUT)]]


def test_a_module_that_crashed_fails_the_cut_with_its_message(cuts):
    cuts.host.troubles["write", 1] = {"msg": "MODULE FAILURE: no python"}
    cuts.execute()
    assert cuts.statuses == ["failed", "partial", "partial"]
    assert cuts.reasons[0] == "bench1: fast: write: MODULE FAILURE: no python"
    assert "clean" in cuts.host.trace


def test_a_host_that_went_away_and_came_back_goes_on(cuts):
    cuts.host.troubles["survey", 2] = GONE
    assert cuts.execute() == 3
    assert cuts.statuses == ["lost", "partial", "partial"]
    assert cuts.reasons[0] == "host gone: ssh: broken pipe"
    cuts.host.trace.clear()
    cuts.host.troubles.clear()
    assert cuts.resume() == 1
    assert cuts.host.trace == ["prepare", "survey", *CUT]
    assert cuts.statuses == ["partial"] * 3
    assert folder.load(cuts.folder).broken() == []


def test_a_host_that_does_not_come_back_ends_it_and_a_resumption_makes_the_rest(cuts):
    cuts.host.gone = 1000
    with pytest.raises(
        UserError, match="gone for 600 s; its remaining runs stay planned; resume the campaign"
    ):
        cuts.execute()
    assert cuts.statuses == ["lost", "planned", "planned"]
    cuts.host.gone = 0
    assert cuts.resume() == 3
    assert cuts.statuses == ["partial"] * 3


def test_a_controller_that_dies_in_a_cut_resumes_with_it_and_aims_as_before(cuts):
    cuts.host.troubles["survey", 3] = KeyboardInterrupt()  # the second cut is not read back
    with pytest.raises(KeyboardInterrupt):
        cuts.execute()
    assert cuts.statuses == ["partial", "running", "planned"]
    assert cuts.resume() == 2
    assert cuts.statuses == ["partial"] * 3
    assert cuts.aims() == [Aim.for_block(7, ["bench1-fast-none"], n).phase for n in (1, 2, 3)]
    found = folder.load(cuts.folder)
    # What the interrupted cut left on the drive is neither a promise of the next one nor data at
    # rest.
    assert found.broken() == []
    assert found.verdicts()["bench1-fast-none"].cuts == 3


def test_a_host_whose_power_is_off_after_an_error_is_started(cuts, monkeypatch):
    seen = iter([UserError("tap1: no answer")])

    def hold_up(drive):
        for error in seen:
            raise error
        return {}

    monkeypatch.setattr(cuts.host, "hold_up", hold_up)
    assert cuts.execute() == 3
    assert cuts.statuses == ["failed", "partial", "partial"]
    assert cuts.reasons[0] == "tap1: no answer"
    failed = ["prepare", "survey", "write", "ping", "clean"]  # it is awaited before it is cleaned
    assert cuts.host.trace == [*failed, *WELL[: 2 + 2 * len(CUT)]]


def test_a_host_that_an_interrupted_cut_left_off_is_started_on_resumption(cuts, twin):
    twin.power_off()
    cuts.host.troubles["prepare", 1] = GONE
    assert cuts.execute() == 3
    assert cuts.host.trace == ["prepare", "ping", *WELL]
    assert cuts.statuses == ["partial"] * 3
    assert "[bench1] does not answer: switching its power on" in cuts.host.said


def test_a_lab_without_the_drive_is_refused_on_resumption(cuts, lab_files):
    del lab_files.drives["fast"]
    cuts.lab = lab_files.load()
    with pytest.raises(UserError, match="'fast' is no drive of a test host"):
        cuts.resume()


@pytest.mark.long
def test_results_report_and_bundle_are_those_of_any_campaign(cuts, tmp_path):
    cuts.execute()
    cuts.journal.conclude()
    text = shown.summary_text(cuts.folder)
    statement = folder.load(cuts.folder).verdicts()["bench1-fast-none"].statement
    assert statement in text
    assert shown.as_json(cuts.folder)["power_cuts"][0]["verdict"]["cuts"] == 3
    html = report.write(cuts.folder, ["html"])[0].read_text()
    assert "Does it keep what it acknowledged as durable" in html
    assert "no promise broken" in html
    assert "Provenance" in html
    shown.write_tables(cuts.folder)
    assert (cuts.folder / "report" / "violations.csv").is_file()
    made = writer.write(cuts.folder, tmp_path / "cuts.zip", HERE)
    checks = list(verify.verify(made.path, HERE))
    assert [check.name for check in checks if check.state == FAILED] == []
    found = {check.name: check.state for check in checks}
    assert (found["phases"], found["performance"]) == ("ok", "ok")


def test_the_dashboard_shows_its_progress_by_its_journal(cuts):
    cuts.execute()
    seen = dashboard_journal.Journal(cuts.folder / "journal.sqlite")
    shown = dashboard_state.campaign(seen.read(), now_ns=0)
    seen.close()
    assert (shown["done"], shown["total"], shown["counts"]["partial"]) == (3, 3, 3)
    (table,) = shown["table"]
    (cell,) = (cell for row in table["cells"].values() for cell in row.values())
    assert (table["drive"], cell["planned"], cell["partial"]) == ("fast", 3, 3)
    assert "ops" not in cell, "without energy there is no work per joule"


@pytest.mark.long
def test_a_bundle_whose_witness_log_was_changed_is_found_out(cuts, tmp_path):
    cuts.execute()
    log = cuts.file(2, "witness.jsonl")
    *_, last = [line for line in log.read_text().splitlines() if "acknowledged" in line]
    later = {**json.loads(last), "realtime_ns": json.loads(last)["realtime_ns"] + 10**6}
    log.write_text(log.read_text().replace(last, json.dumps(later)))
    made = writer.write(cuts.folder, tmp_path / "cuts.zip", HERE)
    failed = {check.name for check in verify.verify(made.path, HERE) if check.state == FAILED}
    assert {"phases", "performance"} & failed


def test_tables_of_power_cuts_are_computed_again(cuts):
    cuts.execute()
    shown.write_tables(cuts.folder)
    assert not offenders_of_tables(cuts)
    path = cuts.folder / "report" / "cuts.csv"
    table = pl.read_csv(path)
    table.with_columns(pl.col("promised_writes") + 1).write_csv(path)
    assert any("cuts.csv: " in one and "promised_writes" in one for one in offenders_of_tables(cuts))


def offenders_of_tables(cuts):
    (found,) = (one for one in verify.verify(cuts.folder, HERE) if one.name == "tables")
    return found.offenders


def test_broken_promises_are_named(state, lab_files, services_up):
    with StandaloneTwin(PROFILE, DRIVE_BYTES, ["lie=flush", "cut_mode=all"]) as twin:
        made = PowerCuts(power_cut_lab(lab_files, twin), twin, cuts=1)
        made.execute()
    assert shown.broken_promises(made.folder) == ["fast"]
    assert "breaks its promise" in shown.summary_text(made.folder)
    made.journal.close()
