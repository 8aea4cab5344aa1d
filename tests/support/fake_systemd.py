# SPDX-License-Identifier: GPL-3.0-or-later
"""systemd with a few units: a `systemctl` that keeps their states in files and logs its calls."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

# A unit NAME has NAME.file (enabled, masked, ...), NAME.active, NAME.was (before it was masked) and
# NAME.path, where its unit file is not always there.
SYSTEMCTL = """#!/bin/sh
cd {folder}
echo "$@" >>calls
verb=$1
shift
runtime=
read_state() {{
  file= active=inactive path=/
  test ! -e "$1.file" || read -r file <"$1.file"
  test ! -e "$1.active" || read -r active <"$1.active"
  test ! -e "$1.path" || read -r path <"$1.path"
  test -e "$path" || file=
}}
fail() {{ echo "$*" >&2; exit 1; }}
for name; do
  case $name in
    --runtime) runtime=-runtime; continue ;;
    -*) continue ;;
  esac
  read_state "$name"
  if [ $verb = show ]; then
    printf 'LoadState=x\\nUnitFileState=%s\\nActiveState=%s\\n\\n' "$file" "$active"
    continue
  fi
  test -e "$name.active" || fail "Unit $name not loaded."
  case " {failing} " in *" $verb "*) fail "$verb $name: no" ;; esac
  case $verb:$file in
    start:masked* | restart:masked*) fail "Unit $name is masked." ;;
    start:* | restart:*) echo active >"$name.active" ;;
    stop:*) echo inactive >"$name.active" ;;
    enable: | disable:) fail "Unit file $name does not exist." ;;
    enable:* | disable:*) echo "${{verb}}d" >"$name.file" ;;
    mask:*)
      echo "$file" >"$name.was"
      echo "masked$runtime" >"$name.file" ;;
    unmask:"masked$runtime") mv "$name.was" "$name.file" ;;
  esac
done
exit 0
"""


class FakeSystemd:
    """`units`: by name, {"file", "active"}, and "path" where its file is not always there.

    `bin_` is a folder of the PATH; `failing`: verbs that fail.
    """

    def __init__(self, bin_: Path, units: Mapping[str, Mapping[str, str]], failing: str = "") -> None:
        self._folder = bin_.parent / "units"
        self._folder.mkdir(exist_ok=True)
        (self._folder / "calls").write_text("")
        for name, state in units.items():
            self.set(name, **state)
        script = bin_ / "systemctl"
        script.write_text(SYSTEMCTL.format(folder=self._folder, failing=failing))
        script.chmod(0o755)

    @property
    def units(self) -> dict[str, dict[str, str]]:
        """The state of each unit."""
        names = [path.name.removesuffix(".active") for path in self._folder.glob("*.active")]
        return {
            name: {"file": self._get(name, "file"), "active": self._get(name, "active")} for name in names
        }

    @property
    def calls(self) -> list[str]:
        """What changed or could have changed a unit."""
        lines = (self._folder / "calls").read_text().splitlines()
        return [line for line in lines if not line.startswith("show")]

    def set(self, name: str, **state: str) -> None:
        for key, value in state.items():
            (self._folder / f"{name}.{key}").write_text(value + "\n")

    def _get(self, name: str, key: str) -> str:
        return (self._folder / f"{name}.{key}").read_text().strip()
