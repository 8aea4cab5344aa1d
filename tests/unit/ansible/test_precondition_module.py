# SPDX-License-Identifier: GPL-3.0-or-later
"""The module that preconditions a drive, through main, on a fake host, with fake tools."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import joulerig_precondition
import pytest
from ansible.module_utils.testing import patch_module_args

from ansible.module_utils.joulerig import limits, tools
from ansible.module_utils.joulerig.clocks import offset
from ansible.module_utils.joulerig.drives.commands import nvme
from ansible.module_utils.joulerig.host_lock import HostLock
from ansible.module_utils.joulerig.preconditioning import precondition, purges
from ansible.module_utils.joulerig.runs import one_run

GIB = 1 << 30
STAT = "1 0 8 0 {writes} 0 {sectors} 0 0 0 0 {discards} 0 {discarded} 0 1 0\n"
MEMBER = {"name": "fast", "interface": "nvme", "serial": "NV-1", "wwn": None, "size_bytes": GIB}
CLOCK = {"at_ns": 1, "offset_ns": 5_000_000_000, "error_ns": 1, "exchanges": 1}


class Rig:
    """A host with one drive. `iops`: the result of each fio call; the last one repeats."""

    def __init__(self, host, tool, folder: Path) -> None:
        self.host, self.tool, self.folder = host, tool, folder
        self.iops = folder / "iops"
        self.calls = {name: tool(name, "") for name in ("blkdiscard", "nvme", "wipefs")}
        self.jobs = folder / "jobs"
        self.jobs.mkdir()
        self.calls["fio"] = tool(
            "fio",
            f"""output=/dev/stdout
