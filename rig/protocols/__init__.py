# SPDX-License-Identifier: GPL-3.0-or-later
"""The JSON that programs written in C and Go accept and send, as pydantic models.

One module per program. The reference page and the JSON Schemas of the site are made from the
models, and tests hold the programs to them (tests/integration/protocols).
"""

from joulerig.rig.protocols import durawriter, iod, powerd, srcap, twin
from joulerig.rig.protocols.message import Message

# By program: the messages that it accepts, replies or prints; others are parts of these.
MESSAGES: dict[str, tuple[type[Message], ...]] = {
    "powerd": (
        powerd.Config,
        powerd.Status,
        powerd.SettingRequest,
        powerd.RecordingRequest,
        powerd.Recording,
        powerd.Samples,
    ),
    "srcap": (srcap.Instrument,),
    "iod": (iod.Config, iod.Resolved),
    "twin": (
        twin.State,
        twin.Latency,
        twin.History,
        twin.Cut,
        twin.PowerOn,
        twin.RailSwitch,
        twin.Mark,
        twin.Error,
    ),
    "durawriter": (
        durawriter.Hello,
        durawriter.Issued,
        durawriter.Acknowledged,
        durawriter.Failed,
        durawriter.Target,
        durawriter.Sectors,
        durawriter.Checked,
        durawriter.Transaction,
    ),
}
