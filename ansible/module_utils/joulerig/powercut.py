# SPDX-License-Identifier: GPL-3.0-or-later
"""What a test host does for a power cut.

It prepares a drive, starts the writer, and reports what is there after the cut.
"""

import contextlib
import os
import subprocess
import time

from ansible.module_utils.joulerig import fence, leftovers, limits, paths, provenance
from ansible.module_utils.joulerig.drives import filesystem, identity, wipe_lease
from ansible.module_utils.joulerig.drives.writers import Writer
from ansible.module_utils.joulerig.host_lock import Lane
from ansible.module_utils.joulerig.loads.contained import Contained
from ansible.module_utils.joulerig.tools import Failed, Refused

PROGRAM = "/usr/local/sbin/durawriter"
PLACE = "/run/joulerig/powercut"
READ_SECONDS = 300  # of a region that is a few MiB on any drive
PROBE_SECONDS = 5
AT_ONCE_SECONDS = 0.3  # in which a writer ends that cannot begin; a later end is reported at its cut
FOUND_LINES = 5  # of what a checker says
ZEROS = bytes(1 << 20)


def mount_point(member):
    return f"{PLACE}/{member['name']}"


def boot_id():
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()


def prepare(member, definition, options=()):
    """Give a leased drive its file system; zero the region of one that stays bare.

    What a writer of a cut that did not come left running or mounted is ended first. `options`: of
    the writer. A region is zeroed so that each of its sectors is zeros or the writer's, by which
    the drive is known after the cut.
    """
    leftovers.take_down()
    os.sync()  # what was deployed for it, the writer itself too, outlives the cut
    if definition:
        filesystem.check(definition)
    made = {}
    with contextlib.ExitStack() as undo:
        left = _leftovers(member)
        undo.callback(left.clear)
        lease = undo.enter_context(wipe_lease.lease_drive(member))
        fence.enter({lease.path: lease.number}, {})
        left.fenced([lease])
        if definition:
            made = filesystem.make(lease, definition, seconds=_seconds(member))
        else:
            lease.begin(writer=_writer(options))
            with lease.lent() as device:
                _zero(device, int(_option(options, "--region-bytes")))
    return {**made, "made": lease.identity}


def _leftovers(member):
    """Return what a drive's call notes: writers of several drives of the host run at a time."""
    return leftovers.Leftovers(lane=Lane("", member["name"]))


def _option(options, name):
    """Return the value of an option of the writer. Raises Refused where it lacks that."""
    if name not in options[:-1]:
        raise Refused(f"the writer's options lack {name}")
    return options[options.index(name) + 1]


def _writer(options):
    return Writer("durawriter", _option(options, "--campaign"))


def _zero(device, count):
    descriptor = os.open(device, os.O_WRONLY | os.O_EXCL)
    try:
        for offset in range(0, count, len(ZEROS)):
            os.pwrite(descriptor, ZEROS[: count - offset], offset)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _seconds(member):
    """Return after how many seconds mkfs, mount or a checker counts as hung on a drive."""
    return limits.seconds([member], limits.METADATA)


def start(member, definition, options, witness, secret):
    """Start the writer and leave it running; its environment, root's alone, has the secret.

    It writes on a file system mounted for it, or on a leased bare drive. The bare drive is handed
    over as an open, exclusive descriptor: the writer takes no path. It lives in the fence of this
    call, and a file system that is mounted for it ends with it.
    """
    command = [PROGRAM, "write", *options, "--witness", witness]
    keep = []
    with wipe_lease.lease_drive(member) as lease:
        fence.enter({lease.path: lease.number}, {})
        _leftovers(member).fenced([lease])
        if definition:
            lease.begin_power_cuts()
            # It stays mounted after this call: the cut unmounts it.
            filesystem.mount(
                contextlib.ExitStack(), lease, definition, mount_point(member), seconds=_seconds(member)
            )
            command += ["--directory", mount_point(member)]
        else:
            lease.begin(writer=_writer(options))
            lease.lend()
            descriptor = os.open(lease.path, os.O_RDWR | os.O_DIRECT | os.O_EXCL)
            keep = [descriptor]
            command += ["--device-fd", str(descriptor)]
        return _start_writer(member, command, keep, secret)


def _start_writer(member, command, keep, secret):
    words = _log_of(member)
    with open(words, "w") as log:
        writer = Contained(
            command,
            [mount_point(member)],
            network=True,  # where the witness is
            lasting=True,
            stdout=log,
            stderr=log,
            pass_fds=keep,
            env={**os.environ, "JOULERIG_WITNESS_SECRET": secret},
        )
    for descriptor in keep:
        os.close(descriptor)
    with contextlib.suppress(subprocess.TimeoutExpired):
        code = writer.wait(AT_ONCE_SECONDS)
        with open(words) as log:
            raise Failed(f"the writer ended at once (exit {code}): {log.read().strip()}")
    return {"boot_id": boot_id()}