for word in "$@"; do case "$word" in --output=*) output=${{word#--output=}} ;; *) job=$word ;; esac; done
{{ env | grep ^JOULERIG_; cat "$job"; }} > {self.jobs}/$(ls {self.jobs} | wc -l)
for way in prerun postrun; do sed -n "s/^exec_$way=//p" "$job" | sh > /dev/null; done
next=$(head -1 {self.iops}); [ "$(wc -l < {self.iops})" -eq 1 ] || sed -i 1d {self.iops}
cat > "$output" <<END
{{
"jobs": [{{"jobname": "j", "error": 0, "job_runtime": 2000, "read": {{"total_ios": 0, "io_bytes": 0}},
"write": {{"total_ios": $((next * 2)), "io_bytes": 0}}}}]
}}
END
""",
        )
        self.say(1000)
        self.put("queue/scheduler", "none [mq-deadline]\n")
        self.put("queue/write_cache", "write back\n")
        self.put("queue/iostats", "1\n")
        self.count()

    def say(self, *iops: int) -> None:
        self.iops.write_text("".join(f"{one}\n" for one in iops))

    def put(self, key: str, text: str) -> None:
        self.host.put(self.host.sys / "block/nvme0n1" / key, text)

    def get(self, key: str) -> str:
        return (self.host.sys / "block/nvme0n1" / key).read_text().strip()

    def count(self, sectors: int = 0, discarded: int = 0) -> None:
        self.put("stat", STAT.format(writes=1, sectors=sectors, discards=1, discarded=discarded))

    def arguments_of(self, name: str) -> list[str]:
        return self.calls[name].read_text().splitlines() if self.calls[name].exists() else []

    def job(self, number: int) -> str:
        return (self.jobs / str(number)).read_text()


@pytest.fixture
def rig(fake, tool, monkeypatch, tmp_path) -> Rig:
    fake.stand_in(monkeypatch)
    monkeypatch.setattr(offset, "measure", lambda server: CLOCK)
    fake.disk("nvme0n1", "NV-1")
    controller = bytearray(4096)
    controller[256] = 1 << 1  # it can be formatted
    fake.calls.pages["nvme0n1"] = (bytes(controller), bytes(512))
    return Rig(fake, tool, tmp_path)


def call(capsys, **more: Any) -> dict[str, Any]:
    arguments = {
        "run": "study-1-0001", "campaign": "study-1", "host": "bench1", "drive": "fast", "member": MEMBER,
        "purge": "discard", "passes": 1, "job": {"name": "randwrite", "text": "[randwrite]\n"},
        "round_seconds": 2, "rounds": 8, "seed": 1000, "clock_server": "127.0.0.1:1",
        "agent_socket": "/nonexistent/iod.sock", **more,
    }  # fmt: skip
    with patch_module_args(arguments), pytest.raises(SystemExit):
        joulerig_precondition.main()
    return json.loads(capsys.readouterr().out)


def test_purge_pass_and_rounds_until_operations_are_steady(rig, capsys):
    rig.say(0, 9000, 4000, 1000, 1000, 1000, 1000, 1000)  # the first is the pass's
    answer = call(capsys)
    assert (answer["status"], answer["reason"], answer["changed"]) == ("ok", "", True)
    assert (answer["purged"], answer["filled"]) == ("discard", 1)
    assert rig.arguments_of("blkdiscard") == [f"--force {rig.host.dev}/nvme0n1"]
    assert [one["iops"] for one in answer["rounds"]] == [9000, 4000, *[1000] * 5]
    assert [one["number"] for one in answer["rounds"]] == list(range(1, 8))
    assert [one["ops"] for one in answer["rounds"]][:2] == [18000, 8000]
    assert all(one["start_ns"] < one["end_ns"] for one in answer["rounds"])
    assert len(answer["clock"]) == 2


def test_rounds_end_when_there_were_as_many_as_are_allowed(rig, capsys):
    rig.say(0, *[1000, 2000] * 6)
    answer = call(capsys, rounds=6)
    assert (answer["status"], len(answer["rounds"])) == ("ok", 6)


def test_the_jobs_are_on_the_raw_drive_and_no_two_rounds_alike(rig, capsys):
    call(capsys)
    assert f"JOULERIG_DEVICE={rig.host.dev}/nvme0n1" in rig.job(0)
    assert "[pass]" in rig.job(0)
    assert "rw=write\n" in rig.job(0)
    assert "time_based" not in rig.job(0)
    assert "size=" not in rig.job(0)  # of the whole drive
    for number in (1, 2):
        assert "[randwrite]" in rig.job(number)
        assert f"JOULERIG_SEED={1000 + number}" in rig.job(number)
        assert "JOULERIG_SECONDS=2\n" in rig.job(number)


@pytest.mark.parametrize(("times", "jobs"), [(0, 0), (1, 1), (3, 3)])
def test_it_is_written_whole_as_often_as_asked(rig, capsys, times, jobs):
    answer = call(capsys, passes=times)
    assert answer["filled"] == times
    assert sum("[pass]" in path.read_text() for path in rig.jobs.iterdir()) == jobs


def test_a_further_stretch_purges_and_writes_no_pass_and_counts_on(rig, capsys):
    answer = call(capsys, purge="", passes=0, rounds_before=7)
    assert (answer["purged"], answer["filled"]) == ("", 0)
    assert rig.arguments_of("blkdiscard") == []
    assert [one["number"] for one in answer["rounds"]] == [8, 9, 10, 11, 12]


def test_a_format(rig, capsys):
    assert call(capsys, purge="format")["purged"] == "format"
    # nvme-cli would give up after 10 minutes, whatever the drive's size.
    allowed = round(1000 * limits.seconds([MEMBER], limits.PURGE))
    words = f"format {rig.host.dev}/nvme0n1 --force --ses=0 --lbaf=0 --ms=0 --pi=0 --pil=0"
    assert f"{words} --timeout={allowed}" in rig.arguments_of("nvme")
    assert rig.arguments_of("blkdiscard") == []


def test_the_first_way_that_the_drive_can_is_taken_and_said(rig, capsys):
    rig.host.calls.pages["nvme0n1"] = (bytes(4096), bytes(512))
    answer = call(capsys, purge="auto")
    assert (answer["status"], answer["purged"]) == ("ok", "discard")
    assert answer["settings"]["purge"] == {
        "method": "discard",
        "passed_over": {
            "format": "the drive has no such command",
            "sanitize": "the drive has neither block erase nor crypto erase",
        },
    }
    assert len(rig.arguments_of("blkdiscard")) == 1


def test_a_drive_other_than_nvme_is_not_formatted(rig, capsys):
    rig.host.disk("sda", "SA-1", vpd=True, rotates=False)
    for key, text in {"scheduler": "[none]\n", "write_cache": "write back\n", "iostats": "1\n"}.items():
        rig.host.put(rig.host.sys / "block/sda/queue" / key, text)
    rig.host.put(rig.host.sys / "block/sda/stat", STAT.format(writes=1, sectors=0, discards=0, discarded=0))
    rig.tool("smartctl", "echo '{}'")
    answer = call(capsys, purge="format", member={**MEMBER, "serial": "SA-1", "interface": "sata-ssd"})
    assert (answer["status"], answer["rounds"]) == ("not-run", [])
    assert answer["reason"].endswith("sda: format: is no NVMe drive")
    assert rig.arguments_of("nvme") == []


def test_what_the_block_layer_counted_is_reported(rig, capsys, monkeypatch):
    monkeypatch.setattr(purges, "purge", lambda *_: rig.count(0, 2048))
    monkeypatch.setattr(precondition, "write_whole", lambda *_: rig.count(4096, 2048))
    answer = call(capsys)
    assert answer["touched"] == {"write_bytes": 4096 * 512, "discard_bytes": 2048 * 512}


def test_scheduler_and_write_cache_are_put_back(rig, capsys):
    seen = []
    features = rig.host.calls.features["nvme0n1"] = {nvme.VOLATILE_WRITE_CACHE: 1}

    def look(*_):
        seen.append((rig.get("queue/scheduler"), rig.get("queue/write_cache"), *features.values()))

    original = precondition.write_whole
    precondition.write_whole = look
    try:
        answer = call(capsys, write_cache="write through")
    finally:
        precondition.write_whole = original
    assert answer["settings"]["write_cache"]["in_effect"] == "write through"
    assert seen == [("none", "write through", 0)]
    assert (rig.get("queue/scheduler"), rig.get("queue/write_cache")) == ("mq-deadline", "write back")
    assert features == {nvme.VOLATILE_WRITE_CACHE: 1}


@pytest.mark.parametrize(
    ("tool_that_fails", "reason"),
    [("blkdiscard", "blkdiscard: exit 1: no way"), ("fio", "fio: exit 1: no way")],
)
def test_a_tool_that_fails(rig, capsys, tool_that_fails, reason):
    rig.tool(tool_that_fails, "echo no way >&2; exit 1")
    answer = call(capsys)
    assert (answer["status"], answer["reason"]) == ("failed", reason)
    assert answer["purged"] == ("discard" if tool_that_fails == "fio" else "")
    assert answer["filled"] == 0
    assert rig.get("queue/scheduler") == "mq-deadline"


def test_a_round_without_one_operation(rig, capsys):
    rig.say(0)
    answer = call(capsys)
    assert (answer["status"], answer["reason"]) == ("failed", "round 1: the drive completed no operation")


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda rig: rig.host.mount("/dev/nvme0n1", "/data", rig.host.number("nvme0n1")), id="mounted"),
        pytest.param(lambda rig: rig.host.partition("nvme0n1", "nvme0n1p1"), id="partitioned"),
        pytest.param(lambda rig: rig.tool("wipefs", "echo linux_raid_member"), id="member of an array"),
        pytest.param(lambda rig: rig.host.swap("/dev/nvme0n1"), id="swap"),
        pytest.param(lambda rig: rig.put("size", "8\n"), id="other size"),
        pytest.param(lambda rig: rig.put("device/serial", "OTHER\n"), id="other serial"),
    ],
)  # fmt: skip
def test_a_drive_in_use_or_other_than_declared_is_refused_and_untouched(rig, capsys, spoil):
    spoil(rig)
    answer = call(capsys)
    assert (answer["status"], answer["changed"]) == ("refused", False)
    assert answer["touched"] == {"write_bytes": 0, "discard_bytes": 0}
    assert rig.arguments_of("blkdiscard") == rig.arguments_of("fio") == []


def test_a_drive_that_is_exchanged_on_the_way_is_not_written_to(rig, capsys, monkeypatch):
    purge = purges.purge

    def purge_and_exchange(*args):
        purge(*args)
        rig.put("device/serial", "OTHER\n")

    monkeypatch.setattr(purges, "purge", purge_and_exchange)
    answer = call(capsys)
    assert answer["status"] == "failed"
    assert rig.arguments_of("fio") == []


def test_another_run_on_the_host_is_waited_for_and_then_refused(rig, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(limits, "seconds", lambda *_: 0)
    with HostLock():
        answer = call(capsys)
    assert (answer["status"], answer["reason"]) == ("not-run", "another run is in progress on this host")


def test_phases_and_rounds_are_sent_to_the_agent_as_they_come(rig, capsys, tmp_path):
    path = str(tmp_path / "iod.sock")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as agent:
        agent.bind(path)
        agent.setblocking(False)
        answer = call(capsys, agent_socket=path, rounds=5)
        lines = []
        try:
            while True:
                lines.append(agent.recv(4096).decode().strip())
        except BlockingIOError:
            pass
    steps = [line.split("phase=")[1].split(",")[0] for line in lines if line.startswith("phase,")]
    assert steps == ["purge", "purge", "passes", "passes", "rounds", "rounds"]
    points = [line for line in lines if line.startswith("precondition,")]
    assert len(points) == 5
    first, offset = answer["rounds"][0], CLOCK["offset_ns"]
    assert points[0] == (
        "precondition,drive=fast,host=bench1,run=study-1-0001"
        f" number=1i,ops=2000i,at_most=5i,start_ns={first['start_ns'] + offset}i,"
        f"end_ns={first['end_ns'] + offset}i {first['end_ns'] + offset}"
    )
    assert lines.index(points[-1]) < len(lines) - 1  # before the phase's end


# --- the run after it


def test_a_run_whose_mkfs_discarded_a_preconditioned_drive():
    p = {"filesystem": {"name": "odd"}, "members": [MEMBER]}
    one_run._check_kept(p, GIB // 100)
    with pytest.raises(tools.Failed, match=r"odd: its mkfs discarded \d+ bytes .* under no_discard"):
        one_run._check_kept(p, GIB // 100 + 1)


def test_of_a_block_device_of_memory_nothing_is_counted(monkeypatch):
    counts = iter([{"write_bytes": 5, "discard_bytes": 1}, {"write_bytes": 9, "discard_bytes": 1}])
    monkeypatch.setattr(one_run.blockqueue, "written", lambda name: next(counts))
    drives = {"a": ("sda", "hdd"), "r": ("ram0", "ram")}
    assert one_run._touched(drives, one_run._written(drives)) == {
        "a": {"write_bytes": 4, "discard_bytes": 0},
        "r": {"write_bytes": None, "discard_bytes": None},
    }


def test_passes_and_rounds_are_on_as_many_bytes_as_the_campaign_uses(rig, capsys):
    call(capsys, use_bytes=GIB // 4)
    assert rig.arguments_of("blkdiscard") == [f"--force {rig.host.dev}/nvme0n1"]  # all of it
    assert all(f"size={GIB // 4}\n" in rig.job(number) for number in (0, 1, 2))
