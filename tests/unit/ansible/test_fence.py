# SPDX-License-Identifier: GPL-3.0-or-later
"""In the fence: a private /dev, private mounts, and loads that have no way round it."""

import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from tests.support.fenced import BEGIN
from tests.support.programs import wait_for

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: a mount namespace")


def fenced(code: str, *words: str) -> dict:
    """What a process prints as JSON that executes `code`."""
    program = BEGIN + textwrap.dedent(code)
    done = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_its_dev_has_the_devices_that_it_was_given_and_no_other_blocks():
    found = fenced("""
        fence.enter({"/dev/given": "7:250"}, {"/dev/md/pair": "../given"})
        found = {name: os.lstat(f"/dev/{name}") for name in os.listdir("/dev")}
        kinds = {name: [one.st_mode, one.st_rdev] for name, one in found.items()}
        print(json.dumps([kinds, os.readlink("/dev/md/pair")]))
    """)
    kinds, link = found
    blocks = {name: device for name, (mode, device) in kinds.items() if stat.S_ISBLK(mode)}
    assert blocks == {"given": os.makedev(7, 250)}
    assert {"null", "zero", "full", "random", "urandom", "fd", "shm"} <= set(kinds)
    assert link == "../given"


def test_its_usual_devices_work():
    assert (
        fenced("""
        fence.enter({}, {})
        with open("/dev/null", "w") as null:
            null.write("x")
        with open("/dev/urandom", "rb") as random:
            count = len(random.read(16))
        open("/dev/shm/joulerig-test", "w").close()
        os.unlink("/dev/shm/joulerig-test")
        print(json.dumps(count))
    """)
        == 16
    )


def test_what_is_mounted_in_it_is_not_seen_outside(tmp_path):
    seen = fenced(
        """
        fence.enter({}, {})
        subprocess.run(["mount", "-t", "tmpfs", "inside", sys.argv[1]], check=True)
        print(json.dumps(os.path.ismount(sys.argv[1])))
        """,
        str(tmp_path),
    )
    assert seen
    assert "inside" not in Path("/proc/self/mountinfo").read_text()


def test_the_system_keeps_its_own_dev():
    before = sorted(os.listdir("/dev"))
    fenced('fence.enter({}, {}); print("null")')
    assert sorted(os.listdir("/dev")) == before


# --- what a load can reach


def loaded(script: str, *, own: Sequence[str] = (), before: str = "") -> str:
    """Return why a load that a fenced call executes did not end well; "" where it did."""
    return fenced(
        f"""
        {before}
        fence.enter({{}}, {{}})
        print(json.dumps(load.attend("load", ["bash", "-c", sys.argv[1]], 60, own=sys.argv[2:])))
        """,
        script,
        *own,
    )


@pytest.fixture
def stranger(tmp_path):
    """A root process outside of the fence with as few rights as a load, and an odd block device.

    As a container, or a service that CapabilityBoundingSet= bounds. Its root has the device.
    """
    device = tmp_path / "root/disk"
    device.parent.mkdir()
    os.mknod(device, stat.S_IFBLK | 0o600, os.makedev(7, 251))
    program = "fence.drop_rights(); os.execvp('sleep', ['sleep', '60'])"
    process = subprocess.Popen([sys.executable, "-c", BEGIN + program], stdin=subprocess.DEVNULL)
    wait_for(lambda: psutil.Process(process.pid).name() == "sleep", 20, "it has few rights")
    yield process.pid, device
    process.kill()
    process.wait()


@pytest.fixture
def terminal():
    """The number of a terminal of the host's."""
    ends = os.openpty()
    yield os.path.basename(os.ttyname(ends[1]))
    for end in ends:
        os.close(end)


