"""HyFDCA with a server that adds up other contributions than the records say: no party opens such a sum.

Each case is one way to be wrong with one kind of sum: a contribution is missing, counted twice, or an older one.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import reduce
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from fenchel.v1 import hyfdca_pb2, records_pb2
from fenchel_client.algorithms.duals import own_norms
from fenchel_common.algorithms.dual import LOCAL_DUAL
from fenchel_common.algorithms.hyfdca import rounds
from fenchel_common.algorithms.hyfdca.rounds import RESTATE_AFTER
from fenchel_common.blocks import BlockSum, BlockVector, joined, summed_parts
from fenchel_common.crypto.vectors import Vector, total
from fenchel_common.errors import Refusal, TagMismatch
from fenchel_common.ids import ClientId
from fenchel_common.wire.records import round_task_from_bytes, round_task_to_bytes
from fenchel_server.algorithms.hyfdca.exchange import CHANGES, HyfdcaAnswer
from fenchel_server.algorithms.hyfdca.server import HyfdcaServer
from fenchel_server.algorithms.hyfdca.state import HyfdcaState
from fenchel_server.algorithms.intake import Answers, PhaseSums
from support.halves import forged
from support.hyfdca import CASE, FIRST, LAST, simulation
from support.problems import problem
from support.simulation import Simulation

Parts = Mapping[int, Vector]


def missing(given: Sequence[Parts], _old: Sequence[Parts]) -> list[Parts]:
    return list(given[1:])


def doubled(given: Sequence[Parts], _old: Sequence[Parts]) -> list[Parts]:
    return [*given, given[0]]


def swapped_for_another(given: Sequence[Parts], _old: Sequence[Parts]) -> list[Parts]:
    """As many contributions as before, one of them twice."""
    return [given[1], *given[1:]]


def older(given: Sequence[Parts], old: Sequence[Parts]) -> list[Parts]:
    return [old[0], *given[1:]]


Wrong = Callable[[Sequence[Parts], Sequence[Parts]], list[Parts]]
WRONG: list[Wrong] = [missing, doubled, swapped_for_another, older]


def state_of(run: Simulation) -> HyfdcaState:
    assert isinstance(run.server, HyfdcaServer)
    return run.server._state


def vertical(**values: Any) -> Simulation:
    """All parties hold all samples, and draw all of them: every sum is of all of them."""
    chosen = {"stop": {"gap": None}, "h": 120, "certificate_every": 2, **values}
    return simulation(problem(**CASE), (1, 4), **chosen)


def wrong_products(run: Simulation, wrong: Wrong) -> AbstractContextManager[Any]:
    old = [dict(parts) for parts in state_of(run).products.values()]

    def products_of(self: HyfdcaState, blocks: Sequence[int]) -> BlockVector | None:
        given = [{block: parts[block] for block in blocks} for parts in self.products.values()]
        return joined(blocks, summed_parts(wrong(given, [{b: parts[b] for b in blocks} for parts in old])))

    return patch.object(HyfdcaState, "products_of", products_of)


def with_wrong_sums(wrong_sums: Callable[[list[PhaseSums]], PhaseSums]) -> AbstractContextManager[Any]:
    """A server that takes other sums than it should from the answers to `local_dual`."""
    read, take, given = HyfdcaServer._read, HyfdcaServer._take_duals, list[PhaseSums]()

    def remembering(self: HyfdcaServer, phase: str, client: ClientId, body: bytes) -> tuple[HyfdcaAnswer, PhaseSums]:
        kept, sums = read(self, phase, client, body)
        if phase == LOCAL_DUAL:
            given.append(sums)
        return kept, sums

    def tampering(self: HyfdcaServer, answers: Answers[HyfdcaAnswer]) -> None:
        take(self, replace(answers, sums=wrong_sums(given)))

    return patch.multiple(HyfdcaServer, _read=remembering, _take_duals=tampering)


def wrong_changes(run: Simulation, wrong: Wrong) -> AbstractContextManager[Any]:
    old = [dict(state_of(run).alpha)]

    def wrong_sums(given: list[PhaseSums]) -> PhaseSums:
        parts = wrong([sums.by_block(CHANGES).parts() for sums in given], old)
        altered = [PhaseSums({CHANGES: BlockSum.of(joined(sorted(part), part))}) for part in parts]
        others = [replace(sums, blocks={**sums.blocks, CHANGES: BlockSum()}) for sums in given]
        return reduce(PhaseSums.plus, [*others, *altered])

    return with_wrong_sums(wrong_sums)


def wrong_figures(_run: Simulation, wrong: Wrong) -> AbstractContextManager[Any]:
    def wrong_sums(given: list[PhaseSums]) -> PhaseSums:
        (key,) = given[0].numbers
        figures = [{0: sums.numbers[key]} for sums in given]
        altered = total([parts[0] for parts in wrong(figures, [figures[-1]])])
        return replace(reduce(PhaseSums.plus, given), numbers={key: altered})

    return with_wrong_sums(wrong_sums)


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("tamper", [wrong_products, wrong_changes, wrong_figures])
def test_a_sum_of_other_contributions_than_those_on_record_does_not_open(
    tamper: Callable[[Simulation, Wrong], AbstractContextManager[Any]], wrong: Wrong
) -> None:
    run = vertical()
    run.run(3)
    with tamper(run, wrong), pytest.raises(TagMismatch):
        run.round()


def shared_features(**values: Any) -> Simulation:
    """All parties hold all features, so that w is the sum of four contributions."""
    chosen = {"stop": {"gap": None}, "h": 20, **values}
    return simulation(problem(**CASE), (4, 1), **chosen)


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("finishing", [False, True])
def test_a_model_of_other_contributions_does_not_open_in_a_round_or_at_the_end(wrong: Wrong, finishing: bool) -> None:
    run = shared_features()
    run.run(2)
    state = state_of(run)
    old = [dict(parts) for parts in state.contributions.values()]
    run.run(3)
    given = [dict(parts) for parts in state.contributions.values()]
    altered = summed_parts(wrong(given, old))
    if finishing:
        run.run(4)
        state.model = altered
        with pytest.raises(TagMismatch):
            run.model()
    else:
        with patch.object(HyfdcaState, "summed_contributions", lambda _: altered), pytest.raises(TagMismatch):
            run.round()


def test_a_model_that_is_newer_than_the_one_that_entered_the_round_does_not_open_at_the_end() -> None:
    """Only the certified model is the result of a run."""
    run = shared_features()
    run.run(3)
    state_of(run).model = state_of(run).summed_contributions()
    with pytest.raises(TagMismatch):
        run.model()


def test_norms_without_the_part_of_a_holder_do_not_open() -> None:
    run = vertical()
    state_of(run).norms = norms_of(run, LAST)
    with pytest.raises(TagMismatch):
        run.round()


def norms_of(run: Simulation, client: ClientId) -> dict[int, Vector]:
    """One party's part of the norms, made anew."""
    half = run.clients[client]
    norms = own_norms(half._rows, half._codec)
    assert norms is not None
    return norms.parts()


