# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a campaign is worth a notification, each thing once, and how it is delivered."""

import asyncio
import functools
import json
import os

import httpx
import pytest

from joulerig.rig.common import process
from joulerig.rig.dashboard.notifications import happenings, webhook
from joulerig.rig.dashboard.notifications import watcher as watching
from joulerig.rig.dashboard.notifications.happenings import Happening
from joulerig.rig.dashboard.notifications.watcher import Watcher
from joulerig.rig.dashboard.supervision import Supervisor
from joulerig.rig.lab.model import Webhook
from tests.support import hostile_text
from tests.support.dashboard_journal import WritableJournal

SECOND = 1_000_000_000
T0 = 1_794_600_000 * SECOND
NAME = "demo-20261113-120000"
RUNS = {"r1": {"cell": "fast/ext4", "host": "bench1"}}


def said(event, run=None, **detail):
    row = {"seq": 1, "time_ns": T0, "run": run, "event": event, "detail": json.dumps(detail)}
    return [(one.kind, one.text) for one in happenings.of_events(NAME, "demo", RUNS, [row], no_odd_one)]


def no_odd_one(error, event):
    raise error


@pytest.mark.parametrize(
    ("event", "run", "detail", "kind", "text"),
    [
        ("begun", None, {"host": "bench1"}, "begun", "demo: its runs on bench1 begin"),
        (
            "status", "r1", {"from": "running", "to": "failed", "reason": "fio: exit code 1"},
            "failed", "demo: fast/ext4 on bench1 is failed: fio: exit code 1",
        ),
        (
            "status", "r1", {"from": "running", "to": "partial", "reason": "meter silent"},
            "failed", "demo: fast/ext4 on bench1 is partial: meter silent",
        ),
        ("hold", "r1", {"condition": "heat", "why": "71 °C"}, "held", "demo: bench1 waits: 71 °C"),
        ("set-aside", None, {"host": "b", "why": "5 in a row"}, "set-aside", "demo: b is set aside: 5 in a row"),
        ("asked", None, {"to": "pause"}, "paused", "demo: is paused after what runs now"),
        ("asked", None, {"to": "stop"}, "stopped", "demo: stops after what runs now"),
        ("finished", None, {"ok": 17, "failed": 1, "lost": 0}, "finished", "demo: is over: 17 ok, 1 failed"),
    ],
)  # fmt: skip
def test_what_is_worth_saying_is_a_sentence(event, run, detail, kind, text):
    assert said(event, run, **detail) == [(kind, text)]


@pytest.mark.parametrize(
    ("event", "detail"),
    [
        ("created", {"runs": 3}), ("status", {"from": "running", "to": "ok", "reason": ""}),
        ("status", {"from": "planned", "to": "running", "reason": ""}), ("asked", {"to": "go on"}),
        ("hold", {"condition": "heat", "why": ""}), ("note", {"x": 1}), ("an event of later", {}),
    ],
)  # fmt: skip
def test_the_rest_is_not(event, detail):
    assert said(event, "r1", **detail) == []


@pytest.fixture
def journal(tmp_path):
    journal = WritableJournal(tmp_path, NAME, T0)
    yield journal
    journal.close()


def watcher(tmp_path):
    return Watcher(tmp_path, tmp_path / "notified.json", lambda: T0, Supervisor())


def kinds(found):
    return [one.kind for one in found]


def test_what_was_there_before_the_first_look_is_no_news(tmp_path, journal):
    journal.event("begun", T0, host="bench1")
    looking = watcher(tmp_path)
    assert looking.look() == []
    journal.event("asked", T0, to="pause")
    assert kinds(looking.look()) == ["paused"]
    assert looking.look() == []


def test_a_restart_repeats_nothing_and_leaves_nothing_out(tmp_path, journal):
    watcher(tmp_path).look()
    journal.event("asked", T0, to="pause")
    [found] = watcher(tmp_path).look()
    assert (found.kind, found.campaign, found.time_ns) == ("paused", NAME, T0)
    assert watcher(tmp_path).look() == []


def test_a_new_campaign_is_news_from_its_beginning(tmp_path):
    looking = watcher(tmp_path)
    looking.look()
    journal = WritableJournal(tmp_path, NAME, T0)
    [run, *_] = journal.plan()
    journal.event("begun", T0, host="vhost1")
    journal.event("status", T0, run, **{"from": "running", "to": "lost", "reason": "it booted"})
    found = looking.look()
    journal.close()
    assert kinds(found) == ["begun", "failed"]
    assert (found[1].run, found[1].why) == (run, "it booted")
    assert "nvme-plp/ext4/none" in found[1].text


@pytest.fixture
def opened(monkeypatch):
    """The journals that are opened."""
    names = []
    connect = watching.journal.connect
    monkeypatch.setattr(
        watching.journal, "connect", lambda path: names.append(path.parent.name) or connect(path)
    )
    return names


