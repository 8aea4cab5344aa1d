# SPDX-License-Identifier: GPL-3.0-or-later
"""fio's job files: what a job may not name; labs' usual jobs and the shipped ones are allowed."""

from __future__ import annotations

import re

import pytest

from joulerig.rig.campaign import definition
from joulerig.rig.common import paths
from joulerig.rig.common.errors import UserError
from joulerig.rig.workloads import fio_job, place
from joulerig.rig.workloads.fio_job import DEVICE, DIRECTORY

HERE = "directory=${JOULERIG_DIRECTORY}\n"
UNKNOWN = "is no key of a job here"

# Settings of a job, and what is said of each.
REFUSED_SETTINGS = {
    "filename=/dev/sda": "filename: '/dev/sda'; allowed: one name",
    "filename = /dev/nvme0n1": "filename: '/dev/nvme0n1'; allowed: one name",
    "filename=/dev/sda:/dev/sdb": "allowed: one name",
    "filename=a:/dev/sdb": "allowed: one name",
    "filename=../../dev/sda": "allowed: one name",
    "filename=a/../../b": "allowed: one name",
    "filename=${JOULERIG_DEVICE}": "allowed: one name",
    "filename=${HOME}": "allowed: one name",
    "filename=\\\\.\\PhysicalDrive0": "allowed: one name",
    "filename=-": "allowed: one name",
    "filename=..": "allowed: one name",
    "filename": "filename: ''; allowed: one name",
    "directory=/": "directory: '/'; allowed: ${JOULERIG_DIRECTORY}",
    "directory=/home": "allowed: ${JOULERIG_DIRECTORY}",
    "directory=${JOULERIG_DIRECTORY}:/home": "allowed: ${JOULERIG_DIRECTORY}",
    "directory=${JOULERIG_DIRECTORY}/../..": "allowed: ${JOULERIG_DIRECTORY}",
    "directory=${HOME}": "allowed: ${JOULERIG_DIRECTORY}",
    "directory=.": "allowed: ${JOULERIG_DIRECTORY}",
    "filename_format=/dev/sd$jobnum": UNKNOWN,
    "filename_format=$jobname.$jobnum": UNKNOWN,
    "opendir=/etc": UNKNOWN,
    "filetype=block": UNKNOWN,
    "unique_filename=1": UNKNOWN,
    "name=/dev/sda": UNKNOWN,
    "exec_prerun=mkfs.ext4 /dev/sda": UNKNOWN,
    "exec_postrun=reboot": UNKNOWN,
    "profile=tiobench": UNKNOWN,
    "include /etc/other.fio": UNKNOWN,
    "include=other.fio": UNKNOWN,
    "includes": UNKNOWN,
    "read_iolog=/etc/passwd": UNKNOWN,
    "write_iolog=/etc/passwd": UNKNOWN,
    "replay_redirect=/dev/sda": UNKNOWN,
    "merge_blktrace_file=/etc/passwd": UNKNOWN,
    "write_bw_log=/etc/cron.d/x": UNKNOWN,
    "write_lat_log=x": UNKNOWN,
    "write_iops_log=x": UNKNOWN,
    "write_hist_log=x": UNKNOWN,
    "log_avg_msec=10": UNKNOWN,
    "verify_state_load=1": UNKNOWN,
    "verify_dump=1": UNKNOWN,
    "ioscheduler=none": UNKNOWN,
    "cgroup=system.slice": UNKNOWN,
    "cgroup_weight=100": UNKNOWN,
    "uid=1000": UNKNOWN,
    "gid=1000": UNKNOWN,
    "allow_mounted_write=1": UNKNOWN,
    "zonemode=zbd": UNKNOWN,
    "create_only=1": UNKNOWN,
    "unified_rw_reporting=1": UNKNOWN,
    "trigger=reboot": UNKNOWN,
    "trigger-file=/tmp/x": UNKNOWN,
    "aux-path=/etc": UNKNOWN,
    "client=other": UNKNOWN,
    "hostname=198.51.100.1": UNKNOWN,
    "uri=nbd://198.51.100.1": UNKNOWN,
    "program=/bin/sh": UNKNOWN,
    "donorname=/etc/passwd": UNKNOWN,
    "dance=1": UNKNOWN,
    "iodeph=4": "'iodeph' is no key of a job here; nearest is 'iodepth'; allowed: allow_file_create, ",
    "IODEPTH=4": UNKNOWN,
    "io depth=4": UNKNOWN,
    "=4": UNKNOWN,
    **{
        f"ioengine={engine}": f"ioengine: '{engine}'; allowed: falloc, filecreate, "
        for engine in (
            "sg", "mtd", "libzbc", "libblkio", "xnvme", "io_uring_cmd", "dev-dax", "pmemblk", "net", "netsplice", "nbd",
            "nfs", "rbd", "rados", "rdma", "http", "libiscsi", "libhdfs", "gfapi", "gfapi_async", "dfs_engine", "ime_psync",
            "exec", "external:/tmp/engine.so", "/tmp/engine.so", "e4defrag", "libcufile", "cpuio", "null", "psync ../x", "",
        )
    },
    "ioengine": "ioengine: ''; allowed: falloc",
    "mem=mmap:/dev/sda": "mem: 'mmap:/dev/sda'; allowed: malloc, mmap, shm, shmhuge",
    "mem=mmapshared:/dev/sda": "allowed: malloc, mmap, shm, shmhuge",
    "iomem=mmaphuge:/etc/passwd": "allowed: malloc, mmap, shm, shmhuge",
    "buffer_pattern='/etc/passwd'": "buffer_pattern: \"'/etc/passwd'\"; allowed: letters, digits",
    "verify_pattern='/dev/sda'-10": "allowed: letters, digits",
    'verify_pattern="a"': "allowed: letters, digits",
    "size=8*$mb_memory": "size: '8*$mb_memory'; allowed: letters, digits",
    "numjobs=$ncpus+`reboot`": "allowed: letters, digits",
    "size=${SIZE}": "size: '${SIZE}'; allowed: letters, digits",
    "size=${JOULERIG_DEVICE}": "allowed: letters, digits",
    "description=of $pagesize/`reboot`": "allowed: one line of text without $",
    "bs=": "bs: ''; allowed: letters, digits",
    "bs=4k 8k": "allowed: letters, digits",
    "bs=4k\0": "allowed: at most 1000 printable characters",
    "bs=4k\rfilename=/dev/sda": "allowed: at most 1000 printable characters",
    "bs=4k\x0bfilename=/dev/sda": "allowed: at most 1000 printable characters",
    "bs=4k\u2028filename=x": "allowed: at most 1000 printable characters",
    "#" * 8191 + "filename=/dev/sda": "allowed: at most 1000 printable characters",
}  # fmt: skip

