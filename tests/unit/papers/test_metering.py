"""The cost of a round, by a clock that ticks once at each look."""

from itertools import count

import pytest

from fenchel_client.algorithms.hyfdca.client import HyfdcaClient
from fenchel_common.algorithms.hyfdca.settings import HyfdcaSettings
from fenchel_common.data.partition import partition
from fenchel_deploy.papers.metering import MeteredHalves, RoundCost
from fenchel_server.algorithms.hyfdca.server import HyfdcaServer
from support.keys import MASKS
from support.problems import problem

PARTIES = 4


def metered_round(share: float = 1.0, **values: object) -> RoundCost:
    case = problem(rows=60, columns=8, lambda_=0.05)
    settings = HyfdcaSettings.parse(
        {"lambda": 0.05, "local": "paper", "h": 3, "certificate_every": 0, "stop": {"gap": None}, **values}
    )
    ticks = count()
    run = MeteredHalves(
        partition(case.data, grid=(2, 2)),
        settings,
        client_half=HyfdcaClient,
        server_half=HyfdcaServer,
        key=MASKS,
        clock=lambda: float(next(ticks)),
    )
    run.metered_round()
    return run.metered_round(share)


def test_the_slowest_party_of_each_phase_counts_and_then_the_server() -> None:
    """Two looks at the clock, one tick, for each vector that passes the cipher; one for the rest of an answer.

    inner_product: opens the model, seals products. local_dual: opens products, seals changes. primal: opens dual
    variables, seals the contribution. The norms came in the first round.
    """
    cost = metered_round()
    assert cost.trips == 3
    assert cost.encryption_s == 6.0
    assert cost.compute_s == 9.0, "an answer with two vectors takes five ticks, of which two are the cipher's"
    assert cost.server_s == 4.0, "the beginning, and the end of each phase"
    assert cost.sent_bytes > 0


def test_a_share_of_the_samples_counts_for_all_where_work_goes_through_all_rows() -> None:
    whole, part = metered_round(), metered_round(0.5)
    assert part.encryption_s == 2.0 * 2.0 + 4.0
    assert part.compute_s == 2.0 * 6.0 + 3.0
    assert part.server_s == 2.0 * whole.server_s
    assert part.decrypted == whole.decrypted


def test_the_values_that_pass_the_cipher_are_counted() -> None:
    """With some parties a client gives products of all its samples."""
    cost = metered_round(participation="fraction:0.5")
    assert cost.encrypted >= 30 + 1 + 4
    assert cost.trips == 4 or cost.trips == 5


def test_means_are_taken_figure_by_figure() -> None:
    one, other = RoundCost(1.0, 2.0, 3.0, 3, 10, 20, 100), RoundCost(3.0, 2.0, 5.0, 4, 20, 20, 100)
    assert RoundCost.mean([one, other]) == RoundCost(2.0, 2.0, 4.0, 3.5, 15, 20, 100)
    assert pytest.approx(3.5) == RoundCost.mean([one, other]).trips
