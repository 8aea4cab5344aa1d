# SPDX-License-Identifier: GPL-3.0-or-later
"""What `rig plan` prints for people."""

import re
import time
from pathlib import Path

import pytest
import yaml

from joulerig.rig.campaign import drive_record
from joulerig.rig.campaign.forecast.earlier import Earlier
from joulerig.rig.campaign.forecast.expected import forecast
from joulerig.rig.campaign.plan import make_plan
from joulerig.rig.cli.plan import command, page
from joulerig.rig.common import paths
from tests.support import simulated_campaign


@pytest.fixture
def shown(capsys, monkeypatch, state):
    """Return shown(PLAYBOOK), what `rig plan` of it prints."""
    monkeypatch.delenv("JOULERIG_INVENTORY", raising=False)

    def call(playbook, **options):
        command.plan(Path(playbook), offline=True, **options)
        return capsys.readouterr().out

    return call


@pytest.fixture
def page_of(bench, state):
    """Return page_of(MAPPING, WIDTH), the page of a plan that nothing was measured for."""

    def call(mapping, width=120):
        plan = make_plan(mapping, bench, "playbooks/study.yml")
        return list(page.lines(plan, forecast(plan, Earlier()), width))

    return call


AI_MATRIX = """\
ai-matrix
Which file system and I/O scheduler do the most work per joule on SSDs with and without power-loss protection?

drive         nvme-plp, nvme-consumer, sata-plp, sata-consumer
filesystem    ext2, ext3, nilfs2, reiserfs, xfs, ext4, btrfs, f2fs, jfs
scheduler     none, mq-deadline, bfq, kyber
workload      varmail, fileserver, webserver, varmail-one-thread
phases        rest 20 s, idle 10 s, workload 60 s, tail 5 s
slow motion   vhost1: from rest to tail a second lasts 20 s
failures      retry 1: error, interrupted, booted, host-gone, clock; skip: refused, unable; retry 3: busy

cells         464 of 576
              112 excluded: one thread is for what ext3's journal costs, against ext2
runs          2,320: 5 replicates, each a block in random order (seed 2014)
time          about N, estimated from sizes
written       N expected, at most N
              assumed where nothing is measured: 300 MB/s to nvme, 100 MB/s to sata-ssd
energy        at most N, of the drives
detects       the best of 36 combinations of file system and scheduler, in 9 of 10 campaigns, if all others are N % or
              more behind it; runs of a cell differ by 3.0 % (standard deviation), which is assumed

these drives will be wiped:
  vhost1  nvme-plp  serial JRNVP0001
    N expected to be written, at most N
  vhost1  nvme-consumer  serial JRNVC0001
    N expected to be written, at most N
  vhost1  sata-plp  serial JRSSP0001
    N expected to be written, at most N
  vhost1  sata-consumer  serial JRSSC0001
    N expected to be written, at most N
"""


def without_figures(text):
    amount = r"[\d.,]+ (?:h \d+ min|[kW]Wh|Wh|[KMGT]B)(?!/)"
    return re.sub(rf"(about|most|written|  ) {amount}", r"\1 N", re.sub(r"are [\d.]+ %", "are N %", text))


def test_the_matrix_of_2880_runs_is_a_page(shown):
    text = without_figures(shown("ai_matrix.yml"))
    text = re.sub(r"(\s{2})[\d.,]+ [GT]B expected", r"\1N expected", text)
    assert text == AI_MATRIX


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", ["ai_matrix", "demo", "journal_placement"])
def test_a_page_keeps_to_the_width_of_the_terminal(shown, monkeypatch, name, width):
    monkeypatch.setattr(command.out, "_width", width)
    lines = shown(f"{name}.yml").splitlines()
    assert max(map(len, lines)) <= width
    assert not [line for line in lines if line != line.rstrip()]
    assert len(lines) <= 45