# Job files as a whole.
REFUSED_JOBS = {
    "filename=/dev/sda\n": "1: 'filename=/dev/sda' is in no section; allowed: after a line [NAME]",
    f"[/dev/sda]\n{HERE}": "1: '[/dev/sda]' is no name of a job here; allowed: [NAME]",
    "[/dev/sda]\nrw=write\n": "1: '[/dev/sda]' is no name",
    f"[../a]\n{HERE}": "1: '[../a]' is no name",
    f"[.]\n{HERE}": "1: '[.]' is no name",
    f"[a:b]\n{HERE}": "1: '[a:b]' is no name",
    f"[a\n{HERE}": "1: '[a' is no name",
    f"[]\n{HERE}": "1: '[]' is no name",
    f"[a]b\n{HERE}": "1: '[a]b' is no name",
    f"[a${{HOME}}]\n{HERE}": "1: '[a${HOME}]' is no name",
    "[a]\nrw=write\n": "1: [a]: directory: missing; allowed: directory=${JOULERIG_DIRECTORY}, here or in a [global]",
    f"[a]\n{HERE}[b]\nrw=read\n": "3: [b]: directory: missing",
    f"[a]\nrw=read\n[global]\n{HERE}": "1: [a]: directory: missing",
    f"[global]\nfilename=x\n[a]\n{HERE}": "1: [global]: directory: missing",
    f"  [global]\n  {HERE}[a]\n  filename=/dev/sda\n": "4: filename: '/dev/sda'",
    f"[globals]\n{HERE}; filename=/dev/sda\n[a]\n\tfilename=/dev/sda ; this\n": "5: filename: '/dev/sda'",
}