# Opens a file by its handle, whatever covers its path.
BY_HANDLE = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
handle, mount = ctypes.create_string_buffer(136), ctypes.c_int()
handle[0:4] = (128).to_bytes(4, "little")
assert not libc.name_to_handle_at(-100, b"/etc/hostname", handle, ctypes.byref(mount), 0)
sys.exit(libc.open_by_handle_at(os.open("/etc", 0), handle, 0) < 0)
"""


@pytest.mark.parametrize(
    "attempt",
    [
        "mknod {folder}/disk b 7 251",
        "mount -t devtmpfs x {folder}",
        "mount --bind /proc {folder}",
        "umount /dev",
        "umount /proc",
        "umount /run",
        "mount -o remount,bind,rw /",
        "unshare --mount true",
        "unshare --user --map-root-user --mount umount /proc",
        "unshare --user --map-root-user --mount mount -o remount,bind,dev,rw /",
        "nsenter --mount=/proc/1/ns/mnt true",
        "nsenter --target 1 --all true",
        "nsenter --target {outside} --mount true",
        "ls /proc/{outside}",
        "ls /proc/{outside}/root/dev/",
        "ls /proc/1/root/",
        "ls /proc/1/cwd/",
        "cat /proc/1/mem",
        "cat /proc/1/environ",
        "cat /proc/{outside}/fd/0",
        "kill -0 {outside}",
        "dd if={device} of={folder}/x count=1",
        "dd if=/dev/zero of={device} count=1",
        ": >> /proc/sys/kernel/core_pattern",
        ": >> /proc/sysrq-trigger",
        ": >> /sys/kernel/uevent_helper",
        "test -w /etc",
        "test -w /usr/local/sbin",
        "test -w /run/joulerig",
        "test -w /var/lib",
        "test -e /run/dbus/system_bus_socket",
        "test -e /run/systemd/private",
        "test -e /run/docker.sock",
        "test -e /run/initctl",
        "date --set @$(date +%s.%N)",
        "{python} -c '{by_handle}'",
        "echo x > /dev/pts/{terminal}",
    ],
)
def test_a_load_cannot_get_round_it(tmp_path, stranger, terminal, attempt):
    """The process that it reaches for is outside of the fence, and root's with as few rights.

    An attempt that gets through does no harm: it opens what it would write to.
    """
    outside, device = stranger
    words = {"folder": tmp_path, "outside": outside, "device": device, "terminal": terminal}
    command = attempt.format(**words, python=sys.executable, by_handle=BY_HANDLE)
    assert loaded(command, own=[str(tmp_path)]).startswith("load: exit "), command


SERVE = """
import os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[1].replace("@", chr(0)))
server.listen()
print("listens", flush=True)
while True:
    server.accept()[0].send(b"reached")
"""
REACH = """
import socket, sys
client = socket.socket(socket.AF_UNIX)
client.connect(sys.argv[1].replace("@", chr(0)))
sys.exit(client.recv(7) != b"reached")
"""


@pytest.fixture
def serve():
    """Return serve(ADDRESS): a process listens at a path, or an abstract name with @."""
    started = []

    def start(address: str) -> None:
        server = subprocess.Popen([sys.executable, "-c", SERVE, address], stdout=subprocess.PIPE)
        started.append(server)
        assert server.stdout.readline() == b"listens\n"

    yield start
    for one in started:
        one.kill()
        one.wait()
        one.stdout.close()


def reached(address: str, own: Sequence[str] = ()) -> bool:
    problem = loaded(f"{sys.executable} -c '{REACH}' {address}", own=own)
    assert problem == "" or "refused" in problem or "No such file" in problem, problem
    return problem == ""


@pytest.mark.parametrize("where", ["/run", "/var/lib", "/tmp", "abstract"])
def test_a_load_reaches_no_service_of_the_host(serve, where):
    """The system bus, systemd's own socket, engines of containers and virtual machines."""
    name = f"joulerig-test-{os.getpid()}"
    address = f"@{name}" if where == "abstract" else f"{where}/{name}"
    try:
        serve(address)
        assert not reached(address)
    finally:
        Path(address).unlink(missing_ok=True)


