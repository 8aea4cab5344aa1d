# SPDX-License-Identifier: GPL-3.0-or-later
"""A drive's scheduler and write cache, and the block layer's own statistics.

Settings are set, read back and restored. Those of an NVMe drive with native multipath are its
paths': the device above them has a queue in name only.
"""

import contextlib
import glob
import os

from ansible.module_utils.joulerig.drives.commands import nvme
from ansible.module_utils.joulerig.drives.host import Host
from ansible.module_utils.joulerig.tools import Failed, Unable, run

# Fields of /sys/block/X/stat (Documentation/block/stat.rst).
STAT_FIELDS = (
    "reads reads_merged read_sectors read_ms writes writes_merged write_sectors write_ms in_flight busy_ms"
    " queue_ms discards discards_merged discard_sectors discard_ms flushes flush_ms"
).split()

BACK, THROUGH = "write back", "write through"
NO_FLUSH = "no flush"  # a write cache that stays on and is not flushed: for drives that lose nothing of it
NONE = "none"


def _path(name, key, host):
    return f"{host.sys}/block/{name}/queue/{key}"


def queues(name, host=None):
    """List the devices that schedule and count a drive's I/O: its paths, else the drive itself."""
    host = host or Host()
    return host.paths(name) or [name]


def get(name, key, host=None):
    """Read a queue attribute; for the scheduler the one in effect."""
    text = _read(name, key, host or Host())
    if key == "scheduler" and "[" in text:
        return text[text.index("[") + 1 : text.index("]")]
    return text


def _read(name, key, host):
    path = _path(name, key, host)
    try:
        with open(path) as file:
            return file.read().strip()
    except FileNotFoundError:
        # Since Linux 6.5 a device that hands its I/O on at once has no file of schedulers.
        if key == "scheduler" and os.path.isdir(os.path.dirname(path)):
            return NONE
        raise


def scheduler(name, host=None):
    """Return a drive's I/O scheduler in effect; of paths that differ, each one's."""
    host = host or Host()
    found = dict.fromkeys(get(one, "scheduler", host) for one in queues(name, host))
    return ", ".join(found)


def offers(name, wanted, host=None):
    """Return whether a drive can have an I/O scheduler, loading its module if need be."""
    host = host or Host()
    if wanted in schedulers(name, host):
        return True
    with contextlib.suppress(Failed):  # there is no such module, or no modprobe
        run(["modprobe", "--quiet", f"{wanted}-iosched"])  # the alias that schedulers' modules have
    return wanted in schedulers(name, host)


def schedulers(name, host=None):
    """List the I/O schedulers that this drive can have now.

    Of a drive with several paths that is `none`: each has its own queue, and sees a part.
    """
    host = host or Host()
    found = queues(name, host)
    if len(found) > 1:
        return [NONE]
    return _read(found[0], "scheduler", host).replace("[", " ").replace("]", " ").split()


def check_polled(name, host=None):
    """Refuse polled I/O where the kernel would wait to be interrupted all the same.

    Raises Unable.
    """
    host = host or Host()
    for one in queues(name, host):
        if get(one, "io_poll", host) != "1":
            raise Unable(
                f"/dev/{one}: has no queue that is polled (queue/io_poll is not 1; for NVMe drives the"
                " kernel's nvme.poll_queues=N makes some)"
            )


def put(name, key, value, host=None):
    """Set a queue attribute and read it back. Raises Failed when it did not take."""
    host = host or Host()
    try:
        if get(name, key, host) == value:
            return
    except OSError:
        pass  # writing says why
    try:
        with open(_path(name, key, host), "w") as file:
            file.write(value)
    except OSError as error:
        raise Failed(
            f"/dev/{name}: queue/{key}: {value!r} was refused by the kernel: {error.strerror}"
        ) from None
    if (now := get(name, key, host)) != value:
        raise Failed(f"/dev/{name}: queue/{key}: set to {value!r}, reads back as {now!r}")


def _put_view(name, value, host):
    """Set what the kernel takes a drive's write cache for, on its paths as well."""
    for one in (name, *host.paths(name)):
        put(one, "write_cache", value, host)


def put_write_cache(name, value, host=None):
    """Set the drive's own write cache, and the kernel's view of it.

    `value` is "write back" or "write through". Writing queue/write_cache alone would keep the cache
    and stop the flushes: durability would be a lie. What is so already is not set, so that a drive
    that cannot be set can be put back. Raises Failed when it did not take, Unable where a drive's
    cache cannot be set.
    """
    host = host or Host()
    check_write_cache(name, value, host)
    if _drive_cache(name, host) != value:
        _set_drive_cache(name, value, host)
        if (now := _drive_cache(name, host)) != value:
            raise Failed(f"/dev/{name}: write cache: set to {value!r}, the drive says {now!r}")
    _put_view(name, value, host)


def _drive_cache(name, host):
    """Return the state of a drive's own write cache. Raises Failed where it gives no answer."""
    if page := _cache_type(name, host):
        with open(page) as file:
            return file.read().strip()
    try:
        with host.opened(name) as descriptor:
            on = host.calls.has_cache(descriptor, name)
            if on:
                on = host.calls.nvme_feature(descriptor, nvme.VOLATILE_WRITE_CACHE)[0] & 1
    except OSError as error:
        raise Failed(f"/dev/{name}: does not say whether its write cache is on: {error}") from None
    return BACK if on else THROUGH


