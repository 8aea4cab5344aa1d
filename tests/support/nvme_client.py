# SPDX-License-Identifier: GPL-3.0-or-later
"""An NVMe/TCP host, as far as the tests need one: from the specifications, none of the twin's code.

NVM Express base specification 1.4, NVMe over Fabrics 1.1 (TCP transport binding).
"""

import contextlib
import socket
import struct
import time
from dataclasses import dataclass

ICREQ, ICRESP, H2C_TERM, C2H_TERM, COMMAND, RESPONSE, H2C_DATA, C2H_DATA, R2T = 0, 1, 2, 3, 4, 5, 6, 7, 9
LAST, SUCCESS = 4, 8
IN_CAPSULE, TRANSPORT = 0x01, 0x5A
BLOCK = 512
HOST_NAME = "nqn.2026-11.test:host"
NEW_CONTROLLER = 0xFFFF
CC_ENABLE = 0x00460001


class Ended(Exception):
    """The controller has ended the connection; `why` as its C2HTermReq says, or None."""

    def __init__(self, why=None):
        super().__init__(why)
        self.why = why


class Failed(Exception):
    """A command came back with this status: type << 8 | code."""

    def __init__(self, status, result=0):
        super().__init__(hex(status))
        self.status = status
        self.result = result


@dataclass
class Reply:
    status: int = 0
    result: int = 0
    head: int = 0
    data: bytes = b""
    bare: bool = False  # the data alone said that it succeeded


def command(
    opcode, nsid=0, cdw10=0, cdw11=0, cdw12=0, cdw13=0, cdw14=0, cdw15=0, sgl=(0, 0, TRANSPORT), cid=0
):
    """64 bytes of a command; `sgl`: address, length, identifier."""
    address, length, kind = sgl
    return struct.pack(
        "<BBHI16xQI3xB6I", opcode, 0x40, cid, nsid, address, length, kind,
        cdw10, cdw11, cdw12, cdw13, cdw14, cdw15,
    )  # fmt: skip


