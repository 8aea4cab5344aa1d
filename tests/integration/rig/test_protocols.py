# SPDX-License-Identifier: GPL-3.0-or-later
"""What programs in C and Go accept and send is what joulerig.rig.protocols declares."""

import http.client
import json
import os
import re
import socket
import subprocess
import sys

import pytest
from pydantic import TypeAdapter

from joulerig.analysis.powercut import write_log
from joulerig.rig import protocols
from joulerig.rig.powercut import witness
from joulerig.rig.protocols import durawriter, iod, powerd, srcap, twin
from joulerig.rig.protocols.message import Influx
from joulerig.virtuallab import profile, twin_parameters
from tests.support import ROOT
from tests.support.nbd_client import NbdClient
from tests.support.power_processes import Emulator, Powerd, settings_of
from tests.support.programs import built, wait_for
from tests.support.twins import Twin

NOWHERE = "http://127.0.0.1:1"
HOST = ROOT / "collectors" / "internal" / "testdata" / "host1"


# ---------------------------------------------------------------- twin


@pytest.mark.parametrize("model", profile.names())
def test_a_twin_replies_as_declared(tmp_path, model):
    options = twin_parameters.from_profile(profile.load(model))
    with Twin(tmp_path, rails=(), options=options) as drive:
        wait_for(lambda: drive.state()["ready"], 20, "the drive is ready")
        state = twin.State.model_validate(drive.ask("state"))
        assert state.last_cut is None
        twin.Latency.model_validate(drive.ask("latency"))
        history = twin.History.model_validate(drive.ask(f"history {state.realtime_ns}"))
        assert history.counters.keys() == twin.Counters.model_fields.keys()
        rail = state.rails[0].name
        assert twin.RailSwitch.model_validate(drive.ask(f"rail {rail}")).on
        cut = twin.Cut.model_validate(drive.ask("power off 1 torn"))
        assert twin.State.model_validate(drive.ask("state")).last_cut == cut
        twin.PowerOn.model_validate(drive.ask("power on"))
        twin.Error.model_validate(drive.ask("no such request"))
        twin.Error.model_validate(drive.ask("mark commit 1"))  # it has no log of writes


def test_a_twin_logs_its_writes_with_marks(tmp_path):
    options = twin_parameters.from_profile(profile.load("sata-consumer"))
    log = tmp_path / "writes"
    with Twin(tmp_path, rails=(), options=[*options, f"writes={log}"]) as drive:
        wait_for(lambda: drive.state()["ready"], 20, "the drive is ready")
        with NbdClient(drive.nbd) as client:
            client.write(8192, b"x" * 4096)
            client.flush()
        assert twin.Mark.model_validate(drive.ask("mark commit 1")).mark == "commit 1"
        twin.Error.model_validate(drive.ask(f"mark {'x' * 481}"))
    written, flushed, mark = write_log.read(log)
    assert written.write == write_log.Write(8192, b"x" * 4096)
    assert (flushed.flush, mark.mark) == (True, "commit 1")


# ---------------------------------------------------------------- powerd


def ask(path, method, target, body=None):
    connection = http.client.HTTPConnection("powerd", timeout=10)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(path)
    connection.request(method, target, body and json.dumps(body))
    reply = connection.getresponse()
    text = reply.read()
    assert reply.status == 200, text
    return json.loads(text)


def every_key(message):
    """The message as JSON, after a check that no key of its models was left to its default."""

    def check(part):
        if isinstance(part, protocols.Message):
            assert part.model_fields_set == type(part).model_fields.keys(), type(part).__name__
            for name in type(part).model_fields:
                check(getattr(part, name))
        elif isinstance(part, list | dict):
            for below in part.values() if isinstance(part, dict) else part:
                check(below)

    check(message)
    return message.model_dump()


def influx(folder):
    (folder / "password").write_text("secret")
    return Influx(
        url=NOWHERE, database="joulerig", username="writer", password_file=str(folder / "password"),
        spool_dir=str(folder / "spool"), max_spool_bytes=1 << 26, flush_interval_seconds=1,
    )  # fmt: skip


def test_powerd_accepts_every_key_of_its_configuration_and_replies_as_declared(tmp_path):
    with Emulator(rate=1000) as instrument:
        rails = [
            powerd.RailChannels(
                rail="12v",
                host="h",
                drive="d",
                volts="CH1",
                volts_meter="",
                constant_volts=0,
                volts_tolerance=0,
                amps="CH2",
                watts="",
                watt_hours="",
                greatest_watts=48,
            )
        ]
        meter = powerd.Meter(
            name="tap", driver=instrument.driver, timing="stream", sample_rate_hz=1000, samples="window-mean", bandwidth_hz=400,
            capturer=[], connection_link="",
            expected=powerd.Expected(serial="EMU0001-A", serial_pattern="-[AB]$", otherwise=""),
            silence_seconds=2, clock_ppm=100, open_seconds=12, fixed_settings=True, set=settings_of(instrument.driver), calibration={"CH1": powerd.Correction(gain=1, offset=0)},
            full_scale={"CH1": 20, "CH2": 4}, calibration_serial="", rails=rails,
        )  # fmt: skip
        config = powerd.Config(
            state_dir=str(tmp_path / "state"), srcap=built("srcap"), status_socket=str(tmp_path / "s.sock"),
            recordings_dir=str(tmp_path), clock_listen="127.0.0.1:0", points_per_second=100, influx=influx(tmp_path), meters=[meter],
        )  # fmt: skip
        process = Powerd(tmp_path, every_key(config))
        try:
            process.wait_state("tap", "streaming", 20)
            status = powerd.Status.model_validate(ask(config.status_socket, "GET", "/status"))
            assert [m.name for m in status.meters] == ["tap"]
            rail = status.meters[0].rails[0]
            query = f"/samples?host={rail.host}&drive={rail.drive}&seconds=0.5"
            assert powerd.Samples.model_validate(ask(config.status_socket, "GET", query)).rails
            request = every_key(
                powerd.RecordingRequest(meter="tap", path=str(tmp_path / "w.parquet"), max_bytes=1 << 24)
            )
            reply = ask(config.status_socket, "POST", "/recordings", request)
            assert reply == request
            powerd.Recording.model_validate(ask(config.status_socket, "DELETE", "/recordings/tap"))
        finally:
            process.stop()


