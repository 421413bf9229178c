"""Corrective HyFDCA with a server that adds other contributions than the record names: no party opens such a sum."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import pytest

from fenchel_client.crypto.plain import PlainCipher
from fenchel_common.blocks import BlockSum, BlockVector
from fenchel_common.data.partition import partition
from fenchel_common.errors import TagMismatch
from fenchel_common.ids import ClientId
from fenchel_deploy.inprocess.layouts import KEY_BITS
from fenchel_server.algorithms.corrective.server import CorrectiveServer
from support.corrective import CASE, FIRST, RESULTS, SECOND, at_level, settings, simulation, state_of
from support.forgeries import FORGERIES, altered, exchanged, nudged
from support.halves import half_a_round
from support.problems import problem
from support.simulation import Simulation

SMALL = {**CASE, "rows": 40, "lambda_": 0.1, "seed": 3}
"""The new point and the new vertex have weights in rounds 2 and 3, so that parties open the products of both."""
THIRD = ClientId("party-02")
"""In a grid of two by two, it has the features of FIRST, and SECOND has the samples of FIRST."""
NOBODY: frozenset[ClientId] = frozenset()

OPENED: Final[dict[str, tuple[int, str]]] = {
    "inner_product.point": (2, "local_dual"),
    "inner_product.vertex": (2, "local_dual"),
    "inner_product.gram": (2, "local_dual"),
    "local_dual.point": (2, "primal"),
    "local_dual.figures": (2, "primal"),
    "local_dual.alpha": (3, "inner_product"),
    "local_dual.weights": (3, "inner_product"),
    "primal.point": (3, "inner_product"),
    "primal.vertex": (3, "inner_product"),
    "primal.conjugates_and_products": (3, "inner_product"),
    "primal.model": (3, "inner_product"),
}
"""The round and the phase in which parties open a field of round 2."""
FROM_THE_SERVER: Final = {"local_dual.alpha", "local_dual.weights", "primal.model"}
"""Who remembers these does not ask for them."""


def opens_everything(run: Simulation, name: str) -> None:
    """Rounds 2 and 3, in which every field of round 2 is opened by somebody: by one who has forgotten, if need be."""
    run.round(restarted=_forgetting(run, name == "inner_product.gram"))
    run.round(restarted=_forgetting(run, name in FROM_THE_SERVER))


def _forgetting(run: Simulation, forgets: bool) -> frozenset[ClientId]:
    """All parties forget, if this one does: a round of all that begins anew has as many Gram entries as another one."""
    names = run.names if forgets else NOBODY
    for client in names:
        run.restart(client)
    return names


def refuses(run: Simulation, name: str, *, later: int = 0) -> None:
    """That a field of round 2, or of a round so much later, is refused where parties open it."""
    with pytest.raises(TagMismatch):
        opens_everything(run, name)
    round_id, phase = OPENED[name]
    assert run.phases[-1] == (round_id + later, phase)


def test_honest_rounds_open_everything() -> None:
    for name in OPENED:
        run = simulation(problem(**SMALL))
        run.run(1)
        opens_everything(run, name)
        assert len(run.reports) == 3


@pytest.mark.parametrize("forgery", FORGERIES)
@pytest.mark.parametrize("name", OPENED)
def test_a_contribution_that_is_left_out_counted_twice_or_added_to_is_refused(name: str, forgery: str) -> None:
    run = simulation(problem(**SMALL))
    phase, field = name.split(".")
    run.tampering[(2, phase, FIRST)] = altered(RESULTS[phase], field, FORGERIES[forgery], run.key)
    run.run(1)
    refuses(run, name)


@pytest.mark.parametrize("name", OPENED)
def test_under_a_real_key_they_are_refused_too(name: str) -> None:
    run = at_level(problem(**SMALL), (2, 2), "sealed")
    phase, field = name.split(".")
    run.tampering[(2, phase, FIRST)] = altered(RESULTS[phase], field, nudged, run.key)
    run.run(1)
    refuses(run, name)


@pytest.mark.parametrize("name", OPENED)
def test_without_tags_nobody_would_notice(name: str) -> None:
    """So the other tests fail for the reason that they are about."""
    case = problem(**SMALL)
    run = Simulation.of(partition(case.data, grid=(2, 2)), settings(case), cipher=PlainCipher(KEY_BITS))
    phase, field = name.split(".")
    run.tampering[(2, phase, FIRST)] = altered(RESULTS[phase], field, nudged, run.key)
    run.run(1)
    opens_everything(run, name)
    assert len(run.reports) == 3


def answer_of(run: Simulation, round_id: int, phase: str, client: ClientId) -> Callable[[], bytes]:
    """The first answer of a client to a phase."""

    def find() -> bytes:
        return next(
            result for at, during, who, _, result in run.messages if (at, during, who) == (round_id, phase, client)
        )

    return find


@pytest.mark.parametrize("name", OPENED)
def test_a_contribution_of_an_earlier_round_is_refused(name: str) -> None:
    run = simulation(problem(**SMALL))
    phase, field = name.split(".")
    # In round 1 all products are zero, and nobody sends them.
    earlier = 2 if name in ("inner_product.point", "inner_product.vertex") else 1
    run.tampering[(earlier + 1, phase, FIRST)] = exchanged(RESULTS[phase], field, answer_of(run, earlier, phase, FIRST))
    run.run(earlier)
    refuses(run, name, later=earlier - 1)


@pytest.mark.parametrize("name", OPENED)
def test_a_contribution_of_an_earlier_attempt_at_the_round_is_refused(name: str) -> None:
    """Its values are the same: the parties repeat the round bit by bit."""
    run = simulation(problem(**SMALL))
    phase, field = name.split(".")
    run.run(1)
    committed = run.server.snapshot()
    if name == "inner_product.gram":
        run.round(restarted=_forgetting(run, forgets=True))
        run.reports.pop()
    else:
        half_a_round(run, 2, until="")
    run.restore(committed)
    run.tampering[(2, phase, FIRST)] = exchanged(RESULTS[phase], field, answer_of(run, 2, phase, FIRST))
    refuses(run, name)


@pytest.mark.parametrize(
    ("name", "giver", "taker"),
    [
        ("inner_product.point", FIRST, SECOND),
        ("inner_product.vertex", FIRST, SECOND),
        ("inner_product.gram", FIRST, SECOND),
        ("local_dual.point", FIRST, SECOND),
        ("local_dual.figures", FIRST, SECOND),
        ("primal.point", FIRST, THIRD),
        ("primal.vertex", FIRST, THIRD),
        ("primal.conjugates_and_products", FIRST, SECOND),
    ],
)
def test_the_contribution_of_one_party_does_not_pass_for_that_of_another(
    name: str, giver: ClientId, taker: ClientId
) -> None:
    run = simulation(problem(**SMALL))
    phase, field = name.split(".")
    run.tampering[(2, phase, taker)] = exchanged(RESULTS[phase], field, answer_of(run, 2, phase, giver))
    run.run(1)
    refuses(run, name)


@pytest.mark.parametrize(
    ("phase", "field", "other"),
    [
        ("inner_product", "point", "vertex"),
        ("primal", "point", "vertex"),
        ("primal", "vertex", "point"),
        ("primal", "model", "point"),
    ],
)
def test_one_field_of_a_message_does_not_pass_for_another(phase: str, field: str, other: str) -> None:
    run = simulation(problem(**SMALL))

    def exchange(body: bytes) -> bytes:
        message = RESULTS[phase].FromString(body)
        getattr(message, field).CopyFrom(getattr(RESULTS[phase].FromString(body), other))
        return message.SerializeToString()

    run.tampering[(2, phase, FIRST)] = exchange
    run.run(1)
    refuses(run, f"{phase}.{field}")


@pytest.mark.parametrize("forgery", FORGERIES)
def test_norms_of_rows_that_are_not_those_of_all_holders_are_refused(forgery: str) -> None:
    run = simulation(problem(**SMALL))
    state, server = state_of(run), run.server
    assert isinstance(server, CorrectiveServer)
    forged = [BlockVector((block,), FORGERIES[forgery](part)) for block, part in state.norms.parts().items()]
    server._states = [replace(state, norms=BlockSum(tuple(forged)))]
    with pytest.raises(TagMismatch):
        run.round()
    assert run.phases[-1] == (1, "local_dual")
