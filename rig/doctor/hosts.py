# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge a test host by the facts that it gave: what fails a campaign, and what spoils its energy.

Each check takes a `Seen` and yields findings; CHECKS has them by name. How power is managed is the
user's to choose: what varies by itself is a warning, what only has to be known is a note.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from joulerig.plural import counted
from joulerig.rig.common import paths, yaml_text
from joulerig.rig.doctor.asking import Facts
from joulerig.rig.doctor.finding import Finding, Severity
from joulerig.rig.lab.model import TestHost

ERROR, WARNING, NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE
LEAST_PYTHON = (3, 8)
TRIED = "debian"  # the family of distributions on which the roles were run
CLOCK_SECONDS = 1.0
DEEP_SLEEP_MICROSECONDS = 100
# Below this, a level of advanced power management lets a disk stop.
SPINS_DOWN_BELOW = 128
HOT_CELSIUS = 70
LEAST_FREE_BYTES, GOOD_FREE_BYTES = 1 << 29, 2 << 30
BUSY_LOAD = 0.2  # of a processor each
# Units that start work when they like, in addition to those that campaigns stop (role quiet).
BACKGROUND = (
    "unattended-upgrades.service", "fwupd-refresh.timer", "snapd.service", "packagekit.service",
    "plocate-updatedb.timer", "updatedb.timer", "mlocate.timer", "logrotate.timer", "motd-news.timer",
    "raid-check.timer", "dnf-makecache.timer", "dnf-automatic.timer", "smartd.service",
    "udisks2.service", "multipathd.service", "tuned.service", "zfs-scrub-monthly.timer",
    "btrfs-scrub.timer", "apt-news.service", "certbot.timer", "sysstat-collect.timer",
)  # fmt: skip
# What is not seen where a host cannot make a check (module_utils/joulerig/facts/checks.py).
UNSEEN = {
    "processes": "processes outside of the container that the rig works in",
    "mappings": "drives that are mapped without an open descriptor (seen since Linux 4.3)",
    "messages": "descriptors in messages that wait (seen since Linux 5.6, unless Yama forbids it)",
    "rings": "files of an io_uring under other names than the drive's own (later kernels show their paths)",
    "disk-sequence": "a drive that was pulled and plugged in again (seen since Linux 5.15)",
    "commands": "commands to a drive by a program that no list shows (counted since Linux 6.13)",
}
RECENT = frozenset({"rings", "commands"})  # missing from kernels in use, such as Debian 12's
GOVERNORS = "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"


