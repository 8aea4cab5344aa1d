# SPDX-License-Identifier: GPL-3.0-or-later
"""The guest images of virtual test hosts: releases of Debian, by mmdebstrap.

Each is cached by a hash of its definition. `suite` is the release; `more` is what a lab wants in
its guests in addition to PACKAGES (joulerig.rig.lab.packages says what), as far as that release has
it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from joulerig.rig.common import cache, logged, paths
from joulerig.rig.common.errors import UserError

SUITE = "bookworm"
SIZE = "4G"
# Debian's own kernel carries every file system and scheduler of the studies. What the roles of
# provisioning install comes with the image, so that a virtual host is provisioned without a
# network.
PACKAGES = (
    "linux-image-amd64 initramfs-tools zstd systemd-sysv udev dbus kmod iproute2 openssh-server python3 python3-apt"
    " fio nvme-cli smartmontools ndctl mdadm chrony kexec-tools"
    " linux-headers-amd64 gcc make"  # for GUEST
).split()
# The module that is compiled for the guest's kernel, and one that its Python has.
GUEST, GUEST_SINCE_6_11, GUEST_PYTHON = (
    (Path(__file__).parent / "guest" / name).read_text()
    for name in ("fua_by_flush.c", "fua_by_flush_since_6_11.c", "compiled_once.py")
)
BEFORE_6_11 = ("bullseye", "bookworm")
# Before any package is installed: PostgreSQL's would create and start its own server, the kernel's
# would pack each of its drivers into an initial RAM disk.
PREPARE = r"""
set -eu
mkdir -p "$1/etc/postgresql-common/createcluster.d" "$1/etc/initramfs-tools/conf.d"
printf 'create_main_cluster = false\n' > "$1/etc/postgresql-common/createcluster.d/joulerig.conf"
printf 'MODULES=list\nCOMPRESS=zstd\n' > "$1/etc/initramfs-tools/conf.d/joulerig"
"""
CUSTOMISE = r"""
set -eu
root="$1"
printf 'virtio_pci\nvirtio_blk\next4\n' >> "$root/etc/initramfs-tools/modules"
printf '/dev/vda / ext4 noatime,errors=remount-ro 0 1\n' > "$root/etc/fstab"
mkdir -p "$root/etc/systemd/network"
printf '[Match]\nType=ether\n[Network]\nDHCP=ipv4\nLinkLocalAddressing=no\n' > "$root/etc/systemd/network/lan.network"
rm -f "$root"/etc/ssh/ssh_host_*
printf 'UseDNS no\nPermitRootLogin prohibit-password\nPasswordAuthentication no\n' > "$root/etc/ssh/sshd_config.d/joulerig.conf"
cat > "$root/etc/systemd/system/lab-identity.service" <<'UNIT'
[Unit]
Description=Take name and SSH keys from the virtual lab
Before=ssh.service
[Service]
Type=oneshot
ExecStart=/usr/local/sbin/lab-identity
[Install]
WantedBy=multi-user.target
UNIT
cat > "$root/usr/local/sbin/lab-identity" <<'SCRIPT'
#!/bin/sh
set -eu
modprobe qemu_fw_cfg
from=/sys/firmware/qemu_fw_cfg/by_name/opt/joulerig
umask 077
mkdir -p /root/.ssh
cat $from/authorized_keys/raw > /root/.ssh/authorized_keys
cat $from/ssh_host_key/raw > /etc/ssh/ssh_host_ed25519_key
ssh-keygen -y -f /etc/ssh/ssh_host_ed25519_key > /etc/ssh/ssh_host_ed25519_key.pub
hostname "$(cat $from/hostname/raw)"
hostname > /etc/hostname
SCRIPT
cat > "$root/etc/systemd/system/lab-drives.service" <<'UNIT'
[Unit]
Description=Connect to the drives of the virtual lab that are NVMe controllers of their own
After=lab-identity.service systemd-networkd.service
Before=ssh.service
[Service]
Type=oneshot
ExecStart=/usr/local/sbin/lab-drives
TimeoutStartSec=150
[Install]
WantedBy=multi-user.target
UNIT
cat > "$root/usr/local/sbin/lab-drives" <<'SCRIPT'
#!/bin/sh
set -u
modprobe qemu_fw_cfg
from=/sys/firmware/qemu_fw_cfg/by_name/opt/joulerig/drives/raw
[ -e $from ] || exit 0
modprobe nvme_tcp
there() { ls -d /sys/class/nvme/nvme*/nvme*n* 2> /dev/null | wc -l; }
wanted=0
while read -r drive; do
  wanted=$((wanted + 1))
  name=${drive#*,nqn=}
  cat /sys/class/nvme/nvme*/subsysnqn 2> /dev/null | grep -qxF "${name%%,*}" && continue
  for attempt in $(seq 100); do # the host has no address at first
    printf '%s' "$drive" 2> /dev/null > /dev/nvme-fabrics && break
    sleep 0.5
  done
done < $from
for attempt in $(seq 100); do # the kernel looks for what is on a controller when it has time
  [ "$(there)" -ge $wanted ] && exit 0
  sleep 0.1
done
exit 1
SCRIPT
chmod 755 "$root/usr/local/sbin/lab-identity" "$root/usr/local/sbin/lab-drives"
release=$(basename "$root"/lib/modules/*)
mkdir -p "$root/usr/src/joulerig" "$root/lib/modules/$release/extra"
cp "$(dirname "$0")/fua_by_flush.c" "$root/usr/src/joulerig/"
printf 'obj-m := fua_by_flush.o\n' > "$root/usr/src/joulerig/Kbuild"
chroot "$root" make -C "/lib/modules/$release/build" M=/usr/src/joulerig modules
cp "$root/usr/src/joulerig/fua_by_flush.ko" "$root/lib/modules/$release/extra/"
chroot "$root" depmod "$release"
printf 'softdep nvme_core pre: fua_by_flush\n' > "$root/etc/modprobe.d/joulerig.conf"
cp "$(dirname "$0")/compiled_once.py" "$root/usr/lib/python3/dist-packages/"
printf 'import compiled_once\n' > "$root/usr/lib/python3/dist-packages/compiled_once.pth"
mkdir "$root/tmp/sent"
cp -r "$(dirname "$0")"/sent/* "$root/tmp/sent/"
chroot "$root" python3 -c 'import compiled_once; compiled_once.compile_folder("/tmp/sent")'
rm -r "$root/tmp/sent"
chroot "$root" systemctl enable systemd-networkd lab-identity lab-drives
chroot "$root" systemctl mask apt-daily.timer apt-daily-upgrade.timer getty@tty1.service systemd-networkd-wait-online.service e2scrub_reap.service nvmf-autoconnect.service
chroot "$root" update-initramfs -u
"""


@dataclass(frozen=True)
class Image:
    """A built image: a root file system, its kernel and its initial RAM disk."""

    root: Path
    kernel: Path
    initrd: Path
    release: str


def definition_hash(more: Iterable[str] = (), suite: str = SUITE) -> str:
    """Return the key of the cache: the same definition gives the same image."""
    text = json.dumps([suite, SIZE, _packages(more), PREPARE, CUSTOMISE, guest_module(suite), GUEST_PYTHON])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def guest_module(suite: str = SUITE) -> str:
    """Return the C source of the module fua_by_flush for a release's kernel."""
    return GUEST if suite in BEFORE_6_11 else GUEST_SINCE_6_11


def _packages(more: Iterable[str]) -> list[str]:
    return [*PACKAGES, *sorted(set(more) - set(PACKAGES))]


def folder(more: Iterable[str] = (), suite: str = SUITE) -> Path:
    return paths.cache() / "images" / definition_hash(more, suite)


def sent() -> dict[str, Path]:
    """Return the folders whose modules Ansible sends to hosts: its own, and the rig's.

    They are no part of the definition: a guest compiles what has changed since its image was built.
    """
    folders = {"core": Path(str(resources.files("ansible"))), "rig": paths.share() / "ansible"}
    parts = ("module_utils", "modules")
    return {f"{whose}-{part}": folder / part for whose, folder in folders.items() for part in parts}


def cached(more: Iterable[str] = (), suite: str = SUITE) -> Image | None:
    """Return the image if it is built already."""
    place = folder(more, suite)
    manifest = place / "manifest.json"
    if not manifest.is_file():
        return None
    return Image(
        place / "root.ext4",
        place / "vmlinuz",
        place / "initrd",
        json.loads(manifest.read_text())["release"],
    )


def build(more: Iterable[str] = (), suite: str = SUITE, report: Callable[[str], object] = print) -> Image:
    """Return the image; build it if the cache lacks it (root or sudo, about a minute).

    Raises UserError.
    """
    sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]
    target = folder(more, suite)

    def make(work: Path, done: Path) -> None:
        if not shutil.which("mmdebstrap"):
            raise UserError("mmdebstrap: not found; 'make setup' (or: apt-get install mmdebstrap) gets it")
        report(f"building the guest image {target.name} of Debian's {suite} (once, about a minute)")
        lacking = _build(suite, _packages(more), work, done, target.with_suffix(".log"), sudo)
        if lacking:
            report(f"Debian's {suite} has no {', '.join(lacking)}: what needs them is not-run")

    def discard(work: Path) -> None:  # files of the image's tree are root's
        subprocess.run([*sudo, "rm", "-rf", "--one-file-system", str(work)], check=False)

    return cache.build_once(target, lambda: cached(more, suite), make, discard)


def _build(
    suite: str, wanted: Sequence[str], work: Path, done: Path, log: Path, sudo: Sequence[str]
) -> list[str]:
    """Build an image in `done`; return which of the packages `wanted` its release lacks."""
    log.write_text("")
    prepare, customise = work / "prepare", work / "customise"
    for script, text in ((prepare, PREPARE), (customise, CUSTOMISE)):
        script.write_text("#!/bin/sh\n" + text)
        script.chmod(0o755)
    (work / "fua_by_flush.c").write_text(guest_module(suite))
    (work / "compiled_once.py").write_text(GUEST_PYTHON)
    for name, source in sent().items():
        shutil.copytree(source, work / "sent" / name)
    done.mkdir()
    tree = work / "tree"
    _run(
        [*sudo, "mmdebstrap", "--mode=root", "--variant=minbase", "--components=main",
         "--aptopt=APT::Install-Recommends \"false\"", "--aptopt=Acquire::Languages \"none\"",
         *_aptopts_of_controller(),
         "--dpkgopt=path-exclude=/usr/share/man/*", "--dpkgopt=path-exclude=/usr/share/doc/*",
         "--dpkgopt=path-exclude=/usr/share/locale/*",
         f"--include={','.join(PACKAGES)}", *_as_far_as_there(set(wanted) - set(PACKAGES)),
         f"--essential-hook={prepare} \"$1\"", f"--customize-hook={customise} \"$1\"", suite, str(tree)],
        log,
    )  # fmt: skip
    # No lazy initialisation: a virtual host must not write to its own disk while a drive is
    # measured.
    eager = ["-E", "lazy_itable_init=0,lazy_journal_init=0"]
    root = done / "root.ext4"
    _run([*sudo, "mke2fs", "-q", "-t", "ext4", *eager, "-L", "root", "-d", str(tree), str(root), SIZE], log)
    kernel = max((tree / "boot").glob("vmlinuz-*"))
    release = kernel.name.removeprefix("vmlinuz-")
    for source, name in ((kernel, "vmlinuz"), (tree / "boot" / f"initrd.img-{release}", "initrd")):
        _run([*sudo, "cp", str(source), str(done / name)], log)
    if sudo:
        made = [str(root), str(done / "vmlinuz"), str(done / "initrd")]
        _run([*sudo, "chown", f"{os.getuid()}:{os.getgid()}", *made], log)
    there = _installed(tree, wanted)
    (done / "manifest.json").write_text(json.dumps({"suite": suite, "release": release, "packages": there}))
    return [name for name in wanted if name not in there]


def _aptopts_of_controller() -> list[str]:
    """Return the options by which mmdebstrap takes a mirror that this machine's apt takes.

    A mirror that is a snapshot has lists of testing and unstable that are out of date.
    """
    command = ["apt-config", "shell", "CHECK", "Acquire::Check-Valid-Until"]
    said = subprocess.run(command, capture_output=True, text=True).stdout
    return ['--aptopt=Acquire::Check-Valid-Until "false"'] if said.strip() == "CHECK='false'" else []


def _as_far_as_there(names: Iterable[str]) -> list[str]:
    """Return the option that has mmdebstrap include those packages that the release has."""
    alternatives = ",".join(f"?exact-name({name})" for name in sorted(names))
    return [f"--include=?and(?not(?virtual),?or({alternatives}))"] if alternatives else []


def _installed(tree: Path, names: Iterable[str]) -> list[str]:
    status = (tree / "var" / "lib" / "dpkg" / "status").read_text()
    there = {line.removeprefix("Package: ") for line in status.splitlines() if line.startswith("Package: ")}
    return [name for name in names if name in there]


def _run(command: list[str], log: Path) -> None:
    logged.run(command, log, "the guest image")
