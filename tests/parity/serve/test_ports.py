"""Whose a port is."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

from parity.serve.ports import HOST, free_port, is_free, listens

SHARES = """
import socket, sys
held = socket.socket()
held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
held.bind(("127.0.0.1", int(sys.argv[1])))
held.listen()
print("listens", flush=True)
sys.stdin.read()
"""


def test_a_free_port_can_be_bound_and_then_is_not_free() -> None:
    port = free_port()
    assert is_free(port)

    with socket.socket() as held:
        held.bind((HOST, port))
        held.listen()

        assert not is_free(port)


def test_a_port_is_his_who_listens_on_it() -> None:
    with socket.socket() as held:
        held.bind((HOST, 0))
        port = held.getsockname()[1]
        assert not listens([os.getpid()], port)  # bound is not listening

        held.listen()

        assert listens([os.getpid()], port)
        assert listens([os.getppid(), os.getpid()], port)
        assert not listens([os.getppid()], port)
        assert not listens([], port)
    assert not listens([os.getpid()], port)


def test_listening_on_every_address_counts() -> None:
    with socket.create_server(("", 0)) as held:
        assert listens([os.getpid()], held.getsockname()[1])


def test_a_port_that_two_share_is_nobodys() -> None:
    """Either may be asked, so an answer could be the other's."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind((HOST, 0))
        held.listen()
        port = held.getsockname()[1]
        other = subprocess.Popen(
            [sys.executable, "-c", SHARES, str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        with other:
            assert other.stdout is not None
            assert other.stdout.readline() == b"listens\n"

            assert not listens([os.getpid()], port)
            assert not listens([other.pid], port)
            assert listens([os.getpid(), other.pid], port)

            other.communicate()
        assert listens([os.getpid()], port)
