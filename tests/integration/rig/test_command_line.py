# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line: a mistake is one line on stderr with exit code 2, and nothing is half done."""

import json
import os
import socket
import subprocess
import sys
from dataclasses import dataclass

import pytest
import yaml

from joulerig.analysis.results.schema import EventKind
from joulerig.rig.campaign import origin, playbook
from joulerig.rig.campaign.journal import Journal
from joulerig.rig.cli import main
from joulerig.rig.common import paths, process
from joulerig.rig.common.errors import UserError
from joulerig.rig.controller import influxdb, services
from tests.support import simulated_campaign
from tests.support.planned_runs import CAMPAIGN, row

DEMO = paths.ROOT / "playbooks" / "demo.yml"


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def rig(monkeypatch, capsys):
    """Return rig(WORD...), the command line in this process, without its start-up time."""

    def call(*words, **environment):
        with monkeypatch.context() as own:
            own.setattr(sys, "argv", ["rig", *map(str, words)])
            for key, value in environment.items():
                own.setenv(key, value)
            with pytest.raises(SystemExit) as ended:
                main.main()
        said = capsys.readouterr()
        return Done(ended.value.code, said.out, said.err)

    return call


def refused(done):
    """The one line that a refusal says."""
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    [line] = done.stderr.splitlines()
    assert line.startswith("rig: ")
    return line


def write(path, **changes):
    """The demo's playbook with a campaign changed."""
    plays = yaml.safe_load(DEMO.read_text())
    plays[0]["vars"]["campaign"].update(changes)
    path.write_text(yaml.safe_dump(plays))
    return path


def test_the_program_itself(state):
    command = [sys.executable, "-m", "joulerig.rig.cli.main", "plan", "playbooks/nothing.yml"]
    done = subprocess.run(command, cwd=paths.ROOT, capture_output=True, text=True, timeout=60)
    assert "no such playbook" in refused(done)


def test_plan_shows_runs_cost_and_the_serials_to_be_wiped(rig, state):
    done = rig("plan", DEMO)
    assert done.returncode == 0, done.stderr
    assert "runs          8: one block, in random order (seed 2014)" in done.stdout
    assert "JRNVC0001" in done.stdout
    assert "JRNVP0001" in done.stdout
    assert "JRSSP0001" not in done.stdout


def test_plan_shows_the_preconditioning(rig, state, tmp_path):
    done = rig("plan", write(tmp_path / "p.yml", precondition={"passes": 3}))
    assert done.returncode == 0, done.stderr
    assert "precondition  discard, filled 3 times, at most 25 rounds of 60 s randwrite" in done.stdout


def test_plan_shows_power_cuts(rig, state):
    done = rig("plan", paths.ROOT / "playbooks" / "power_cut.yml")
    assert done.returncode == 0, done.stderr
    assert "runs: 100, a cut of a drive each; 10 cuts of each subject, 50 of hosts, seed 2014" in done.stdout
    assert "JRNVC0001" in done.stdout


def test_plan_touches_nothing(rig, state):
    rig("plan", DEMO)
    assert list(state.iterdir()) == []


def test_plan_shows_a_question_as_it_was_written(rig, state, tmp_path):
    done = rig("plan", write(tmp_path / "p.yml", question="Is [/dev/sda] the [bold] one?"))
    assert "Is [/dev/sda] the [bold] one?" in done.stdout


def test_unknown_playbook(rig, state):
    line = refused(rig("plan", "playbooks/nothing.yml"))
    assert "playbooks/nothing.yml: no such playbook; allowed:" in line
    assert "playbooks/demo.yml" in line


@pytest.mark.parametrize(
    "text", ["- [unclosed", "\x00", "just words", "- hosts: all\n", "[]", "- vars: {campaing: {}}\n"]
)
@pytest.mark.parametrize("command", ["plan", "run"])
def test_a_playbook_that_is_not_a_campaign(rig, state, tmp_path, command, text):
    path = tmp_path / "odd.yml"
    path.write_text(text)
    assert f"{path}: " in refused(rig(command, path))


def test_a_playbook_that_is_not_text(rig, state, tmp_path):
    (tmp_path / "odd.yml").write_bytes(b"\xff\xfe\x00binary")
    assert "odd.yml: " in refused(rig("plan", tmp_path / "odd.yml"))


@pytest.mark.parametrize("command", ["plan", "run"])
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"repeats": 2}, "campaign: unknown key 'repeats'; allowed: "),
        (
            {"factors": {"filesystem": ["ext5"], "scheduler": ["none"], "workload": ["seqwrite"]}},
            "'ext5' is unknown",
        ),
        (
            {"drives": ["nvme-9"]},
            "campaign.drives: 'nvme-9' is unknown; nearest is 'nvme-plp'; allowed: nvme-plp",
        ),
    ],
)
def test_a_mistake_in_a_campaign(rig, state, tmp_path, command, changes, expected):
    assert expected in refused(rig(command, write(tmp_path / "odd.yml", **changes)))
    assert not (state / "results").exists()


