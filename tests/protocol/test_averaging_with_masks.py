"""Averaging with masks: sums open only if all contribute that were to, and a round that lacks one is begun anew."""

from functools import reduce
from typing import Any

import pytest

from fenchel_client.algorithms.averaging.log import same_origins
from fenchel_client.algorithms.averaging.work import FIGURES_FIELD
from fenchel_common.algorithms.averaging.rails import LOCAL, MEASURE
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.data.partition import partition
from fenchel_common.errors import ResultRejected, TagMismatch
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.wire.averaging import result_from_bytes
from fenchel_deploy.inprocess.layouts import KEY_BITS
from support.averaging import Averaging
from support.problems import problem

SMALL = problem(rows=60, columns=8, lambda_=0.1)
FAILING = ClientId("party-01")
ALGORITHMS = ("fedavg", "dualfl", "scaffnew", "feddr", "apda", "hyfem", "scaffold", "scaffpd", "fedsgm")


class Failing(Averaging):
    """In some rounds one party gives no answer to `local`."""

    fails_in: frozenset[int] = frozenset()

    def answer(self, round_id: RoundId, phase: str, client: ClientId, body: bytes) -> bytes | None:
        answered = super().answer(round_id, phase, client, body)
        return None if client == FAILING and phase == LOCAL and round_id in self.fails_in else answered


def run_of(algorithm: str, *, masked: bool, fails_in: frozenset[int] = frozenset(), **settings: Any) -> Failing:
    key = RunKey.of_masks(KEY_BITS) if masked else RunKey.in_clear(KEY_BITS)
    values = {"lambda": SMALL.lambda_, "measure_every": 2, **settings}
    made = Failing.of(algorithm, partition(SMALL.data, grid=(3, 1)), values, key=key)
    assert isinstance(made, Failing)
    made.fails_in = fails_in
    return made


def state_of(run: Failing) -> dict[ClientId, dict[str, list[float]]]:
    return {client: {name: values.tolist() for name, values in state.items()} for client, state in run.states().items()}


def after(run: Failing, rounds: int) -> list[float]:
    for _ in range(rounds):
        run.round()
    weights: list[float] = run.weights(SMALL.data.features).tolist()
    return weights


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_masks_give_the_model_of_the_run_in_clear(algorithm: str) -> None:
    assert after(run_of(algorithm, masked=True), 4) == after(run_of(algorithm, masked=False), 4)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_round_in_which_a_trainer_fails_is_begun_anew_and_changes_nothing(algorithm: str) -> None:
    run = run_of(algorithm, masked=True, fails_in=frozenset({3}))
    run.round()
    run.round()
    before, committed = state_of(run), run.server.snapshot()
    with pytest.raises(ResultRejected, match="masks cancel only if all contribute that were to train") as caught:
        run.round()
    assert caught.value.client == FAILING
    run.restore(committed)
    assert state_of(run) == before
    run.fails_in = frozenset()
    assert len(run.round(restarted=run.names).metrics.participants) == 3
    assert state_of(run) != before


def test_in_clear_a_round_goes_on_without_the_one_that_failed() -> None:
    run = run_of("fedavg", masked=False, fails_in=frozenset({1}))
    assert len(run.round().metrics.participants) == 2


def vertical_run() -> Averaging:
    """Three parties that hold all samples together, and measure in each round."""
    values: dict[str, object] = {"lambda": SMALL.lambda_, "measure_every": 1}
    return Averaging.of("hyfem", partition(SMALL.data, grid=(1, 3)), values, key=RunKey.of_masks(KEY_BITS))


def test_figures_of_shared_samples_open_as_the_sum_of_all_parties_alone() -> None:
    """One party reports on these samples, and the others give zeros. Any party has the key of the group."""
    run = vertical_run()
    run.round()
    reader = run.clients[FAILING]
    on_record = run.participants[FAILING].transcript.book.round.figures
    stamps = {stamp.party: stamp for stamp in on_record if stamp.moment.phase == MEASURE}
    answers = {client: answer for _, phase, client, _, answer in run.messages if phase == MEASURE}
    assert set(stamps) == set(answers) == run.names
    given = {
        client: result_from_bytes(answer, run.clients[client]._scope).figures for client, answer in answers.items()
    }

    def samples_in(parties: tuple[ClientId, ...]) -> int:
        first, *others = (figures for client in parties if (figures := given[client]) is not None)
        total = reduce(lambda sum_, figures: sum_.plus(figures), others, first)
        return reader._figures.opened(
            total, same_origins([stamps[client] for client in parties], FIGURES_FIELD)
        ).samples

    everybody = tuple(sorted(run.names))
    assert samples_in(everybody) == len(SMALL.data.y)
    for parties in (everybody[:1], everybody[1:], everybody[:2]):
        with pytest.raises(TagMismatch):
            samples_in(parties)


def test_a_party_that_fails_in_measure_costs_the_measurement_alone() -> None:
    run = vertical_run()
    run.absent = lambda round_id, phase, client: (round_id, phase, client) == (1, MEASURE, FAILING)
    missed = run.round().metrics
    assert (missed.primal, len(missed.participants)) == (None, 3)
    assert "not measured" in missed.note
    assert run.round().metrics.primal is not None
