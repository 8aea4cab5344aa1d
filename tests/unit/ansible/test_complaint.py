# SPDX-License-Identifier: GPL-3.0-or-later
"""Which line of a failed tool's output becomes the reason of a run."""

import pytest

from ansible.module_utils.joulerig.tools import complaint

# As the tools of Debian 12 print them (standard error, then output) on a loop device that is
# mounted, is too small, or gets an option that they do not know.
CAPTURED = {
    "util-linux 2.38 on a mounted device": (
        "blkdiscard: Operation forced, data will be lost!\n"
        "blkdiscard: /dev/loop0: BLKDISCARD ioctl failed: Device or resource busy\n",
        "blkdiscard: /dev/loop0: BLKDISCARD ioctl failed: Device or resource busy",
    ),
    "mke2fs with its version": (
        "mke2fs 1.47.0 (5-Feb-2023)\n/dev/loop0 is mounted; will not make a filesystem here!\n",
        "/dev/loop0 is mounted; will not make a filesystem here!",
    ),
    "mke2fs with an unknown option": (
        "\nBad option(s) specified: nosuch\n\nExtended options are separated by commas, and may take an"
        " argument which\n\tis set off by an equals ('=') sign.\n",
        "Bad option(s) specified: nosuch",
    ),
    "mke2fs beyond the end": (
        "mkfs.ext4: Invalid argument while zeroing block 99999984 at end of filesystem\n"
        "mkfs.ext4: Invalid argument \n\twhile trying to create journal\n",
        "mkfs.ext4: Invalid argument",
    ),
    "mkfs.xfs and its usage": (
        "mkfs.xfs: /dev/loop0 contains a mounted filesystem\nUsage: mkfs.xfs\n"
        "/* blocksize */\t\t[-b size=num]\n/* force overwrite */\t[-f]\n",
        "mkfs.xfs: /dev/loop0 contains a mounted filesystem",
    ),
    "mkfs.btrfs": (
        "ERROR: size 104857600 is too small to make a usable filesystem\n"
        "ERROR: minimum size for btrfs filesystem is 114294784\n",
        "ERROR: size 104857600 is too small to make a usable filesystem",
    ),
    "mkfs.f2fs": (
        "\n    F2FS-tools: mkfs.f2fs Ver: 1.15.0 (2022-05-13)\n\nInfo: Disable heap-based policy\n"
        "Info: Debug level = 0\nInfo: Trim is enabled\nInfo: Mounted device!\n"
        "\tError: Not available on mounted device!\n",
        "Error: Not available on mounted device!",
    ),
    "mkfs.jfs": (
        "mkfs.jfs version 1.1.15, 04-Mar-2011\n"
        "The specified device is mounted, but is not a JFS file system.\n",
        "The specified device is mounted, but is not a JFS file system.",
    ),
    "mkfs.nilfs2": (
        "mkfs.nilfs2 (nilfs-utils 2.2.9)\n"
        "Error: /dev/loop0 is currently mounted. You cannot make a filesystem on this device.\n",
        "Error: /dev/loop0 is currently mounted. You cannot make a filesystem on this device.",
    ),
    "mkfs.reiserfs": (
        "mkfs.reiserfs 3.6.27\n\nreiserfs_create_journal: cannot create a journal of 8193 blocks with 18"
        " offset on 8192 blocks\n",
        "reiserfs_create_journal: cannot create a journal of 8193 blocks with 18 offset on 8192 blocks",
    ),
    "mount": (
        "mount: /tmp/m: /dev/loop0 already mounted on /tmp/m.\n"
        "       dmesg(1) may have more information after failed mount system call.\n",
        "mount: /tmp/m: /dev/loop0 already mounted on /tmp/m.",
    ),
    "wipefs": (
        "wipefs: error: /dev/nosuch: probing initialization failed: No such file or directory\n",
        "wipefs: error: /dev/nosuch: probing initialization failed: No such file or directory",
    ),
    "Python": (
        'Traceback (most recent call last):\n  File "x.py", line 1, in <module>\n    1 / 0\n'
        "ZeroDivisionError: division by zero\n",
        "ZeroDivisionError: division by zero",
    ),
    "a tool that announces itself and nothing else": ("mke2fs 1.47.0 (5-Feb-2023)\n", "mke2fs 1.47.0 (5-Feb-2023)"),
    "a silent tool": ("\n", "no output"),
}  # fmt: skip


@pytest.mark.parametrize(("output", "line"), CAPTURED.values(), ids=CAPTURED.keys())
def test_the_line_that_names_the_error_is_the_reason(output, line):
    assert complaint("tool", 1, output) == f"tool: exit 1: {line}"
