# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages are installed on the controller's machine without the services that they bring."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support import ROOT

# As Debian's influxdb does: asks whether its service may start, and enables it.
APT_GET = """#!/bin/sh
case "$*" in *install*) ;; *) exit 0 ;; esac
echo "$@" >> "$JOULERIG_ROOT/installed"
if "$JOULERIG_ROOT/usr/sbin/policy-rc.d" influxdb start; then
  echo "influxdb.service" >> "$JOULERIG_ROOT/running"
else
  echo "not started: $?" >> "$JOULERIG_ROOT/said"
fi
cat "$JOULERIG_ROOT/etc/postgresql-common/createcluster.d/joulerig.conf" >> "$JOULERIG_ROOT/said"
grep -q "^influxdb.service " "$JOULERIG_ROOT/units" ||
  echo "influxdb.service enabled enabled" >> "$JOULERIG_ROOT/units"
[ ! -e "$JOULERIG_ROOT/broken" ] || { echo "E: Unable to locate package"; exit 100; }
"""
SYSTEMCTL = """#!/bin/sh
while [ "${1#--}" != "$1" ]; do shift; done
command=$1
shift
case "$command" in
  list-unit-files) cat "$JOULERIG_ROOT/units" ;;
  disable) for unit; do sed -i "/^$unit /d" "$JOULERIG_ROOT/units"; done ;;
  stop) for unit; do sed -i "/^$unit$/d" "$JOULERIG_ROOT/running"; done ;;
esac
"""


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Return the root of a machine whose ssh.service is enabled and runs; tools are stand-ins."""
    for name, text in {
        "apt-get": APT_GET,
        "systemctl": SYSTEMCTL,
        "dpkg-query": "#!/bin/sh\nexit 1\n",
        "sudo": '#!/bin/sh\nshift\nexec "$@"\n',
    }.items():
        tool = tmp_path / "bin" / name
        tool.parent.mkdir(exist_ok=True)
        tool.write_text(text)
        tool.chmod(0o755)
    (tmp_path / "usr/sbin").mkdir(parents=True)
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    (tmp_path / "units").write_text("ssh.service enabled enabled\n")
    (tmp_path / "running").write_text("ssh.service\n")
    return tmp_path


def install(machine: Path, *packages: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ROOT / "tools/install-packages", *packages],
        env={**os.environ, "JOULERIG_ROOT": str(machine), "PATH": f"{machine}/bin:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
    )


def test_a_service_that_comes_with_a_package_is_neither_started_nor_enabled(machine):
    done = install(machine, "influxdb", "fio")
    assert done.returncode == 0, done.stderr
    assert "influxdb fio" in (machine / "installed").read_text()
    assert "not started: 101" in (machine / "said").read_text()
    assert (machine / "units").read_text() == "ssh.service enabled enabled\n"
    assert (machine / "running").read_text() == "ssh.service\n"


def test_a_service_that_was_enabled_before_stays_enabled_and_runs_on(machine):
    with (machine / "units").open("a") as units, (machine / "running").open("a") as running:
        units.write("influxdb.service enabled enabled\n")
        running.write("influxdb.service\n")
    assert install(machine, "influxdb").returncode == 0
    assert "influxdb.service enabled" in (machine / "units").read_text()
    assert "influxdb.service" in (machine / "running").read_text()


def test_a_service_that_the_machines_own_policy_lets_start_is_stopped(machine):
    policy = machine / "usr/sbin/policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 0\n")
    policy.chmod(0o755)
    assert install(machine, "influxdb").returncode == 0
    assert (machine / "units").read_text() == "ssh.service enabled enabled\n"
    assert (machine / "running").read_text() == "ssh.service\n"
    assert policy.read_text() == "#!/bin/sh\nexit 0\n"


def test_where_no_systemd_runs_none_is_asked_to_stop_a_service(machine):
    (machine / "run/systemd/system").rmdir()
    (machine / "running").unlink()
    done = install(machine, "influxdb")
    assert (done.returncode, done.stderr) == (0, "")
    assert (machine / "units").read_text() == "ssh.service enabled enabled\n"


def test_postgresql_makes_no_cluster(machine):
    install(machine, "postgresql")
    assert "create_main_cluster = false" in (machine / "said").read_text()


def test_services_may_start_as_before_when_the_packages_are_there(machine):
    install(machine, "influxdb")
    assert not (machine / "usr/sbin/policy-rc.d").exists()


def test_a_policy_that_the_machine_has_is_kept(machine):
    policy = machine / "usr/sbin/policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 104\n")
    policy.chmod(0o755)
    install(machine, "influxdb")
    assert "exit 104" in policy.read_text()


def test_a_package_that_cannot_be_had_is_named_in_a_line_and_nothing_is_left(machine):
    (machine / "broken").touch()
    done = install(machine, "influxdb")
    assert done.returncode != 0
    assert done.stderr.startswith("setup: apt-get failed: E: Unable to locate package")
    assert done.stderr.count("\n") == 1
    assert not (machine / "usr/sbin/policy-rc.d").exists()
    assert (machine / "units").read_text() == "ssh.service enabled enabled\n"


def test_what_a_set_up_that_was_killed_left_is_undone_by_the_next(machine):
    killed = machine / "bin/apt-get"
    whole = killed.read_text()
    killed.write_text(f"{whole}kill -KILL $PPID\n")
    assert install(machine, "influxdb").returncode == -signal.SIGKILL
    policy = machine / "usr/sbin/policy-rc.d"
    assert policy.exists()
    assert "influxdb.service enabled" in (machine / "units").read_text()
    killed.write_text(whole)
    assert install(machine, "influxdb").returncode == 0
    assert not policy.exists()
    assert (machine / "units").read_text() == "ssh.service enabled enabled\n"
