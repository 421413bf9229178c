"""Corrective HyFDCA while some of the parties take part: the guarantee, by rules of participation and by accident."""

import numpy as np
import pytest

from fenchel_client.algorithms.partial import state
from fenchel_common.algorithms.partial import progress
from fenchel_common.errors import InvalidConfig, Refusal
from fenchel_common.ids import ClientId
from fenchel_common.wire import partial as wire
from fenchel_server.algorithms.partial.server import VOID, PartialServer
from fenchel_server.contract import Outcome
from support.corrective import chained
from support.partial import Rises, at_level, error_of, settings, simulation, states_of
from support.problems import problem
from support.simulation import Simulation

CASE = {"rows": 60, "columns": 8, "lambda_": 0.01}
GRIDS = [(2, 2), (4, 1), (1, 3)]
RULES = ("fraction:0.5", "cyclic:2")
PHASES = ("catch_up", "pair_products", "pair_duals", "pair_primal")
FIRST, LAST = ClientId("party-00"), ClientId("party-03")


@pytest.mark.parametrize(
    ("grid", "rule", "loss"),
    [
        *((grid, rule, "hinge") for grid in GRIDS for rule in RULES),
        ((2, 2), "fraction:0.5", "smoothed_hinge"),
        ((4, 1), "cyclic:2", "logistic"),
    ],
)
def test_d_never_falls_and_every_certificate_holds(grid: tuple[int, int], rule: str, loss: str) -> None:
    case = problem(**CASE, loss=loss)
    run = simulation(case, grid, rule)
    rises = Rises(run, case)
    for _ in range(20):
        run.round()
        rises.check()
    assert rises.certificates == 2
    gap = run.reports[-1].metrics.gap
    assert gap is not None
    assert gap < 0.05


@pytest.mark.parametrize("level", ["plain", "paper", "sealed", "masks"])
@pytest.mark.parametrize("grid", [(2, 2), (1, 3)])
def test_ciphers_and_levels_give_the_same_model(grid: tuple[int, int], level: str) -> None:
    case = problem(**{**CASE, "rows": 40})
    models = []
    for chosen in ("plain", level):
        run = at_level(case, grid, "fraction:0.6", chosen, seed=3, certificate_every=5)
        run.run(6)
        models.append(run.model())
    np.testing.assert_array_equal(models[0], models[1])


@pytest.mark.parametrize("grid", [(2, 2), (4, 1)])
def test_a_party_that_has_lost_its_memory_goes_through_all_rounds_again(grid: tuple[int, int]) -> None:
    case = problem(**CASE)
    whole, broken = (simulation(case, grid, "fraction:0.5", seed=1) for _ in range(2))
    for number in range(1, 15):
        whole.round()
        restarted = frozenset({FIRST}) if number in (3, 8) else frozenset()
        for client in restarted:
            broken.restart(client)
        broken.round(restarted=restarted)
    np.testing.assert_array_equal(broken.model(), whole.model())


def test_a_party_that_does_not_say_that_it_restarted_asks_for_what_it_lacks() -> None:
    case = problem(**CASE)
    run = simulation(case, (2, 2), "fraction:1.0")
    run.run(4)
    run.restart(FIRST)
    run.lenient = True
    assert VOID in run.round().metrics.note
    assert run.round().metrics.note == ""


def test_a_restored_server_goes_on_bit_for_bit() -> None:
    case = problem(**CASE)
    whole, killed = (simulation(case, (2, 2), "cyclic:2") for _ in range(2))
    whole.run(12)
    killed.run(7)
    killed.restore(killed.server.snapshot())
    killed.run(12)
    np.testing.assert_array_equal(killed.model(), whole.model())
    assert isinstance(killed.server, PartialServer)
    assert isinstance(whole.server, PartialServer)
    assert killed.server._progress == whole.server._progress


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("grid", [(2, 2), (4, 1)])
def test_a_party_that_fails_in_any_phase_costs_a_round_and_nothing_else(grid: tuple[int, int], phase: str) -> None:
    case = problem(**CASE)
    run = simulation(case, grid, "fraction:0.75")
    run.absent = lambda at, during, who: at % 4 == 0 and during == phase and who == FIRST
    rises = Rises(run, case)
    while (rises.check() if run.reports else None) is None or (run.reports[-1].metrics.gap or 1.0) > 2e-2:
        run.round()
        assert len(run.reports) < 150
    failed = [one for one in run.reports if VOID in one.metrics.note]
    assert all(one.metrics.absences[FIRST] == f"{phase}: no result" for one in failed)
    assert failed or phase == "catch_up"


