# SPDX-License-Identifier: GPL-3.0-or-later
"""Empty the caches of what a load is about to read, and see that it happened (mincore)."""

import ctypes
import mmap
import os

from ansible.module_utils.joulerig.tools import Failed

DROP = "/proc/sys/vm/drop_caches"
REMAINING = 0.01  # share of the pages that were asked for which may still be there
FILES_ASKED = 1000  # at most, evenly over all
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [
    ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long
]  # fmt: skip
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]


def drop_all():
    """Write all of this host back; drop its page cache, dentries and inodes."""
    os.sync()
    with open(DROP, "w") as file:
        file.write("3")


def drop(folder, empty=drop_all, remaining=REMAINING):
    """Have `empty` empty the caches, and look at the files of `folder`.

    Gives what `look` gives. Raises Failed where a greater share than `remaining` of the pages is
    still cached. Looking reads directories and inodes: the caches are emptied again.
    """
    empty()
    found = look(folder)
    if found["pages_cached"] > remaining * found["pages_asked"]:
        raise Failed(
            f"{folder}: {found['pages_cached']} of {found['pages_asked']} pages are still cached;"
            f" {remaining:.0%} may be"
        )
    empty()
    return found


def look(folder):
    """Count the pages of the files of `folder` that the page cache has.

    Gives {"files", "files_asked", "pages_asked", "pages_cached"}. What DAX maps is in no page
    cache.
    """
    files = sorted(_files(folder))
    asked = files[:: max(1, -(-len(files) // FILES_ASKED))]
    found = [cached(path) for path in asked]
    pages, still = (sum(column) for column in zip(*found)) if found else (0, 0)
    return {"files": len(files), "files_asked": len(asked), "pages_asked": pages, "pages_cached": still}


def _files(folder):
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            yield from _files(entry.path)
        elif entry.is_file(follow_symlinks=False):
            yield entry.path


def cached(path):
    """Return (pages of a file, how many of them the page cache has), by mincore(2).

    Raises OSError.
    """
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        pages = -(-size // mmap.PAGESIZE)
        if not pages:
            return 0, 0
        place = _libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), 0)
        if place == ctypes.c_void_p(-1).value:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)
        try:
            present = ctypes.create_string_buffer(pages)
            if _libc.mincore(place, size, present):
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)
        finally:
            _libc.munmap(place, size)
        return pages, sum(byte & 1 for byte in present.raw)
