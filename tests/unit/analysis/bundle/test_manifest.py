# SPDX-License-Identifier: GPL-3.0-or-later
"""The manifest: which lines it may have, and how a folder differs from it."""

from __future__ import annotations

import hashlib

import pytest

from joulerig.analysis.bundle import manifest
from joulerig.analysis.bundle.archive import BundleError


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_a_name_that_is_given_twice_is_refused(tmp_path):
    path = tmp_path / manifest.FILE
    path.write_text(f"{'0' * 64}  a\n{'1' * 64}  b\n")
    assert manifest.parse(path) == {"a": "0" * 64, "b": "1" * 64}
    path.write_text(f"{'0' * 64}  a\n{'1' * 64}  a\n")
    with pytest.raises(BundleError, match="line 2"):
        manifest.parse(path)


def test_files_are_changed_missing_or_surplus(tmp_path):
    for name in ("same", "changed", "surplus", manifest.FILE):
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "linked").symlink_to(tmp_path / "same")
    (tmp_path / "folder").mkdir()
    digests = {"same": sha256(b"x"), "changed": sha256(b"y"), "missing": sha256(b"x"), "linked": sha256(b"x")}
    found = manifest.compare(tmp_path, digests)
    assert found.changed == (
        "changed: its 1 bytes are not those that were packed",
        "linked: a link stands in its place",
    )
    assert (found.missing, found.surplus) == (("missing",), ("surplus",))


def test_a_manifest_is_sorted_by_name(tmp_path):
    (tmp_path / "m").write_text(manifest.text({"b": "1" * 64, "a": "0" * 64}))
    assert list(manifest.parse(tmp_path / "m")) == ["a", "b"]
