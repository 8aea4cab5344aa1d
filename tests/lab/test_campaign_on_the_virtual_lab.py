# SPDX-License-Identifier: GPL-3.0-or-later
"""The main job, end to end: joules through libsigrok agree with what the twins drew."""

from __future__ import annotations

import itertools
import json
import os
import signal
import sqlite3
import subprocess
import time
from collections import Counter

import httpx
import pytest
from playwright.sync_api import expect, sync_playwright

from joulerig.analysis import results
from joulerig.analysis.runs import idle as at_rest
from joulerig.rig.controller import services
from joulerig.rig.lab import model, virtual
from joulerig.virtuallab import profile
from tests.support.dashboard_page import launch
from tests.support.lab_driver import FACTORS, Lab, takes_minutes
from tests.support.programs import wait_for

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1500)]


def executed(campaign):
    return [run for run in campaign["runs"] if run["status"] != "excluded"]


@pytest.mark.long
def test_a_second_provisioning_changes_nothing(lab: Lab):
    done = lab.ansible("playbooks/provision.yml")
    assert done.returncode == 0, done.stdout
    assert "changed=0" in done.stdout.splitlines()[-2], done.stdout


def test_every_run_is_ok_and_excluded_cells_say_why(campaign):
    assert [run["status"] for run in executed(campaign)] == ["ok"] * 4
    excluded = Counter(run["reason"] for run in campaign["runs"] if run["status"] == "excluded")
    assert excluded == {
        "one scheduler is enough here": 2,
        "seen with f2fs": 1,
        "seen with ext4": 1,
    }


def test_measured_energy_is_within_one_percent_of_the_truth(campaign):
    for run in executed(campaign):
        assert run["true_joules"] > 0
        assert abs(run["joules"] - run["true_joules"]) <= 0.01 * run["true_joules"], run["id"]


def test_idle_power_is_that_of_a_drive_at_rest(lab, campaign):
    """The drive's work on written data, a second after the last write, is over by then."""
    reported = results.load(lab.results / campaign["campaign"])
    idle = profile.load("sata-consumer").rails["5v"].idle_watts
    idles = at_rest.by_run(reported)
    measured = [idles[run.id].watts for run in reported.runs if run.drive == "sata-consumer" and run.counts]
    assert len(measured) == 2
    assert measured == [pytest.approx(idle, rel=0.02)] * 2


def test_ai_is_work_over_energy(campaign):
    for run in executed(campaign):
        assert run["ai_ops_per_joule"] == pytest.approx(run["performance"]["ops"] / run["corrected_joules"])
        assert run["ai_mb_per_joule"] == pytest.approx(
            run["performance"]["write_bytes"] / 1e6 / run["corrected_joules"]
        )


def test_phases_follow_each_other_and_the_load_has_its_length(campaign):
    for run in executed(campaign):
        names = [phase["phase"] for phase in run["phases"]]
        assert names == ["prepare", "setup", "idle", "workload", "tail"]
        ends = [(phase["start_ns"], phase["end_ns"]) for phase in run["phases"]]
        assert all(start < end for start, end in ends)
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(ends))
        assert 4.0 <= run["phases"][3]["seconds"] < 8.0  # a busy host takes its time to end it


def test_the_agents_counters_agree_with_fio_and_with_the_kernels(campaign):
    """iod, the module's own reading of the block layer, and fio count the same load."""
    for run in executed(campaign):
        counted = {io["source"]: io for io in run["io"]}
        for key in ("writes", "write_bytes", "flushes"):
            assert counted["iod"][key] == pytest.approx(counted["host"][key], rel=0.01), (run["id"], key)
        # A file system writes what fio writes and its own metadata, never less.
        assert counted["iod"]["write_bytes"] >= 0.99 * run["performance"]["write_bytes"]


def test_the_agents_counters_agree_with_the_twins(campaign):
    for run in executed(campaign):
        counted = {io["source"]: io for io in run["io"]}
        agent, twin = counted["iod"], counted["twin"]
        for key in ("write_bytes", "flushes"):
            assert twin[key] == pytest.approx(agent[key], rel=0.01), (run["id"], key)
        # Linux counts an empty flush request among the writes too; the drive does not. The windows
        # of the two end a moment apart: a few requests at the ends are in one of them alone.
        at_the_ends = 0.01 * agent["writes"]
        assert twin["writes"] - at_the_ends <= agent["writes"], run["id"]
        assert agent["writes"] <= twin["writes"] + twin["flushes"] + at_the_ends, run["id"]