def test_a_missing_meter(rig, state, lab_files):
    lab_files.drives["fast"]["rails"]["12v"]["meter"] = "tap9"
    line = refused(rig("plan", DEMO, JOULERIG_INVENTORY=str(lab_files.write())))
    assert "drives.fast.rails.12v.meter: 'tap9' is not a meter of the controller; allowed: tap1, tap2" in line


def test_a_missing_inventory(rig, state):
    assert "/nowhere.ini: no such inventory" in refused(rig("plan", DEMO, JOULERIG_INVENTORY="/nowhere.ini"))


def test_run_with_influxdb_down(rig, state):
    line = refused(rig("run", DEMO))
    assert "InfluxDB at http://127.0.0.1:" in line
    assert "does not answer" in line
    assert "'rig up' starts it" in line
    assert not (state / "results").exists()


@pytest.mark.parametrize("command", ["results", "report"])
def test_no_campaign_yet(rig, state, command):
    assert "no campaign yet; 'rig run" in refused(rig(command))


@pytest.mark.parametrize("command", ["results", "report"])
def test_unknown_campaign(rig, state, command):
    assert "no campaign 'demo-1'; the newest: none" in refused(rig(command, "demo-1"))


def test_unknown_report_format(rig, state):
    assert "--format: 'docx' is unknown; allowed: html, pdf" in refused(
        rig("report", "--format", "html,docx")
    )


def test_status_of_nothing(rig, state):
    done = rig("status")
    assert (done.returncode, done.stdout) == (0, "nothing is running; 'rig up' starts the lab's services\n")


def test_status_says_what_a_campaign_waits_for(rig, state):
    row = {
        "id": "a", "name": "a", "question": "?", "created_ns": 1, "definition": "{}", "lab": "{}",
        "virtual": 0, "provenance": "{}",
    }  # fmt: skip
    run = {
        "id": "a-1", "ordinal": 1, "block": 1, "replicate": 1, "host": "bench1", "drive": "fast",
        "filesystem": "ext4", "scheduler": "none", "workload": "randread", "cell": "c", "factors": "{}",
        "status": "planned", "reason": "",
    }  # fmt: skip
    journal = Journal.create(state / "results" / "a", row, [run])
    journal.claim(process.identity(os.getpid()))
    journal.note("a-1", {"condition": "temperature", "why": "fast: [71] °C"}, EventKind.HOLD)
    assert "\n  bench1 waits: fast: [71] °C\n" in rig("status").stdout
    journal.note("a-1", {"condition": "temperature", "why": ""}, EventKind.HOLD)
    journal.close()
    assert "waits" not in rig("status").stdout


def test_down_of_nothing(rig, state):
    done = rig("down")
    assert (done.returncode, done.stdout) == (0, "nothing was running\n")


@pytest.mark.parametrize("command", [("up",), ("down",), ("lab", "up"), ("lab", "down")])
def test_nothing_is_started_or_stopped_under_a_campaign(rig, state, command):
    """Also one of another results folder that this state was used with."""
    for results in (state / "results", state / "elsewhere"):
        journal = Journal.create(results / "study-1", CAMPAIGN, [row(1)])
        journal.claim(process.identity(os.getpid()))
        origin.record(journal, DEMO)
        shown = "study-1" if results.name == "results" else f"{results}/study-1"
        assert refused(rig(*command)) == (
            f"rig: rig {' '.join(command)}: {results}/study-1: is executed by process {os.getpid()} of"
            f" {socket.gethostname()}; wait for its end, or end it by 'rig stop {shown}'"
        )
        assert not list((state / "var").glob("supervisor*"))
        journal.claim(
            "oldbox ffffffffffffffff 00000000-0000-0000-0000-000000000000 1 17 9", over=journal.claimed
        )
        assert "is executed by" not in rig("down").stderr  # nor is one of another controller
        journal.close()


def test_ssh_to_a_host_that_is_not_virtual(rig, state):
    assert "'bench9' is not a virtual test host; allowed: vhost1" in refused(rig("lab", "ssh", "bench9"))


@pytest.mark.parametrize("word", ["up", "images"])
def test_a_lab_without_a_virtual_host(rig, state, lab_files, word):
    assert "describes no virtual host" in refused(rig("lab", word, JOULERIG_INVENTORY=str(lab_files.write())))


# --- InfluxDB that is there, but not for us


@pytest.fixture
def external(lab_files, influxd, tmp_path):
    """A lab with an external InfluxDB; its token in a file."""
    token = tmp_path / "token"
    token.write_text(influxd.reader[1] + "\n")
    lab_files.controller["influxdb"] = {
        "url": influxd.url, "token_file": str(token), "username": influxd.reader[0], "database": influxd.database
    }  # fmt: skip
    return lab_files


