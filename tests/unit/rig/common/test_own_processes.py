# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's processes under a real supervisord; files, secrets and ports."""

import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import xmlrpc.client
from pathlib import Path
from types import SimpleNamespace

import pytest
from supervisor.xmlrpc import Faults

from joulerig.rig.common import files, paths
from joulerig.rig.common import supervisor as services
from joulerig.rig.common.errors import UserError
from tests.support.programs import wait_for


@pytest.fixture
def supervised(state):
    yield state
    services.stop(lambda name: True)


def pid_of(name):
    api = services._connect()
    return api.supervisor.getProcessInfo(name)["pid"]


def asleep(name):
    """Return whether a program has become `sleep`; a signal before that would be lost."""
    try:
        return Path(f"/proc/{pid_of(name)}/cmdline").read_bytes().startswith(b"sleep\0")
    except OSError:
        return False


def sleeper(name="nap", seconds=1000, **more):
    return services.Program(name, ["sleep", str(seconds)], **{"ready": lambda: asleep(name), **more})


def test_start_and_stop(supervised):
    services.start([sleeper()])
    assert services.states() == {"nap": "RUNNING"} or services.states() == {"nap": "STARTING"}
    pid = pid_of("nap")
    assert services.stop(lambda name: True) == ["nap"]
    assert not os.path.exists(f"/proc/{pid}")


@pytest.mark.parametrize("all_of_it", [False, True])
def test_a_supervisor_whose_files_are_gone_is_found_and_ended(supervised, all_of_it):
    services.start([sleeper()])
    pid, folder = pid_of("nap"), paths.var() / "supervisor"
    (paths.run() / "supervisor.sock").unlink()
    (folder / "supervisord.pid").unlink()
    if all_of_it:
        shutil.rmtree(folder)
    assert services.states() == {}
    assert services.stop(lambda name: True) == (["supervisord"] if all_of_it else ["nap"])
    assert not os.path.exists(f"/proc/{pid}")
    assert services.stop(lambda name: True) == []


def test_a_start_takes_the_place_of_a_supervisor_whose_socket_is_gone(supervised):
    services.start([sleeper()])
    pid = pid_of("nap")
    (paths.run() / "supervisor.sock").unlink()
    services.start([sleeper()])
    assert not os.path.exists(f"/proc/{pid}")
    assert services.stop(lambda name: True) == ["nap"]


def test_a_supervisor_of_another_state_is_left_alone(supervised, tmp_path, monkeypatch):
    services.start([sleeper()])
    pid = pid_of("nap")
    with monkeypatch.context() as patch:
        patch.setenv("JOULERIG_VAR", str(tmp_path / "another"))
        assert services.stop(lambda name: True) == []
    assert pid_of("nap") == pid


def test_programs_end_with_a_supervisor_that_is_killed_and_start_again(supervised):
    services.start([sleeper()])
    before = pid_of("nap")
    os.kill(int((supervised / "var/supervisor/supervisord.pid").read_text()), signal.SIGKILL)
    wait_for(lambda: not os.path.exists(f"/proc/{before}"), 10, "the program has ended")
    assert services.states() == {}
    services.start([sleeper()])
    assert pid_of("nap") != before


def test_the_last_program_takes_the_supervisor_with_it(supervised):
    services.start([sleeper("one"), sleeper("two")])
    supervisor = int((supervised / "var/supervisor/supervisord.pid").read_text())
    assert services.stop(lambda name: name == "one") == ["one"]
    assert os.path.exists(f"/proc/{supervisor}")
    assert services.stop(lambda name: name == "two") == ["two"]
    assert services.wait.until(lambda: not os.path.exists(f"/proc/{supervisor}"), 10)
    assert services.states() == {}


def test_what_runs_as_it_should_is_left_alone(supervised):
    services.start([sleeper()])
    before = pid_of("nap")
    services.start([sleeper()])
    assert pid_of("nap") == before


@pytest.mark.parametrize("change", [{"seconds": 999}, {"environment": {"JOULERIG_CONFIG": "other"}}])
def test_what_changed_is_restarted(supervised, change):
    services.start([sleeper()])
    before = pid_of("nap")
    services.start([sleeper(**change)])
    assert pid_of("nap") != before


