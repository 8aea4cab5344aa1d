# SPDX-License-Identifier: GPL-3.0-or-later
"""The work of module joulerig_run: one run of a campaign, from identity check to restore."""

import contextlib
import platform
import shutil
import tempfile
import time

from ansible.module_utils.joulerig import (
    fence,
    host_lock,
    leftovers,
    limits,
    pagecache,
    phases,
    provenance,
    tools,
)
from ansible.module_utils.joulerig.clocks import offset, slow_motion
from ansible.module_utils.joulerig.drives import blockqueue, dax, filesystem, identity, wipe_lease
from ansible.module_utils.joulerig.drives.host import Host
from ansible.module_utils.joulerig.loads import load, workload
from ansible.module_utils.joulerig.ownpower import reports as power_reports
from ansible.module_utils.joulerig.preconditioning import filler
from ansible.module_utils.joulerig.settings import drive_settings, kernelfile, record
from ansible.module_utils.joulerig.tools import Failed, Refused
from ansible.module_utils.joulerig.tracing import blocktrace, fsynctrace

VERSION = 1  # of requests and outcomes; rig/campaign/execution/{request,outcome}.py
MOUNT_POINT = "/run/joulerig/mnt"
MOST_DISCARDED_FRACTION = 0.01  # of a preconditioned drive, by its mkfs


