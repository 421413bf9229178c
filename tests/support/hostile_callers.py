"""For tests with hostile callers: a server with an honest party, and the check that both stay unharmed."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fenchel_common.ids import ClientId
from fenchel_common.wire.chunks import CHUNK_BYTES
from support.commanded_server import Commanded, commanded_server
from support.connections import Attending, echo

NORTH = ClientId("north")
HONEST_BYTES = 3 * CHUNK_BYTES
GROWTH_MB = 24.0
"""What an attack may leave behind: buffers of connections that have not ended yet, and what the allocator keeps."""
SOCKET_S = 10.0
"""Well beyond the time in which this server drops a caller that does not prove who it is."""


@contextmanager
def attended_server(kits: dict[str, Path]) -> Iterator[Commanded]:
    """A server with one honest party, after the first rounds have taken the memory that rounds take."""
    with (
        commanded_server(kits["server"]) as running,
        Attending(kits["north"], echo, running.address),
    ):
        for _ in range(3):
            assert running.gather({NORTH: HONEST_BYTES}).results == {NORTH: HONEST_BYTES}
        yield running
        assert running.running


@contextmanager
def unharmed(server: Commanded, *, growth_mb: float = GROWTH_MB) -> Iterator[None]:
    """During and after the block honest rounds are run, and the memory does not grow beyond the bound."""
    before_mb = server.memory_mb
    yield
    assert server.gather({NORTH: HONEST_BYTES}).results == {NORTH: HONEST_BYTES}
    assert server.running
    assert server.memory_mb - before_mb < growth_mb


def another_party_comes_and_goes(server: Commanded, kits: dict[str, Path]) -> None:
    """A party that was not connected gets in; a phase that was open before it came counts it as restarted."""
    with Attending(kits["west"], echo, server.address):
        phases = (server.gather({"west": 10, NORTH: 10}) for _ in range(5))
        assert any(outcome.absences == {} for outcome in phases)
