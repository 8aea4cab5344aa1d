# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernels built from Debian's source, cached by a hash of their definition.

A built kernel is a folder with an archive of what goes to a host: the modules below
usr/lib/modules/RELEASE, the kernel below var/lib/joulerig/kernels/RELEASE, and its configuration as
boot/config-RELEASE, where tools look for it (mkinitramfs among them). Its release ends with its
definition's hash, so that a host that runs it can be distinguished from one that runs another.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from joulerig.rig.common import cache, logged, paths
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab import virtual
from joulerig.rig.lab.kernels import Configuration, Kernel
from joulerig.rig.lab.kernels import source as kernel_source

HERE = Path(__file__).parent
SERIES = "6.1"  # of Debian 12
ON_HOST = "var/lib/joulerig/kernels"
# The programs that a build asks for first, by the package of Debian that has them.
NEEDED = {"gcc": "gcc", "make": "make", "bc": "bc", "bison": "bison", "flex": "flex", "depmod": "kmod"}
HEADERS = {"gelf.h": "libelf-dev", "openssl/ssl.h": "libssl-dev"}


@dataclass(frozen=True)
class Built:
    """A kernel that is ready for hosts."""

    archive: Path
    release: str
    source: str
    seconds: float


@dataclass(frozen=True)
class Recipe:
    """What determines a build: tick, configuration's name, and modules that a reduced one keeps."""

    tick_hertz: int
    configuration: Configuration
    filesystem_modules: tuple[str, ...] = ()

    @property
    def modules(self) -> str:
        """Return the modules that a reduced configuration keeps, a line each; else ""."""
        if self.configuration != "virtual":
            return ""
        return (HERE / "virtual.modules").read_text() + "".join(f"{m}\n" for m in self.filesystem_modules)

    @property
    def options(self) -> str:
        """Return the lines that are appended to Debian's configuration."""
        names = ["common", *(["virtual"] if self.configuration == "virtual" else [])]
        ticks = [
            f"CONFIG_HZ_{hertz}=y" if hertz == self.tick_hertz else f"# CONFIG_HZ_{hertz} is not set"
            for hertz in (100, 250, 300, 1000)
        ]
        return "".join((HERE / f"{name}.config").read_text() for name in names) + "\n".join(ticks) + "\n"

    @property
    def guest(self) -> str:
        """Return the C source of the module that a virtual host needs; else ""."""
        return virtual.guest_module() if self.configuration == "virtual" else ""

    @property
    def digest(self) -> str:
        """Return the key of this build in the cache."""
        text = json.dumps([SERIES, self.configuration, self.modules, self.options, self.guest])
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def local_version(self) -> str:
        """Return the suffix of the kernel's release."""
        return f"-hz{self.tick_hertz}-{self.digest}"

    @property
    def folder(self) -> Path:
        return paths.cache() / "kernels" / self.digest


def recipe(kernel: Kernel, configuration: Configuration, filesystem_modules: Iterable[str] = ()) -> Recipe:
    """Return the build recipe of `kernel`, which has to be one that is built.

    `filesystem_modules`: the modules of the lab's file systems, which a virtual host's kernel
    keeps.
    """
    assert kernel.tick_hertz is not None, "the host's own kernel is not built"
    return Recipe(kernel.tick_hertz, configuration, tuple(filesystem_modules))


def cached(wanted: Recipe) -> Built | None:
    """Return the kernel if it is built already."""
    manifest = wanted.folder / "manifest.json"
    if not manifest.is_file():
        return None
    record = json.loads(manifest.read_text())
    return Built(wanted.folder / "kernel.tar", record["release"], record["source"], record["seconds"])


def build(wanted: Recipe, report: Callable[[str], object] = print) -> Built:
    """Return the kernel, built if the cache lacks it.

    A virtual host's takes minutes, Debian's whole configuration hours on few cores. Raises
    UserError.
    """

    def make(work: Path, done: Path) -> None:
        _check_tools()
        log = wanted.folder.with_suffix(".log")
        report(
            f"building a kernel with a tick of {1000 / wanted.tick_hertz:g} ms, configuration"
            f" {wanted.configuration!r} (once only: 'virtual' takes a quarter of an hour, 'debian'"
            f" hours); log: {log}"
        )
        _build(wanted, work, done, log)

    return cache.build_once(wanted.folder, lambda: cached(wanted), make)


