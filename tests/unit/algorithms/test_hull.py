"""Groups of clients, and the corrective step over their points."""

import numpy as np
import pytest

from fenchel_common.ids import ClientId, RoundId
from fenchel_common.layout import Block, FederationLayout
from fenchel_common.wire.corrective_snapshot import KnownPoint
from fenchel_server.algorithms.hull import Corrector, fresh_hull, groups_of, weighted_points

A, B, C, D = (ClientId(name) for name in "abcd")


def layout(*holders: tuple[ClientId, ...], labels: frozenset[ClientId] = frozenset({A, B, C, D})) -> FederationLayout:
    return FederationLayout(
        clients=(A, B, C, D),
        sample_count=2 * len(holders),
        slots=31,
        blocks=tuple(Block(number, 2, held) for number, held in enumerate(holders)),
        features=("f", "g"),
        client_features={A: np.array([0]), B: np.array([1]), C: np.array([0]), D: np.array([1])},
        label_holders=labels,
    )


def test_clients_that_share_samples_through_others_are_one_group() -> None:
    chain = groups_of(layout((A, B), (B, C), (D,)))
    assert [group.clients for group in chain] == [(A, B, C), (D,)]
    assert [group.blocks for group in chain] == [(0, 1), (2,)]


def test_a_group_is_labelled_only_if_all_its_clients_are() -> None:
    groups = groups_of(layout((A, B), (C, D), labels=frozenset({A, B, C})))
    assert [group.labelled for group in groups] == [True, False]


def test_the_step_reaches_the_best_of_the_hull_and_leaves_groups_that_may_not_move() -> None:
    federation = layout((A, B), (C, D))
    corrector = Corrector(federation, lambda_=0.5)
    hulls = [fresh_hull(group, federation) for group in groups_of(federation)]
    for hull, (left, right) in zip(hulls, [(A, B), (C, D)], strict=True):
        hull.point = KnownPoint({left: np.array([1.0]), right: np.array([2.0])}, 0.4)
        hull.vertices = {1: KnownPoint({left: np.array([-1.0]), right: np.array([0.5])}, 0.3)}
    reached = corrector.correct(hulls, {0}, RoundId(2))
    assert hulls[1].pending is None
    pending = hulls[0].pending
    assert pending is not None
    assert pending.anchor + pending.point + sum(pending.vertices.values()) == pytest.approx(1.0, abs=1e-12)
    weights = corrector.pending_model(hulls)
    values = sum(weight * point.value for weight, point in weighted_points(hulls[0]))
    assert reached == pytest.approx(-0.25 * float(weights @ weights) + values, abs=1e-12)
    assert reached > corrector.value([hull.anchor for hull in hulls])
    assert corrector.correct(hulls, {0, 1}, RoundId(2)) >= reached


def test_points_that_are_all_worse_leave_the_anchor() -> None:
    federation = layout((A, B), (C, D))
    corrector = Corrector(federation, lambda_=0.5)
    hulls = [fresh_hull(group, federation) for group in groups_of(federation)]
    hulls[0].point = KnownPoint({A: np.array([1.0]), B: np.array([2.0])}, -0.1)
    assert corrector.correct(hulls, {0, 1}, RoundId(2)) == 0.0
    assert hulls[0].pending is None