def test_what_died_is_started_again(supervised):
    services.start([sleeper(restart=False)])
    before = pid_of("nap")
    os.kill(before, 9)
    assert services.wait.until(lambda: services.states()["nap"] == "EXITED", 10)
    services.start([sleeper(restart=False)])
    assert pid_of("nap") != before


def test_a_program_that_changed_is_started_though_the_one_before_left_its_socket(supervised):
    """As a twin does that is killed, because the host that uses its drive still runs."""
    path = supervised / "socket"
    code = "import socket, sys, time; socket.socket(socket.AF_UNIX).bind(sys.argv[1]); time.sleep(60)"
    for version in ("1", "2"):
        command = [sys.executable, "-c", code, str(path), version]
        services.start([services.Program("server", command, path.exists, restart=False, sockets=(path,))])
        assert services.wait.until(path.exists, 10)
        pid = pid_of("server")
    assert not services.wait.until(lambda: services.states()["server"] != "RUNNING", 1)
    assert pid_of("server") == pid


def test_a_program_that_ends_at_once_is_reported_with_its_last_words(supervised):
    program = services.Program(
        "bad", ["sh", "-c", "echo first; echo 'bad: cannot listen' >&2; exit 3"], lambda: False
    )
    with pytest.raises(UserError, match=r"^bad: did not start: bad: cannot listen \(.*log/bad\.log\)$"):
        services.start([program])


def test_a_program_that_ends_at_once_can_be_started_again(supervised):
    """While the supervisor would still be trying on its own."""
    for _ in range(2):
        with pytest.raises(UserError, match="bad: did not start"):
            services.start([services.Program("bad", ["sh", "-c", "echo no; exit 3"], lambda: False)])
    services.start([sleeper("bad")])
    assert services.states()["bad"] in ("STARTING", "RUNNING")


def test_a_program_that_ended_before_its_start_was_answered_is_reported_with_its_last_words(
    supervised, monkeypatch
):
    """The supervisor itself says so then: a fault in place of an answer."""
    api = services._supervisor()
    answered = []

    class Late:
        def __getattr__(self, name):
            return getattr(api.supervisor, name)

        def startProcess(self, name, wait):
            """As on a busy machine: the program has ended before the supervisor looks."""
            try:
                api.supervisor.startProcess(name, True)
            except xmlrpc.client.Fault as fault:
                answered.append(fault.faultCode)
                raise

    monkeypatch.setattr(services, "_supervisor", lambda: SimpleNamespace(supervisor=Late()))
    program = services.Program("bad", ["sh", "-c", "echo 'bad: cannot listen'; exit 3"], lambda: False)
    with pytest.raises(UserError, match=r"^bad: did not start: bad: cannot listen \("):
        services.start([program])
    assert answered == [Faults.SPAWN_ERROR]


@pytest.mark.parametrize("mode", [None, 0o600])
def test_a_command_that_cannot_be_run_is_reported(supervised, mode):
    command = supervised / "command"
    if mode is not None:
        command.touch()
        command.chmod(mode)
    with pytest.raises(UserError, match=rf"^bad: did not start: .*{command}"):
        services.start([services.Program("bad", [str(command)], lambda: False)])


def test_a_program_that_ended_while_it_was_to_be_stopped_has_stopped(supervised):
    services.start([sleeper()])
    api = services._connect()
    for _ in range(2):
        services._stop_process(api, "nap")
    assert services.states()["nap"] == "STOPPED"


def test_a_program_that_came_up_while_it_was_to_be_started_has_started(supervised):
    services.start([sleeper()])
    before = pid_of("nap")
    services._start_process(services._connect(), "nap")
    assert pid_of("nap") == before


def test_a_program_that_never_serves_is_reported_and_not_left_behind(supervised):
    program = sleeper(ready=lambda: asleep("nap") and False, ready_seconds=2)
    with pytest.raises(UserError, match="nap: did not start: no output"):
        services.start([program])
    assert services.states()["nap"] == "STOPPED"


def test_programs_are_started_by_priority(supervised):
    order = []
    programs = [
        sleeper(name, ready=lambda name=name: order.append(name) or asleep(name), priority=priority)
        for name, priority in (("last", 900), ("first", 10), ("middle", 500))
    ]
    services.start(programs)
    assert list(dict.fromkeys(order)) == ["first", "middle", "last"]
    assert services.stop(lambda name: True) == ["last", "middle", "first"]