@dataclass(frozen=True)
class Seen:
    """A host by its name, its description, and its facts.

    `asked_ns`: the controller's clock before and after. `quiet`: units that campaigns stop.
    """

    name: str
    spec: TestHost
    facts: Facts
    asked_ns: tuple[int, int]
    quiet: frozenset[str]

    def __getitem__(self, subject: str) -> Any:
        """Return the facts of the machine about a subject."""
        return self.facts.machine[subject]

    def drives(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield the name and the disk's facts of each declared drive that was found."""
        by_device = {disk["device"]: disk for disk in self.facts.disks}
        for name, one in self.facts.declared.items():
            if one["device"] in by_device:
                yield name, by_device[one["device"]]


Check = Callable[[Seen], Iterator[Finding]]


def arguments(spec: TestHost, quiet: Iterable[str], influx: str) -> dict[str, Any]:
    """Return what module joulerig_facts is asked of a host; `influx`: its InfluxDB's URL, or ""."""
    declared = {name: one.declared_as(name) for name, one in spec.drives.items()}
    fixed = {name: one for name, one in declared.items() if not spec.drives[name].in_memory}
    return {
        "units": [*BACKGROUND, *quiet],
        "addresses": [influx] if influx else [],
        "drives": {name: one for name, one in fixed.items() if one["interface"] not in ("nvdimm", "ram")},
    }


def quiet_units() -> frozenset[str]:
    """Return the units that campaigns stop, as the role has them."""
    path = paths.share() / "ansible" / "roles" / "quiet" / "defaults" / "main.yml"
    return frozenset(yaml_text.read(path)["quiet_units"])


def examine(seen: Seen) -> list[Finding]:
    """Return what the checks find at a host."""
    return [finding for check in CHECKS.values() for finding in check(seen)]


def unreachable(name: str, why: str) -> Finding:
    """Return the finding about a host that gave no facts."""
    remedy = f"'ansible -i INVENTORY {name} -m ansible.builtin.ping' shows it in full"
    if "sudo" in why.lower() or "become" in why.lower():
        remedy = (
            f"let {name}'s ansible_user use sudo without a password, or set ansible_become_password in a"
            " vaulted file, or ANSIBLE_BECOME_PASSWORD_FILE"
        )
    elif "permission denied" in why.lower():
        remedy = f"'ssh-copy-id -i KEY.pub USER@{name}'; ansible_ssh_private_key_file names the key"
    elif "host key" in why.lower():
        remedy = f"'ssh {name}' once, and accept its key"
    return Finding(ERROR, "reached", name, f"cannot be asked: {why}", remedy)


def not_started(name: str) -> Finding:
    """Return the finding about a virtual host of a lab that is down."""
    return Finding(ERROR, "reached", name, "the virtual lab is down", "'rig up' starts it")


def system(seen: Seen) -> Iterator[Finding]:
    found = seen["system"]
    if found["user"] != 0:
        text = f"the playbooks work as user {found['user']}; allowed: root"
        remedy = (
            "write ansible_user into the inventory: one of ~/.ssh/config is not seen, so sudo is not used"
        )
        yield Finding(ERROR, "system", seen.name, text, remedy)
    if tuple(found["python"]) < LEAST_PYTHON:
        text = f"Python {'.'.join(map(str, found['python']))}; allowed: 3.8 or later"
        remedy = "install a later one, and name it in ansible_python_interpreter"
        yield Finding(ERROR, "system", seen.name, text, remedy)
    name = found["distribution"] or "an unknown distribution"
    if not found["family"]:
        text = f"{name}: 'rig up' has no names of its packages"
        remedy = "install Debian, Ubuntu, or one of the families of RHEL, Fedora and SUSE on it"
        yield Finding(ERROR, "system", seen.name, text, remedy)
    elif found["family"] != TRIED:
        text = f"{name}: what 'rig up' does there was written after manuals, and never run"
        remedy = "look through the log of the first 'rig up'"
        yield Finding(WARNING, "system", seen.name, text, remedy)
    if not found["systemd"]:
        text = "no systemd: services of 'rig up' are not started, and a run is not kept from others' units"
        yield Finding(WARNING, "system", seen.name, text, "boot it with systemd")


def clock(seen: Seen) -> Iterator[Finding]:
    found = seen["clock"]
    before, after = seen.asked_ns
    off = max(before - found["now_ns"], found["now_ns"] - after) / 1e9
    if off > CLOCK_SECONDS and not seen.spec.virtual:  # whose clock may go more slowly
        text = f"its clock is {off:.1f} s off the controller's; allowed: {CLOCK_SECONDS:g} s"
        remedy = f"'rig up' has chrony set it; until then 'chronyc makestep' on {seen.name}"
        yield Finding(WARNING, "clock", seen.name, text, remedy)
    if len(found["kept_by"]) > 1:
        text = f"{' and '.join(found['kept_by'])} both set the clock; allowed: one"
        remedy = "'systemctl disable --now' all but chrony"
        yield Finding(WARNING, "clock", seen.name, text, remedy)
    elif not found["kept_by"] or not found.get("synchronised", True):
        what = "nothing sets its clock" if not found["kept_by"] else f"{found['kept_by'][0]} has not set it"
        text = f"{what}: samples and I/O would be on two time axes"
        remedy = "'rig up' has chrony follow the controller; 'chronyc tracking' shows it"
        yield Finding(NOTE, "clock", seen.name, text, remedy)


def drives(seen: Seen) -> Iterator[Finding]:
    for name, one in seen.facts.declared.items():
        if not one["problem"]:
            continue
        severity, text = ERROR, one["problem"]
        remedy = f"'rig hosts discover {seen.name} --print' shows what the host has"
        arrays = [array for array, spec in seen.spec.arrays.items() if name in spec.members]
        kinds = {seen.spec.arrays[array].holder for array in arrays}
        held = re.search(r" is in use: ((?:md|dm-)\d+) holds ", text)
        if held and held[1].startswith(tuple(kinds)):
            severity = NOTE
            text += f": an array, as {' or '.join(arrays)} of the inventory is one"
            stops = seen.spec.arrays[arrays[0]].stops(arrays[0], held[1])
            remedy = f"needed for a campaign of the drive alone: '{stops}' on {seen.name}"
        yield Finding(severity, "drives", f"{seen.name}/{name}", text, remedy)


def health(seen: Seen) -> Iterator[Finding]:
    for name, disk in seen.drives():
        own, subject = disk["own"], f"{seen.name}/{name}"
        remedy = f"'nvme smart-log /dev/{disk['device']}' on {seen.name}; replace the drive"
        if own.get("critical_warning"):
            text = f"critical warning {own['critical_warning']:#x}: the drive says it is failing or hot"
            yield Finding(ERROR, "health", subject, text, remedy)
        if own.get("passed") is False:
            text = "its own health check (SMART) says that it fails"
            reads = f"'smartctl --all /dev/{disk['device']}' on {seen.name}; replace the drive"
            yield Finding(ERROR, "health", subject, text, reads)
        if own.get("spare_threshold") and own["available_spare"] <= own["spare_threshold"]:
            text = f"{own['available_spare']} % spare; its threshold is {own['spare_threshold']} %"
            yield Finding(ERROR, "health", subject, text, remedy)
        if own.get("percentage_used", 0) >= 100:
            text = f"{own['percentage_used']} % of its rated life is used"
            yield Finding(WARNING, "health", subject, text, remedy)
        if own.get("media_errors"):
            text = f"{counted(own['media_errors'], 'media error')}"
            yield Finding(WARNING, "health", subject, text, remedy)
        if own.get("temperature_celsius", 0) >= HOT_CELSIUS:
            text = f"{own['temperature_celsius']} °C at rest: it will throttle; allowed: below {HOT_CELSIUS}"
            yield Finding(WARNING, "health", subject, text, "give it air, or a heat sink")


def multipath(seen: Seen) -> Iterator[Finding]:
    for name, disk in seen.drives():
        subject = f"{seen.name}/{name}"
        if len(disk["paths"]) > 1:
            names = ", ".join(disk["paths"])
            text = f"has the paths {names}: a scheduler would see a part of its I/O; allowed: none"
            remedy = "put nvme_core.multipath=N on the kernel's command line, and boot; or connect one path"
            yield Finding(WARNING, "multipath", subject, text, remedy)
        if disk["namespaces"] > 1:
            text = f"its drive has {disk['namespaces']} namespaces, whose I/O and energy it shares"
            remedy = "'nvme delete-ns' the others, or keep them idle"
            yield Finding(WARNING, "multipath", subject, text, remedy)


def governor(seen: Seen) -> Iterator[Finding]:
    found = seen["processor"]["governors"]
    remedy = f"echo performance | sudo tee {GOVERNORS}"
    if len(found) > 1:
        text = f"processors have different governors: {', '.join(sorted(found))}; allowed: one"
        yield Finding(WARNING, "governor", seen.name, text, remedy)
    elif found and "performance" not in found:
        text = f"governor {next(iter(found))} ({seen['processor']['driver']}): the clock follows the load"
        yield Finding(WARNING, "governor", seen.name, text, remedy)


def turbo(seen: Seen) -> Iterator[Finding]:
    if seen["processor"]["turbo"]:
        intel = "intel" in (seen["processor"]["driver"] or "")
        switch = "intel_pstate/no_turbo" if intel else "cpufreq/boost"
        text = "turbo is on: the clock depends on temperature and on what else runs"
        remedy = f"echo {int(intel)} | sudo tee /sys/devices/system/cpu/{switch}"
        yield Finding(NOTE, "turbo", seen.name, text, remedy)


def sleep_states(seen: Seen) -> Iterator[Finding]:
    deep = [
        state
        for state in seen["processor"]["idle_states"]
        if state["latency_microseconds"] >= DEEP_SLEEP_MICROSECONDS and not state["disabled"]
    ]
    if deep:
        names = ", ".join(f"{state['name']} ({state['latency_microseconds']} µs)" for state in deep)
        text = f"the processor sleeps as deep as {names}: that is in the latency of a slow load's operations"
        remedy = f"cpupower idle-set --disable-by-latency {DEEP_SLEEP_MICROSECONDS}"
        yield Finding(NOTE, "sleep-states", seen.name, text, remedy)


def pcie_links(seen: Seen) -> Iterator[Finding]:
    policy = seen["buses"]["aspm"]
    if policy not in (None, "performance") and any(disk["transport"] == "nvme" for _, disk in seen.drives()):
        text = f"ASPM {policy}: an idle PCIe link may sleep, which is in idle watts and first latencies"
        remedy = (
            "echo performance | sudo tee /sys/module/pcie_aspm/parameters/policy, or state it in the study"
        )
        yield Finding(NOTE, "pcie-links", seen.name, text, remedy)


def nvme_power(seen: Seen) -> Iterator[Finding]:
    latency = seen["buses"]["apst_latency"]
    names = [name for name, disk in seen.drives() if disk["own"].get("autonomous")]
    if names and latency not in (None, "0"):
        text = f"{', '.join(names)}: changes power states by itself when idle (APST, up to {latency} µs)"
        remedy = "put nvme_core.default_ps_max_latency_us=0 on the kernel's command line, or state it"
        yield Finding(NOTE, "nvme-power", seen.name, text, remedy)


def sata_links(seen: Seen) -> Iterator[Finding]:
    for name, disk in seen.drives():
        if disk["link_power"] not in (None, "max_performance"):
            text = f"its SATA link has the policy {disk['link_power']}: it sleeps between requests"
            remedy = (
                "echo max_performance | sudo tee /sys/class/scsi_host/host*/link_power_management_policy,"
                " or state it in the study"
            )
            yield Finding(NOTE, "sata-links", f"{seen.name}/{name}", text, remedy)


def runtime_pm(seen: Seen) -> Iterator[Finding]:
    for name, disk in seen.drives():
        if places := [place for place, control in disk["runtime_pm"].items() if control == "auto"]:
            text = f"the kernel may suspend {', '.join(places)} (runtime power management)"
            remedy = "echo on | sudo tee" + "".join(f" {_control(place)}" for place in places)
            yield Finding(NOTE, "runtime-pm", f"{seen.name}/{name}", text, remedy)


def _control(place: str) -> str:
    bus = "scsi" if re.fullmatch(r"\d+:\d+:\d+:\d+", place) else "pci"
    return f"/sys/bus/{bus}/devices/{place}/power/control"


def disk_timers(seen: Seen) -> Iterator[Finding]:
    for name, disk in seen.drives():
        subject, level = f"{seen.name}/{name}", disk["own"].get("apm")
        if disk["rotates"] and level and level < SPINS_DOWN_BELOW:
            text = f"APM level {level} lets it stop while it is idle; allowed: 128 to 254, or off"
            remedy = f"hdparm -B 254 /dev/{disk['device']}"
            yield Finding(WARNING, "disk-timers", subject, text, remedy)
        if disk["rotates"] and disk["own"].get("extended_power"):
            text = "its extended power conditions (EPC) may park or slow it by its own timers"
            remedy = f"'openSeaChest_PowerControl -d /dev/{disk['device']} --EPCfeature disable'"
            yield Finding(NOTE, "disk-timers", subject, text, remedy)


def interrupts(seen: Seen) -> Iterator[Finding]:
    if seen["interrupts"]["balanced"]:
        text = "irqbalance moves interrupts between processors during runs"
        remedy = "add irqbalance.service to quiet_units in host_vars"
        yield Finding(WARNING, "interrupts", seen.name, text, remedy)


def background(seen: Seen) -> Iterator[Finding]:
    awake = [name for name, state in seen["units"].items() if state == "active" and name not in seen.quiet]
    if awake:
        text = f"{', '.join(sorted(awake))} may start work during a run"
        remedy = f"add to quiet_units in host_vars: {', '.join(sorted(awake))}"
        yield Finding(WARNING, "background", seen.name, text, remedy)


def free_space(seen: Seen) -> Iterator[Finding]:
    for place, free in seen["space"].items():
        if free < GOOD_FREE_BYTES:
            severity = ERROR if free < LEAST_FREE_BYTES else WARNING
            text = f"{place}: {free / 2**30:.1f} GiB free; allowed: {GOOD_FREE_BYTES >> 30} GiB or more"
            remedy = f"'du --one-file-system --human-readable --max-depth=2 {place}' finds what to delete"
            yield Finding(severity, "free-space", seen.name, text, remedy)


def influxdb(seen: Seen) -> Iterator[Finding]:
    for address, why in seen["unreached"].items():
        text = f"does not reach InfluxDB at {address}: {why}"
        remedy = "start it, open its port, or set influxdb.url_from_hosts in the controller's host_vars"
        yield Finding(ERROR, "influxdb", seen.name, text, remedy)


def users(seen: Seen) -> Iterator[Finding]:
    found = seen["users"]
    for entry in found["reservations"]:
        what = f"campaign {entry['campaign']}" if entry["campaign"] else entry["purpose"]
        remedy = f"'rig hosts show' says until when; 'rig hosts free {seen.name}' ends one's own"
        yield Finding(NOTE, "users", seen.name, f"is reserved by {entry['owner']} for {what}", remedy)
    if found["runs"]:
        text = f"executes {', '.join(found['runs'])}"
        yield Finding(NOTE, "users", seen.name, text, "wait for it, or 'rig stop'")
    if found["logged_in"]:
        text = f"logged in at a terminal: {', '.join(found['logged_in'])}"
        remedy = f"'rig hosts reserve {seen.name}', and ask them"
        yield Finding(NOTE, "users", seen.name, text, remedy)
    if found["machines"]:
        text = f"runs virtual machines ({', '.join(found['machines'])}), whose load is in every result"
        yield Finding(WARNING, "users", seen.name, text, "stop them while campaigns run")
    if found["load"] > BUSY_LOAD * (found["processors"] or 1) and not found["runs"]:
        processors = counted(found["processors"] or 1, "processor")
        text = f"load {found['load']:g} on {processors}: something runs there"
        yield Finding(WARNING, "users", seen.name, text, f"'top' on {seen.name} shows what")


def addresses(seen: Seen) -> Iterator[Finding]:
    came, declared = seen["system"]["controller"], seen.spec.controller_address
    if came and came != declared and _is_number(declared):
        text = f"was reached from {came}; controller_address is {declared}"
        remedy = f"write {came}, unless the controller has both addresses"
        yield Finding(NOTE, "addresses", seen.name, text, remedy)


def unseen_uses(seen: Seen) -> Iterator[Finding]:
    lacking = seen["lacking"]["checks"]
    if not lacking:
        return
    texts = "; ".join(UNSEEN.get(name, name) for name in lacking)
    severity = NOTE if RECENT.issuperset(lacking) else WARNING
    remedy = (
        "boot a later kernel, and keep such programs off the host: docs/explanation/safety.md has them all"
    )
    yield Finding(severity, "unseen-uses", seen.name, f"does not see every use of a drive: {texts}", remedy)


def fence(seen: Seen) -> Iterator[Finding]:
    if problem := seen["lacking"]["fence"]:
        text = f"cannot execute a load in a fence, so that every run would fail: {problem}"
        remedy = "the kernel needs namespaces of PID, IPC and network, and root may have to leave a container"
        yield Finding(ERROR, "fence", seen.name, text, remedy)


def _is_number(address: str) -> bool:
    try:
        ipaddress.ip_address(address)
    except ValueError:
        return False
    return True


CHECKS: Mapping[str, Check] = {
    check.__name__.replace("_", "-"): check
    for check in (
        system, clock, drives, health, multipath, governor, turbo, sleep_states, pcie_links, nvme_power,
        sata_links, runtime_pm, disk_timers, interrupts, background, free_space, influxdb, users, addresses,
        unseen_uses, fence,
    )
}  # fmt: skip