def test_parties_come_and_go_unannounced_and_the_optimum_is_certified() -> None:
    """In every round others are there; a certificate is had when by chance all are."""
    case = problem(**CASE)
    run = simulation(case, (2, 2), "fraction:1.0", certificate_every=2, stop={"gap": 1e-3, "rounds": 400})
    rng = np.random.default_rng(5)
    rises = Rises(run, case)
    while True:
        there = frozenset(client for client in sorted(run.names) if rng.random() < 0.8)
        report = run.round(available=there)
        rises.check()
        if report.outcome is not None:
            break
    assert report.outcome is Outcome.CONVERGED
    assert error_of(run, case) <= 1e-3


def test_a_party_that_is_gone_for_good_leaves_the_others_to_their_own_samples() -> None:
    case = problem(**CASE)
    run = simulation(case, (4, 1), "fraction:1.0")
    for _ in range(15):
        report = run.round(available=run.names - {LAST})
        assert report.metrics.absences == {LAST: "not there when the round began"}
        assert report.metrics.gap is None
    assert error_of(run, case) < 0.1


@pytest.mark.parametrize("rule", RULES)
def test_parties_without_labels_take_part(rule: str) -> None:
    case = problem(**CASE)
    run = at_level(case, (2, 2), rule, "plain", labels="first")
    rises = Rises(run, case)
    for _ in range(20):
        run.round()
        rises.check()
    assert error_of(run, case) < 0.2


def test_parties_that_overlap_in_a_chain_reach_the_optimum() -> None:
    case, shards = chained()
    run = Simulation.of(shards, settings(case, "fraction:0.7"))
    rises = Rises(run, case)
    for _ in range(30):
        run.round()
        rises.check()
    assert error_of(run, case) < 5e-2


def test_a_party_is_told_of_a_pair_that_moves_none_of_its_features() -> None:
    """With one party of a chain in a round, the far end of the chain owns nothing of its pair."""
    case, shards = chained()
    run = Simulation.of(shards, settings(case, "fraction:0.3"))
    rises = Rises(run, case)
    for _ in range(20):
        run.round()
        rises.check()
    assert rises.certificates == 2


def test_the_parties_agree_on_nothing_that_a_server_made_up() -> None:
    """Owners that are not the holders, and Gram rows that do not cover all features, are refused."""
    case = problem(**CASE)
    run = simulation(case, (2, 2), "fraction:1.0")
    run.run(3)
    server = run.server
    assert isinstance(server, PartialServer)
    honest = server._round_choices

    def without_an_owner() -> bytes:
        choices = wire.round_choices_from_bytes(honest(), run.alignment.federation.clients)
        fewer = type(choices)(choices.participants, choices.owners - {FIRST}, choices.closing, choices.live_samples)
        return wire.round_choices_to_bytes(fewer, run.alignment.federation.clients)

    server._round_choices = without_an_owner  # type: ignore[method-assign]
    with pytest.raises(Refusal, match="owners"):
        run.round()


def test_gram_rows_that_do_not_cover_all_features_are_refused() -> None:
    case = problem(**CASE)
    run = simulation(case, (1, 3), "cyclic:2")
    server = run.server
    assert isinstance(server, PartialServer)
    server._covers = lambda progress, clients: bool(progress.next_batch and clients)  # type: ignore[method-assign]
    with pytest.raises(Exception, match="gram: must have the products"):
        run.run(6)


def test_settings_say_what_partial_rounds_cannot_do() -> None:
    case = problem(**CASE)
    with pytest.raises(InvalidConfig, match="leaves no round to train in"):
        settings(case, "cyclic:2", certificate_every=1)
    with pytest.raises(InvalidConfig, match="need all parties in every round"):
        settings(case, "fraction:0.5", classes=("a", "b", "c"))


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (progress, state):
        monkeypatch.setattr(module, "REMEMBERED", 3)
    case = problem(**{**CASE, "rows": 30})
    run = simulation(case, (2, 1), "fraction:1.0")
    run.run(8)
    for known in states_of(run).values():
        assert len(known.memory.entries) == 2 + 2 * 3
        assert len(known.pairs) + len(known.models) + len(known.grams) < 8
        assert len(known.predictions) <= 2 * 3 + 4
