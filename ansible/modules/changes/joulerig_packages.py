#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
"""Have packages on this host, as far as its distribution has them."""

DOCUMENTATION = r"""
module: joulerig_packages
short_description: Have packages on a host, as far as its distribution has them
description:
  - Packages are named as in Debian; other distributions' names are looked up (distribution.py).
  - Installs what is missing with apt, dnf or zypper, once the host has recorded what is there before.
  - An optional package that the distribution lacks makes what needs it not-run, and nothing else fail.
options:
  required: {description: "Packages that each run needs.", type: list, elements: str, default: []}
  optional: {description: "Packages of single levels.", type: list, elements: str, default: []}
  refresh_seconds: {description: "How old apt's lists may be; left out: any age.", type: int}
author: [Joulerig]
"""

RETURN = r"""
installed: {description: "What was missing, by its own name.", type: list, elements: str, returned: success}
lacking: {description: "The optional ones that cannot be had.", type: list, elements: str, returned: success}
ansible_facts:
  description: "joulerig_distribution: family, time_configuration, time_service."
  type: dict
  returned: success
"""

from ansible.module_utils.basic import AnsibleModule

from ansible.module_utils.joulerig import distribution
from ansible.module_utils.joulerig.changes import packages, record
from ansible.module_utils.joulerig.tools import Failed, Refused


def have(required, optional, refresh_seconds, check_mode):
    """Install what is missing; return what was, and what cannot be had. Raises Failed, Refused."""
    names = list(dict.fromkeys([*required, *optional]))
    lacking = packages.lacking(names, refresh_seconds)
    if missing := [name for name in lacking if name in required]:
        raise Failed(f"this host's distribution has no {', '.join(missing)}, which each run needs")
    possible = [name for name in names if name not in lacking]
    there = packages.installed(possible)
    absent = packages.translated(name for name in possible if name not in there)
    wanted = list(dict.fromkeys(absent.values()))
    if wanted and not check_mode:
        with record.locked(create=True):
            record.Record().add({record.PACKAGE: wanted}, refresh_seconds)
        packages.install(wanted)
    return wanted, lacking


def facts():
    kind = distribution.family()
    configuration, service = distribution.TIME.get(kind, distribution.TIME_ELSEWHERE)
    return {"family": kind, "time_configuration": configuration, "time_service": service}


def main():
    module = AnsibleModule(
        argument_spec={
            "required": {"type": "list", "elements": "str", "default": []},
            "optional": {"type": "list", "elements": "str", "default": []},
            "refresh_seconds": {"type": "int"},
        },
        supports_check_mode=True,
    )
    p = module.params
    try:
        wanted, lacking = have(p["required"], p["optional"], p["refresh_seconds"], module.check_mode)
    except (Failed, Refused, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(
        changed=bool(wanted),
        installed=wanted,
        lacking=lacking,
        ansible_facts={"joulerig_distribution": facts()},
    )


if __name__ == "__main__":
    main()
