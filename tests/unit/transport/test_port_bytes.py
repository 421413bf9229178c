"""The bytes at a port, as the kernel counts them."""

import socket
from collections.abc import Iterator

import pytest

from fenchel_server.rounds.transport import PortBytes
from fenchel_server.transport import portbytes
from fenchel_server.transport.portbytes import PortCounter


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as opened:
        yield opened


def exchange(listener: socket.socket, *, up: int, down: int) -> tuple[socket.socket, socket.socket]:
    """A connection on which that much has been sent each way, and has arrived."""
    caller = socket.create_connection(listener.getsockname())
    answerer, _ = listener.accept()
    for sender, receiver, size in ((caller, answerer, up), (answerer, caller, down)):
        sender.sendall(bytes(size))
        receiver.recv(size, socket.MSG_WAITALL)
    return caller, answerer


def test_bytes_of_open_and_ended_connections_to_the_port_are_counted(listener: socket.socket) -> None:
    counter = PortCounter(listener.getsockname()[1])
    assert counter.look() == PortBytes(0, 0)
    first, second = (exchange(listener, up=1000, down=300), exchange(listener, up=20, down=4000))
    both = counter.look()
    assert both == PortBytes(1020, 4300)
    for end in (*first, *second):
        end.close()
    assert counter.look() == both
    caller, answerer = exchange(listener, up=5, down=6)
    with caller, answerer:
        assert counter.look() == PortBytes(1025, 4306)


def test_other_ports_of_the_process_do_not_count(listener: socket.socket) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        counter = PortCounter(other.getsockname()[1])
        for end in exchange(listener, up=1000, down=300):
            end.close()
        assert counter.look() == PortBytes(0, 0)


def test_where_the_kernel_does_not_count_the_bytes_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portbytes, "TCP_INFO", None)
    assert PortCounter(1).look() is None


def test_sockets_between_processes_of_the_machine_do_not_count(listener: socket.socket) -> None:
    one, other = socket.socketpair()
    with one, other:
        assert PortCounter(listener.getsockname()[1]).look() == PortBytes(0, 0)
