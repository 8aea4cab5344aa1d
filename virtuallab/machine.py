# SPDX-License-Identifier: GPL-3.0-or-later
"""The QEMU command of a virtual test host: q35, its drives attached by NBD with their serials."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from joulerig.rig.lab.model import Drive, TestHost, VirtualHost
from joulerig.virtuallab import nvme, profile
from joulerig.virtuallab.image import Image

# The file of how the host connects to drives that are NVMe controllers of their own (nvme.py).
DRIVES = "drives"
# Their writes reach them as the kernel has them: guest/fua_by_flush.c is not needed.
OWN_CONTROLLERS = "fua_by_flush.off=1"
# Of the DIMM; the region that the host sees, and the inventory declares, is the rest.
NVDIMM_LABEL_BYTES = 128 * 1024
KERNEL_ARGUMENTS = "root=/dev/vda ro console=ttyS0 net.ifnames=0 mitigations=off random.trust_cpu=on"
# The time stamp counter of an emulated processor is the machine's, whatever clock QEMU is given. By
# it the kernel also waits for a few interrupts of its timer, and panics where they are late.
EMULATED_CLOCK = "clocksource=hpet tsc=unstable no_timer_check"
# With ERMS the guest's kernel copies and clears memory by instructions for single bytes, each of
# which QEMU emulates: 2.5 times slower than by words.
EMULATED_PROCESSOR = "max,-erms"


def command(
    name: str,
    host: TestHost,
    image: Image,
    accelerator: str,
    folder: Path,
    sockets: dict[str, Path],
    ssh_port: int,
    qmp: Path,
    clock: Path,
    profiles: Mapping[str, profile.Profile] | None = None,
) -> list[str]:
    """Return the command line that runs `host`.

    `folder` holds its overlay disk, console and identity files; `sockets` are the NBD sockets of
    its drives by name; the guest's SSH port appears as 127.0.0.1:`ssh_port`. `clock`: the socket
    at which the host asks for the lab's clock to be slowed down.
    """
    nvdimms = {key: drive for key, drive in host.drives.items() if drive.interface == "nvdimm"}
    machine = host.virtual or VirtualHost()
    controllers = nvme.drives(host)
    memory = f"{machine.memory_mb}M"
    arguments = [
        "qemu-system-x86_64",
        "-name", name,
        "-nodefaults", "-display", "none",
        "-accel", "kvm" if accelerator == "kvm" else "tcg,thread=multi,tb-size=512",
        "-machine", "q35" + (",nvdimm=on" if nvdimms else ""),
        "-cpu", "host" if accelerator == "kvm" else EMULATED_PROCESSOR,
        "-smp", str(machine.cpus),
        "-m", memory + (f",slots={len(nvdimms)},maxmem={machine.memory_mb + 8192}M" if nvdimms else ""),
        "-rtc", "base=utc",
        "-kernel", str(image.kernel), "-initrd", str(image.initrd),
        "-append", kernel_arguments(accelerator, bool(controllers)),
        "-serial", f"file:{folder}/console.log",
        "-qmp", f"unix:{qmp},server=on,wait=off",
        "-device", "virtio-rng-pci",
        "-netdev", f"user,id=lan,hostfwd=tcp:127.0.0.1:{ssh_port}-:22",
        "-device", "virtio-net-pci,netdev=lan",
        "-blockdev", f"driver=qcow2,node-name=root,file.driver=file,file.filename={folder}/root.qcow2",
        "-device", "virtio-blk-pci,drive=root,addr=0x1e",
        "-device", "virtio-scsi-pci,id=scsi",
        "-chardev", f"socket,id=clock,path={clock},reconnect=1",
        "-device", "virtio-serial-pci", "-device", "virtserialport,chardev=clock,name=joulerig.clock",
    ]  # fmt: skip
    for key in ("hostname", "authorized_keys", "ssh_host_key", *([DRIVES] if controllers else [])):
        arguments += ["-fw_cfg", f"name=opt/joulerig/{key},file={folder}/{key}"]
    sata_ports = iter(range(6))  # of q35's own AHCI controller
    for index, (key, drive) in enumerate(host.drives.items()):
        if drive.interface == "nvdimm":
            arguments += [
                "-object", f"memory-backend-file,id={key},share=on,mem-path={folder}/{key}.img,"
                f"size={nvdimm_bytes(drive)}",
                "-device", f"nvdimm,memdev={key},label-size={NVDIMM_LABEL_BYTES}",
            ]  # fmt: skip
        if drive.in_memory or key in controllers:
            continue
        arguments += [
            "-blockdev",
            f"driver=nbd,node-name={key},server.type=unix,server.path={sockets[key]}"
            ",reconnect-delay=5,cache.direct=on,discard=unmap",
            "-device",
            _device(key, drive, index, sata_ports, profiles),
        ]
    return arguments


def kernel_arguments(accelerator: str, own_controllers: bool = False) -> str:
    """Return the guest kernel's command line.

    `own_controllers`: its NVMe drives are the twins' own.
    """
    words = [KERNEL_ARGUMENTS]
    words += [] if accelerator == "kvm" else [EMULATED_CLOCK]
    words += [OWN_CONTROLLERS] if own_controllers else []
    return " ".join(words)


def _device(
    key: str,
    drive: Drive,
    index: int,
    sata_ports: Iterator[int],
    profiles: Mapping[str, profile.Profile] | None,
) -> str:
    arguments = [f"drive={key}", f"id=drive-{index}", f"serial={drive.serial}"]
    if drive.interface == "nvme":
        return ",".join(["nvme", *arguments])
    if drive.wwn:
        arguments.append(f"wwn=0x{drive.wwn.removeprefix('naa.')}")
    model = profile.load(drive.profile or "", key, profiles).model
    if drive.interface == "sata-ssd":
        return ",".join(
            ["ide-hd", f"bus=ide.{next(sata_ports)}", *arguments, f"model={model}", "rotation_rate=1"]
        )
    return ",".join(
        [
            "scsi-hd",
            "bus=scsi.0",
            *arguments,
            "vendor=JOULERIG",
            f"product={model[:16]}",
            "rotation_rate=7200",
        ]
    )


def nvdimm_bytes(drive: Drive) -> int:
    """Return the size of an NVDIMM's backing: what the inventory declares, and the label area."""
    return drive.size_bytes + NVDIMM_LABEL_BYTES
