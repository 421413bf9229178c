"""A session ends whole, and every party hears that the runs are over."""

import gc
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest

from fenchel_client.session import EndKind, SessionEnd
from fenchel_common.identity import Kit
from fenchel_common.ids import ClientId
from support.connections import Attending, Server, echo
from support.kits import make_federation

NORTH, SOUTH = ClientId("north"), ClientId("south")
BOTH = frozenset({NORTH, SOUTH})
WAIT_S = 20.0


@pytest.fixture
def kits(tmp_path: Path) -> dict[str, Path]:
    return make_federation(tmp_path)


@pytest.fixture
def server(kits: dict[str, Path]) -> Iterator[Server]:
    with Server(Kit.load(kits["server"])) as started:
        yield started


def open_calls() -> int:
    return sum(isinstance(found, grpc.Call) and isinstance(found, grpc.Future) for found in gc.get_objects())


@pytest.mark.parametrize(
    ("end", "kind"),
    [
        (lambda server, _: server.transport.dismiss("all runs are over"), EndKind.DISMISSED),
        (lambda _, attending: attending.session.stop(), EndKind.STOPPED),
    ],
    ids=["dismissed", "stopped"],
)
def test_a_session_leaves_no_call_that_could_block_the_end_of_its_process(
    kits: dict[str, Path], server: Server, end: Callable[[Server, Attending], None], kind: EndKind
) -> None:
    gc.collect()
    before = open_calls()
    with Attending(kits["north"], echo, server.address) as attending:
        assert server.transport.wait_for(frozenset({NORTH}), timeout_s=WAIT_S)
        assert open_calls() == before + 1
        end(server, attending)
        ended = attending.end()
        assert isinstance(ended, SessionEnd)
        assert ended.kind is kind
        assert open_calls() == before


def test_a_party_that_comes_after_the_dismissal_is_dismissed_too(kits: dict[str, Path], server: Server) -> None:
    with Attending(kits["north"], echo, server.address) as north:
        server.transport.wait_for(frozenset({NORTH}), timeout_s=WAIT_S)
        server.transport.dismiss("all runs are over")
        assert isinstance(north.end(), SessionEnd)
    assert server.transport.wait_dismissed(BOTH, timeout_s=0) == {SOUTH}
    with Attending(kits["south"], echo, server.address) as south:
        assert server.transport.wait_dismissed(BOTH, timeout_s=WAIT_S) == frozenset()
        assert south.end() == SessionEnd(EndKind.DISMISSED, "all runs are over")


def test_the_wait_for_parties_that_never_come_is_bounded(kits: dict[str, Path], server: Server) -> None:
    server.transport.dismiss("all runs are over")
    assert server.transport.wait_dismissed(BOTH, timeout_s=0.05) == BOTH
