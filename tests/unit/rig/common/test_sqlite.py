# SPDX-License-Identifier: GPL-3.0-or-later
"""A database that machines may share does without shared memory."""

from __future__ import annotations

import os

import pytest

from joulerig import sqlite


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("ext4", "WAL"), ("xfs", "WAL"), ("tmpfs", "WAL"), ("overlay", "WAL"), ("btrfs", "WAL"),
        ("nfs", "DELETE"), ("nfs4", "DELETE"), ("cifs", "DELETE"), ("smb3", "DELETE"), ("9p", "DELETE"),
        ("fuse.sshfs", "DELETE"), ("fuse.glusterfs", "DELETE"), ("virtiofs", "DELETE"), ("ceph", "DELETE"),
    ],
)  # fmt: skip
def test_a_file_system_of_several_machines_has_no_write_ahead_log(tmp_path, monkeypatch, kind, expected):
    device = tmp_path.stat().st_dev
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        f"22 1 0:5 / /proc rw - proc proc rw\n"
        f"29 1 {os.major(device)}:{os.minor(device)} / / rw,relatime shared:1 - {kind} /dev/x rw\n"
    )
    monkeypatch.setattr(sqlite, "MOUNTS", mounts)
    assert sqlite.journal_mode(tmp_path) == expected
