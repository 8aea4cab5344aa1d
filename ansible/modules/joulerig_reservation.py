#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reserve a test host, for a person or a campaign, so that other controllers leave it alone."""

DOCUMENTATION = r"""
module: joulerig_reservation
short_description: Reserve a test host, free it, and show who has it
description:
  - "show: who has it. check: whether another has it. reserve: take it, or have it for longer. renew: have it
    for longer where it was not ended. free: end the asker's. break: end any."
  - Two that ask at once cannot both get it. How long it lasts is judged by the host's clock.
options:
  state:
    description: "What to do."
    type: str
    required: true
    choices: [show, check, reserve, renew, free, break]
  owner: {description: "Who asks: a user and a controller, for people.", type: str, required: true}
  machine: {description: "The controller, by a name that no other has.", type: str, required: true}
  host: {description: "Name of this host in the inventory.", type: str, required: true}
  campaign: {description: "Id of the campaign that asks; empty: a person does.", type: str, default: ""}
  created_ns: {description: "When that campaign was created.", type: int, default: 0}
  process: {description: "The process that executes it.", type: str, default: ""}
  gone: {description: "Processes that ended, as the asker knows.", type: list, elements: str, default: []}
  alone: {description: "Whether the owner's own campaigns refuse it too.", type: bool, default: false}
  purpose: {description: "What the host is wanted for.", type: str, default: ""}
  seconds: {description: "For how long, from now.", type: float, default: 0.0}
author: [Joulerig]
"""

RETURN = r"""
held: {description: "The reservations, each with whether it is over.", type: list, returned: success}
ended: {description: "Those that were ended.", type: list, returned: success}
now: {description: "Time of the host's clock, in seconds since 1970.", type: float, returned: success}
runs: {description: "Names of the calls that are in progress.", type: list, returned: when shown}
refused: {description: "Why it was refused, or empty.", type: str, returned: success}
by: {description: "The reservation that refuses it.", type: dict, returned: when refused}
"""

import time

from ansible.module_utils.basic import AnsibleModule

from ansible.module_utils.joulerig import reservation
from ansible.module_utils.joulerig.detached import calls
from ansible.module_utils.joulerig.tools import Failed, Refused

ASKER = {
    "owner": {"type": "str", "required": True},
    "machine": {"type": "str", "required": True},
    "host": {"type": "str", "required": True},
    "campaign": {"type": "str", "default": ""},
    "created_ns": {"type": "int", "default": 0},
    "process": {"type": "str", "default": ""},
    "gone": {"type": "list", "elements": "str", "default": []},
    "alone": {"type": "bool", "default": False},
}
READ = ["show", "check"]
STATES = [*READ, "reserve", "renew", "free", "break"]


def act(p, result):
    """Do what is asked, and complete the result."""
    asker = reservation.Asker(**{key: p[key] for key in ASKER})
    if p["state"] == "show":
        result["runs"] = [one["name"] for one in calls.listed() if one["runs"]]
    elif p["state"] == "check":
        reservation.check(asker)
    elif p["state"] == "reserve":
        result["changed"] = reservation.reserve(asker, p["purpose"], p["seconds"])
    elif p["state"] == "renew":
        reservation.renew(asker, p["purpose"], p["seconds"])
    else:
        result["ended"] = reservation.free(asker) if p["state"] == "free" else reservation.break_off(asker)
        result["changed"] = bool(result["ended"])


def main():
    spec = {
        "state": {"type": "str", "required": True, "choices": STATES},
        **ASKER,
        "purpose": {"type": "str", "default": ""},
        "seconds": {"type": "float", "default": 0.0},
    }
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    result = {"changed": False, "ended": [], "refused": ""}
    try:
        if module.params["state"] in READ or not module.check_mode:
            act(module.params, result)
        result["held"] = reservation.held()
    except reservation.Reserved as refusal:
        result.update(refused=str(refusal), by=refusal.entry, held=reservation.held())
    except Refused as refusal:
        result.update(refused=str(refusal), held=reservation.held())
    except (Failed, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(now=time.time(), **result)


if __name__ == "__main__":
    main()
