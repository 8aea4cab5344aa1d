# SPDX-License-Identifier: GPL-3.0-or-later
"""A drive's scheduler and write cache, and the block layer's own statistics.

Settings are set, read back and restored.
"""

import contextlib
import glob
import re

from ansible.module_utils.joulerig import paths
from ansible.module_utils.joulerig.drives.host import Host
from ansible.module_utils.joulerig.tools import Failed, Unable, run

# Fields of /sys/block/X/stat (Documentation/block/stat.rst).
STAT_FIELDS = (
    "reads reads_merged read_sectors read_ms writes writes_merged write_sectors write_ms in_flight busy_ms"
    " queue_ms discards discards_merged discard_sectors discard_ms flushes flush_ms"
).split()


NVME_WRITE_CACHE = "--feature-id=0x06"
NO_FLUSH = "no flush"  # a write cache that stays on and is not flushed: for drives that lose nothing of it


def _path(name, key, sys=None):
    return f"{sys or paths.SYS}/block/{name}/queue/{key}"


def get(name, key, sys=None):
    """Read a queue attribute; for the scheduler the one in effect."""
    with open(_path(name, key, sys)) as file:
        text = file.read().strip()
    if key == "scheduler" and "[" in text:
        return text[text.index("[") + 1 : text.index("]")]
    return text


def offers(name, scheduler, sys=None):
    """Return whether a device can have an I/O scheduler, loading its module if need be."""
    if scheduler in schedulers(name, sys):
        return True
    with contextlib.suppress(Failed):  # there is no such module, or no modprobe
        run(["modprobe", "--quiet", f"{scheduler}-iosched"])  # the alias that schedulers' modules have
    return scheduler in schedulers(name, sys)


def schedulers(name, sys=None):
    """List the I/O schedulers that this device can have now."""
    with open(_path(name, "scheduler", sys)) as file:
        return file.read().replace("[", " ").replace("]", " ").split()


def put(name, key, value, sys=None):
    """Set a queue attribute and read it back. Raises Failed when it did not take."""
    try:
        with open(_path(name, key, sys), "w") as file:
            file.write(value)
    except OSError as error:
        raise Failed(
            f"/dev/{name}: queue/{key}: {value!r} was refused by the kernel: {error.strerror}"
        ) from None
    if (now := get(name, key, sys)) != value:
        raise Failed(f"/dev/{name}: queue/{key}: set to {value!r}, reads back as {now!r}")


def put_write_cache(name, value, sys=None):
    """Set the drive's own write cache, and the kernel's view of it.

    `value` is "write back" or "write through". Writing queue/write_cache alone would keep the cache
    and stop the flushes: durability would be a lie. Raises Failed when it did not take, Refused
    where a drive's cache cannot be set.
    """
    check_write_cache(name, sys)
    if page := _cache_type(name, sys):
        try:
            with open(page, "w") as file:
                file.write(value)
        except OSError as error:
            raise Failed(f"/dev/{name}: cache_type: {value!r} was refused: {error.strerror}") from None
        with open(page) as file:
            now = file.read().strip()
    else:
        run(_set_nvme_cache(name, value))
        asked = ["nvme", "get-feature", f"/dev/{name}", NVME_WRITE_CACHE]
        reported = re.search(r"value:\s*(0x[0-9a-f]+|\d+)", run(asked))
        now = {0: "write through", 1: "write back"}.get(int(reported[1], 0) & 1) if reported else "unknown"
    if now != value:
        raise Failed(f"/dev/{name}: write cache: set to {value!r}, the drive says {now!r}")
    if get(name, "write_cache", sys) != value:
        put(name, "write_cache", value, sys)


def check_write_cache(name, sys=None):
    """Refuse a drive whose own write cache cannot be set."""
    if not _cache_type(name, sys) and not name.startswith("nvme"):
        raise Unable(f"/dev/{name}: has no write cache that can be set; leave write_cache out")