def test_arguments_with_odd_characters_reach_a_program_unchanged(supervised):
    words = ["a b", "100%", 'say "x"', "back\\slash", "semi ; colon", "no # comment", "it's"]
    script = "import sys, time; print(repr(sys.argv[1:]), flush=True); time.sleep(1000)"
    program = services.Program(
        "echo", [sys.executable, "-c", script, *words], lambda: bool(services.log_path("echo").read_text())
    )
    services.start([program])
    assert services.log_path("echo").read_text().strip() == repr(words)


def test_a_place_with_odd_characters(tmp_path, monkeypatch):
    monkeypatch.setenv("JOULERIG_VAR", str(tmp_path / "a place, with spaces"))
    services.start([sleeper()])
    try:
        assert services.states()["nap"] in ("STARTING", "RUNNING")
    finally:
        services.stop(lambda name: True)
        shutil.rmtree(paths.run())


def test_halt_and_restart(supervised):
    services.start([sleeper()])
    services.halt("nap")
    assert services.states()["nap"] == "STOPPED"
    services.restart("nap")
    assert services.wait.until(lambda: asleep("nap"), 10)


@pytest.mark.parametrize("what", [services.halt, services.restart])
def test_what_is_not_there_cannot_be_halted_or_restarted(supervised, what):
    with pytest.raises(UserError, match="nap: is not running"):
        what("nap")


def test_nothing_to_stop(state):
    assert services.stop(lambda name: True) == []
    assert services.states() == {}


# --- files


def test_replace_leaves_the_old_content_when_it_fails(tmp_path):
    path = tmp_path / "file"
    files.replace(path, "old")
    with pytest.raises(UnicodeEncodeError):
        files.replace(path, "new \udc80")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_reader_never_sees_a_part(tmp_path):
    path = tmp_path / "file"
    contents = ["a" * 200_000, "b" * 200_000]
    files.replace(path, contents[0])
    done = threading.Event()

    def write():
        for n in range(40):
            files.replace(path, contents[n % 2])
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    while not done.is_set():
        assert path.read_text() in contents
    writer.join()


def test_replace_makes_the_folder_and_sets_the_mode(tmp_path):
    files.replace(tmp_path / "new" / "file", "x", mode=0o640)
    assert stat.S_IMODE((tmp_path / "new" / "file").stat().st_mode) == 0o640


def test_a_secret_is_the_users_alone_and_stays(state):
    path = files.secret("powerd")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert len(path.read_text()) >= 32
    assert files.secret("powerd").read_text() == path.read_text()
    assert files.secret("iod").read_text() != path.read_text()


ASK = "import sys; from joulerig.rig.common import files; {}"


def ask_at_once(expression):
    """What several processes get that ask at the same time."""
    command = [sys.executable, "-c", ASK.format(expression)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    return {process.communicate(timeout=30)[0] for process in processes}


def test_all_who_ask_first_get_the_same_secret(state):
    assert len(ask_at_once("print(files.secret('x').read_text())")) == 1


def test_all_who_ask_first_get_the_same_port(state):
    assert len(ask_at_once("print(files.kept_port('x'))")) == 1


def test_a_kept_port_stays_and_no_other_process_has_it(state):
    first, second = files.kept_port("one"), files.kept_port("two")
    assert first != second
    assert files.kept_port("one") == first
    assert json.loads((state / "var/ports.json").read_text()) == {"one": first, "two": second}


def test_a_kept_port_is_free_for_tcp_and_udp(state):
    port = files.kept_port("one")
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        with socket.socket(type=kind) as probe:
            probe.bind(("", port))


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM])
def test_a_port_in_use_is_not_kept(state, monkeypatch, kind):
    with socket.socket(type=kind) as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        monkeypatch.setattr(files, "KEPT_PORTS", [port])
        with pytest.raises(UserError, match="no port is free"):
            files.kept_port("one")


def test_a_kept_port_is_not_one_of_those_for_outgoing_connections(state):
    with open("/proc/sys/net/ipv4/ip_local_port_range") as file:
        low, high = map(int, file.read().split())
    assert not low <= files.kept_port("one") <= high


# --- folders for one user alone


