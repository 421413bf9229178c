"""The server puts the parties' answers together to one model: they must be whole, finite and agree."""

import numpy as np
import pytest

from fenchel_common.ids import ClientId
from fenchel_common.layout import Block, FederationLayout
from fenchel_common.metrics import LastCertificate
from fenchel_common.wire.setup import model_release_to_bytes
from fenchel_server.release import put_together

GIVEN = np.array([1.0, -2.0])
BOTH = FederationLayout(
    clients=(ClientId("p1"), ClientId("p2")),
    sample_count=1,
    slots=30,
    feature_slots=30,
    blocks=(Block(0, 1, (ClientId("p1"), ClientId("p2"))),),
    features=("a", "b", "c"),
    client_features={ClientId("p1"): np.array([0, 1]), ClientId("p2"): np.array([1, 2])},
    label_holders=frozenset({ClientId("p1")}),
)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (model_release_to_bytes(np.array([-2.0, 3.0])), ""),
        (
            model_release_to_bytes(np.array([-2.0 - 1e-12, 3.0])),
            "p2: its weights differ from those that another party gave",
        ),
        (model_release_to_bytes(np.array([-2.0])), "p2: weights: 2 finite numbers are due"),
        (model_release_to_bytes(np.array([-2.0, np.nan])), "p2: weights: 2 finite numbers are due"),
        (b"\xff\xff", "p2: ModelRelease: the bytes are not such a message"),
        (b"", "no party gave the weights of 1 features"),
    ],
    ids=["right", "other", "short", "not a number", "no message", "nothing"],
)
def test_the_parties_answers_are_checked_and_must_agree(answer: bytes, reason: str) -> None:
    results = {ClientId("p1"): model_release_to_bytes(GIVEN), ClientId("p2"): answer}
    release = put_together(results, layout=BOTH, certificate=LastCertificate(), noise=None)
    assert reason in release.reason
    assert (None if release.weights is None else release.weights.tolist()) == (None if reason else [1.0, -2.0, 3.0])