def test_runs_are_listed_where_asked_for(shown):
    assert "# " not in shown("journal_placement.yml")
    listed = shown("journal_placement.yml", runs=True).splitlines()
    listed = listed[listed.index("") + 1 :]
    assert listed[0].split() == [
        "#",
        "block",
        "host",
        "drive",
        "filesystem",
        "scheduler",
        "workload",
        "journal",
    ]
    rows = [line.split(maxsplit=8) for line in listed[1:81]]
    assert [row[0] for row in rows] == [str(number) for number in range(1, 81)]
    assert sum("excluded: amortised commits" in " ".join(row) for row in rows) == 30
    assert listed[81] == ""


def test_cells_are_excluded_by_reason(page_of, mapping):
    mapping["exclude"] = [
        {"filesystem": "xfs", "reason": "known to hang"},
        {"filesystem": "f2fs", "scheduler": "bfq", "reason": "not now"},
    ]
    text = "\n".join(page_of(mapping))
    assert (
        "cells         6 of 12\n              4 excluded: known to hang\n              2 excluded: not now\n"
        in text
    )


def test_nothing_is_said_of_excluded_cells_where_there_are_none(page_of, mapping):
    assert "cells         12\n" in "\n".join(page_of(mapping))


def test_a_race_says_how_many_of_its_runs_are_expected(page_of, mapping):
    text = "\n".join(page_of({**mapping, "order": "racing", "replicates": 10}))
    assert "runs          120 at most: 10 replicates, each a block in random order" in text
    assert re.search(r"racing: about \d+ % of them if the others are 10 to 60 % behind the best", text)


def test_a_campaign_of_a_part_of_each_drive_says_so(page_of, mapping):
    asked = {**mapping, "use_bytes": "64 GiB"}
    assert "size          the first 64 GiB of each drive or array\n" in "\n".join(page_of(asked))


def test_slow_motion_is_named_and_in_the_time_that_a_person_waits(shown, mapping, tmp_path):
    """None of the shipped lab's hosts has booted here: `auto` is assumed."""

    def page(slow_motion):
        path = tmp_path / "campaign.yml"
        phases = {"rest_seconds": 0, "idle_seconds": 3600, "workload_seconds": 3600, "tail_seconds": 0}
        campaign = mapping | {"drives": ["nvme-plp"], "phases": phases, "slow_motion": slow_motion}
        path.write_text(yaml.safe_dump([{"hosts": "all", "vars": {"campaign": campaign}}]))
        return shown(path)

    assert "slow motion" not in page(1)
    assert "slow motion   vhost1: from rest to tail a second lasts 10 s\n" in page(10)
    assert "slow motion   vhost1: from rest to tail a second lasts 20 s\n" in page("auto")
    found = [
        float(re.search(r"^time +about ([\d.]+) h", page(slowness), re.MULTILINE)[1]) for slowness in (1, 10)
    ]
    assert found[1] / found[0] == pytest.approx(10, rel=0.01)


def test_several_hosts_have_a_line_each(lab_files, mapping, state):
    lab_files.inventory_text += "bench2\n"
    second = {**lab_files.drives["bare"], "serial": "SERIAL-Z"}
    lab_files.hosts["bench2"] = {"controller_address": "192.0.2.1", "drives": {"bare": second}}
    plan = make_plan({**mapping, "drives": ["bare"]}, lab_files.load(), "playbooks/study.yml")
    text = "\n".join(page.lines(plan, forecast(plan, Earlier()), 120))
    assert re.search(
        r"runs          48: .*\n              bench1: 24 runs, .*\n              bench2: 24 runs, ", text
    )


def test_a_load_as_long_as_a_factor_says_has_no_length_among_the_phases(page_of, mapping):
    mapping["factors"]["run_seconds"] = [10, 20]
    text = "\n".join(page_of(mapping))
    assert "run_seconds   10, 20\nphases        rest 5 s, idle 5 s, tail 5 s\n" in text


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"replicates": 1}, "nothing, of 6 combinations of file system and scheduler: one replicate"),
        (
            {"replicates": 5},
            r"the best of 6 combinations of file system and scheduler, in 9 of 10 campaigns, if all others are [\d.]+ % or more behind it;",
        ),
        (
            {"replicates": 3},
            r"the best of 6 .* if all others are [\d.]+ % or more behind it and these runs met the same modes"
            r" \(with 5 replicates, whatever they met\);",
        ),
    ],
)
def test_it_says_which_difference_the_design_detects(page_of, mapping, changes, said):
    unwrapped = "\n".join(page_of({**mapping, **changes})).replace("\n" + 14 * " ", " ")
    assert re.search(f"^detects       {said}", unwrapped, re.MULTILINE)