def test_dual_variables_that_were_stated_anew_and_kept_as_they_were_do_not_open() -> None:
    run = vertical()
    with patch.object(HyfdcaState, "restate", lambda *_: None), pytest.raises(TagMismatch):
        run.run(RESTATE_AFTER // 4 + 1)
    assert len(run.reports) == RESTATE_AFTER // 4, "four parties change each block in each round"


def test_dual_variables_of_an_earlier_round_do_not_open_at_a_client_that_comes_back() -> None:
    run = vertical(h=30)
    run.run(3)
    before = dict(state_of(run).alpha)
    run.round()
    run.restart(FIRST)
    state_of(run).alpha = before
    with pytest.raises(TagMismatch):
        run.round(restarted=frozenset({FIRST}))


def test_a_block_cannot_stand_in_for_another() -> None:
    run = vertical()
    run.round()
    size = 8 * 30

    def exchange(message: hyfdca_pb2.HyfdcaPrimalTask) -> None:
        plain = message.alpha.vector.plain
        plain.values = plain.values[size : 2 * size] + plain.values[:size] + plain.values[2 * size :]
        width = len(plain.tags) // 4
        plain.tags = plain.tags[width : 2 * width] + plain.tags[:width] + plain.tags[2 * width :]

    run.forging[(2, "primal", FIRST)] = forged(hyfdca_pb2.HyfdcaPrimalTask, exchange)
    with pytest.raises(TagMismatch):
        run.round()


def test_a_server_that_tells_two_parties_different_choices_gets_no_sum_that_opens() -> None:
    """One party is told that fewer samples are drawn; its confirmation is then of another story."""
    run = vertical(h="auto", certificate_every=1)
    run.run(2)

    def retell(task: bytes) -> bytes:
        first, records, body = round_task_from_bytes(task)
        return round_task_to_bytes(body, first=first, records=[*map(with_other_shares, records)])

    run.forging[(3, "inner_product", LAST)] = retell
    with pytest.raises(Refusal, match="a party has not confirmed a record that names it"):
        run.round()


def with_other_shares(record: bytes) -> bytes:
    message = records_pb2.PhaseRecord.FromString(record)
    if message.phase != "round":
        return record
    choices = hyfdca_pb2.HyfdcaRoundChoices.FromString(message.choices)
    for position in range(len(choices.shares)):
        choices.shares[position] *= 0.5
    message.choices = choices.SerializeToString(deterministic=True)
    return message.SerializeToString(deterministic=True)


@pytest.mark.parametrize("participation", ["all", "cyclic:2"])
def test_stating_dual_variables_anew_changes_no_bit_and_keeps_sums_short(participation: str) -> None:
    case = problem(**CASE)
    runs = [
        simulation(case, participation=participation, certificate_every=0, stop={"gap": None}, h=30) for _ in range(2)
    ]
    restating, never = runs
    restating.run(70)
    with patch.object(rounds, "RESTATE_AFTER", 10**6):
        never.run(70)
    np.testing.assert_array_equal(restating.model(), never.model())
    np.testing.assert_array_equal(restating.alpha(case.ids), never.alpha(case.ids))
    longest = [max(vector.terms for vector in state_of(run).alpha.values()) for run in runs]
    assert longest[0] <= RESTATE_AFTER + 2 < longest[1]


def test_a_client_that_comes_back_after_a_restatement_goes_on_with_the_same_bits() -> None:
    calm, shaken = vertical(h=60), vertical(h=60)
    calm.run(30)
    shaken.run(20)
    for round_id in range(21, 31):
        shaken.restore(shaken.server.snapshot())
        shaken.restart(LAST)
        shaken.round()
        assert shaken.reports[-1].metrics == calm.reports[round_id - 1].metrics
    restated = [
        hyfdca_pb2.HyfdcaDualResult.FromString(result).HasField("restated")
        for _, phase, _, _, result in shaken.messages
        if phase == "local_dual"
    ]
    assert any(restated)
    np.testing.assert_array_equal(calm.model(), shaken.model())
