"""A relay between client and server that a test can make slow, or cut; and ports that are free."""

import queue
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

_READ_BYTES = 64 * 1024


def free_port() -> int:
    """A port that nothing uses now, for programs that cannot choose one themselves."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


class Network:
    """Forwards TCP connections to a port on this machine, each byte `delay_s` after it came in."""

    def __init__(self, port: int, *, delay_s: float = 0.0) -> None:
        self._target_port = port
        self._delay_s = delay_s
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        self._flowing = threading.Event()
        self._flowing.set()
        self._lock = threading.Lock()
        self.port: int = self._listener.getsockname()[1]
        self._spawn(self._accept)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A plain close would leave the thread in accept() waiting on a dead descriptor.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def cut(self) -> None:
        """Breaks every connection; new ones can be made."""
        with self._lock:
            for end in self._sockets:
                _close(end)
            self._sockets.clear()

    def freeze(self) -> None:
        """Stops forwarding on the open connections, without telling either end."""
        with self._lock:
            self._flowing.clear()
            self._flowing = threading.Event()
            self._flowing.set()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self._target_port))
            except OSError:
                near.close()
                continue
            with self._lock:
                self._sockets += [near, far]
            for source, sink in ((near, far), (far, near)):
                source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                waiting: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()
                self._spawn(self._read, source, waiting)
                self._spawn(self._write, sink, waiting, self._flowing)

    def _read(self, source: socket.socket, waiting: "queue.SimpleQueue[tuple[float, bytes]]") -> None:
        data = b"."
        while data:
            try:
                data = source.recv(_READ_BYTES)
            except OSError:
                data = b""
            waiting.put((time.monotonic() + self._delay_s, data))

    def _write(
        self,
        sink: socket.socket,
        waiting: "queue.SimpleQueue[tuple[float, bytes]]",
        flowing: threading.Event,
    ) -> None:
        pause = threading.Event()
        while True:
            due_s, data = waiting.get()
            pause.wait(max(0.0, due_s - time.monotonic()))
            flowing.wait()
            try:
                if not data:
                    sink.shutdown(socket.SHUT_WR)
                    return
                sink.sendall(data)
            except OSError:
                return

    def _spawn(self, target: Callable[..., None], *args: object) -> None:
        threading.Thread(target=target, args=args, daemon=True).start()


def _close(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
