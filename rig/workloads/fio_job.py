# SPDX-License-Identifier: GPL-3.0-or-later
"""fio's job files: those that load the drive under test, and nothing else.

A job file can name devices, other machines, programs and any file of a host, which fio uses as
root. So keys and engines are allowed one by one: each does its work on files in the directory of
the load, or on the device of a preconditioning, and reads and writes nothing else. The list is of
fio 3.42; a host's fio may know fewer of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import Field

from joulerig.rig.common import paths
from joulerig.rig.common.errors import UserError
from joulerig.rig.common.numbers import MOST, Real
from joulerig.rig.lab import definitions

Value = bool | Annotated[int, Field(ge=-MOST, le=MOST)] | Real | str


@dataclass(frozen=True)
class Target:
    """What a job loads: the key that each job needs, and the only value that it may have."""

    key: str
    value: str


DIRECTORY = Target("directory", "${JOULERIG_DIRECTORY}")
DEVICE = Target("filename", "${JOULERIG_DEVICE}")

# They act on the files of a directory. Others reach devices (sg, mtd, libzbc, dev-dax,
# io_uring_cmd, xnvme), machines (net, nbd, rbd, http, nfs ...), programs and libraries (exec,
# external), or a second file by name (e4defrag).
ENGINES = (
    "falloc", "filecreate", "filedelete", "filestat", "ftruncate", "io_uring", "libaio", "libpmem",
    "mmap", "posixaio", "psync", "pvsync", "pvsync2", "splice", "sync", "vsync",
)  # fmt: skip
MEMORY = ("malloc", "mmap", "shm", "shmhuge")  # others can have a file's name
# fio's keys, with their second names, that are numbers, choices of fio's, or texts for people; and
# `filename`, whose value is checked.
KEYS = frozenset(
    """
    allow_file_create allrandrepeat atomic ba blockalign blocksize blocksize_range
    blocksize_unaligned bs bs_is_seq_rand bs_unaligned bsrange bssplit buffer_compress_chunk
    buffer_compress_percentage buffer_pattern buffered clat_percentiles clocksource cmdprio
    cmdprio_bssplit cmdprio_class cmdprio_percentage continue_on_error cpus_allowed
    cpus_allowed_policy create_fsync create_on_open create_serialize dedupe_global dedupe_mode
    dedupe_percentage dedupe_working_set_percentage description direct disable_bw
    disable_bw_measurement disable_clat disable_lat disable_slat disk_util do_verify end_fsync
    exit_what exitall exitall_on_error fadvise_hint fallocate fdatasync file_append
    file_service_type filename fileoffset filesize fill_device fill_fs fixedbufs flow flow_id
    flow_sleep force_async fsync fsync_on_close group_reporting gtod_cpu gtod_reduce hipri
    hipri_percentage hugepage-size ignore_error invalidate io_limit io_size io_submit_mode iodepth
    iodepth_batch iodepth_batch_complete iodepth_batch_complete_max iodepth_batch_complete_min
    iodepth_batch_submit iodepth_low ioengine iomem iomem_align kb_base lat_percentiles
    latency_percentile latency_run latency_target latency_window libaio_vectored lockfile lockmem
    loops max_latency mem mem_align new_group nice nonvectored norandommap nowait nr_files nrfiles
    numa_cpu_nodes numa_mem_policy number_ios numjobs offset offset_align offset_increment openfiles
    overwrite percentage_random percentile_list pre_read prio prioclass ramp_size ramp_time
    random_distribution random_generator randrepeat randseed rate rate_cycle rate_ignore_thinktime
    rate_iops rate_iops_min rate_min rate_process ratecycle ratemin readwrite refill_buffers
    registerfiles runtime rw rw_sequencer rwmixread rwmixwrite scramble_buffers serialize_overlap
    significant_figures size slat_percentiles softrandommap sqthread_poll sqthread_poll_cpu ss
    ss_dur ss_ramp startdelay stat_type steadystate steadystate_duration
    steadystate_ramp_time stonewall sync sync_file_range thinktime thinktime_blocks
    thinktime_blocks_type thinktime_iotime thinktime_spin thp thread time_based timeout trim_backlog
    trim_backlog_batch trim_percentage trim_verify_zero uncached unit_base unlink unlink_each_loop
    userspace_reap verify verify_async verify_backlog verify_backlog_batch verify_fatal
    verify_header_seed verify_interval verify_offset verify_only verify_pattern
    verify_pattern_interval verify_write_sequence wait_for wait_for_previous write_barrier
    write_hint zero_buffers
    """.split()
)
SECTION = re.compile(r"\[([A-Za-z0-9_][A-Za-z0-9_ .,+-]*)\]")
FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
# Without quotes, which can hold a file's name, and `$`: of $ncpus and its like fio makes a shell
# command.
PLAIN = re.compile(r"[A-Za-z0-9_.,:/%*+^()-]+")
OF_A_RUN = re.compile(r"\$\{JOULERIG_(SECONDS|SEED)\}")
LONGEST_LINE = 1000  # fio takes what is beyond 8 KiB for a line


@dataclass
class _Section:
    """A section of a job file; a name that begins with `global` is no job's."""

    name: str
    line: int
    keys: set[str] = field(default_factory=set)

    @property
    def common(self) -> bool:
        return self.name.startswith("global")