def test_influxdb_holds_every_measurement_that_has_a_source_here(lab: Lab, campaign):
    with lab.database() as database:
        for name in ("power", "blockio", "fsjournal", "drive_health", "hostload", "workload", "phase"):
            assert database.query(f"SELECT * FROM {name} LIMIT 1").height, name
        run = executed(campaign)[0]
        phases = database.query(
            f"SELECT start_ns, end_ns FROM phase WHERE run = '{run['id']}' GROUP BY phase"
        )
        assert set(phases["phase"]) == {"prepare", "setup", "idle", "workload", "tail"}
        work = database.query(f"SELECT ops, write_bytes FROM workload WHERE run = '{run['id']}'")
        assert len(work) >= 4  # a point a second
        assert work["ops"].sum() == run["performance"]["ops"]
        assert work["write_bytes"].sum() == run["performance"]["write_bytes"]
        health = database.query(
            "SELECT last(data_units_written_bytes) FROM drive_health WHERE drive = 'nvme-consumer'"
        )
        assert health["last"][0] > 0


def test_influxdb_refuses_who_has_no_password(lab: Lab):
    port = json.loads((lab.folder / "var" / "ports.json").read_text())["influxdb"]
    answer = httpx.get(f"http://127.0.0.1:{port}/query", params={"db": "joulerig", "q": "SHOW MEASUREMENTS"})
    assert answer.status_code == 401
    secrets = lab.folder / "var" / "secrets"
    assert all(path.stat().st_mode & 0o077 == 0 for path in secrets.iterdir())


@takes_minutes
def test_plain_ansible_gives_the_same_campaign_as_rig_run(lab: Lab, campaign):
    done = lab.ansible(campaign["playbook"])
    assert done.returncode == 0, done.stdout
    again = lab.results_of()
    assert again["campaign"] != campaign["campaign"]
    keys = ("cell", "host", "replicate", "status", "reason")
    assert [[r[k] for k in keys] for r in again["runs"]] == [[r[k] for k in keys] for r in campaign["runs"]]
    definitions = []
    for name in (campaign["campaign"], again["campaign"]):
        with sqlite3.connect(lab.results / name / "journal.sqlite") as journal:
            definitions.append(journal.execute("SELECT definition FROM campaign").fetchone())
    assert definitions[0] == definitions[1]
    for run in executed(again):
        assert abs(run["error_percent"]) <= 1.0


def test_settings_are_put_back_after_a_run(lab: Lab, campaign):
    schedulers = lab.ssh("grep -H . /sys/block/nvme*n1/queue/scheduler /sys/block/sd*/queue/scheduler")
    settings = [
        json.loads((lab.results / campaign["campaign"] / "runs" / run["id"] / "settings.json").read_text())
        for run in executed(campaign)
    ]
    assert {s["queue"]["scheduler"]["in_effect"] for s in settings} == {"none", "bfq"}
    for line in schedulers.splitlines():
        assert "[bfq]" not in line, line
    assert "/run/joulerig/mnt" not in lab.ssh("cat /proc/mounts")


def test_the_report_and_the_tables_are_written(lab: Lab, campaign):
    done = lab.rig("report", campaign["campaign"])
    assert done.returncode == 0, done.stderr
    report = lab.results / campaign["campaign"] / "report"
    assert "VIRTUAL LAB" in (report / "report.html").read_text().upper()
    assert (report / "report.pdf").read_bytes().startswith(b"%PDF")
    assert len((report / "runs.csv").read_text().splitlines()) == 1 + len(campaign["runs"])
    assert "AI in ops/J" in campaign["output"]
    assert "VIRTUAL LAB" in campaign["output"]


def test_the_bundle_holds_in_every_check(lab: Lab, campaign, tmp_path):
    bundle = tmp_path / "campaign.zip"
    done = lab.rig("export", campaign["campaign"], "--bundle", str(bundle))
    assert done.returncode == 0, done.stderr
    done = lab.rig("verify", str(bundle))
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_page_shows_the_campaign(lab: Lab, campaign):
    with sync_playwright() as playwright, lab.state():
        browser = launch(playwright)
        page = browser.new_page()
        page.goto(services.dashboard_url() + "campaign")
        expect(page.locator("#done")).to_have_text(str(len(campaign["runs"])))  # or excluded
        expect(page.locator("#failures")).to_contain_text("None.")
        browser.close()