@pytest.fixture
def deep(tmp_path, monkeypatch):
    """Gives the folder of a var/ too deep for sockets and of tmp/; there is no runtime folder."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(paths.tempfile, "gettempdir", lambda: str(tmp_path / "tmp"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "none"))
    monkeypatch.setenv("JOULERIG_VAR", str(tmp_path / ("long" * 30)))
    return tmp_path


def test_sockets_have_a_short_place(deep):
    place = paths.run()
    assert place.parent == deep / "tmp"
    assert len(f"{place.name}/vhost1-nvme-consumer.control") < 108 - 40
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert paths.run() == place


def test_sockets_are_in_the_users_runtime_folder_where_the_system_made_one(deep, monkeypatch):
    with tempfile.TemporaryDirectory(dir="/tmp") as runtime:
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
        assert paths.run().parent == Path(runtime)
        Path(runtime).chmod(0o755)
        assert paths.run().parent == deep / "tmp"


def test_a_long_runtime_folder_does_not_take_sockets(deep, monkeypatch):
    runtime = deep / ("long" * 10)
    runtime.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    assert paths.run().parent == deep / "tmp"


@pytest.mark.parametrize("mode", [0o701, 0o710, 0o740, 0o755, 0o770, 0o777, 0o1777])
def test_a_place_of_sockets_that_others_have_rights_to_is_refused(deep, mode):
    place = paths.run()
    place.chmod(mode)
    with pytest.raises(UserError, match=rf"^{place}: has mode {mode:04o}; allowed: a folder of your own"):
        paths.run()


def test_a_place_of_sockets_of_another_user_is_refused(deep, monkeypatch):
    place = paths.run()
    owner = os.geteuid()
    other = place.with_name(place.name.replace(f"joulerig-{owner}-", f"joulerig-{owner + 1}-"))
    other.mkdir(mode=0o700)
    monkeypatch.setattr(paths, "private", lambda folder: folder)  # var/ is the other user's
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(UserError, match=rf"^{other}: belongs to user {owner}; allowed: "):
        paths.run()


def test_a_link_in_the_place_of_sockets_is_refused(deep):
    place = paths.run()
    place.rmdir()
    (deep / "elsewhere").mkdir(mode=0o700)
    place.symlink_to(deep / "elsewhere")
    with pytest.raises(UserError, match=rf"^{place}: is a link, or no folder; allowed: "):
        paths.run()


def test_a_file_in_the_place_of_sockets_is_refused(deep):
    place = paths.run()
    place.rmdir()
    place.touch()
    with pytest.raises(UserError, match=rf"{place}.*; allowed: a folder of your own"):
        paths.run()


def test_a_refused_place_of_sockets_is_not_looked_at_by_the_supervisor(deep):
    paths.run().chmod(0o777)
    with pytest.raises(UserError, match="has mode 0777"):
        services.states()


@pytest.mark.parametrize("mode", [None, 0o755, 0o777, 0o700])
def test_the_state_is_its_users_alone_also_where_it_was_there_before(tmp_path, monkeypatch, mode):
    place = tmp_path / "var"
    monkeypatch.setenv("JOULERIG_VAR", str(place))
    if mode is not None:
        place.mkdir()
        place.chmod(mode)
    assert paths.var() == place
    assert stat.S_IMODE(place.stat().st_mode) == 0o700


def test_a_state_of_another_user_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("JOULERIG_VAR", str(tmp_path / "var"))
    owner = paths.var().stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(UserError, match=rf"^{tmp_path}/var: belongs to user {owner}; allowed: a folder of"):
        paths.var()


@pytest.mark.parametrize("others", ["a file", "not writable"])
def test_a_state_that_cannot_be_is_refused_in_a_line(tmp_path, monkeypatch, others):
    (tmp_path / "var").touch()
    place = tmp_path / "var" if others == "a file" else Path("/proc/none/var")
    monkeypatch.setenv("JOULERIG_VAR", str(place))
    with pytest.raises(UserError, match=rf"^{place}: .*; allowed: a folder of your own$"):
        paths.var()


@pytest.mark.parametrize(("private", "mode"), [(True, 0o600), (False, 0o644)])
def test_the_files_of_a_private_program_are_its_users_alone(supervised, tmp_path, private, mode):
    path = tmp_path / "disk"
    script = f"import time; open({str(path)!r}, 'w'); time.sleep(1000)"
    services.start([services.Program("disk", [sys.executable, "-c", script], path.exists, private=private)])
    assert stat.S_IMODE(path.stat().st_mode) == mode
