# SPDX-License-Identifier: GPL-3.0-or-later
"""Power cuts under applications: planted bugs are found, and what syncs rightly loses nothing.

The drive is a twin, the file system this kernel's, on a loop device. JOULERIG_APPLICATION_CUTS is
the number of cuts of each application (make test-powercut-applications: 100). A bug that not every
cut can show is sought by as many cuts as it takes, up to that number, which has to be 100.
"""

from __future__ import annotations

import os
import time
import zipfile

import polars as pl
import pytest

from joulerig.analysis import report
from joulerig.analysis.bundle import environment, verify, writer
from joulerig.analysis.bundle.check import FAILED
from joulerig.analysis.powercut import folder, tables
from joulerig.rig.campaign import opening
from joulerig.rig.campaign.powercut.executor import PowerCutExecutor
from joulerig.rig.cli import results as shown
from joulerig.rig.common import paths
from joulerig.rig.lab import applications, filesystems
from joulerig.rig.powercut import crash_states
from joulerig.virtuallab.blocklog import device
from joulerig.virtuallab.blocklog.record import record
from joulerig.virtuallab.standalone_twin import StandaloneTwin
from tests.support.loop_host import LoopHost
from tests.support.twin_host import power_cut_lab

STATES = 40
CUTS = int(os.environ.get("JOULERIG_APPLICATION_CUTS", "3"))
PROFILE = "sata-consumer"  # without power-loss protection, and ready soon after a cut
DRIVE_BYTES = 64 << 20  # as of `rig crash-states`
HERE = environment.here("test")

pytestmark = [
    pytest.mark.timeout(3600),
    pytest.mark.skipif(bool(device.missing()), reason=device.missing()),
]


@pytest.fixture
def cuts_of(state, lab_files, services_up):
    """cuts_of(APPLICATION, CUTS, *MOUNT_OPTIONS): the verdict, and the folder of the campaign."""
    journals = []

    def executed(application, cuts=CUTS, mount_options=(), seed=7):
        began = time.monotonic()
        with StandaloneTwin(PROFILE, DRIVE_BYTES, []) as twin:
            lab = power_cut_lab(lab_files, twin)
            subject = {
                "drive": "fast",
                "filesystem": "ext4",
                "application": application,
                "mount_options": list(mount_options),
            }
            mapping = {
                "kind": "power-cut",
                "name": application,
                "question": "Does it keep its word?",
                "subjects": [subject],
                "cuts": cuts,
                "seed": seed,
                "off_seconds": 0.01,
            }
            journals.append(opening.open_campaign(mapping, lab, "test"))
            host = LoopHost(twin)
            campaign = opening.OpenPowerCuts.load(journals[-1], lab)
            assert PowerCutExecutor(campaign, "bench1", host, switch=host.switch).execute() == cuts
        found = folder.load(journals[-1].folder)
        (one,) = found.subjects
        verdict = found.verdicts()[one.name]
        print(
            f"{one}: {time.monotonic() - began:.0f} s: {verdict.statement} {verdict.broken_by_fate} {verdict.phases}"
        )
        assert found.failed == {one.name: []}
        return verdict, found

    yield executed
    for journal in journals:
        journal.close()


BATCH = 10  # cuts between two looks at whether a bug was found
# What is not synced reaches the drive when the kernel likes: at a cut it may be there in part.
SHOWN_BY_EVERY_CUT = {"toystore-no-fsync": {"lost", "torn"}, "toystore-wrong-file": {"lost", "torn"}}
SYNCS_TOO_LITTLE = ["lmdb-nosync", "postgresql-async", "postgresql-nofsync"]
SHOWN_BY_SOME = {
    "toystore-no-directory-fsync": {"lost"},
    "toystore-write-order": {"torn"},
    "toystore-late-undo": {"resurrected", "torn"},
}
ENOUGH = pytest.mark.skipif(CUTS < 100, reason="make test-powercut-applications runs these: 100 cuts")


@pytest.mark.long
@pytest.mark.parametrize("application", SHOWN_BY_EVERY_CUT)
def test_a_planted_bug_that_every_cut_shows_is_found(cuts_of, application):
    verdict, _ = cuts_of(application, min(CUTS, BATCH))
    assert verdict.broken_cuts == verdict.cuts > 0
    assert "lost" in verdict.broken_by_fate
    assert verdict.broken_by_fate.keys() <= SHOWN_BY_EVERY_CUT[application]


@ENOUGH
@pytest.mark.parametrize("application", SYNCS_TOO_LITTLE)
def test_a_store_that_acknowledges_before_it_syncs_is_caught(cuts_of, application):
    verdict, _ = cuts_of(application, BATCH)
    assert verdict.broken_by_fate.get("lost", 0) > 0