def test_only_what_has_changed_is_opened(tmp_path, journal, opened):
    looking = watcher(tmp_path)
    journal.age()
    looking.look()
    looking.look()
    assert opened == [NAME]
    journal.event("asked", T0, to="pause")
    assert kinds(looking.look()) == ["paused"]
    assert opened == [NAME, NAME]


def test_what_was_written_just_now_is_opened_again(tmp_path, journal, opened):
    looking = watcher(tmp_path)
    looking.look()
    looking.look()
    assert opened == [NAME, NAME]


def test_a_campaign_whose_journal_is_not_opened_can_be_abandoned(tmp_path, journal, opened):
    execute(journal, process.identity(os.getpid()))
    journal.age()
    looking = watcher(tmp_path)
    looking.look()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "is_alive", lambda executor: False)
        assert kinds(looking.look()) == ["abandoned"]
        assert looking.look() == []
    assert opened == [NAME]


def execute(journal, by):
    journal.database.execute("UPDATE campaign SET executor = ?", (by,))


def test_a_campaign_whose_process_is_gone_is_abandoned_once(tmp_path, journal):
    looking = watcher(tmp_path)
    looking.look()
    alive = process.identity(os.getpid())
    execute(journal, alive)
    assert looking.look() == []
    gone = f"{alive}0"
    execute(journal, gone)
    [found] = looking.look()
    assert found.kind == "abandoned"
    assert f"process {os.getpid()} of" in found.text
    assert looking.look() == []
    execute(journal, alive)  # resumed
    assert looking.look() == []
    execute(journal, f"{alive}00")
    assert kinds(looking.look()) == ["abandoned"]


@pytest.mark.parametrize("change", ["finished_ns = 5", "asked = 'stop'"])
def test_one_that_ended_or_was_stopped_is_not(tmp_path, journal, change):
    looking = watcher(tmp_path)
    looking.look()
    execute(journal, f"{process.identity(os.getpid())}0")
    journal.database.execute(f"UPDATE campaign SET {change}")
    assert looking.look() == []


def test_a_damaged_journal_hides_no_other(tmp_path, journal):
    looking = watcher(tmp_path)
    looking.look()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "journal.sqlite").write_bytes(b"no database")
    journal.event("asked", T0, to="stop")
    assert kinds(looking.look()) == ["stopped"]


ODD = {
    "a list": ("begun", '["host"]', T0), "a text": ("asked", '"pause"', T0), "a number": ("hold", "7", T0),
    "null": ("status", "null", T0), "no JSON": ("begun", "{", T0), "no key": ("begun", "{}", T0),
    "deep": ("begun", "[" * 100_000, T0), "bytes": ("begun", b"\xff", T0),
}  # fmt: skip


@pytest.mark.parametrize("what", ODD)
def test_an_odd_event_is_counted_and_hides_no_other(tmp_path, journal, what):
    looking = watcher(tmp_path)
    looking.look()
    event, detail, time_ns = ODD[what]
    with journal.database as database:
        columns = "(time_ns, event, detail) VALUES (?, ?, ?)"
        database.execute(f"INSERT INTO event {columns}", (time_ns, event, detail))
    journal.event("asked", T0, to="stop")
    assert kinds(looking.look())[-1] == "stopped"
    [failure] = looking._supervisor.failures()
    assert (failure["task"], failure["count"]) == ("notifications", 1)
    journal.event("asked", T0, to="pause")
    assert kinds(looking.look()) == ["paused"]


def test_half_a_character_is_sent_as_a_question_mark(tmp_path, journal):
    looking = watcher(tmp_path)
    looking.look()
    journal.event("set-aside", T0, host="b\ud800", why="\udfff")
    [found] = looking.look()
    [body] = delivered([200], [found])
    assert (body["text"], body["why"]) == ("demo: b? is set aside: ? (virtual lab)", "?")


@pytest.mark.parametrize(
    "kept", ["[]", '{"demo-20261113-120000": 3}', '{"demo-20261113-120000": {"seq": "x"}}']
)
def test_a_kept_file_that_is_odd_is_read_as_far_as_it_goes(tmp_path, journal, kept):
    (tmp_path / "notified.json").write_text(kept)
    looking = watcher(tmp_path)
    looking.look()
    journal.event("asked", T0, to="stop")
    assert kinds(looking.look())[-1] == "stopped"


def test_a_full_disk_keeps_no_notification_back(tmp_path, journal, monkeypatch):
    looking = watcher(tmp_path)
    looking.look()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(watching.files, "replace", full)
    journal.event("asked", T0, to="stop")
    assert kinds(looking.look()) == ["stopped"]
    assert [one["count"] for one in looking._supervisor.failures()] == [1]