def test_one_combination_has_nothing_to_be_compared_with(page_of, mapping):
    mapping["factors"].update(filesystem=["ext4"], scheduler=["none"])
    assert "detects       nothing: one combination" in "\n".join(page_of(mapping))


def test_preconditioning_is_said_with_how_often_and_how_long(page_of, mapping):
    lines = page_of({**mapping, "precondition": {"passes": 1}})
    [first] = [line for line in lines if line.startswith("precondition  ")]
    assert first == "precondition  discard, filled 1 time, at most 25 rounds of 60 s randwrite"
    assert re.fullmatch(
        r" {14}\d+ times?(, at most \d+ times?)?: .* of the time", lines[lines.index(first) + 1]
    )


# --- measured runs


def test_earlier_runs_give_time_bytes_and_joules(shown):
    simulated_campaign.build(paths.results() / "demo-1", replicates=3)
    text = shown("demo.yml")
    assert re.search(r"^time          about .*, from 36 measured runs$", text, re.MULTILINE)
    assert re.search(
        r"^written       .* expected, at most .*\nenergy        .* expected, at most", text, re.MULTILINE
    )


def test_a_plan_of_which_some_is_measured_says_how_much(shown):
    simulated_campaign.build(paths.results() / "demo-1", drives=["nvme-plp"])
    text = shown("demo.yml")
    assert "from 6 measured runs for 50 % of the plan, the others estimated from sizes" in text
    assert "assumed where nothing is measured: 300 MB/s to nvme" in text


# --- wear


def test_a_drive_with_a_rating_is_worn_by_a_share_of_it(bench, mapping, lab_files, state):
    lab_files.drives["fast"]["rated_terabytes_written"] = 600
    plan = make_plan(mapping, lab_files.load(), "playbooks/study.yml")
    found = forecast(plan, Earlier())
    said = page.wear(plan, found, {})["bench1", "fast"]
    assert re.fullmatch(
        r".* expected to be written, at most .*; [\d.]+ % of its rated 600 TB, at most [\d.]+ %", said
    )
    share = found.at_most.terabytes_written / 600
    assert f"at most {100 * share:.1f} %" in said


def test_a_drive_whose_count_is_known_has_written_so_much(bench, mapping, state):
    plan = make_plan(mapping, bench, "playbooks/study.yml")
    found = forecast(plan, Earlier())
    assert "so far" not in page.wear(plan, found, {})["bench1", "fast"]
    with drive_record.DriveRecord() as record:
        for count in (2 * 10**12, 3 * 10**12, None):
            ended = {"by": "study-1-0001", "write_bytes": 1, "discard_bytes": 0, "counter_bytes": count}
            record.note(["SERIAL-A"], [("began", {"by": "study-1-0001"}), ("ended", ended)])
    said = page.wear(plan, found, drive_record.written_so_far(["SERIAL-A", "SERIAL-B"]))
    assert said["bench1", "fast"].endswith("; 3.0 TB written so far")


def test_asking_what_was_written_makes_no_record(state):
    assert drive_record.written_so_far(["SERIAL-A"]) == {}
    assert list(state.iterdir()) == []


def test_a_plan_of_many_runs_is_shown_in_seconds(shown, tmp_path):
    plays = yaml.safe_load((paths.ROOT / "playbooks" / "demo.yml").read_text())
    levels = {"filesystem": ["ext4", "xfs", "f2fs"], "run_seconds": list(range(1, 56))}
    plays[0]["vars"]["campaign"]["factors"].update(levels)
    plays[0]["vars"]["campaign"]["replicates"] = 20
    playbook = tmp_path / "many.yml"
    playbook.write_text(yaml.safe_dump(plays))
    begin = time.process_time()
    text = shown(playbook)
    assert "runs          13,200: 20 replicates" in text
    assert time.process_time() - begin < 4
