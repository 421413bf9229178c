"""A server that leaves the protocol in the set-up: it hands out another key, or layouts of its own choice."""

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np

from fenchel.v1 import hyfdca_pb2, labels_pb2
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.errors import FenchelError
from fenchel_common.ids import ClientId
from fenchel_common.layoutroot import OpenedCohort
from fenchel_common.setup import INTRODUCE, KEY_TAKE, LAYOUT, NAMES
from fenchel_common.wire.alignment import client_layout_from_bytes, client_layout_to_bytes
from fenchel_common.wire.records import round_result_from_bytes
from fenchel_common.wire.setup import terms_to_bytes
from fenchel_deploy.attacks.views import Array, Oracle, PublicEyes, Transcript
from fenchel_server.contract import PhaseRequest
from fenchel_server.rounds.setup import SetupDone, SetupServer

Lie = Callable[[ClientLayout], ClientLayout]


def norms_in_clear(plain_run: Transcript, terms: Transcript, ask: Oracle, victim: ClientId) -> Array:
    """The squared lengths of rows, from a party that agreed to `terms` and is given the key blob of a run in clear.

    Empty if the party refuses.
    """
    given = {message.phase: message.task for message in plain_run.of(victim)}
    try:
        ask(victim, 0, INTRODUCE, terms_to_bytes(terms.config))
        ask(victim, 0, KEY_TAKE, given[KEY_TAKE])
        ask(victim, 0, NAMES, given[NAMES])
        result, _ = round_result_from_bytes(ask(victim, 0, LAYOUT, given[LAYOUT]), victim)
    except FenchelError:
        return np.zeros(0)
    answer = labels_pb2.LayoutResult.FromString(result)
    norms = hyfdca_pb2.HyfdcaProductResult.FromString(answer.preparation).products.vector
    return PublicEyes(terms.key).read(norms)


def one_cell(layout: ClientLayout) -> ClientLayout:
    """A layout of one row, which nobody else holds, and of one feature; the other features form a second block."""
    features = sum(len(positions) for positions in layout.feature_blocks.values())
    own = [
        dataclasses.replace(opened.cohort, holders=holders, blocks=blocks, sizes=sizes)
        for opened, holders, blocks, sizes in zip(
            sorted(layout.cohorts, key=lambda opened: opened.cohort.features)[:: len(layout.cohorts) - 1],
            ((layout.party,), (layout.party,)),
            ((0,), (0, 1)),
            ((1,), (1, features - 1)),
            strict=True,
        )
    ]
    cohorts = tuple(OpenedCohort(cohort, leaf, bytes(16)) for leaf, cohort in enumerate(own))
    return dataclasses.replace(
        layout,
        sample_count=1,
        block_ids=np.zeros(1, dtype=np.int64),
        block_sizes=np.ones(1, dtype=np.int64),
        rows=np.zeros(1, dtype=np.int64),
        cohorts=cohorts,
        leaves=tuple(opened.cohort.leaf(opened.salt) for opened in cohorts),
        feature_blocks={0: np.zeros(1, dtype=np.int64), 1: np.arange(1, features)},
        samples_by_holders=(1, *(0 for _ in layout.clients[1:])),
        features_by_holders=(layout.feature_count, *(0 for _ in layout.clients[1:])),
    )


def other_rows(layout: ClientLayout) -> ClientLayout:
    """The same layout with two rows of a block exchanged: the other holders of the block have the rows as they were."""
    rows = layout.rows.copy()
    rows[[0, 1]] = rows[[1, 0]]
    return dataclasses.replace(layout, rows=rows)


def other_features(layout: ClientLayout) -> ClientLayout:
    """The same layout with two features of a block exchanged."""
    block, positions = next(iter(layout.feature_blocks.items()))
    exchanged = positions.copy()
    exchanged[[0, 1]] = exchanged[[1, 0]]
    return dataclasses.replace(layout, feature_blocks={**layout.feature_blocks, block: exchanged})


def other_holders(layout: ClientLayout) -> ClientLayout:
    """The same layout, but another party is said to hold the party's samples with it."""
    opened = next(one for one in layout.cohorts if not one.cohort.features)
    absent = next(client for client in reversed(layout.clients) if client not in opened.cohort.holders)
    holders = tuple(client for client in layout.clients if client in (layout.party, absent))
    told = dataclasses.replace(opened, cohort=dataclasses.replace(opened.cohort, holders=holders))
    leaves = list(layout.leaves)
    leaves[told.leaf] = told.cohort.leaf(told.salt)
    cohorts = tuple(told if one is opened else one for one in layout.cohorts)
    counts, size = list(layout.samples_by_holders), sum(opened.cohort.sizes)
    counts[len(opened.cohort.holders) - 1] -= size
    counts[len(holders) - 1] += size
    return dataclasses.replace(layout, cohorts=cohorts, leaves=tuple(leaves), samples_by_holders=tuple(counts))


class LyingSetup:
    """A set-up that tells one party another layout than the right one; all else is as in an honest set-up."""

    def __init__(self, setup: SetupServer, victim: ClientId, lie: Lie, *, samples: int, features: int) -> None:
        self._setup, self._victim, self._lie = setup, victim, lie
        self._samples, self._features = samples, features

    def begin(self) -> PhaseRequest:
        return self._setup.begin()

    def advance(self, phase: str, results: Mapping[ClientId, bytes]) -> PhaseRequest | SetupDone:
        following = self._setup.advance(phase, results)
        if isinstance(following, PhaseRequest) and following.phase == LAYOUT:
            told = client_layout_from_bytes(
                following.tasks[self._victim], party=self._victim, samples=self._samples, features=self._features
            )
            return PhaseRequest(LAYOUT, {**following.tasks, self._victim: client_layout_to_bytes(self._lie(told))})
        return following

    def limits(self, phase: str) -> Mapping[ClientId, int]:
        return self._setup.limits(phase)
