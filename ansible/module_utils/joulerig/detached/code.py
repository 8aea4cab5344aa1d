# SPDX-License-Identifier: GPL-3.0-or-later
"""The code of a call: the archive in which Ansible sends a module, compiled once a boot.

Python keeps nothing of what it compiles out of an archive, and a slow host compiles longer than it
imports: each call would spend seconds on it before its work begins.
"""

from __future__ import annotations

import hashlib
import importlib.util
import marshal
import os
import tempfile
import zipfile
import zipimport
from pathlib import Path

from ansible.module_utils.joulerig import detached, paths
from ansible.module_utils.joulerig.tools import Failed

# What a call's process loads. The rest of the archive is for the one that waits, and has its place:
# other words each time.
LOADED = ("ansible/legacy/", "ansible/modules/", "ansible/module_utils/joulerig/")
ABOVE = ("ansible/__init__.py", "ansible/module_utils/__init__.py")
UNCHECKED = 0b01  # flag of a file of bytecode that goes by a digest of its source
KEPT = 8  # archives: one a module, of this version of the rig and the ones before


def archive() -> str:
    """Return the archive that this code was loaded from. Raises Failed where there is none."""
    found = getattr(detached.__spec__.loader, "archive", None)
    if found is None:
        raise Failed("a detached call needs the archive in which Ansible sends a module")
    return str(found)


def compiled(source: str) -> str:
    """Return an archive with the modules of `source`, and what they are compiled to.

    It is kept in memory until the host boots. Calls of one host ask for it one at a time.
    """
    with zipfile.ZipFile(source) as sent:
        wanted = [one for one in sent.infolist() if one.filename.startswith((*LOADED, *ABOVE))]
        # Not by its bytes: Ansible puts the time into them.
        content = sorted((one.filename, one.CRC, one.file_size) for one in wanted)
        named = repr([importlib.util.MAGIC_NUMBER, content])
        found = Path(paths.CODE) / f"{hashlib.sha256(named.encode()).hexdigest()[:32]}.zip"
        if not found.exists():
            found.parent.mkdir(parents=True, mode=0o700, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=found.parent) as work:
                _compile(sent, wanted, Path(work) / found.name)
                os.replace(Path(work) / found.name, found)
    os.utime(found)
    for old in sorted(found.parent.glob("*.zip"), key=os.path.getmtime)[:-KEPT]:
        old.unlink()
    return str(found)


def _compile(sent: zipfile.ZipFile, wanted: list[zipfile.ZipInfo], to: Path) -> None:
    with zipfile.ZipFile(to, "w") as made:
        for one in wanted:
            content = sent.read(one)
            made.writestr(one.filename, content)
            if one.filename.endswith(".py"):
                made.writestr(f"{one.filename}c", _bytecode(f"{sent.filename}/{one.filename}", content))


def _bytecode(place: str, source: bytes) -> bytes:
    """Return a file of bytecode that Python takes without a look at the source (PEP 552).

    Compiled by Python's importer of archives, which a virtual host has keep what it compiled.
    """
    folder, name = os.path.split(place[: -len(".py")])
    if name == "__init__":
        folder, name = os.path.split(folder)
    code = zipimport.zipimporter(folder).get_code(name)
    flags = UNCHECKED.to_bytes(4, "little")
    return importlib.util.MAGIC_NUMBER + flags + importlib.util.source_hash(source) + marshal.dumps(code)
