# SPDX-License-Identifier: GPL-3.0-or-later
"""Provide the kernel source that workloads search and build, from Debian's package."""

from __future__ import annotations

import contextlib
import hashlib
import re
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from joulerig import atomic
from joulerig.rig.common import files, paths
from joulerig.rig.common.errors import UserError

PACKAGE = "linux-source-6.1"
WHOLE = "whole"
# What each part has, by path below the source's top folder.
PARTS = {
    "library": r"Makefile|lib/.*|include/linux/.*",
    # what `make tinyconfig` and `make lib/` read
    "library-build": (
        r"[^/]*|(.*/)?Kconfig[^/]*|(arch/x86|include|lib|scripts)/.*|tools/(build|include|scripts)/.*"
        r"|kernel/configs/.*|kernel/bounds\.c|kernel/time/timeconst\.bc|mm/.*\.h"
    ),
}
CHOICES = (WHOLE, *PARTS)


def archive(part: str) -> Path:
    """Return the tar of a part (CHOICES), made from the downloaded package if the cache lacks it.

    Its name has the package's version. All of it lies below one folder. Raises UserError.
    """
    with _cache() as folder:
        package = _package(folder)
        stem = package.name.removesuffix("_all.deb")
        if part == WHOLE:
            target = folder / f"{stem}.tar.xz"
            make = _unwrap
        else:
            digest = hashlib.sha256(PARTS[part].encode()).hexdigest()[:8]
            target = folder / f"{stem}-{part}-{digest}.tar.gz"
            make = _choose
        if not target.exists():
            with atomic.opened(target) as made:
                make(package, made, part)
        return target


@contextlib.contextmanager
def _cache() -> Iterator[Path]:
    """Yield the cache's folder, locked against other processes."""
    folder = paths.cache() / "kernel-source"
    folder.mkdir(parents=True, exist_ok=True)
    with files.locked(folder / "lock"):
        yield folder


def _package(folder: Path) -> Path:
    """Return the package, preferably the cached one: a controller's figures are of one source."""
    if not (found := sorted(folder.glob(f"{PACKAGE}_*.deb"))):
        with tempfile.TemporaryDirectory(dir=folder) as name:
            _run(["apt-get", "download", "-q", PACKAGE], Path(name), f"or put the package into {folder}")
            for path in Path(name).glob("*.deb"):
                found.append(atomic.move(path, folder / path.name))
    return found[-1]


def _unwrap(package: Path, target: BinaryIO, _: str) -> None:
    """Write the package's own tar."""
    with _files(package) as outer:
        source = _source_in(outer, package)
        while block := source.read(1 << 20):
            target.write(block)


def _choose(package: Path, target: BinaryIO, part: str) -> None:
    """Write a tar of the paths in PARTS."""
    wanted = re.compile(PARTS[part])
    with (
        _files(package) as outer,
        tarfile.open(fileobj=_source_in(outer, package), mode="r|xz") as source,
        tarfile.open(fileobj=target, mode="w:gz", compresslevel=6) as chosen,
    ):
        for member in source:
            _, _, path = member.name.partition("/")
            if not member.isdir() and wanted.fullmatch(path):
                chosen.addfile(member, source.extractfile(member) if member.isreg() else None)


@contextlib.contextmanager
def _files(package: Path) -> Iterator[tarfile.TarFile]:
    """Yield a stream of what a package installs. Raises UserError."""
    command = ["dpkg-deb", "--fsys-tarfile", str(package)]
    try:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            with tarfile.open(fileobj=process.stdout, mode="r|") as tar:
                yield tar
            process.terminate()
    except (OSError, tarfile.TarError) as error:
        raise UserError(f"{package}: {' '.join(str(error).split())}; allowed: Debian's {PACKAGE}") from None


def _source_in(tar: tarfile.TarFile, package: Path):
    for member in tar:
        if member.name.endswith(f"/{PACKAGE}.tar.xz"):
            return tar.extractfile(member)
    raise UserError(f"{package}: has no {PACKAGE}.tar.xz; allowed: Debian's {PACKAGE}")


def _run(command: list[str], folder: Path, otherwise: str) -> None:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    except FileNotFoundError:
        raise UserError(f"{command[0]}: not found; install it, {otherwise}") from None
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.startswith("E:")] or ["it said nothing"]
        raise UserError(f"{' '.join(command)}: {said[0]}; fix that, {otherwise}")
