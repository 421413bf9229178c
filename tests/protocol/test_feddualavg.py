"""FedDualAvg over whole federations: beside the open algorithm, against the optimum, encrypted and disturbed."""

import numpy as np
import pytest
from numpy.typing import NDArray

from fenchel_common.crypto.runkey import RunKey
from fenchel_common.data.partition import partition
from fenchel_common.ids import ClientId
from fenchel_common.losses import LOSSES
from support.averaging import Averaging
from support.keys import SMALL_BITS, cipher, run_key
from support.problems import problem

Array = NDArray[np.float64]

LAMBDA = 0.05
SMALL = problem(rows=70, columns=8, loss="logistic", lambda_=LAMBDA)
SHARDS = partition(SMALL.data, grid=(3, 1))
KEY = run_key(2 * SMALL_BITS)
CIPHER = cipher(2 * SMALL_BITS)
THIRD = ClientId("party-02")


def small_run(*, parties: int = 3, **values: object) -> Averaging:
    shards = SHARDS if parties == 3 else partition(SMALL.data, grid=(parties, 1))
    settings: dict[str, object] = {"lambda": LAMBDA, "measure_every": 0, "client_step": 4.0, **values}
    return Averaging.of("feddualavg", shards, settings)


def model_of(run: Averaging) -> Array:
    return run.weights(SMALL.data.features)


def error(run: Averaging) -> float:
    return SMALL.primal(model_of(run)) / SMALL.optimum - 1.0


def test_the_federation_does_what_algorithm_3_says() -> None:
    """Algorithm 3 with h = ½ ‖·‖² and ψ = λ/2 ‖·‖², in floating point beside the run in fixed point."""
    run = small_run(client_step=0.5, server_step=1.5, local_steps=3)
    run.run(6)
    z, loss = np.zeros(8), LOSSES["logistic"]
    for r in range(6):
        ends = []
        for shard in SHARDS:
            assert shard.y is not None
            local = z
            for k in range(3):
                w = local / (1.0 + LAMBDA * (1.5 * 0.5 * r * 3 + 0.5 * k))
                slope = shard.X.T @ loss.subgradient(shard.X @ w, shard.y) * 3.0 / len(SMALL.data.y)
                local = local + 0.5 * slope
            ends.append(local)
        z = z + 1.5 * (np.mean(ends, axis=0) - z)
    expected = z / (1.0 + LAMBDA * 1.5 * 0.5 * 6 * 3)
    assert model_of(run) == pytest.approx(expected, abs=1e-7)


def test_with_one_local_step_the_error_falls_as_one_over_the_square_of_the_rounds() -> None:
    """The distance from the optimum falls as 1/r, so P − P* falls as 1/r²."""
    errors = []
    for rounds in (30, 120):
        run = small_run(local_steps=1)
        run.run(rounds)
        errors.append(error(run))
    assert errors[1] < 1e-3
    assert errors[1] < errors[0] / 8.0


def test_with_more_local_steps_it_stops_short_unless_the_parties_are_one() -> None:
    several, one = small_run(local_steps=50), small_run(local_steps=50, parties=1)
    for run in (several, one):
        run.run(60)
    assert error(several) > 100.0 * error(one) > 0.0
    assert error(one) < 1e-5


def test_a_party_that_misses_rounds_does_not_stop_the_others() -> None:
    run = small_run(local_steps=1)
    run.absent = lambda round_id, _phase, client: round_id in (3, 4, 9) and client == THIRD
    run.run(100)
    assert error(run) < 2e-3


def test_runs_with_every_cipher_and_in_clear_agree_bit_for_bit() -> None:
    keys = (
        {"key": RunKey.in_clear(KEY.bits)},
        {"cipher": CIPHER, "key": KEY},
        {"key": RunKey.of_masks(KEY.bits)},
    )
    models = []
    for key in keys:
        run = Averaging.of("feddualavg", SHARDS, {"lambda": LAMBDA}, **key)
        run.run(3)
        models.append(model_of(run))
    assert np.array_equal(models[0], models[1])
    assert np.array_equal(models[0], models[2])


def test_a_server_killed_in_a_round_ends_with_the_result_of_an_undisturbed_run() -> None:
    undisturbed, run = small_run(), small_run()
    undisturbed.run(12)
    run.kill_server_in(11)
    run.restart(THIRD)
    run.round(restarted=run.names)
    run.run(1)
    assert np.array_equal(model_of(run), model_of(undisturbed))


def test_classes_are_taken_too() -> None:
    rng = np.random.default_rng(0)
    labelled = [
        type(shard)(shard.ids, shard.features, shard.X, rng.integers(0, 3, size=len(shard.ids)).astype(np.float64))
        for shard in SHARDS
    ]
    run = Averaging.of("feddualavg", labelled, {"loss": "multinomial", "classes": 3, "lambda": LAMBDA})
    report = run.run(3)
    assert report.metrics.primal is not None
    assert report.metrics.primal < np.log(3.0)
    assert model_of(run).shape == (8, 3)
