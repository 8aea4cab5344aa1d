# SPDX-License-Identifier: GPL-3.0-or-later
"""Have Python compile a module that comes in an archive once, and not at every start.

Ansible sends each module with all that it imports as source in an archive, which Python compiles
each time: in a moment on a real processor, for a second and more on an emulated one. Python
runs this at its start (a .pth file of the guest's image), for virtual hosts alone. What was
compiled is kept by the digest of its source, and the image begins with what its rig sends.
"""

import sys
import zipimport

FOLDER = "/var/cache/joulerig-compiled"

_compile = vars(zipimport)["_compile_source"]


def compile_folder(folder: str) -> None:
    """Compile each module of a folder and what is below it, for the archives that will have it.

    One that this Python cannot compile is passed over.
    """
    import contextlib
    import pathlib

    for path in pathlib.Path(folder).rglob("*.py"):
        with contextlib.suppress(SyntaxError):
            _compile_once(path.name, path.read_bytes())


def _compile_once(pathname: str, source: bytes) -> object:
    import marshal
    import os
    from _blake2 import blake2b  # hashlib takes longer to import than most modules to compile

    digest = blake2b(sys.version.encode() + source, digest_size=20).hexdigest()
    place = os.path.join(FOLDER, digest)
    try:
        with open(place, "rb") as kept:
            return marshal.load(kept)
    except (OSError, EOFError, ValueError, TypeError):
        code = _compile(pathname, source)
    try:
        os.makedirs(FOLDER, mode=0o700, exist_ok=True)
        part = f"{place}.{os.getpid()}"
        with open(part, "wb") as kept:
            marshal.dump(code, kept)
        os.replace(part, place)
    except OSError:
        pass  # who may not write there compiles each time
    return code


vars(zipimport)["_compile_source"] = _compile_once