def _check_tools() -> None:
    missing = [package for program, package in NEEDED.items() if not shutil.which(program, path=_path())]
    missing += [
        package for header, package in HEADERS.items() if not any(Path("/usr/include").glob(f"**/{header}"))
    ]
    if missing:
        raise UserError(
            f"kernels: {', '.join(missing)}: missing; 'make setup' installs what a build needs"
            f" (or: apt-get install {' '.join(missing)})"
        )


def _path() -> str:
    return f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def _build(wanted: Recipe, work: Path, done: Path, log: Path) -> None:
    begun = os.times().elapsed
    log.write_text("")

    environment = {
        **os.environ,
        "PATH": _path(),
        "KBUILD_BUILD_USER": "rig",
        "KBUILD_BUILD_HOST": "joulerig",
    }

    def run(*command: str, folder: Path = work) -> None:
        logged.run(command, log, "a kernel", folder, environment)

    archive = kernel_source.archive(kernel_source.WHOLE)
    run("apt-get", "download", f"linux-config-{SERIES}")
    (package,) = work.glob("*.deb")
    run("dpkg-deb", "--extract", package.name, "packages")
    run("tar", "--extract", f"--file={archive}")
    source = work / kernel_source.PACKAGE
    with log.open("a") as output, (source / ".config").open("wb") as target:
        packed = work / f"packages/usr/src/linux-config-{SERIES}/config.amd64_none_amd64.xz"
        subprocess.run(["xz", "--decompress", "--stdout", packed], check=True, stdout=target, stderr=output)
    if wanted.modules:
        listed = [line for line in wanted.modules.split("\n") if line and not line.startswith("#")]
        # As lsmod prints them: name, size, users.
        (work / "modules").write_text("Module Size Used by\n" + "".join(f"{name} 1 0\n" for name in listed))
        run("make", f"LSMOD={work}/modules", "localmodconfig", folder=source)
    with (source / ".config").open("a") as target:
        target.write(wanted.options)
        target.write(f'CONFIG_LOCALVERSION="{wanted.local_version}"\n')
    if wanted.guest:
        (source / "drivers/misc/fua_by_flush.c").write_text(wanted.guest)
        with (source / "drivers/misc/Makefile").open("a") as target:
            target.write("obj-m += fua_by_flush.o\n")
    run("make", "olddefconfig", folder=source)
    _check_configuration(wanted, (source / ".config").read_text())
    run("make", f"-j{len(os.sched_getaffinity(0))}", "bzImage", "modules", folder=source)

    tree = work / "tree"
    run("make", "modules_install", f"INSTALL_MOD_PATH={tree}/usr", "INSTALL_MOD_STRIP=1", folder=source)
    (release,) = (path.name for path in (tree / "usr/lib/modules").iterdir())
    if not release.endswith(wanted.local_version):
        raise UserError(
            f"kernels: the build's release is {release!r}; it should end with {wanted.local_version!r}"
        )
    for link in ("build", "source"):
        (tree / "usr/lib/modules" / release / link).unlink(missing_ok=True)
    boot = tree / ON_HOST / release
    boot.mkdir(parents=True)
    shutil.copy(source / "arch/x86/boot/bzImage", boot / "vmlinuz")
    (tree / "boot").mkdir()
    shutil.copy(source / ".config", tree / "boot" / f"config-{release}")
    done.mkdir()
    # Members have no folders above their own: a host's /usr keeps its owner and mode.
    run(
        "tar", "--create", "--owner=0", "--group=0", f"--directory={tree}", f"--file={done}/kernel.tar",
        f"usr/lib/modules/{release}", f"{ON_HOST}/{release}", f"boot/config-{release}",
    )  # fmt: skip
    version = archive.name.removesuffix(".tar.xz").partition("_")[2]
    record = {"release": release, "source": version, "seconds": round(os.times().elapsed - begun, 1)}
    (done / "manifest.json").write_text(json.dumps({**record, "tick_hertz": wanted.tick_hertz}))


def _check_configuration(wanted: Recipe, text: str) -> None:
    """Check that the source's own tool kept the requested options. Raises UserError."""
    if f"\nCONFIG_HZ={wanted.tick_hertz}\n" not in text:
        raise UserError(
            f"kernels: the configuration has no CONFIG_HZ={wanted.tick_hertz}, which was requested"
        )
    lost = [
        line
        for line in wanted.options.split("\n")
        if line.startswith("CONFIG_") and line not in text.split("\n")
    ]
    if lost:
        raise UserError(f"kernels: the configuration lacks {', '.join(lost)}, which was requested")