def _set_drive_cache(name, value, host):
    if page := _cache_type(name, host):
        try:
            with open(page, "w") as file:
                file.write(value)
        except OSError as error:
            raise Failed(f"/dev/{name}: cache_type: {value!r} was refused: {error.strerror}") from None
        return
    try:
        with host.opened(name) as descriptor:
            host.calls.set_nvme_feature(descriptor, nvme.VOLATILE_WRITE_CACHE, int(value == BACK))
    except nvme.StatusError as error:
        if error.status in (nvme.INVALID_FIELD, nvme.NOT_CHANGEABLE):
            raise Unable(
                f"/dev/{name}: its write cache cannot be set to {value!r}: {error}; leave write_cache out"
            ) from None
        raise Failed(f"/dev/{name}: write cache: {value!r} was refused: {error}") from None
    except OSError as error:
        raise Failed(f"/dev/{name}: write cache: {value!r} was refused: {error}") from None


def check_write_cache(name, value, host=None):
    """Refuse a level of write cache that a drive cannot have."""
    host = host or Host()
    if not _cache_type(name, host) and not name.startswith("nvme"):
        raise Unable(f"/dev/{name}: has no write cache that can be set; leave write_cache out")
    if value != BACK:
        return
    try:
        with host.opened(name) as descriptor:
            has = host.calls.has_cache(descriptor, name)
    except OSError:
        return  # setting it will show
    if not has:
        raise Unable(f"/dev/{name}: has no volatile write cache: {value!r} is no level of it")


def _cache_type(name, host):
    """Return the path of a SCSI disk's page of its write cache; None of any other drive."""
    return next(iter(glob.glob(f"{host.sys}/block/{name}/device/scsi_disk/*/cache_type")), None)


def check(name, wanted, write_cache, host=None):
    """Refuse what `apply` could not set on a device. Nothing is changed.

    `wanted`: the I/O scheduler.
    """
    host = host or Host()
    if not offers(name, wanted, host):
        if len(paths := host.paths(name)) > 1:
            raise Unable(
                f"/dev/{name}: scheduler {wanted!r} would see a part of the I/O on each of the paths"
                f" {', '.join(paths)}; allowed: none, or one path"
            )
        allowed = ", ".join(schedulers(name, host))
        raise Unable(f"/dev/{name}: scheduler {wanted!r} is not available; allowed: {allowed}")
    if write_cache not in (None, NO_FLUSH, get(name, "write_cache", host)):
        check_write_cache(name, write_cache, host)


def apply(undo, name, wanted, write_cache, host=None, leftovers=None):
    """Set scheduler and write cache of a device; `undo` (an ExitStack) puts them back.

    A write cache of None stays as it is. "no flush" leaves the drive's cache alone and has the
    kernel take it for none, so that it sends no flush: of a drive with power-loss protection that
    is true. Gives the settings {key: {"before", "in_effect"}}. What `check` refuses raises Unable.
    `leftovers` (Leftovers): notes them for the case that this process is killed.
    """
    host = host or Host()
    check(name, wanted, write_cache, host)
    settings = {"scheduler": {"before": scheduler(name, host)}}
    for one in queues(name, host):
        if (before := get(one, "scheduler", host)) != wanted:
            _note(leftovers, one, "scheduler", before, host)
            undo.callback(put, one, "scheduler", before, host)
            put(one, "scheduler", wanted, host)
    settings["scheduler"]["in_effect"] = scheduler(name, host)

    before = get(name, "write_cache", host)
    if write_cache == NO_FLUSH:
        value, setter = THROUGH, _put_view
    else:
        value, setter = write_cache, put_write_cache
    if value not in (None, before):
        if setter is put_write_cache:
            _note_cache(leftovers, name, before, host)
        for one in (name, *host.paths(name)):
            _note(leftovers, one, "write_cache", before, host)
        undo.callback(setter, name, before, host)
        setter(name, value, host)
    settings["write_cache"] = {"before": before, "in_effect": get(name, "write_cache", host)}
    return settings


def _note(leftovers, name, key, before, host):
    """Note how a setting is put back if this process cannot do it."""
    if leftovers:
        leftovers.note_file(_path(name, key, host), before, host.disk_sequence(name))


def _note_cache(leftovers, name, before, host):
    """Note how a drive's own write cache is put back if this process cannot do it."""
    if not leftovers:
        return
    sequence = host.disk_sequence(name)
    if page := _cache_type(name, host):
        leftovers.note_file(page, before, sequence)
    else:
        leftovers.note_cache(_path(name, "write_cache", host), before, sequence)


def count(undo, name, host=None, leftovers=None):
    """Have the block layer count a device's I/O, an NVDIMM's too; `undo` puts it back."""
    host = host or Host()
    for one in queues(name, host):
        if (before := get(one, "iostats", host)) != "1":
            _note(leftovers, one, "iostats", before, host)
            undo.callback(put, one, "iostats", before, host)
            put(one, "iostats", "1", host)


def _stat(name, host):
    """Return a drive's counters: those of its paths, added; none counts what another does."""
    host = host or Host()
    total = {}
    for one in queues(name, host):
        with open(f"{host.sys}/block/{one}/stat") as file:
            for field, text in zip(STAT_FIELDS, file.read().split()):
                total[field] = total.get(field, 0) + int(text)
    return total


def written(name, host=None):
    """Return the bytes written to and discarded on a device since boot.

    Gives {write_bytes, discard_bytes}: all that was asked of it that changes its content.
    """
    values = _stat(name, host)
    return {
        "write_bytes": values["write_sectors"] * 512,
        "discard_bytes": values.get("discard_sectors", 0) * 512,
    }


def stat(name, host=None):
    """Return a device's I/O counters since boot.

    Gives {reads, read_bytes, writes, write_bytes, flushes, discards}.
    """
    values = _stat(name, host)
    return {
        "reads": values["reads"],
        "read_bytes": values["read_sectors"] * 512,
        "writes": values["writes"],
        "write_bytes": values["write_sectors"] * 512,
        "flushes": values.get("flushes", 0),
        "discards": values.get("discards", 0),
    }