@pytest.fixture(scope="module")
def fsyncs(lab: Lab):
    """A campaign of paced overwrites with an fsync each, by fio and by the workload engine."""
    playbook = lab.playbook(
        name="fsync",
        drives=["sata-consumer"],
        factors={
            "filesystem": ["ext4", "f2fs"],
            "scheduler": ["none"],
            "workload": ["randwrite-fsync-paced", "overwrite-fsync-paced"],
        },
        exclude=[
            {"filesystem": "f2fs", "workload": "overwrite-fsync-paced", "reason": "fio's is enough here"}
        ],
        phases={"rest_seconds": 0, "idle_seconds": 1, "workload_seconds": 8, "tail_seconds": 1},
    )
    done = lab.rig("run", str(playbook), timeout=1200)
    assert done.returncode == 0, done.stdout + done.stderr
    found = lab.results_of()
    runs = executed(found)
    return found["campaign"], {(r["factors"]["filesystem"], r["factors"]["workload"]): r for r in runs}


@takes_minutes
@pytest.mark.parametrize(
    ("filesystem", "workload", "count", "kibibytes", "flushes"),
    [
        ("ext4", "randwrite-fsync-paced", "ops", 16.0, 2.0),
        ("f2fs", "randwrite-fsync-paced", "ops", 8.0, 1.0),
        ("ext4", "overwrite-fsync-paced", "syncs", 16.0, 2.0),
    ],
)
def test_an_fsync_writes_what_it_was_measured_to_write(
    fsyncs, filesystem, workload, count, kibibytes, flushes
):
    """4 KiB overwrite + fsync, a tick apart or more, on a drive without FUA, through a real kernel.

    The figures are those measured on Debian 12's kernel with a loop device, which has no FUA
    either.
    """
    run = fsyncs[1][filesystem, workload]
    syncs, counted = run["performance"][count], {io["source"]: io for io in run["io"]}["host"]
    assert syncs > 100
    assert counted["write_bytes"] / 1024 / syncs == pytest.approx(kibibytes, rel=0.1)
    assert counted["flushes"] / syncs == pytest.approx(flushes, rel=0.1)


@takes_minutes
def test_a_workload_of_the_engine_comes_to_the_host_and_loads_its_drive(lab: Lab, fsyncs):
    campaign, runs = fsyncs
    assert_of_the_engine(lab, campaign, runs["ext4", "overwrite-fsync-paced"])
    assert lab.ssh("pgrep -c flowop || true").strip() == "0"


def assert_of_the_engine(lab: Lab, campaign: str, run) -> dict:
    """A run's AI, and that the caches were empty at its begin; return its engine's report."""
    assert run["ai_ops_per_joule"] == pytest.approx(run["performance"]["ops"] / run["corrected_joules"])
    place = lab.results / campaign / "runs" / run["id"]
    report = json.loads((place / "load.json").read_text())
    assert (report["ended"], report["ops"]) == ("completed", run["performance"]["ops"])
    caches = json.loads((place / "settings.json").read_text())["caches"]
    assert caches["pages_cached"] <= 0.01 * caches["pages_asked"]
    assert caches["files"] > 0
    return report


@takes_minutes
def test_a_run_outlives_its_controller_and_is_collected_by_a_resumption(lab: Lab):
    """Ctrl-C; test_kills_on_the_virtual_lab.py has the ends without a warning."""
    name = "cut-off"
    playbook = lab.playbook(
        name=name,
        factors={**FACTORS, "workload": ["varmail"]},
        phases={"rest_seconds": 0, "idle_seconds": 0, "workload_seconds": 60, "tail_seconds": 1},
    )
    running = lab.start_rig("run", str(playbook), stderr=subprocess.PIPE)
    try:
        wait_for(lambda: _seconds_of_load(lab) > 3, 300, "a load on the host, its files laid out")
        os.killpg(running.pid, signal.SIGINT)
        _, reported = running.communicate(timeout=60)
    finally:
        running.kill()
        running.wait()
    [cut_off] = [one for one in lab.campaigns() if one.startswith(name)]
    assert running.returncode == 130
    assert f"'rig run {playbook} --resume {cut_off}' collects it" in reported
    wait_for(lambda: not _executing(name), 20, "no process of the controller goes on")
    gone_ns = time.time_ns()
    done = lab.rig("run", str(playbook), "--resume", cut_off)
    assert done.returncode == 0, done.stdout + done.stderr
    [run] = lab.results_of(cut_off)["runs"]
    assert run["status"] == "ok"
    report = assert_of_the_engine(lab, cut_off, run)
    assert {"delete", "create", "append", "fsync"} <= {one["name"] for one in report["classes"]}
    assert 59 < run["phases"][3]["seconds"] < 80
    assert run["phases"][3]["end_ns"] > gone_ns, "the load went on"
    assert abs(run["joules"] - run["true_joules"]) <= 0.01 * run["true_joules"]
    [attempt] = results.load(lab.results / cut_off).runs[0].attempts
    assert (attempt.status, attempt.cause) == ("ok", "completed")
    left = "pgrep -x 'flowop|fio'; grep /run/joulerig/mnt /proc/mounts; ls /var/lib/joulerig/calls; true"
    assert lab.ssh(left).strip() == ""


