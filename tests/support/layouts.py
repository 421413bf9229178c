"""Two small layouts with something in every field."""

import numpy as np

from fenchel_common.clientlayout import ClientLayout, IgnoredFeatures
from fenchel_common.ids import ClientId
from fenchel_common.layout import Block, FederationLayout

A, B = ClientId("a"), ClientId("b")


def small_federation_layout() -> FederationLayout:
    return FederationLayout(
        clients=(A, B),
        sample_count=5,
        slots=2,
        blocks=(Block(0, 2, (A,)), Block(1, 2, (A, B)), Block(2, 1, (A, B))),
        features=("age", "bmi", "sex"),
        client_features={A: np.array([0, 2]), B: np.array([1])},
        label_holders=frozenset({B}),
    )


def small_client_layout() -> ClientLayout:
    return ClientLayout(
        sample_count=9,
        slots=2,
        block_ids=np.array([1, 4]),
        block_sizes=np.array([2, 1]),
        label_holder_counts=np.array([1, 2]),
        shared=np.array([False, True]),
        rows=np.array([2, 0, 1]),
        ignored=(IgnoredFeatures(np.array([0]), np.array([4])),),
        feature_blocks={0: np.array([1]), 2: np.array([0])},
    )
