# SPDX-License-Identifier: GPL-3.0-or-later
"""Stands before an InfluxDB and lets every other request go wrong: faulty_proxy.py URL.

Prints its port, and in the end which faults there were. SIGUSR1 ends the faults.
"""

import http.client
import http.server
import itertools
import signal
import sys
import threading
import time
import urllib.parse

FAULTS = ["500 applied", "503", "answer lost", "connection lost", "late"]


LATE_SECONDS = 0.5


class Proxy(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    target: urllib.parse.SplitResult
    requests = itertools.count()
    met: list[str]
    off = threading.Event()

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        number = next(self.requests)
        fault = "none"
        if number % 2 and not self.off.is_set():
            fault = FAULTS[number // 2 % len(FAULTS)]
        self.met.append(fault)
        if fault in ("503", "connection lost"):
            self.close_connection = True
            if fault == "503":
                self.answer(503, b"")
            return
        connection = http.client.HTTPConnection(self.target.hostname, self.target.port, timeout=20)
        headers = {"Authorization": self.headers["Authorization"], "Content-Type": "text/plain"}
        connection.request("POST", self.path, body, headers)
        answer = connection.getresponse()
        status, text = answer.status, answer.read()
        connection.close()
        if fault == "answer lost":
            self.close_connection = True
            return
        if fault == "late":
            time.sleep(LATE_SECONDS)
        self.answer(500 if fault == "500 applied" else status, text)

    def answer(self, status, text):
        self.send_response(status)
        if status != 204:
            self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if status != 204:
            self.wfile.write(text)

    def log_message(self, *_):
        pass


def main():
    Proxy.target = urllib.parse.urlsplit(sys.argv[1])
    Proxy.met = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    signal.signal(signal.SIGUSR1, lambda *_: Proxy.off.set())
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    print(server.server_port, flush=True)
    server.serve_forever()
    print(", ".join(sorted(set(Proxy.met))), flush=True)


if __name__ == "__main__":
    main()