# ---------------------------------------------------------------- iod, srcap


def test_iod_accepts_every_key_of_its_configuration_and_resolves_as_declared(tmp_path):
    drives = [
        iod.Drive(name="a", serial="JRNVP0001", wwid="", md="", pmem=""),
        iod.Drive(name="b", serial="", wwid="naa.5000c500a1b2c3d4", md="", pmem=""),
        iod.Drive(name="c", serial="", wwid="", md="jr0", pmem=""),
        iod.Drive(name="d", serial="", wwid="", md="", pmem="pmem0"),
    ]
    config = iod.Config(
        host="h", interval_seconds=0.1, hostload_interval_seconds=1, health_interval_seconds=10,
        smartctl="/usr/sbin/smartctl", smartctl_interval_seconds=60, spool_dir="",
        socket=str(tmp_path / "iod.sock"), influx=influx(tmp_path), drives=drives,
        proc_root=str(HOST / "proc"), sys_root=str(HOST / "sys"), dev_root=str(HOST / "dev"),
    )  # fmt: skip
    path = tmp_path / "iod.json"
    path.write_text(json.dumps(every_key(config)))
    done = subprocess.run([built("iod"), "resolve", "--config", str(path)], capture_output=True, text=True)
    found = iod.Resolved.model_validate_json(done.stdout)
    assert [drive.name for drive in found.drives] == ["a", "b", "c", "d"]
    assert any(drive.kernel_device for drive in found.drives)


def test_srcap_scans_as_declared():
    done = subprocess.run([built("srcap"), "--scan", "--driver", "demo"], capture_output=True, text=True)
    (instrument,) = TypeAdapter(list[srcap.Instrument]).validate_json(done.stdout)
    assert instrument.driver == "demo"


# ---------------------------------------------------------------- durawriter


def test_durawriter_reports_and_surveys_as_declared(tmp_path):
    target = tmp_path / "target"
    target.mkdir()
    common = ["--campaign", "0" * 32, "--generation", "1", "--directory", str(target)]
    writer = subprocess.Popen(
        [built("durawriter"), "write", "--witness", "-", *common],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "JOULERIG_WITNESS_SECRET": "5e"},
    )  # fmt: skip
    hello = writer.stdout.readline()
    assert durawriter.Hello.model_validate_json(hello).secret == "5e"
    assert hello.encode() == witness.introduction("5e")
    kinds = {
        "issued": durawriter.Issued,
        "acknowledged": durawriter.Acknowledged,
        "failed": durawriter.Failed,
    }
    calls, acknowledged = set(), 0
    for line in writer.stdout:
        message = kinds[json.loads(line)["event"]].model_validate_json(line)
        if isinstance(message, durawriter.Issued):
            calls.add(message.operation)
            continue
        acknowledged += 1
        writer.stdin.write("ok\n" if acknowledged < 200 else "stop\n")
        writer.stdin.flush()
    writer.stdin.close()
    assert writer.wait(20) == 0
    writer.stdout.close()
    assert {"write", "create", "rename"} <= calls
    survey = subprocess.run(
        [built("durawriter"), "survey", *common], capture_output=True, text=True, check=True
    )
    lines = TypeAdapter(durawriter.Target | durawriter.Sectors)
    found = [lines.validate_json(line) for line in survey.stdout.splitlines()]
    assert any(isinstance(line, durawriter.Sectors) and line.state == "record" for line in found)


def test_a_survey_of_an_application_is_as_declared(tmp_path):
    checker = tmp_path / "checker.sh"
    checker.write_text("echo found 1; echo torn 2; echo damaged >&2; exit 1")
    command = [built("durawriter"), "survey", "--campaign", "0" * 32, "--directory", str(tmp_path)]
    command += ["--application", "sh", "--application", str(checker)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    head, *found = done.stdout.splitlines()
    assert durawriter.Checked.model_validate_json(head).error == "damaged"
    states = [durawriter.Transaction.model_validate_json(line).state for line in found]
    assert states == ["found", "torn"]


# ---------------------------------------------------------------- the declarations


def declared(model):
    """The keys of a message and of its parts."""
    for name, field in model.model_fields.items():
        yield field.alias or name
        for part in re.findall(r"joulerig\.rig\.protocols\.\w+\.\w+", str(field.annotation)):
            module, _, kind = part.rpartition(".")
            yield from declared(getattr(sys.modules[module], kind))


@pytest.mark.parametrize(
    ("config", "sources"),
    [
        (powerd.Config, ["powerd/config.go", "internal/influx/config.go"]),
        (iod.Config, ["iod/config.go", "internal/influx/config.go"]),
    ],
)
def test_every_key_that_a_go_program_decodes_is_declared(config, sources):
    text = "".join((ROOT / "collectors" / source).read_text() for source in sources)
    assert set(re.findall(r'json:"(\w+)', text)) <= set(declared(config))


@pytest.mark.parametrize("program", protocols.MESSAGES)
def test_every_key_of_a_message_is_in_its_schema(program):
    for model in protocols.MESSAGES[program]:
        keys = {field.alias or name for name, field in model.model_fields.items()}
        assert model.model_json_schema()["properties"].keys() == keys