def load(path: Path, target: Target = DIRECTORY) -> str:
    """Return the text of a job file that loads `target` alone.

    Raises UserError with file, line, key and what is allowed.
    """
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{paths.short(path)}: {error}") from None
    try:
        check(text, target)
    except ValueError as error:
        raise UserError(f"{paths.short(path)}:{error}") from None
    return text


def check(text: str, target: Target = DIRECTORY) -> None:
    """Raise ValueError, "LINE: what is wrong", unless a job file loads `target` alone."""
    sections: list[_Section] = []
    for number, line in enumerate(text.split("\n"), 1):
        try:
            _check_line(_content(line), number, sections, target)
        except ValueError as error:
            raise ValueError(f"{number}: {error}") from None
    given: set[str] = set()
    for section in sections:
        if section.common:
            given |= section.keys
        here = given | section.keys
        if target.key not in here and (not section.common or "filename" in here):
            raise ValueError(
                f"{section.line}: [{section.name}]: {target.key}: missing;"
                f" allowed: {target.key}={target.value}, here or in a [global] above"
            )


def check_setting(key: str, value: str | None, target: Target = DIRECTORY) -> None:
    """Raise ValueError unless a job may have this key with this value (None: with no value)."""
    keys = KEYS | {target.key}
    if key not in keys:
        raise ValueError(f"{key!r} is {definitions.allowed(key, sorted(keys), 'no key of a job here')}")
    fits, allowed = _rule(key, value or "", target)
    if not fits and not (value is None and key not in (target.key, "filename", "ioengine")):
        raise ValueError(f"{key}: {value or ''!r}; allowed: {allowed}")


def with_options(job: str, options: Mapping[str, Value]) -> str:
    """Return the job file with `options` at the end of each job, replacing earlier ones."""
    if not options:
        return job
    more = [f"{key}={as_text(value)}" for key, value in options.items()]
    lines: list[str] = []
    in_job = False
    for line in job.splitlines():
        if section := SECTION.fullmatch(_content(line)):
            lines += more if in_job else []
            in_job = not _Section(section[1], 0).common
        lines.append(line)
    return "\n".join([*lines, *(more if in_job else [])]) + "\n"


def as_text(value: Value) -> str:
    """Return an option's value as a job file has it."""
    return str(int(value)) if isinstance(value, bool) else str(value)


def _content(line: str) -> str:
    """Return what fio reads of a line: all before a comment. Raises ValueError."""
    if len(line) > LONGEST_LINE or not line.replace("\t", " ").isprintable():
        raise ValueError(f"{line[:40]!r}; allowed: at most {LONGEST_LINE} printable characters in a line")
    return re.split("[;#]", line, maxsplit=1)[0].strip()


def _check_line(content: str, number: int, sections: list[_Section], target: Target) -> None:
    if not content:
        return
    if content.startswith("["):
        section = SECTION.fullmatch(content)
        if not section:
            allowed = "[NAME], of letters, digits, blanks and _.,+-"
            raise ValueError(f"{content!r} is no name of a job here; allowed: {allowed}")
        sections.append(_Section(section[1], number))
        return
    if not sections:
        raise ValueError(f"{content!r} is in no section; allowed: after a line [NAME]")
    key, equals, value = content.partition("=")
    check_setting(key.strip(), value.strip() if equals else None, target)
    sections[-1].keys.add(key.strip())


def _rule(key: str, value: str, target: Target) -> tuple[bool, str]:
    """Return whether a key's value is allowed, and what is."""
    if key == target.key:
        return value == target.value, target.value
    if key == "filename":
        return bool(FILE_NAME.fullmatch(value)), f"one name of letters, digits and _.-, in {target.value}"
    if key == "ioengine":
        return value in ENGINES, ", ".join(ENGINES)
    if key in ("mem", "iomem"):
        return value in MEMORY, ", ".join(MEMORY)
    if key == "description":
        return value.isprintable() and "$" not in value, "one line of text without $"
    fits = PLAIN.fullmatch(OF_A_RUN.sub("0", value))
    return bool(fits), "letters, digits and _.,:/%*+^()-, ${JOULERIG_SECONDS}, ${JOULERIG_SEED}"