ALLOWED_JOBS = (
    f"[a]\n{HERE}rw=randrw\nrwmixread=70\nbssplit=4k/50:64k/50\nsize=1g\nfilesize=4k-1m\nnrfiles=100\n",
    f"; mine\n[global] # all\n{HERE}filename=shared.dat\nioengine=io_uring\n[a reader]\nrw=read\n[writer-2]\nrw=write\n",
    f"[global]\n{HERE}\n[a]\ntime_based\nruntime=${{JOULERIG_SECONDS}}s\nrandseed=${{JOULERIG_SEED}}\nstonewall\n",
    f"[global-defaults]\n{HERE}\n[a]\nrandom_distribution=zipf:1.2\nrate=,10m\nthinktime=10ms\ncpus_allowed=0-3,5\n",
    f'[a]\n{HERE}description=4 KiB, \u00b5s matter: see "notes"\nbs=8k\nsize=50%\nmem=shmhuge\nsteadystate=iops:0.3%\n',
)


@pytest.mark.parametrize("setting", REFUSED_SETTINGS)
@pytest.mark.parametrize("section", ["global", "a"])
def test_a_setting_that_reaches_beyond_the_directory_is_refused(setting, section):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - its text is compared
        fio_job.check(f"[{section}]\n{HERE}{setting}\n[b]\nrw=read\n")
    said = str(caught.value)
    assert said.startswith("3: ")
    assert "\n" not in said
    assert REFUSED_SETTINGS[setting] in said


@pytest.mark.parametrize("job", REFUSED_JOBS)
def test_a_job_that_reaches_beyond_the_directory_is_refused(job):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - its text is compared
        fio_job.check(job)
    assert str(caught.value).startswith(REFUSED_JOBS[job])


@pytest.mark.parametrize("job", ALLOWED_JOBS)
def test_a_usual_job_is_allowed(job):
    fio_job.check(job)


@pytest.mark.parametrize(
    "setting",
    [
        "filename=/dev/sda",
        "filename=data",
        "filename=${JOULERIG_DEVICE}:/dev/sda",
        HERE,
        "ioengine=sg",
        "exec_prerun=x",
    ],
)
def test_a_load_of_a_raw_drive_may_name_the_leased_one_alone(setting):
    fio_job.check("[a]\nfilename=${JOULERIG_DEVICE}\nrw=randwrite\n", DEVICE)
    with pytest.raises(ValueError, match="allowed: "):
        fio_job.check(f"[a]\nfilename=${{JOULERIG_DEVICE}}\n{setting}\n", DEVICE)
    with pytest.raises(
        ValueError, match=r"1: \[a\]: filename: missing; allowed: filename=\$\{JOULERIG_DEVICE\}"
    ):
        fio_job.check("[a]\nrw=randwrite\n", DEVICE)


@pytest.mark.parametrize("name", place.FIO_JOBS.names())
def test_shipped_jobs_are_allowed(name):
    fio_job.load(place.FIO_JOBS.path / f"{name}.fio", DIRECTORY)


def test_shipped_jobs_of_a_preconditioning_are_allowed():
    for path in definition.precondition_jobs().values():
        fio_job.load(path, DEVICE)


def test_what_is_refused_is_said_with_file_and_line(tmp_path):
    (tmp_path / "my.fio").write_text("# Mine.\n[a]\nexec_prerun=reboot\n")
    with pytest.raises(UserError, match=r"/my\.fio:3: 'exec_prerun' is no key of a job here; allowed: "):
        fio_job.load(tmp_path / "my.fio")
    (tmp_path / "my.fio").write_bytes(b"[a]\n\xff")
    with pytest.raises(UserError, match=r"/my\.fio: .*can't decode"):
        fio_job.load(tmp_path / "my.fio")


def test_the_documentation_has_the_engines_that_are_allowed():
    text = (paths.ROOT / "docs" / "reference" / "workloads.md").read_text()
    listed = text.partition("- `ioengine` is one that works on files: ")[2].partition("\n- ")[0]
    assert re.findall(r"`([^`]+)`", listed) == list(fio_job.ENGINES)


def test_options_go_to_the_jobs_as_fio_reads_their_sections():
    job = f" [globals]\n{HERE} [a] ; first\nrw=read\n# [c]\n\t[b]\nrw=write\n"
    assert fio_job.with_options(job, {"bs": "8k"}) == (
        f" [globals]\n{HERE} [a] ; first\nrw=read\n# [c]\nbs=8k\n\t[b]\nrw=write\nbs=8k\n"
    )