def until_found(cuts_of, application, **more):
    """Cut in batches, each with another seed each, until a promise was broken; return what was."""
    for seed in range(CUTS // BATCH):
        verdict, _ = cuts_of(application, BATCH, seed=seed, **more)
        if verdict.broken_cuts:
            return verdict.broken_by_fate.keys()
    return set()


@ENOUGH
@pytest.mark.parametrize("application", SHOWN_BY_SOME)
def test_a_planted_bug_is_found_within_a_hundred_cuts(cuts_of, application):
    found = until_found(cuts_of, application)
    assert found
    assert found <= SHOWN_BY_SOME[application]


@pytest.mark.parametrize(
    "application",
    [
        "toystore",
        pytest.param("sqlite-wal", marks=pytest.mark.long),
        pytest.param("sqlite-extra", marks=pytest.mark.long),
        pytest.param("lmdb", marks=pytest.mark.long),
        pytest.param("postgresql", marks=ENOUGH),
    ],
)
def test_a_program_that_syncs_what_it_acknowledges_loses_nothing(cuts_of, application):
    verdict, _ = cuts_of(application)
    assert (verdict.cuts, verdict.broken_cuts) == (CUTS, 0)
    assert verdict.promised_writes > CUTS


@pytest.mark.long
@pytest.mark.parametrize("application", ["sqlite", pytest.param("lmdb-nometasync", marks=ENOUGH)])
def test_what_a_store_says_it_may_lose_is_at_most_the_last_transaction(cuts_of, application):
    """SQLite deletes its rollback journal to commit, and makes that durable with EXTRA alone.

    https://www.sqlite.org/pragma.html#pragma_synchronous and, of MDB_NOMETASYNC,
    http://www.lmdb.tech/doc/group__mdb__env.html
    """
    verdict, found = cuts_of(application)
    assert verdict.broken_by_fate.keys() <= {"lost"}
    (cuts,) = found.cuts.values()
    for cut in cuts:
        last = max(one.sequence for one in cut.log.operations if one.acknowledged is not None)
        assert [violation.sequence for violation in cut.findings.violations] in ([], [last])


@ENOUGH
def test_without_barriers_sqlite_is_caught_on_a_drive_without_protection(cuts_of):
    assert until_found(cuts_of, "sqlite-wal", mount_options=["nobarrier"])


@pytest.mark.long
def test_results_report_and_bundle_are_those_of_any_power_cut(cuts_of, tmp_path):
    verdict, found = cuts_of("toystore-no-fsync", 1)
    path = paths.results() / found.id
    assert verdict.statement in shown.summary_text(path)
    html = report.write(path, ["html"])[0].read_text()
    assert "toystore-no-fsync on fast with ext4" in html
    first = violations(found)[0].sequence  # not 1 where the kernel wrote some back by itself
    assert f"transaction {first} of toystore-no-fsync: lost" in html
    (row,) = tables.subjects(found).to_dicts()
    assert (row["application"], row["broken_by_fate"]) == (
        "toystore-no-fsync", f"{verdict.broken_promises} lost",
    )  # fmt: skip
    made = writer.write(path, tmp_path / "cuts.zip", HERE)
    with zipfile.ZipFile(made.path) as bundle, bundle.open("export/violations.csv") as file:
        broken = pl.read_csv(file)
    assert broken["target"].unique().to_list() == ["toystore-no-fsync"]
    assert broken["sequence"].to_list() == [one.sequence for one in violations(found)]
    checks = {check.name: check.state for check in verify.verify(made.path, HERE)}
    assert FAILED not in checks.values()
    assert (checks["phases"], checks["performance"]) == ("ok", "ok")


def violations(found):
    (cuts,) = found.cuts.values()
    return [violation for cut in cuts for violation in cut.findings.violations]


@pytest.mark.long
@pytest.mark.parametrize(
    ("application", "fates"),
    [
        ("toystore", set()),
        pytest.param("sqlite-wal", set(), marks=ENOUGH),
        pytest.param("sqlite-extra", set(), marks=ENOUGH),
        pytest.param("lmdb", set(), marks=pytest.mark.long),
        pytest.param("lmdb-nometasync", {"lost"}, marks=ENOUGH),
        pytest.param("lmdb-nosync", {"lost"}, marks=ENOUGH),
        pytest.param("postgresql", set(), marks=pytest.mark.long),
        pytest.param("postgresql-async", {"lost"}, marks=ENOUGH),
        pytest.param("postgresql-nofsync", {"lost"}, marks=ENOUGH),
        pytest.param("sqlite", {"lost"}, marks=pytest.mark.long),
        pytest.param("toystore-no-fsync", {"lost"}, marks=ENOUGH),
        ("toystore-wrong-file", {"lost", "torn"}),
        pytest.param("toystore-no-directory-fsync", {"lost"}, marks=pytest.mark.long),
        pytest.param("toystore-write-order", {"torn"}, marks=pytest.mark.long),
        pytest.param("toystore-late-undo", {"resurrected", "torn"}, marks=pytest.mark.long),
    ],
)
def test_states_in_software_show_the_same(state, tmp_path, application, fates):
    definition = filesystems.shipped()["ext4"].for_host("ext4")
    command = applications.shipped()[application].command(here=True)
    log = tmp_path / "writes"
    writes = crash_states.writer("write", command)
    assert record(PROFILE, DRIVE_BYTES, definition, writes, 8, 3, log) == 8
    found = crash_states.check(log, DRIVE_BYTES, definition, command, STATES, seed=1)
    assert found.fates.keys() <= fates
    assert bool(found.broken) == bool(fates)
    assert (found.states, found.unmountable) == (min(STATES, found.possible), 0)
