"""HyFDCA with clients that come and go, and servers that die."""

import numpy as np
import pytest

from fenchel_common.ids import ClientId, RoundId
from fenchel_common.objectives import primal_point
from fenchel_server.contract import Outcome
from support.hyfdca import CASE, FIRST, GRIDS, LAST, SECOND, absent_in, simulation
from support.problems import problem


def test_a_client_absent_in_primal_is_stale_until_it_syncs_and_no_certificate_is_given_meanwhile() -> None:
    case = problem(**CASE)
    run = simulation(case, certificate_every=1, stop={"gap": None})
    run.absent = lambda at, phase, who: who == LAST and ((at, phase) == (2, "primal") or at == 3)
    assert run.round().metrics.stale == ()
    second = run.round().metrics
    assert second.stale == (SECOND, LAST), "both hold the same features"
    assert "primal" in second.absences[LAST]
    third = run.round().metrics
    assert third.gap is None
    assert "no certificate" in third.note
    assert "sync" in third.absences[LAST]
    fourth = run.round().metrics
    assert next(phase for at, phase in run.phases if at == 4) == "sync"
    assert fourth.gap is not None
    assert fourth.stale == ()
    w = primal_point(case.data.X, run.alpha(case.ids), lambda_=case.lambda_)
    run.round()
    np.testing.assert_allclose(run.weights(case.data.features), w, rtol=0, atol=4 * 2.0**-33)


@pytest.mark.parametrize("phase", ["inner_product", "local_dual", "primal"])
def test_a_client_that_misses_one_phase_does_not_stop_the_run(phase: str) -> None:
    case = problem(**CASE)
    run = simulation(case, stop={"gap": 1e-4, "rounds": 400})
    run.absent = absent_in(3, phase, FIRST)
    assert run.run().outcome is Outcome.CONVERGED
    assert phase in run.reports[2].metrics.absences[FIRST]


@pytest.mark.parametrize("participation", ["all", "fraction:0.75"])
def test_a_run_converges_through_a_storm_of_absences_and_restarts(participation: str) -> None:
    case = problem(**CASE)
    every = 1 if participation == "all" else 2
    run = simulation(case, participation=participation, certificate_every=every, stop={"gap": 1e-4, "rounds": 600})
    rng = np.random.default_rng(5)
    run.absent = lambda at, _phase, _who: at <= 60 and rng.random() < 0.1
    for _ in range(60):
        restarted = frozenset(client for client in sorted(run.names) if rng.random() < 0.1)
        for client in restarted:
            run.restart(client)
        available = frozenset(client for client in sorted(run.names) if rng.random() < 0.9)
        if run.round(available=available, restarted=restarted).outcome is not None:
            break
    if run.reports[-1].outcome is None:
        run.run()
    assert run.reports[-1].outcome is Outcome.CONVERGED
    assert case.primal(run.weights(case.data.features)) - case.optimum <= 1e-4


def test_an_absent_client_is_named_and_the_others_go_on() -> None:
    case = problem(**CASE)
    run = simulation(case, stop={"gap": None})
    report = run.round(available=run.names - {LAST})
    assert report.metrics.absences == {LAST: "not there when the round began"}
    assert report.metrics.samples_updated > 0


@pytest.mark.parametrize("participation", ["all", "fraction:0.5", "cyclic:2"])
@pytest.mark.parametrize("grid", GRIDS)
def test_a_run_restored_after_every_round_equals_an_undisturbed_one(grid: tuple[int, int], participation: str) -> None:
    case = problem(**CASE)
    calm = simulation(case, grid, participation=participation, stop={"gap": None})
    shaken = simulation(case, grid, participation=participation, stop={"gap": None})
    for round_id in range(1, 13):
        calm.round()
        shaken.restore(shaken.server.snapshot())
        if round_id % 3 == 0:
            for client in sorted(shaken.names):
                shaken.restart(client)
        shaken.round()
        assert calm.reports[-1].metrics == shaken.reports[-1].metrics
        np.testing.assert_array_equal(calm.model(), shaken.model())
        np.testing.assert_array_equal(calm.alpha(case.ids), shaken.alpha(case.ids))


def test_a_snapshot_restores_to_the_same_snapshot() -> None:
    run = simulation(problem(**CASE), participation="cyclic:2")
    run.run(7)
    snapshot = run.server.snapshot()
    run.restore(snapshot)
    assert run.server.snapshot() == snapshot


@pytest.mark.parametrize("phase", ["sync", "inner_product", "local_dual", "primal", "inner_product_after"])
def test_a_server_lost_in_any_phase_resumes_with_the_same_result(phase: str) -> None:
    """The clients have already taken in what the lost server sent them; the repeated round overwrites it."""
    case = problem(**CASE)
    calm = simulation(case, participation="cyclic:2", stop={"gap": None})
    shaken = simulation(case, participation="cyclic:2", stop={"gap": None})
    calm.run(8)
    shaken.run(4)
    snapshot = shaken.server.snapshot()

    class Lost(Exception):
        pass

    def lose(at: RoundId, during: str, _who: ClientId) -> bool:
        if (at, during) == (5, phase):
            raise Lost
        return False

    shaken.absent = lose
    with pytest.raises(Lost):
        shaken.round()
    shaken.absent = calm.absent
    shaken.restore(snapshot)
    shaken.run(8)
    np.testing.assert_array_equal(calm.model(), shaken.model())


@pytest.mark.parametrize("participation", ["all", "fraction:0.5", "cyclic:2"])
@pytest.mark.parametrize("seed", range(4))
def test_random_kills_of_server_and_clients_in_every_phase_never_lock_an_honest_run(
    participation: str, seed: int
) -> None:
    """What a killed server had told is repeated in a higher attempt; clients that restart get everything again."""
    case = problem(**CASE)
    run = simulation(case, participation=participation, certificate_every=3, stop={"gap": None}, h=30)
    rng = np.random.default_rng(seed)
    killed = 0

    class Killed(Exception):
        pass

    def kill_or_lose(_at: RoundId, _phase: str, _who: ClientId) -> bool:
        if rng.random() < 0.02:
            raise Killed
        return bool(rng.random() < 0.05)

    run.absent = kill_or_lose
    while len(run.reports) < 40:
        snapshot = run.server.snapshot()
        restarted = frozenset(client for client in sorted(run.names) if rng.random() < 0.1)
        for client in sorted(restarted):
            run.restart(client)
        available = frozenset(client for client in sorted(run.names) if rng.random() < 0.9)
        try:
            run.round(available=available, restarted=restarted)
        except Killed:
            killed += 1
            run.restore(snapshot)
    assert killed > 0
    run.absent = lambda *_: False
    while (metrics := run.round().metrics).gap is None:
        assert len(run.reports) < 50
    assert metrics.gap >= case.primal(run.weights(case.data.features)) - case.optimum
