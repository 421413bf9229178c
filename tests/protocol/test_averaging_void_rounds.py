"""Averaging with masks: a round counts only if all contribute that were to train, and few rounds may be given up."""

from typing import Any

import pytest

from fenchel_client.algorithms.givenup import MAX_ROUNDS_GIVEN_UP
from fenchel_common.algorithms.averaging.rails import LOCAL
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.data.partition import partition
from fenchel_common.errors import Refusal
from fenchel_common.ids import ClientId, RoundId
from fenchel_deploy.inprocess.layouts import KEY_BITS
from support.averaging import Averaging
from support.problems import problem

SMALL = problem(rows=60, columns=8, lambda_=0.1)
FAILING = ClientId("party-01")
ALGORITHMS = ("fedavg", "dualfl", "scaffnew", "hyfem", "scaffold", "scaffpd", "fedsgm")


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
def test_a_round_in_which_a_trainer_fails_changes_nothing_and_the_run_goes_on(algorithm: str) -> None:
    run = run_of(algorithm, masked=True, fails_in=frozenset({3}))
    run.round()
    run.round()
    before = state_of(run)
    void = run.round()
    assert void.metrics.participants == ()
    assert set(void.metrics.absences) == {FAILING}
    assert state_of(run) == before
    assert len(run.round().metrics.participants) == 3
    assert state_of(run) != before


def test_in_clear_a_round_goes_on_without_the_one_that_failed() -> None:
    run = run_of("fedavg", masked=False, fails_in=frozenset({1}))
    assert len(run.round().metrics.participants) == 2


def test_a_party_lets_few_rounds_be_given_up() -> None:
    """Each of them shows a server that colludes with a party one contribution."""
    run = run_of("fedavg", masked=True, fails_in=frozenset(range(1, MAX_ROUNDS_GIVEN_UP + 2)))
    for _ in range(MAX_ROUNDS_GIVEN_UP + 1):
        run.round()
    with pytest.raises(Refusal, match=f"more than {MAX_ROUNDS_GIVEN_UP} were given up"):
        run.round()
