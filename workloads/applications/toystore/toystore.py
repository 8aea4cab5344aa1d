# SPDX-License-Identifier: GPL-3.0-or-later
"""A toy key-value store: a log of values, and a head file that says how much of it counts.

A transaction appends its values to the log and syncs it; writes the new head next to the old one,
syncs it, renames it over the old one, and syncs the folder. With `--bug` it leaves out or mistakes
one of these steps, so that a judge of applications can be judged.
"""

import binascii
import json
import os
import struct
import sys
from functools import partial

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.join(os.path.dirname(__file__), "..")]
import contract  # noqa: E402  (next to this file on a test host, one folder above in the project)

LOG, HEAD, NEXT = "log", "head", "head.next"
NEAR = 50  # transactions: what claims to be further on is no number but damage
RECORD = struct.Struct("<QIII")  # number, key, bytes of the value, CRC-32 of these and the value
BUGS = {
    "none": "no bug",
    "no-fsync": "nothing is synced",
    "wrong-file": "the old head is synced where the log has to be",
    "no-directory-fsync": "the folder is not synced after the rename",
    "write-order": "the head is made durable before the log that it counts",
    "late-undo": "a rolled back transaction is counted until the next one",
}


def add_options(parser):
    parser.add_argument("--bug", choices=sorted(BUGS), default="none")


class Store:
    def __init__(self, folder, bug):
        self._folder, self._bug = folder, bug
        self._log = os.open(self._path(LOG), os.O_RDWR | os.O_CREAT)
        self._end, self._count = 0, 0
        self._replace_head()
        self._sync_folder()

    def append(self, number):
        """Write a transaction's values behind the log's end; return where they end."""
        data = b""
        for key in range(contract.keys(number)):
            value = contract.value(number, key)
            data += RECORD.pack(number, key, len(value), _checksum(number, key, value)) + value
        os.pwrite(self._log, data, self._end)
        return self._end + len(data)

    def commit(self, number):
        if self._bug == "write-order":
            end = self._end + sum(
                RECORD.size + len(contract.value(number, key)) for key in range(contract.keys(number))
            )
            start, self._end = self._end, end
            self._replace_head()
            self._sync_folder()
            self._end = start
            self.append(number)
            os.fsync(self._log)
            self._end = end
            return
        end = self.append(number)
        if self._bug == "wrong-file":
            self._sync_file(HEAD)
        elif self._bug != "no-fsync":
            os.fsync(self._log)
        self._end = end
        self._replace_head()
        if self._bug not in ("no-fsync", "no-directory-fsync"):
            self._sync_folder()

    def roll_back(self, number):
        """Leave what was appended behind the end, where the next transaction overwrites it."""
        end = self.append(number)
        if self._bug == "late-undo":
            os.fsync(self._log)
            start, self._end = self._end, end
            self._replace_head()
            self._sync_folder()
            self._end = start

    def _replace_head(self):
        text = json.dumps({"end": self._end}).encode()
        with open(self._path(NEXT), "wb") as head:
            head.write(b"%08x %s\n" % (binascii.crc32(text), text))
            head.flush()
            if self._bug != "no-fsync":
                os.fsync(head.fileno())
        os.rename(self._path(NEXT), self._path(HEAD))

    def _sync_file(self, name):
        descriptor = os.open(self._path(name), os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _sync_folder(self):
        self._sync_file("")

    def _path(self, name):
        return os.path.join(self._folder, name)


def run(folder, transactions, options):
    store = Store(folder, options.bug)
    for number in transactions:
        transactions.end(number, partial(store.commit, number), partial(store.roll_back, number))


def _checksum(number, key, value):
    return binascii.crc32(value, binascii.crc32(struct.pack("<QI", number, key)))


def read_head(folder):
    """Return where the log ends, 0 where there is no head. Raises SystemExit for a damaged one."""
    try:
        with open(os.path.join(folder, HEAD), "rb") as file:
            checksum, _, text = file.read().rstrip(b"\n").partition(b" ")
    except FileNotFoundError:
        return 0
    if checksum != b"%08x" % binascii.crc32(text):
        raise SystemExit(f"{HEAD}: wrong checksum")
    return json.loads(text)["end"]


def _torn(found, number):
    """Return which transaction a damaged record belongs to; `number` is what stands in it, or 0."""
    last = max(found, default=0)
    if last < number <= last + NEAR:
        return number
    return last if last and len(found[last]) < contract.keys(last) else last + 1


def check(folder, options):
    """Yield the transactions of the log, up to the end that the head gives."""
    end = read_head(folder)
    if not end:
        return
    with open(os.path.join(folder, LOG), "rb") as file:
        log = file.read(end)
    found, at = {}, 0
    while at < end:
        number, key, length, checksum = (
            RECORD.unpack_from(log, at) if at + RECORD.size <= len(log) else (0, 0, 0, 0)
        )
        value = log[at + RECORD.size : at + RECORD.size + length]
        if not number or len(value) < length or _checksum(number, key, value) != checksum:
            found.setdefault(_torn(found, number), []).append(None)
            break  # where the next one begins cannot be found
        found.setdefault(number, []).append((key, value))
        at += RECORD.size + length
    for number, pairs in sorted(found.items()):
        yield number, pairs == [(key, contract.value(number, key)) for key in range(contract.keys(number))]


contract.main(run, check, add_options)
