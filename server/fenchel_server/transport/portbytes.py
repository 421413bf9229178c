"""The bytes at the server's port, as the kernel counts them for each TCP connection.

gRPC does not show its sockets. But they are open files of this process, so each can be found, asked for its `TCP_INFO`
and left as it was; no privilege is needed. The counts are of the bytes in TCP segments: TLS and HTTP/2 are in them, the
headers of TCP and IP are not, and a byte that had to be sent twice counts once. A connection that ends takes its counts
with it, so they are read about once a second; what a connection carried after the last reading is not counted.
"""

import os
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from fenchel_server.rounds.transport import PortBytes

OPEN_FILES: Final = "/proc/self/fd"
TCP_INFO: Final = getattr(socket, "TCP_INFO", None)
"""The option is Linux's; elsewhere nothing is counted."""
COUNTS: Final = struct.Struct("=QQ")
COUNTS_OFFSET: Final = 120
"""Where the kernel's `struct tcp_info` has `tcpi_bytes_acked` and `tcpi_bytes_received` (include/uapi/linux/tcp.h)."""

Counts = tuple[int, int]
"""Bytes that came in and that went out on one connection."""


class PortCounter:
    """Counts the bytes of all connections to a port of this process; safe to use from several threads."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._lock = threading.Lock()
        self._open: dict[str, Counts] = {}
        self._ended: Counts = (0, 0)

    def look(self) -> PortBytes | None:
        """The bytes so far; None if the kernel does not count them."""
        if TCP_INFO is None:
            return None
        with self._lock:
            try:
                found = dict(self._connections(TCP_INFO))
            except OSError:  # without /proc there are no connections to be found
                return None
            for connection in self._open.keys() - found.keys():
                self._ended = _sum(self._ended, self._open[connection])
            self._open = found
            up, down = self._ended
            for counts in found.values():
                up, down = _sum((up, down), counts)
            return PortBytes(up, down)

    def _connections(self, tcp_info: int) -> Iterator[tuple[str, Counts]]:
        """The open connections, each under a name that no later connection has, with the kernel's counts."""
        for file in os.listdir(OPEN_FILES):  # noqa: PTH208 - paths as objects would double the time
            # Files are opened and closed meanwhile; others are no sockets, or not connected.
            with suppress(OSError, struct.error):
                name = os.readlink(f"{OPEN_FILES}/{file}")  # noqa: PTH115 - as above
                if not name.startswith("socket:"):
                    continue
                with socket.socket(socket.AF_INET, socket.SOCK_STREAM, fileno=os.dup(int(file))) as copy:
                    address = copy.getsockname()
                    # The address of a socket between processes of one machine is a text or bytes.
                    if not isinstance(address, tuple) or address[1] != self._port:
                        continue
                    info = copy.getsockopt(socket.IPPROTO_TCP, tcp_info, COUNTS_OFFSET + COUNTS.size)
                    acked, received = COUNTS.unpack_from(info, COUNTS_OFFSET)
                    yield name, (received, acked)


def _sum(one: Counts, other: Counts) -> Counts:
    return one[0] + other[0], one[1] + other[1]