def execute(p, result):
    """Execute the run.

    Fills `result` as it goes, so that an error leaves what was known by then.
    """
    if p["version"] != VERSION:
        raise Refused(f"request of version {p['version']}; this module executes version {VERSION}")
    with contextlib.ExitStack() as undo:
        # An earlier call, whose controller went away, may still lay out files or load the drive:
        # perhaps the whole of it, of another campaign.
        lane = host_lock.lane_of(p)
        longest = sum(p["phases"].values()) + limits.seconds(p["members"], limits.WHOLE)
        undo.enter_context(host_lock.HostLock(longest, lane=lane))
        result["taken_down"] = leftovers.take_down(lane=lane)
        if p["kernel"] and (runs := platform.release()) != p["kernel"]:
            raise Failed(f"the host runs kernel {runs}, no longer {p['kernel']}")
        filesystem.check(p["filesystem"])
        workload.check(p["workload"])
        filesystem.check_free(MOUNT_POINT)
        slow = undo.enter_context(slow_motion.SlowMotion(p["slowness"]))
        result["clock"].append(offset.measure(p["clock_server"]))
        tags = {"campaign": p["campaign"], "run": p["run"], "host": p["host"], "drive": p["drive"]}
        recorder = phases.Phases(p["agent_socket"], tags, result["clock"][0])
        result["phases"] = recorder.recorded
        scratch = tempfile.mkdtemp(prefix="joulerig-")
        undo.callback(shutil.rmtree, scratch, ignore_errors=True)

        with recorder.phase(phases.PREPARE):
            # I/O is scheduled and cached by the drives: an md device has a queue in name only.
            used = [*p["members"], *([p["journal"]] if p["journal"] else [])]
            drives = {one["name"]: (identity.find(one), one["interface"]) for one in used}
            if len({kernel_name for kernel_name, _ in drives.values()}) < len(used):
                raise Refused(f"{p['journal']['name']}: is a drive that the file system itself is on")
            left = leftovers.Leftovers(lane=lane)
            undo.callback(left.clear)
            leases = []
            # Comes after each lease has ended, with what it left on its drive.
            undo.callback(lambda: result["made"].update(_made(leases)))
            is_array = p["array"] and not p["pool"]
            wanted = [
                wipe_lease.lease_array(p["drive"], p["members"])
                if is_array
                else wipe_lease.lease_drive(p["members"][0])
            ]
            wanted += [wipe_lease.lease_drive(one) for one in (p["members"][1:] if p["pool"] else ())]
            if p["journal"]:
                wanted.append(wipe_lease.lease_drive(p["journal"]))
            leases += undo.enter_context(wipe_lease.together(wanted))
            lease, pool = leases[0], leases[1 : len(p["members"])] if p["pool"] else []
            journal_lease = leases[-1] if p["journal"] else None
            name = lease.name
            dax.check_device(p["filesystem"], name)
            write_cache = p["write_cache"] or None
            for kernel_name, _ in drives.values():
                blockqueue.check(kernel_name, p["scheduler"], write_cache)
                if workload.polls(p["workload"]):
                    blockqueue.check_polled(kernel_name)
            filesystem.check_journal(p["filesystem"], journal_lease)
            if p["preconditioned"]:
                lease.check_left(p["members"][0].get("known"))
            _fence_in(p, leases, drives)
            left.fenced(leases)

            def per_drive(what):
                found = {one: what(*where) for one, where in drives.items()}
                return found if len(found) > 1 else found[p["members"][0]["name"]]

            def set_queue(kernel_name, _):
                return blockqueue.apply(undo, kernel_name, p["scheduler"], write_cache, leftovers=left)

            result["settings"]["host"] = provenance.host()
            result["settings"]["drive"] = per_drive(provenance.drive)
            if p["array"] and not p["pool"]:
                result["settings"]["array"] = provenance.array(name)
            result["health"]["before"] = per_drive(provenance.health)
            kernel_names = {one: kernel_name for one, (kernel_name, _) in drives.items()}
            files = kernelfile.KernelFiles(p["kernel_files"], kernel_names)
            own_settings = drive_settings.DriveSettings(p["drive_settings"], kernel_names)
            files.remember(undo, left)
            result["settings"]["queue"] = per_drive(set_queue)
            if p["kernel_files"]:
                result["settings"]["kernel_files"] = files.apply()
            if p["drive_settings"]:
                result["settings"]["drive_settings"] = own_settings.apply(undo, left)
            result["settings"]["power"] = {
                "host": record.host(Host()),
                "drive": per_drive(lambda kernel_name, _: record.drive(Host(), kernel_name)),
            }
            # brd counts no I/O: its zeros would say that there was none.
            counting = [one.name for one in leases]
            if any(one["interface"] == "ram" for one in used):
                counting = []
            for one in counting:
                blockqueue.count(undo, one, leftovers=left)
            before_mkfs = _written(drives)
            result["changed"] = True  # from here on; a level that is refused before leaves all as it was
            # Comes after unmounting, which writes too.
            undo.callback(lambda: result.update(touched=_touched(drives, before_mkfs)))
            # Whatever the campaign uses of a drive, mkfs.xfs discards the whole of it.
            metadata = limits.seconds(used, limits.METADATA)
            result["settings"].update(
                filesystem.make(lease, p["filesystem"], journal_lease, metadata, p["use_bytes"], pool)
            )
            if p["preconditioned"]:
                _check_kept(p, _touched(drives, before_mkfs)[p["drive"]]["discard_bytes"])
            mounted = undo.enter_context(contextlib.ExitStack())

            def mount():
                return filesystem.mount(
                    mounted, lease, p["filesystem"], MOUNT_POINT, journal_lease, metadata, pool
                )

            def mount_again():
                mounted.close()
                mount()

            result["settings"]["mount_options"] = mount()
            result["settings"]["filesystem_size"] = filesystem.check_size(
                p["filesystem"], MOUNT_POINT, p["use_bytes"]
            )
            result["settings"]["dax"] = dax.verify(p["filesystem"], MOUNT_POINT)

        folder = f"{MOUNT_POINT}/load"
        layout = limits.seconds(p["members"], limits.WHOLE, p["use_bytes"])
        loading = workload.create(
            p["workload"],
            load.Surroundings(folder, p["phases"][phases.WORKLOAD], p["seed"], scratch, recorder, layout),
        )
        with recorder.phase(phases.SETUP):
            if p["fill"]:
                result["settings"]["fill"] = filler.fill(MOUNT_POINT, p["fill"], p["age"], p["seed"])
            loading.lay_out()
            # The host's caches are those of the other lanes' loads as well.
            result["settings"]["caches"] = (
                pagecache.drop(folder, mount_again) if lane else pagecache.drop(folder)
            )
            slow.begin()
            time.sleep(p["phases"]["rest"])
        reports = power_reports.PowerReports(drives)
        result["power_reports"] = reports.recorded
        with recorder.phase(phases.IDLE), reports.phase(phases.IDLE):
            time.sleep(p["phases"][phases.IDLE])
        recorder.begin(phases.WORKLOAD)
        before = [blockqueue.stat(one) for one in counting]
        measured = reports.phase(phases.WORKLOAD, power_reports.SETTLE_SECONDS)
        with _seeks(p, drives) as seeks, _free_nids(p) as free_nids, measured:
            done = loading.load()
        after = [blockqueue.stat(one) for one in counting]
        if seeks:
            result["seeks"] = seeks.found
        if free_nids:
            result["free_nids"] = free_nids.found
        result["report"] = done.report
        recorder.add(phases.WORKLOAD, done.start, done.end)
        if counting:
            result["counters"] = {
                key: sum(late[key] - early[key] for early, late in zip(before, after)) for key in before[0]
            }
        load.raise_if(done.problem)
        result["settings"]["caches_after"] = pagecache.look(folder)
        for kernel_name, _ in drives.values():
            if (now := blockqueue.scheduler(kernel_name)) != p["scheduler"]:
                raise Failed(f"/dev/{kernel_name}: the scheduler changed during the run to {now!r}")
        files.check_unchanged()
        own_settings.check_unchanged()
        if p["array"] and not p["pool"]:
            _check_array_kept_quiet(p)
        with recorder.phase(phases.TAIL):
            filesystem.sync(MOUNT_POINT)
            time.sleep(p["phases"][phases.TAIL])
        slow.end()
        recorder.over()
        result["health"]["after"] = per_drive(provenance.health)
        result["clock"].append(offset.measure(p["clock_server"]))