@takes_minutes
def test_a_stop_at_once_ends_the_load_and_leaves_nothing_on_the_host(lab: Lab):
    playbook = lab.playbook(
        name="stopped",
        replicates=2,
        factors={**FACTORS, "workload": ["varmail"]},
        phases={"rest_seconds": 0, "idle_seconds": 0, "workload_seconds": 600, "tail_seconds": 0},
    )
    running = lab.start_rig("run", str(playbook), stderr=subprocess.PIPE)
    try:
        wait_for(lambda: _seconds_of_load(lab) > 1, 300, "a load on the host, its files laid out")
        [stopped] = [one for one in lab.campaigns() if one.startswith("stopped")]
        status = lab.rig("status").stdout
        assert f"executed by process {running.pid}" not in status
        assert "executed by process" in status
        done = lab.rig("stop", stopped, "--now")
        assert done.returncode == 0, done.stdout + done.stderr
        running.communicate(timeout=120)
    finally:
        running.kill()
        running.wait()
    assert running.returncode == 2
    left = "pgrep -x flowop; grep /run/joulerig/mnt /proc/mounts; ls /var/lib/joulerig/calls; true"
    assert lab.ssh(left).strip() == ""
    run, planned = lab.results_of(stopped)["runs"]
    assert (run["status"], run["reason"]) == ("failed", "flowop: interrupted")
    assert planned["status"] == "planned"
    [attempt] = results.load(lab.results / stopped).runs[0].attempts
    assert attempt.cause == "interrupted", "a resumption attempts it again"
    assert "no process executes it" in lab.rig("status").stdout


def _executing(playbook: str) -> list[str]:
    """Command lines of this machine's processes that execute a playbook."""
    found = subprocess.run(
        ["pgrep", "-fa", rf"ansible_playbook.*{playbook}\.yml"], capture_output=True, text=True
    )
    return found.stdout.splitlines()


def _seconds_of_load(lab: Lab) -> int:
    """How long flowop has been loading; 0 while it does not, or lays out its files."""
    running = lab.ssh("ps -o etimes=,args= -C flowop || true").splitlines()
    return max((int(line.split()[0]) for line in running if "--keep" in line), default=0)


@takes_minutes
def test_without_its_meter_a_run_is_partial_and_has_no_joules(lab: Lab):
    from joulerig.rig.common import supervisor

    playbook = lab.playbook(name="no-tap", factors=FACTORS, hold_minutes=0)  # it would wait for the tap
    with lab.state():
        supervisor.halt("tap-tap1")
        try:
            done = lab.rig("run", str(playbook))
        finally:
            supervisor.restart("tap-tap1")
    run = lab.results_of()["runs"][0]
    assert done.returncode != 0
    assert run["status"] == "partial"
    assert "tap1a" in run["reason"]
    assert run["joules"] is None
    assert run["ai_ops_per_joule"] is None
    assert run["performance"]["ops"] > 0


@takes_minutes
def test_energy_comes_back_with_the_meter(lab: Lab):
    done = lab.rig("run", str(lab.playbook(name="tap-again", factors=FACTORS)))
    run = lab.results_of()["runs"][0]
    assert done.returncode == 0, done.stdout + done.stderr
    assert abs(run["error_percent"]) <= 1.0


@pytest.mark.long
def test_the_energy_of_a_command_on_a_host_is_the_twins(lab: Lab):
    """Reads of the raw drive, which hurt nothing."""
    name = lab.ssh("lsblk --noheadings --nodeps --output NAME,SERIAL").split()
    device = f"/dev/{name[name.index('JRNVC0001') - 1]}"
    command = ["dd", f"if={device}", "of=/dev/null", "bs=64k", "count=400", "iflag=direct"]
    done = lab.rig("measure", "--on", "vhost1", "--drive", "nvme-consumer", "--json", "--", *command)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    [drive] = found["drives"]
    with lab.state():
        source = virtual.truth_source(model.load(), "vhost1")
        truth = source.history("vhost1", "nvme-consumer", [found["start_ns"], found["end_ns"]])
    [rail] = truth["rails"]
    true_joules = rail["joules"][1] - rail["joules"][0]
    assert drive["joules_low"] <= true_joules <= drive["joules_high"]
    assert drive["io"]["reads"] >= 400
    assert "400+0 records in" in done.stderr
    failed = lab.rig("measure", "--on", "vhost1", "--drive", "nvme-consumer", "--", "false")
    assert failed.returncode == 1
    assert failed.stdout.startswith("nvme-consumer: ")
