# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host's distribution calls packages, the time service and their files."""

from __future__ import annotations

from ansible.module_utils.joulerig import paths

DEBIAN, FEDORA, RHEL, SUSE = "debian", "fedora", "rhel", "suse"
# By ID and ID_LIKE of os-release.
FAMILIES = {
    "debian": DEBIAN, "ubuntu": DEBIAN,
    "rhel": RHEL, "centos": RHEL, "almalinux": RHEL, "rocky": RHEL, "ol": RHEL,
    "fedora": FEDORA,
    "suse": SUSE, "opensuse": SUSE, "sles": SUSE,
}  # fmt: skip
# What packages are called that have another name than Debian's.
NAMES = {
    "btrfs-progs": {SUSE: "btrfsprogs"},
    "initramfs-tools": {FEDORA: "dracut", RHEL: "dracut", SUSE: "dracut"},
    "libc6-dev": {FEDORA: "glibc-devel", RHEL: "glibc-devel", SUSE: "glibc-devel"},
    "nilfs-tools": {FEDORA: "nilfs-utils", RHEL: "nilfs-utils", SUSE: "nilfs-utils"},
    "postgresql": {FEDORA: "postgresql-server", RHEL: "postgresql-server", SUSE: "postgresql-server"},
    "reiserfsprogs": {FEDORA: "reiserfs-utils", RHEL: "reiserfs-utils", SUSE: "reiserfs"},
}
# chrony's configuration and unit.
TIME = {DEBIAN: ("/etc/chrony/chrony.conf", "chrony.service")}
TIME_ELSEWHERE = ("/etc/chrony.conf", "chronyd.service")


def release(etc: str | None = None) -> dict[str, str]:
    """Return os-release by key; empty where there is none."""
    try:
        with open(f"{etc or paths.ETC}/os-release", encoding="utf-8", errors="replace") as file:
            pairs = [line.strip().partition("=") for line in file]
    except OSError:
        return {}
    return {key: value.strip("\"'") for key, _, value in pairs if value}


def family(etc: str | None = None) -> str:
    """Return which of the families this host's distribution is of; "" for another one."""
    found = release(etc)
    names = [found.get("ID", ""), *found.get("ID_LIKE", "").split()]
    names += [name.partition("-")[0] for name in names]  # opensuse-leap
    return next((FAMILIES[name] for name in names if name in FAMILIES), "")


def package(name: str, kind: str) -> str:
    """Return what a family calls the package that Debian calls `name`."""
    return NAMES.get(name, {}).get(kind, name)