def _fence_in(p, leases, drives):
    """Leave this process no block devices but the leased ones and the members of an array."""
    host = Host()
    devices = {lease.path: lease.number for lease in leases}
    for kernel_name, _ in drives.values():
        devices[f"{host.dev}/{kernel_name}"] = host.number(kernel_name)
    is_device = p["array"] and not p["pool"]
    links = {identity.array_link(p["drive"], host): f"../{leases[0].name}"} if is_device else {}
    fence.enter(devices, links, host.dev)


def _made(leases):
    """Return by what each drive is known that was changed."""
    return {lease.what: lease.identity for lease in leases if lease.identity}


def _seeks(p, drives):
    """Count seeks of the drives while the load runs, if asked to."""
    # The requests of a multipath drive are its paths', whose numbers the kernel does not say.
    if not p["seeks"] or any(Host().paths(kernel_name) for kernel_name, _ in drives.values()):
        return contextlib.nullcontext()
    return blocktrace.Seeks({one: kernel_name for one, (kernel_name, _) in drives.items()})


def _free_nids(p):
    """Measure the search for free node numbers in fsync, on f2fs and if asked to."""
    if not p["free_nids"] or p["filesystem"]["type"] != "f2fs":
        return contextlib.nullcontext()
    return fsynctrace.FreeNids()


def _check_array_kept_quiet(p):
    """Check that the array is whole and without a resync after the load as before it.

    Raises Failed where it is not.
    """
    try:
        identity.check_array(p["drive"], p["members"])
    except Refused as change:
        raise Failed(f"during the run: {change}") from None


def _written(drives):
    """Read the counters of each drive; None for a RAM block device, which counts nothing."""
    return {
        one: None if interface == "ram" else blockqueue.written(kernel_name)
        for one, (kernel_name, interface) in drives.items()
    }


def _touched(drives, before):
    """Return what each drive was asked to write and to discard since `before`."""
    return {
        one: {key: after and after[key] - before[one][key] for key in ("write_bytes", "discard_bytes")}
        for one, after in _written(drives).items()
    }


def _check_kept(p, discarded):
    if discarded > MOST_DISCARDED_FRACTION * sum(one["size_bytes"] for one in p["members"]):
        raise Failed(
            f"{p['filesystem']['name']}: its mkfs discarded {discarded} bytes of a preconditioned drive;"
            " name the words that keep it from that under no_discard"
        )


def empty():
    """Return the result of a run of which nothing is done."""
    return {
        "version": VERSION,
        "changed": False,
        "status": tools.OK,
        "reason": "",
        "phases": [],
        "clock": [],
        "taken_down": [],
        "made": {},
        "settings": {},
        "health": {},
    }
