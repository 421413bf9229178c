"""FedSGM over whole federations: beside the open algorithm, encrypted, disturbed, with constraints of one's own."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from fenchel_client.algorithms.averaging.constraints import constrained_problem
from fenchel_client.algorithms.averaging.fedsgm import local_change
from fenchel_common.algorithms.averaging.fedsgm import FedsgmSettings
from fenchel_common.algorithms.fitting import check_partition
from fenchel_common.algorithms.settings import Partition
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.data.heterogeneous import row_shards, stratified_rows
from fenchel_common.errors import InvalidConfig, InvalidInput
from fenchel_common.ids import ClientId
from fenchel_server.algorithms.averaging.fedsgm import switching_weight
from support.averaging import Averaging
from support.keys import SMALL_BITS, cipher, run_key
from support.problems import problem

Array = NDArray[np.float64]

SMALL = problem(rows=60, columns=24, loss="logistic", lambda_=0.1)
SHARDS = row_shards(SMALL.data, stratified_rows(SMALL.data.y, 3, seed=0))
KEY = run_key(2 * SMALL_BITS)
CIPHER = cipher(2 * SMALL_BITS)
COMPRESSIONS = ("none", "rand_k", "top_k", "quantised")
BASE: dict[str, object] = {"tolerance": 0.4, "step": 2.0, "k": 6}


def small_run(*, sealed: bool = False, masked: bool = False, **values: object) -> Averaging:
    settings = BASE | values
    if sealed:
        return Averaging.of("fedsgm", SHARDS, settings, cipher=CIPHER, key=KEY)
    key = RunKey.of_masks(KEY.bits) if masked else RunKey.in_clear(KEY.bits)
    return Averaging.of("fedsgm", SHARDS, settings, key=key)


def model_of(run: Averaging) -> Array:
    return run.weights(SMALL.data.features)


@pytest.mark.parametrize("switching", ["hard", "soft"])
def test_the_federation_does_what_algorithm_1_says(switching: str) -> None:
    """Algorithm 1 and the w̄ of Theorems 6 and 7, in floating point beside the run in fixed point."""
    run = small_run(switching=switching)
    run.run(12)
    settings = run.settings
    assert isinstance(settings, FedsgmSettings)
    clients = []
    for shard in SHARDS:
        assert shard.y is not None
        clients.append(constrained_problem(settings, shard.X, shard.y))
    w = total = np.zeros(24)
    weight = 0.0
    for _ in range(12):
        excess = float(np.mean([client.constraint(w)[0] for client in clients])) - settings.tolerance
        switch = switching_weight(excess, rule=settings.switching, beta=settings.beta)
        total, weight = total + (1.0 - switch) * w, weight + 1.0 - switch
        w = w - 2.0 * np.mean([local_change(c, w, switch=switch, step=2.0, steps=5) for c in clients], axis=0)
    assert 0.0 < weight < 12.0
    np.testing.assert_allclose(model_of(run), total / weight, atol=1e-7)


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_a_run_with_every_cipher_is_bit_for_bit_the_run_in_clear(compression: str) -> None:
    clear, *hidden = (
        small_run(compression=compression, sealed=sealed, masked=masked)
        for sealed, masked in ((False, False), (True, False), (False, True))
    )
    clear.run(4)
    for run in hidden:
        run.run(4)
        assert np.array_equal(model_of(clear), model_of(run))
        assert clear.reports[-1].metrics.figures == run.reports[-1].metrics.figures
    assert model_of(clear).any()


@pytest.mark.parametrize("compression", ["rand_k", "quantised"])
def test_compression_saves_ciphertexts(compression: str) -> None:
    """24 coordinates of a model take 4 ciphertexts of this key, 6 of them or 24 in quantised lanes take 1."""
    sizes = {}
    for name in ("none", compression):
        run = small_run(sealed=True, compression=name, measure_every=0)
        run.round()
        sizes[name] = sum(len(result) for _, phase, _, _, result in run.messages if phase == "local")
    assert sizes[compression] < 0.4 * sizes["none"]


def test_coordinates_of_each_partys_own_cost_as_many_ciphertexts_as_no_compression() -> None:
    """A packed ciphertext is as dear for one value as for all its slots, and parties send different ones."""
    sizes = {}
    for name, values in {"none": {}, "own": {"compression": "rand_k", "coordinates": "own"}}.items():
        run = small_run(sealed=True, measure_every=0, **values)  # type: ignore[arg-type]
        run.round()
        sizes[name] = sum(len(result) for _, phase, _, _, result in run.messages if phase == "local")
    assert sizes["own"] == pytest.approx(sizes["none"], rel=0.02)


def test_coordinates_of_each_partys_own_are_drawn_by_itself_and_the_same_under_every_cipher() -> None:
    values: dict[str, object] = {"compression": "rand_k", "coordinates": "own"}
    clear, sealed, masked = (small_run(sealed=s, masked=m, **values) for s, m in ((0, 0), (1, 0), (0, 1)))  # type: ignore[arg-type]
    for run in (clear, sealed, masked):
        run.run(3)
    assert np.array_equal(model_of(clear), model_of(sealed))
    assert np.array_equal(model_of(clear), model_of(masked))
    assert np.count_nonzero(model_of(clear)) > 6, "not only one set of six"
    with pytest.raises(InvalidConfig, match="coordinates: own is for compression = 'rand_k'"):
        small_run(coordinates="own")


def test_a_memory_of_its_own_saves_a_top_k_client_the_uplink() -> None:
    sizes = {}
    for memory in ("server", "client"):
        run = small_run(compression="top_k", error_memory=memory, measure_every=0)
        run.run(3)
        sizes[memory] = sum(len(result) for _, phase, _, _, result in run.messages if phase == "local")
    assert sizes["client"] < sizes["server"]


def test_where_top_k_keeps_what_it_leaves_out_changes_nothing_but_the_uplink() -> None:
    models = []
    for memory in ("server", "client"):
        run = small_run(compression="top_k", error_memory=memory)
        for _ in range(6):
            run.round()
        models.append(model_of(run))
    np.testing.assert_allclose(models[0], models[1], atol=1e-7)


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_a_restored_server_goes_on_as_if_nothing_had_happened(compression: str) -> None:
    undisturbed, run = small_run(compression=compression), small_run(compression=compression)
    undisturbed.run(12)
    run.kill_server_in(11)
    for client in sorted(run.names):
        run.restart(client)
    run.round(restarted=run.names)
    run.run(1)
    assert np.array_equal(model_of(run), model_of(undisturbed))
    assert run.reports[-1].metrics.figures == undisturbed.reports[-1].metrics.figures


def test_a_client_that_is_away_is_left_out_of_objective_constraint_and_average() -> None:
    run = small_run()
    run.absent = lambda round_id, phase, client: (
        client == ClientId("party-01") and (round_id, phase) in {(2, "survey"), (3, "local")}
    )
    reports = [run.round() for _ in range(4)]
    assert [len(report.metrics.participants) for report in reports] == [3, 2, 2, 3]
    assert "survey" in reports[1].metrics.absences[ClientId("party-01")]


def test_the_reported_bounds_hold_for_the_released_model() -> None:
    """Jensen: f(w̄) and g(w̄) are at most the averages of f(w_t) and g(w_t)."""
    run = small_run()
    figures = run.run(25).metrics.figures
    settings, w = run.settings, model_of(run)
    assert isinstance(settings, FedsgmSettings)
    problems = [constrained_problem(settings, shard.X, shard.y) for shard in SHARDS if shard.y is not None]
    assert np.mean([each.constraint(w)[0] for each in problems]) <= figures["constraint_bound"] + 1e-6
    assert np.mean([each.objective(w)[0] for each in problems]) <= figures["objective_bound"] + 1e-6
    assert figures["constraint_bound"] <= settings.tolerance


def test_a_constraint_is_a_small_function_that_each_party_has_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hospital_rules.py").write_text(
        "def low_score(w, X, y):\n    return -float((X @ w).mean()), -X.mean(axis=0)\n"
    )
    described = tmp_path / "hospital_rules-1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: hospital-rules\nVersion: 1.0\n")
    (described / "entry_points.txt").write_text("[fenchel.constraints]\nlow_score = hospital_rules:low_score\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    free, bound = small_run(constraint="l1_norm", tolerance=1e6), small_run(constraint="low_score", tolerance=0.05)
    free.run(30)
    bound.run(30)
    scores = [float((SMALL.data.X @ model_of(run)).mean()) for run in (free, bound)]
    assert scores[0] < -0.1
    assert scores[1] >= -0.05 - 1e-6


def test_a_sparse_model_by_the_l1_norm() -> None:
    run = small_run(constraint="l1_norm", tolerance=1.0, step=0.2)
    run.run(30)
    assert np.abs(model_of(run)).sum() <= 1.0 + 1e-6


def test_a_constraint_that_is_not_installed_is_refused_with_those_that_are() -> None:
    with pytest.raises(InvalidInput, match=r"'fairness' is not installed .* neyman_pearson, l1_norm"):
        small_run(constraint="fairness")


def test_neyman_pearson_refuses_a_party_with_one_class() -> None:
    rows = np.flatnonzero(SMALL.data.y > 0.0)
    with pytest.raises(InvalidInput, match="both classes"):
        Averaging.of("fedsgm", row_shards(SMALL.data, [rows]), BASE)


def test_more_coordinates_than_there_are_cannot_be_kept() -> None:
    with pytest.raises(InvalidInput, match=r"k: is 25, but the model has 24"):
        small_run(compression="rand_k", k=25)


def test_a_soft_switch_that_is_too_blunt_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="at least 2/ε, which is 20"):
        FedsgmSettings.parse({"sharpness": 10.0, "tolerance": 0.1})


@pytest.mark.parametrize("partition", ["vertical", "hybrid"])
def test_other_than_whole_rows_are_refused_with_the_algorithms_that_take_them(partition: Partition) -> None:
    with pytest.raises(InvalidConfig, match=rf"fedsgm takes horizontal shards, and these are {partition}.*hyfdca"):
        check_partition("fedsgm", partition)


def test_every_setting_is_described() -> None:
    assert all(meaning for _, meaning in FedsgmSettings.parameters().values())