def survey(member, definition, after, options):
    """Survey what is there: mounted (which replays a journal), read, unmounted, checked.

    `after`: {before_mount, repair, check} of the file system. Nothing is written by intent but by
    mount, before_mount and repair. That it cannot be mounted is a finding (`mount_problem`): it is
    repaired then, once. If that does not help (`lost`), nothing of it is there.
    """
    command = [PROGRAM, "survey", *options]
    with wipe_lease.lease_drive(member) as lease:
        fence.enter({lease.path: lease.number}, {})
        if definition:
            lease.begin_power_cuts()  # a repair writes to it
        result = {"boot_id": boot_id(), "health": provenance.health(lease.name, member["interface"])}
        if definition:
            _survey_filesystem(member, lease, definition, after, command, result)
        else:
            descriptor = os.open(lease.path, os.O_RDONLY | os.O_DIRECT)
            try:
                result["survey"] = _read([*command, "--device-fd", str(descriptor)], [descriptor])
            finally:
                os.close(descriptor)
    return {**result, "made": lease.identity}


def _survey_filesystem(member, lease, definition, after, command, result):
    if after["before_mount"]:
        result["before_mount"] = _checker(after["before_mount"], lease, member)
    with contextlib.ExitStack() as undo:
        problem = _mount(undo, member, definition, lease, result)
        if problem:
            result["mount_problem"] = problem
            if after["repair"]:
                result["repair"] = _checker(after["repair"], lease, member)
                problem = _mount(undo, member, definition, lease, result)
        if problem:
            result.update(lost=problem, survey="")
        else:
            result["survey"] = _read([*command, "--directory", mount_point(member)], [])
    if after["check"]:
        result["check"] = _checker(after["check"], lease, member)


def _mount(undo, member, definition, lease, result):
    """Mount, and keep how long it took; return why it could not be, or an empty text."""
    began = time.monotonic()
    try:
        result["mount_options"] = filesystem.mount(
            undo, lease, definition, mount_point(member), seconds=_seconds(member)
        )
    except Failed as error:
        return str(error)
    result["mount_seconds"] = time.monotonic() - began
    return ""


def _complete(command, remedy, seconds, keep=()):
    """Run `command` to its end, and return it with whatever exit code it has.

    `remedy` is for a host that has no such tool. Raises Refused there, Failed where the command
    runs longer than `seconds`.
    """
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            pass_fds=keep,
        )
    except FileNotFoundError:
        raise Refused(f"{command[0]}: not on this host; {remedy}") from None
    except subprocess.TimeoutExpired:
        raise Failed(f"{command[0]}: still running after {seconds:.0f} s") from None


def _read(command, keep):
    done = _complete(command, "playbooks/power_cut.yml puts it there", READ_SECONDS, keep)
    if done.returncode:
        raise Failed(f"read back: {done.stderr.strip()}")
    return done.stdout


def _checker(command, lease, member):
    """Run a file system's checker on a leased drive and return what it says.

    Its exit code is a finding, not a failure of ours.
    """
    with lease.lent() as device:
        done = _complete([*command, device], "playbooks/provision.yml installs it", _seconds(member))
    words = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    return {"command": [*command, device], "exit": done.returncode, "last_lines": words[-FOUND_LINES:]}


def probe(member):
    """Return whether a drive answers a read, at a time when it should have no power.

    It answers where the switch does not cut its power, or where it came back. The read of a dead
    one may hang until the kernel gives it up; that is not waited for.
    """
    try:
        name = identity.find(member)
    except Refused:
        return {"answers": False}  # the kernel has taken it away
    read = ["dd", f"if={paths.DEV}/{name}", "of=/dev/null", "bs=4096", "count=1", "iflag=direct"]
    reading = subprocess.Popen(
        read,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return {"answers": reading.wait(PROBE_SECONDS) == 0}
    except subprocess.TimeoutExpired:
        return {"answers": False}


def reset():
    """Reset this host, writing nothing, a second from now.

    The answer to this call still goes out.
    """
    command = "sleep 1; echo 1 > /proc/sys/kernel/sysrq; echo b > /proc/sysrq-trigger"
    subprocess.Popen(
        ["sh", "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True
    )
    return {"boot_id": boot_id()}


def clean(member):
    """End what writers left running and mounted: of a cut that did not come.

    Returns `writer`: the last line that the drive's writer printed.
    """
    leftovers.take_down()
    return {"writer": _last_line(_log_of(member))}


def _log_of(member):
    """Return the file of what a drive's writer prints."""
    return f"{PLACE}-{member['name']}.log"


def _last_line(path):
    try:
        with open(path, errors="replace") as file:
            return ([line.strip() for line in file if line.strip()] or ["it printed nothing"])[-1]
    except FileNotFoundError:
        return "it was not started"