def test_an_external_influxdb_by_url_and_token(external):
    influxdb.check(external.load())


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("username", "stranger2", "HTTP 401"),
        ("database", "elsewhere", "elsewhere"),
        ("url", "http://127.0.0.1:1", "does not answer"),
        ("token_file", "/nowhere/token", "it must contain InfluxDB's token"),
    ],
)
def test_an_external_influxdb_that_is_not_for_us(external, key, value, expected):
    external.controller["influxdb"][key] = value
    with pytest.raises(UserError, match=expected) as caught:
        influxdb.check(external.load())
    assert "\n" not in str(caught.value)


# --- what powerd and the agent get


def test_powerd_gets_every_meter_with_its_rails(state, bench):
    services._powerd(bench)
    config = json.loads((state / "var/powerd/config.json").read_text())
    assert config["clock_listen"] == "0.0.0.0:12300"
    assert config["recordings_dir"] == str(state / "results")
    assert config["influx"]["flush_interval_seconds"] <= 0.25  # each run's record waits for it
    [tap1, tap2] = config["meters"]
    assert tap1["driver"] == "hameg-hmo:conn=tcp-raw/192.0.2.7/5025"
    assert [(r["drive"], r["volts"], r["amps"]) for r in tap1["rails"]] == [
        ("fast", "CH1", "CH2"), ("hdd-1", "CH3", "CH4"),
    ]  # fmt: skip
    assert [r["drive"] for r in tap2["rails"]] == ["hdd-2"]
    assert "silence_seconds" not in tap1


def test_a_meters_own_settings_reach_powerd(state, lab_files):
    tap = lab_files.controller["meters"]["tap1"]
    tap.update(
        connection="/dev/ttyACM0",
        serialcomm="115200/8n1",
        silence_seconds=5,
        clock_ppm=400,
        set={"samplerate": "2000"},
    )
    services._powerd(lab_files.load())
    [tap1, _] = json.loads((state / "var/powerd/config.json").read_text())["meters"]
    assert tap1["driver"] == "hameg-hmo:conn=/dev/ttyACM0:serialcomm=115200/8n1"
    assert (tap1["silence_seconds"], tap1["clock_ppm"], tap1["set"]) == (
        5,
        400,
        {"samplerate": "2000", "limit_frames": "100000000", "limit_samples": "1000000000"},
    )


def test_what_is_declared_of_ranges_and_supplies_reaches_powerd(state, lab_files):
    lab_files.controller["meters"]["tap1"]["full_scale"] = {"amps": 4.09}
    lab_files.host["drives"]["fast"]["rails"]["12v"]["supply"] = {"volts": 12.5, "amps": 4}
    services._powerd(lab_files.load())
    [tap1, tap2] = json.loads((state / "var/powerd/config.json").read_text())["meters"]
    assert tap1["full_scale"] == {"CH2": 4.09, "CH4": 4.09}
    assert "full_scale" not in tap2
    assert [rail.get("greatest_watts") for rail in tap1["rails"]] == [50.0, pytest.approx(37.8)]


def test_a_changed_configuration_restarts_powerd(state, lab_files):
    before = services._powerd(lab_files.load())
    assert services._powerd(lab_files.load()).environment == before.environment
    lab_files.controller["points_per_second"] = 50
    assert services._powerd(lab_files.load()).environment != before.environment


def test_the_agent_gets_how_it_sees_the_controller(state, bench):
    facts = services.deployment(bench, "bench1")
    assert facts["rig_clock_server"] == "192.0.2.1:12300"
    agent = facts["rig_agent"]["config"]
    assert agent["influx"]["url"].startswith("http://192.0.2.1:")
    assert agent["influx"]["password_file"] == "/etc/joulerig/influx-password"
    assert {"name": "fast", "serial": "SERIAL-A"} in agent["drives"]
    assert {"name": "pair", "md": "pair"} in agent["drives"]


# --- why a playbook failed, by a real ansible-playbook

HEAD = "- hosts: controller\n  gather_facts: false\n  tasks:\n"
COMMAND = """
    - name: Tool
      ansible.builtin.command: ls /nonexistent
      changed_when: false
"""
LOOP = """
    - name: Each array
      ansible.builtin.fail:
        msg: "{{ item }}: no such array on this host"
      loop: [hdd-array, other]
"""
LONG = """
    - name: Long
      ansible.builtin.fail:
        msg: |-
          it's the first line of a message that goes on and on, and has: a colon
          and a second line
"""
IGNORED = """
    - name: First
      ansible.builtin.fail: {msg: "bench1: stopped after 5 failed runs in a row"}
      ignore_errors: true
    - name: Last
      ansible.builtin.fail: {msg: "1 run not ok"}
"""


