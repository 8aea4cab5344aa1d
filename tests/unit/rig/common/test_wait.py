# SPDX-License-Identifier: GPL-3.0-or-later
"""What the rig waits for."""

import socket

from joulerig.rig.common import wait


def test_a_bound_socket_does_not_listen_yet_and_a_dead_ones_file_never(tmp_path):
    path = tmp_path / "socket"
    assert not wait.listens(path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        assert path.exists()
        assert not wait.listens(path)
        server.listen()
        assert wait.listens(path)
    assert path.exists()
    assert not wait.listens(path)


def test_a_socket_with_clients_still_listens(tmp_path):
    path = tmp_path / "a socket"
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind(str(path))
        server.listen()
        client.connect(str(path))
        with server.accept()[0]:
            assert wait.listens(path)
        server.close()
        assert not wait.listens(path)
