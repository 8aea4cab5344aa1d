# SPDX-License-Identifier: GPL-3.0-or-later
"""A block device's queue settings: set, read back, restored; and its own I/O statistics."""

from ansible.module_utils.joulerig.tools import Failed, Refused

# Fields of /sys/block/X/stat (Documentation/block/stat.rst).
STAT_FIELDS = (
    "reads reads_merged read_sectors read_ms writes writes_merged write_sectors write_ms in_flight busy_ms queue_ms"
    " discards discards_merged discard_sectors discard_ms flushes flush_ms"
).split()


def _path(name, key):
    return f"/sys/block/{name}/queue/{key}"


def get(name, key):
    """A queue attribute; for the scheduler the one in effect."""
    with open(_path(name, key)) as file:
        text = file.read().strip()
    if key == "scheduler" and "[" in text:
        return text[text.index("[") + 1 : text.index("]")]
    return text


def schedulers(name):
    """Names of the I/O schedulers that this device can have now."""
    with open(_path(name, "scheduler")) as file:
        return file.read().replace("[", " ").replace("]", " ").split()


def put(name, key, value):
    """Set a queue attribute and read it back. Raises Failed when it did not take."""
    try:
        with open(_path(name, key), "w") as file:
            file.write(value)
    except OSError as error:
        raise Failed(
            f"/dev/{name}: queue/{key}: {value!r} was refused by the kernel: {error.strerror}"
        ) from None
    if (now := get(name, key)) != value:
        raise Failed(f"/dev/{name}: queue/{key}: set to {value!r}, reads back as {now!r}")


def apply(undo, name, scheduler, write_cache):
    """Set scheduler and write cache (None: as it is) of a device; `undo` (an ExitStack) puts them back.

    Gives the settings {key: {"before", "in_effect"}}. A scheduler the kernel lacks raises Refused.
    """
    if scheduler not in schedulers(name):
        raise Refused(
            f"/dev/{name}: scheduler {scheduler!r} is not available; allowed: {', '.join(schedulers(name))}"
        )
    settings = {}
    for key, value in (("scheduler", scheduler), ("write_cache", write_cache)):
        before = get(name, key)
        if value is not None and value != before:
            undo.callback(put, name, key, before)
            put(name, key, value)
        settings[key] = {"before": before, "in_effect": get(name, key)}
    return settings


def stat(name):
    """Counters since boot: {reads, read_bytes, writes, write_bytes, flushes, discards}."""
    with open(f"/sys/block/{name}/stat") as file:
        values = dict(zip(STAT_FIELDS, map(int, file.read().split()), strict=False))
    return {
        "reads": values["reads"],
        "read_bytes": values["read_sectors"] * 512,
        "writes": values["writes"],
        "write_bytes": values["write_sectors"] * 512,
        "flushes": values.get("flushes", 0),
        "discards": values.get("discards", 0),
    }