def test_a_receiver_goes_on_after_a_message_that_cannot_be_posted():
    supervisor, got, both = Supervisor(), [], asyncio.Event()

    async def post(address, *, json, **_):
        got.append(json["kind"])
        if len(got) == 2:
            both.set()
        if len(got) == 1:
            raise ValueError(f"not to be shown: {address}")
        return httpx.Response(200)

    async def deliver():
        async with httpx.AsyncClient() as client:
            client.post = post
            receiver = webhook.Receiver(Webhook(url="https://chat.example/secret"), client)
            for kind in ("paused", "stopped"):
                receiver.offer(Happening(kind, NAME, T0, "demo: x"), virtual=False)
            task = asyncio.create_task(supervisor.keep("notifications", receiver.deliver, 0.01))
            await both.wait()
            task.cancel()

    asyncio.run(asyncio.wait_for(deliver(), 30))
    assert got == ["paused", "stopped"]
    [failure] = supervisor.failures()
    assert failure["reason"] == "DeliveryError: chat.example: ValueError"


def test_the_watcher_goes_on_after_whatever_failed(tmp_path, monkeypatch):
    supervisor, looks = Supervisor(), []

    async def watch():
        enough, loop = asyncio.Event(), asyncio.get_running_loop()

        class Failing:
            def look(self):
                looks.append(1)
                if len(looks) == 3:
                    loop.call_soon_threadsafe(enough.set)
                raise RecursionError("too deep")

        run = functools.partial(webhook.run, (), Failing(), supervisor, virtual=False)
        task = asyncio.create_task(supervisor.keep("notifications", run, 0.01))
        await enough.wait()
        task.cancel()

    asyncio.run(asyncio.wait_for(watch(), 30))
    assert supervisor.failures()[0]["count"] >= 2


PAUSED = Happening("paused", NAME, T0 + SECOND // 2, "demo: is paused after what runs now")


def delivered(answers, offered, *, on=None, waits=(0.0, 0.0)):
    """Bodies that an address got, which answers in turn."""
    got = []
    rest, all_came = iter(answers), asyncio.Event()

    def answer(request):
        got.append(json.loads(request.content))
        if len(got) == len(answers):
            all_came.set()
        found = next(rest)
        if isinstance(found, Exception):
            raise found
        return httpx.Response(found)

    async def deliver():
        async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
            wanted = Webhook(url="https://chat.example/secret", **({"on": on} if on else {}))
            receiver = webhook.Receiver(wanted, client, waits)
            for happening in offered:
                receiver.offer(happening, virtual=True)
            task = asyncio.create_task(receiver.deliver())
            await all_came.wait()
            await asyncio.sleep(0.05)  # would there be another one
            task.cancel()

    asyncio.run(deliver())
    return got


def test_a_happening_is_posted_as_json():
    [body] = delivered([200], [PAUSED])
    assert body == {
        "text": "demo: is paused after what runs now (virtual lab)", "kind": "paused", "campaign": NAME,
        "run": None, "why": "", "time": "2026-11-13T20:00:00.500+00:00", "virtual": True,
    }  # fmt: skip


def test_an_address_gets_what_it_wants():
    finished = Happening("finished", NAME, T0, "demo: is over")
    assert [body["kind"] for body in delivered([200], [PAUSED, finished], on=("finished",))] == ["finished"]


def test_what_does_not_arrive_is_posted_again(caplog):
    bodies = delivered([500, httpx.ConnectError("refused"), 204], [PAUSED])
    assert bodies[0] == bodies[1] == bodies[2]
    assert not caplog.records


def test_after_so_many_attempts_it_is_given_up_and_the_next_one_posted(caplog):
    finished = Happening("finished", NAME, T0, "demo: is over")
    bodies = delivered([500, 500, 404, 200], [PAUSED, finished])
    assert [body["kind"] for body in bodies] == ["paused"] * 3 + ["finished"]
    [record] = caplog.records
    assert record.getMessage().startswith("chat.example: status 404; given up: demo: is paused")
    assert "secret" not in record.getMessage()


def test_no_more_waits_than_there_is_room_for(caplog):
    async def offer():
        async with httpx.AsyncClient() as client:
            receiver = webhook.Receiver(Webhook(url="https://chat.example/secret"), client)
            for _ in range(webhook.MOST_WAITING + 1):
                receiver.offer(PAUSED, virtual=False)

    asyncio.run(offer())
    [record] = caplog.records
    assert "takes too long" in record.getMessage()


@pytest.mark.parametrize("kind", hostile_text.NAMES)
def test_a_text_that_is_given_up_is_one_line_of_the_log_and_posted_unchanged(caplog, kind):
    text = hostile_text.NAMES[kind]
    bodies = delivered([500, 500, 404], [Happening("paused", NAME, T0, text)])
    assert {body["text"] for body in bodies} == {f"{text} (virtual lab)"}
    [record] = caplog.records
    assert record.getMessage().isprintable()