@pytest.mark.parametrize(
    ("tasks", "line"),
    [
        ("    - joulerig_nothing: {}\n", "couldn't resolve module/action 'joulerig_nothing'. This often indicates a"
         " misspelling, missing collection, or incorrect module path."),
        (LONG, "it's the first line of a message that goes on and on, and has: a colon and a second line"),
        (COMMAND, "non-zero return code: ls: cannot access '/nonexistent': No such file or directory"),
        (LOOP, "hdd-array: no such array on this host"),
        (IGNORED, "bench1: stopped after 5 failed runs in a row"),
    ],
    ids=["syntax-error", "long-message", "command-failed", "loop-failed", "ignored-before"],
)  # fmt: skip
def test_why_a_playbook_failed_is_one_line(tmp_path, tasks, line):
    path, log = tmp_path / "p.yml", tmp_path / "log.txt"
    path.write_text(HEAD + tasks)
    inventory = tmp_path / "inventory.ini"
    interpreter = f"ansible_python_interpreter={sys.executable}"
    inventory.write_text(f"[controller]\nlocalhost ansible_connection=local {interpreter}\n")
    assert playbook.ansible(path, inventory, log=log) != 0
    assert playbook.failure(log) == line


def test_a_host_that_cannot_be_reached_is_one_line(tmp_path):
    path, log = tmp_path / "p.yml", tmp_path / "log.txt"
    path.write_text(HEAD + "    - ansible.builtin.ping:\n")
    inventory = tmp_path / "inventory.ini"
    inventory.write_text("[controller]\nvhost1 ansible_host=127.0.0.1 ansible_port=9\n")
    assert playbook.ansible(path, inventory, log=log) == 4
    line = playbook.failure(log)
    assert "Connection refused" in line
    assert not line.startswith("Task failed")
    assert "\n" not in line


def test_a_playbook_without_output(tmp_path):
    (tmp_path / "log").write_text("")
    assert playbook.failure(tmp_path / "log") == "no output"


def test_mapping_is_the_campaign_of_the_play_that_has_one(tmp_path):
    path = tmp_path / "p.yml"
    path.write_text("- hosts: all\n- import_playbook: campaign.yml\n  vars: {campaign: {name: x}}\n")
    assert playbook.mapping(path) == {"name": "x"}


def test_a_line_of_progress_shows_a_reason_unchanged():
    """Reasons come from tools: what looks like markup in them must not break the display."""
    from io import StringIO

    from rich.console import Console

    class Rows:
        def rows(self, table, run):
            return []

    run = {"id": "r", "status": "failed", "ordinal": 1, "cell": "a/b", "reason": "mkfs: [/dev/sda] is [bold]"}
    console = Console(file=StringIO(), width=200)
    console.print(playbook._line(run, Rows()), highlight=False)
    assert "mkfs: [/dev/sda] is [bold]" in console.file.getvalue()


def test_plain_ansible_refuses_a_campaign_on_one_line_and_leaves_nothing(state, tmp_path):
    path = write(tmp_path / "odd.yml", name="odd", replicates=0)
    plays = yaml.safe_load(path.read_text())
    plays[0]["import_playbook"] = str(paths.ROOT / "playbooks/campaign.yml")
    path.write_text(yaml.safe_dump(plays))
    log = tmp_path / "log"
    assert playbook.ansible(path, paths.ROOT / "inventory.ini", log=log) == 2
    assert playbook.failure(log).startswith(f"{path}: campaign.replicates: 0; ")
    assert not (state / "results").exists()


def test_campaigns_to_compare_have_to_be_there(rig):
    done = rig("compare", "no-such-campaign", "another")
    assert done.returncode == 2
    assert "no campaign 'no-such-campaign'" in done.stderr


def test_verify_refuses_a_scheduler_that_is_not_there_and_writes_nothing(rig, tmp_path):
    simulated_campaign.build(tmp_path / "a", schedulers=["none"])
    assert "allowed: tcp://HOST:PORT" in refused(rig("verify", tmp_path / "a", "--dask", "nonsense://x"))
    assert not (tmp_path / "a" / "report").exists()


def test_verify_gives_no_zip_to_a_cluster(rig, tmp_path):
    (tmp_path / "a.zip").write_bytes(b"PK")
    assert "unpack the bundle" in refused(rig("verify", tmp_path / "a.zip", "--dask", "tcp://x:1"))


def test_only_a_test_host_can_be_released(rig, state):
    line = refused(rig("hosts", "release", "nosuch"))
    assert line == "rig: 'nosuch' is not a test host; allowed: vhost1"


def test_a_host_that_cannot_be_reached_is_not_released(rig, state):
    done = rig("hosts", "release", "vhost1", "--packages")
    assert "release.log)" in refused(done)
    assert done.stdout == ""
