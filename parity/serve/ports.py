"""Ports on the loopback address: one that is free, and whose a port is.

A server is asked for on a port that was free a moment ago. Should another server have taken it since, its answers would pass for
those of the one that was started, and two sides that are one server always agree. So who listens is looked up.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterable
from pathlib import Path

HOST = "127.0.0.1"
LISTENING = "0A"  # the state of a socket in /proc/net/tcp


def free_port() -> int:
    """A port that nobody has right now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def is_free(port: int) -> bool:
    """Whether a server could bind that port; connections that linger on it do not count."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def listens(pids: Iterable[int], port: int) -> bool:
    """Whether one of these processes listens on that port, on whatever address, and nobody else does."""
    wanted = _listening(port)
    return bool(wanted) and wanted <= {inode for pid in pids for inode in _sockets(pid)}


def _listening(port: int) -> set[str]:
    """The sockets that listen on a port, as inodes."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(FileNotFoundError):  # a kernel without IPv6
            for line in Path(table).read_text(encoding="ascii").splitlines()[1:]:
                fields = line.split()
                if fields[3] == LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                    found.add(fields[9])
    return found


def _sockets(pid: int) -> set[str]:
    """The sockets that a process has open, as inodes; none of one that is gone."""
    found = set()
    with contextlib.suppress(OSError):
        for entry in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):  # closed since
                kind, _, inode = os.readlink(f"/proc/{pid}/fd/{entry}").partition(":")
                if kind == "socket":
                    found.add(inode.strip("[]"))
    return found