def _cache_type(name, sys):
    """Return the path of a SCSI disk's page of its write cache; None of any other drive."""
    return next(iter(glob.glob(f"{sys or paths.SYS}/block/{name}/device/scsi_disk/*/cache_type")), None)


def _set_nvme_cache(name, value):
    on = int(value == "write back")
    return ["nvme", "set-feature", f"/dev/{name}", NVME_WRITE_CACHE, f"--value={on}"]


def check(name, scheduler, write_cache, sys=None):
    """Refuse what `apply` could not set on a device. Nothing is changed."""
    if not offers(name, scheduler, sys):
        allowed = ", ".join(schedulers(name, sys))
        raise Unable(f"/dev/{name}: scheduler {scheduler!r} is not available; allowed: {allowed}")
    if write_cache not in (None, NO_FLUSH, get(name, "write_cache", sys)):
        check_write_cache(name, sys)


def apply(undo, name, scheduler, write_cache, sys=None, leftovers=None):
    """Set scheduler and write cache of a device; `undo` (an ExitStack) puts them back.

    A write cache of None stays as it is. "no flush" leaves the drive's cache alone and has the
    kernel take it for none, so that it sends no flush: of a drive with power-loss protection that
    is true. Gives the settings {key: {"before", "in_effect"}}. What `check` refuses raises Unable.
    `leftovers` (Leftovers): notes them for the case that this process is killed.
    """
    check(name, scheduler, write_cache, sys)
    settings = {}
    setters = {
        "scheduler": (scheduler, lambda value: put(name, "scheduler", value, sys)),
        "write_cache": (write_cache, lambda value: put_write_cache(name, value, sys)),
    }
    if write_cache == NO_FLUSH:
        setters["write_cache"] = "write through", lambda value: put(name, "write_cache", value, sys)
    for key, (value, setter) in setters.items():
        before = get(name, key, sys)
        if value is not None and value != before:
            if leftovers:
                _note(leftovers, name, key, before, write_cache, sys)
            undo.callback(setter, before)
            setter(value)
        settings[key] = {"before": before, "in_effect": get(name, key, sys)}
    return settings


def _note(leftovers, name, key, before, write_cache, sys=None):
    """Note how a setting is put back if this process cannot do it."""
    sequence = Host(sys=sys).disk_sequence(name)
    leftovers.note_file(_path(name, key, sys), before, sequence)
    if key == "write_cache" and write_cache != NO_FLUSH:
        if page := _cache_type(name, sys):
            leftovers.note_file(page, before, sequence)
        else:
            leftovers.note_command(_path(name, key, sys), _set_nvme_cache(name, before), sequence)


def count(undo, name, sys=None, leftovers=None):
    """Have the block layer count a device's I/O, an NVDIMM's too; `undo` puts it back."""
    if (before := get(name, "iostats", sys)) != "1":
        if leftovers:
            _note(leftovers, name, "iostats", before, None, sys)
        undo.callback(put, name, "iostats", before, sys)
        put(name, "iostats", "1", sys)


def _stat(name, sys):
    with open(f"{sys or paths.SYS}/block/{name}/stat") as file:
        return dict(zip(STAT_FIELDS, map(int, file.read().split())))


def written(name, sys=None):
    """Return the bytes written to and discarded on a device since boot.

    Gives {write_bytes, discard_bytes}: all that was asked of it that changes its content.
    """
    values = _stat(name, sys)
    return {
        "write_bytes": values["write_sectors"] * 512,
        "discard_bytes": values.get("discard_sectors", 0) * 512,
    }


def stat(name, sys=None):
    """Return a device's I/O counters since boot.

    Gives {reads, read_bytes, writes, write_bytes, flushes, discards}.
    """
    values = _stat(name, sys)
    return {
        "reads": values["reads"],
        "read_bytes": values["read_sectors"] * 512,
        "writes": values["writes"],
        "write_bytes": values["write_sectors"] * 512,
        "flushes": values.get("flushes", 0),
        "discards": values.get("discards", 0),
    }