class Queue:
    """One connection. Commands are sent by `submit` and their replies collected by `wait`."""

    def __init__(self, address, greet=True, timeout=10):
        self.socket = socket.create_connection(address, timeout=timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.next_cid = 0
        self.pending = {}  # command id: data that the controller may ask for
        self.replies = {}
        self.got = {}
        self.asked = []  # R2Ts: command id, offset, length
        self.most_data = 131072  # of one H2CData
        if greet:
            self.greet()

    def close(self):
        self.socket.close()

    def greet(self, version=0, align=0, digests=0):
        body = struct.pack("<HBBI", version, align, digests, 0).ljust(120, b"\0")
        self.send(ICREQ, 0, 128, 0, body)
        kind, header, _ = self.receive()
        assert kind == ICRESP
        self.accepted = struct.unpack_from("<HBBI", header, 8)
        return self.accepted

    def send(self, kind, flags, header_bytes, data_at, rest, data=b""):
        total = 8 + len(rest) + len(data)
        self.socket.sendall(struct.pack("<BBBBI", kind, flags, header_bytes, data_at, total) + rest + data)

    def exactly(self, count):
        parts = []
        while count:
            try:
                part = self.socket.recv(count)
            except ConnectionResetError:
                part = b""
            if not part:
                raise Ended
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def receive(self):
        """The next PDU: its type, its whole header, its data."""
        header = self.exactly(8)
        kind, _, header_bytes, data_at, total = struct.unpack("<BBBBI", header)
        header += self.exactly(header_bytes - 8)
        rest = self.exactly(total - header_bytes)
        if kind == C2H_TERM:
            raise Ended(struct.unpack_from("<HI", header, 8))
        return kind, header, rest[max(data_at, header_bytes) - header_bytes :]

    def submit(self, opcode, data=None, length=0, capsule=True, cid=None, **fields):
        """Send a command, with data, or with room for `length` bytes; return its id."""
        if cid is None:
            cid, self.next_cid = self.next_cid, (self.next_cid + 1) % 0xFFF0
        inside = b""
        if data is not None and capsule:
            sgl, inside = (0, len(data), IN_CAPSULE), data
        else:
            sgl = (0, len(data) if data is not None else length, TRANSPORT)
            if data is not None:
                self.pending[cid] = data
        sqe = command(opcode, sgl=sgl, cid=cid, **fields)
        self.send(COMMAND, 0, 72, 72 if inside else 0, sqe, inside)
        return cid

    def step(self):
        """Take one PDU in."""
        kind, header, data = self.receive()
        if kind == RESPONSE:
            result, head, _, cid, status = struct.unpack_from("<QHHHH", header, 8)
            self.replies[cid] = Reply(status >> 1 & 0x7FF, result, head, self.got.pop(cid, b""))
        elif kind == C2H_DATA:
            cid, _, offset, length = struct.unpack_from("<HHII", header, 8)
            assert (offset, length) == (len(self.got.get(cid, b"")), len(data))
            self.got[cid] = self.got.get(cid, b"") + data
            if header[1] & SUCCESS:
                self.replies[cid] = Reply(data=self.got.pop(cid), bare=True)
        elif kind == R2T:
            cid, tag, offset, length = struct.unpack_from("<HHII", header, 8)
            self.asked.append((cid, offset, length))
            self.transfer(cid, tag, offset, length)

    def transfer(self, cid, tag, offset, length):
        end = offset + length
        while offset < end:
            part = self.pending[cid][offset : min(end, offset + self.most_data)]
            last = LAST if offset + len(part) == end else 0
            self.send(H2C_DATA, last, 24, 24, struct.pack("<HHII4x", cid, tag, offset, len(part)), part)
            offset += len(part)

    def wait(self, cid):
        while cid not in self.replies:
            self.step()
        self.pending.pop(cid, None)
        return self.replies.pop(cid)

    def do(self, opcode, **fields):
        """Execute a command; its reply. Raises Failed."""
        reply = self.wait(self.submit(opcode, **fields))
        if reply.status:
            raise Failed(reply.status, reply.result)
        return reply

    def connect(self, name, number=0, controller=NEW_CONTROLLER, *, entries=128, host=HOST_NAME,
                host_id=b"\1" * 16, keep_alive_ms=0, no_flow=True, format=0):  # fmt: skip
        """The Fabrics command; the controller's id."""
        data = host_id + struct.pack("<H238x", controller) + name.encode().ljust(256, b"\0")
        data = (data + host.encode().ljust(256, b"\0")).ljust(1024, b"\0")
        cdw10 = format | number << 16
        cdw11 = (entries - 1) | (4 if no_flow else 0) << 16
        reply = self.do(0x7F, nsid=1, data=data, cdw10=cdw10, cdw11=cdw11, cdw12=keep_alive_ms)
        return reply.result & 0xFFFF

    def get_property(self, offset, long=False):
        return self.do(0x7F, nsid=4, cdw10=int(long), cdw11=offset).result

    def set_property(self, offset, value):
        self.do(0x7F, nsid=0, cdw11=offset, cdw12=value & 0xFFFFFFFF, cdw13=value >> 32)


class Host:
    """A host with a controller and I/O queues; a context manager."""

    def __init__(self, address, name, *, io_queues=1, enable=True, **options):
        self.address, self.name, self.options = address, name, options
        self.admin = Queue(address)
        self.queues = []
        self.controller = self.admin.connect(name, **options)
        if enable:
            self.enable()
            self.admin.do(0x09, cdw10=0x07, cdw11=(io_queues - 1) * 0x10001)
            self.queues = [self.io_queue(n + 1) for n in range(io_queues)]

    def enable(self):
        self.admin.set_property(0x14, CC_ENABLE)
        assert self.admin.get_property(0x1C) == 1

    def io_queue(self, number, **options):
        queue = Queue(self.address)
        queue.connect(self.name, number, self.controller, **{**self.options, **options})
        return queue

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for queue in [*self.queues, self.admin]:
            queue.close()

    @property
    def io(self):
        return self.queues[0]

    def identify(self, what=1, nsid=0):
        return self.admin.do(0x06, nsid=nsid, cdw10=what, length=4096).data

    def log(self, page, size, keep=False):
        return self.admin.do(
            0x02, nsid=0xFFFFFFFF, cdw10=page | (0x8000 if keep else 0) | (size // 4 - 1) << 16, length=size
        ).data

    def get_feature(self, feature, length=0, **fields):
        return self.admin.do(0x0A, cdw10=feature, length=length, **fields)

    def set_feature(self, feature, value=0, data=None):
        return self.admin.do(0x09, cdw10=feature, cdw11=value, data=data)

    def read(self, offset, length):
        return self.io.do(0x02, nsid=1, length=length, **block_fields(offset, length)).data

    def write(self, offset, data, *, fua=False, capsule=True):
        return self.io.do(0x01, nsid=1, data=data, capsule=capsule, **block_fields(offset, len(data), fua))

    def flush(self):
        return self.io.do(0x00, nsid=1)

    def discard(self, *extents):
        ranges = b"".join(struct.pack("<IIQ", 0, size // BLOCK, offset // BLOCK) for offset, size in extents)
        return self.io.do(0x09, nsid=1, data=ranges, cdw10=len(extents) - 1, cdw11=4)

    def zero(self, offset, size, *, fua=False, deallocate=False):
        fields = block_fields(offset, size, fua)
        fields["cdw12"] |= (1 << 25) if deallocate else 0
        return self.io.do(0x08, nsid=1, **fields)


def block_fields(offset, length, fua=False):
    """The fields of a read or a write."""
    block = offset // BLOCK
    blocks = (length // BLOCK - 1) & 0xFFFF
    return {"cdw10": block & 0xFFFFFFFF, "cdw11": block >> 32, "cdw12": blocks | (1 << 30 if fua else 0)}


def free_address():
    """A port of the loopback that nothing listens on."""
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()


def wait_for_end(queue, seconds=5):
    """Wait until the controller has ended a connection on which nothing is expected."""
    queue.socket.settimeout(seconds)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            queue.step()
        except Ended as ended:
            return ended.why
    raise TimeoutError("the connection goes on")