def test_a_load_reaches_a_socket_in_its_own_folder(serve, tmp_path):
    serve(str(tmp_path / "socket"))
    assert reached(str(tmp_path / "socket"), [str(tmp_path)])
    assert reached(str(tmp_path / "socket"), [str(tmp_path / "socket")])


def test_a_load_reaches_no_process_by_another_mount_of_proc(tmp_path, stranger):
    """As a chroot has."""
    outside, _ = stranger
    before = f'subprocess.run(["mount", "-t", "proc", "proc", {str(tmp_path)!r}], check=True)'
    inside = f"import ctypes; ctypes.CDLL(None).unshare(0x20000); {before}"
    assert loaded(f"ls {tmp_path}/{outside}", before=inside).startswith("load: exit ")


def test_a_load_reaches_the_systems_log(tmp_path):
    """The socket of journald: the fence's /dev/log leads there."""
    journal = Path("/run/systemd/journal")
    existed = journal.exists()
    journal.mkdir(parents=True, exist_ok=True)
    server = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    server.bind(str(journal / "dev-log"))
    try:
        assert loaded("logger --tag joulerig hello") == ""
        assert server.recv(4096).endswith(b"hello")
    finally:
        server.close()
        (journal / "dev-log").unlink()
        if not existed:
            shutil.rmtree("/run/systemd/journal")


def test_a_load_has_shared_memory_apart_from_the_hosts():
    """The host's PostgreSQL has its there, in both kinds."""
    made = subprocess.run(["ipcmk", "--queue"], capture_output=True, text=True, check=True)
    queue = made.stdout.split()[-1]
    file = Path(f"/dev/shm/joulerig-test-{os.getpid()}")
    file.touch()
    try:
        assert loaded(f"test ! -e {file} && ! ipcs --queues | grep 0x") == ""
    finally:
        file.unlink()
        subprocess.run(["ipcrm", "--queue-id", queue], check=True)


def test_a_load_sees_its_own_processes_alone():
    assert loaded("test $(ls -d /proc/[0-9]* | wc -l) -le 5") == ""


def test_a_load_may_do_what_loads_do(tmp_path):
    words = (
        f"set -e; cd {tmp_path}; echo x > file; chown 65534 file; sync file; nice -n -5 true;"
        " echo x > /dev/null; head -c 9 /dev/urandom > random; echo x > /dev/shm/joulerig-test;"
        " rm /dev/shm/joulerig-test; mktemp -u > /dev/null; f=$(mktemp); echo x > $f; rm $f;"
        f" {sys.executable} -c 'import os; os.openpty()';"
        " : >> /proc/sys/vm/drop_caches; echo x > /run/joulerig-test-pid"
    )
    assert loaded(words, own=[str(tmp_path)]) == ""
    assert not os.path.exists("/run/joulerig-test-pid")


def test_a_load_may_run_as_another_user(tmp_path):
    tmp_path.chmod(0o777)
    code = "import os, pwd; u = pwd.getpwuid(65534); os.setgid(u.pw_gid); os.setuid(u.pw_uid); open('x', 'w')"
    assert loaded(f'cd {tmp_path}; {sys.executable} -c "{code}"', own=[str(tmp_path)]) == ""
    assert (tmp_path / "x").stat().st_uid == 65534


def test_the_directory_in_which_a_load_begins_is_within_its_view(tmp_path):
    """Relative to the one that it was started in, the hidden folders would be reached."""
    done = fenced(
        """
        fence.enter({}, {})
        os.chdir("/run")
        print(json.dumps(load.attend("load", ["sh", "-c", "test -e ./joulerig-test-cwd"], 60)))
        """
    )
    assert done.startswith("load: exit 1")


def test_a_fence_that_cannot_be_made_is_named():
    problem = fenced("""
        fence.enclose = lambda own, network: (_ for _ in ()).throw(fence.Failed("fence: mount: no"))
        try:
            load.attend("load", ["true"], 60)
        except fence.Failed as failed:
            print(json.dumps(str(failed)))
    """)
    assert problem == "fence: mount: no"
