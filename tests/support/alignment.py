"""Runs an alignment between real halves in memory, and records all bodies."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fenchel_client.alignment import AlignmentClient, Ring, arrange
from fenchel_client.alignment.blinders import Blinding, BlindingSecrets
from fenchel_client.table import PartyTable
from fenchel_common.blinding import BlindingWays
from fenchel_common.data.shard import Shard
from fenchel_common.identity.roster import BLINDERS
from fenchel_common.ids import ClientId, RunId
from fenchel_common.wire.alignment import AlignmentMethod
from fenchel_deploy.inprocess.phases import run_phases
from fenchel_server.alignment import AlignmentServer
from fenchel_server.cohorts import Alignment, OverlapRule
from support.layouts import unsalted

RUN = RunId("run-1")
SHARED_SECRET = bytes(range(32))
RING_KEY = bytes(range(32, 64))
TAG_SECRET = bytes(range(64, 96))
ALONE = (ClientId("anna"),)


@dataclass
class Aligned:
    """The outcome, the tables that the layouts point into, and all bodies: (phase, client, task, result)."""

    outcome: Alignment
    tables: dict[ClientId, PartyTable]
    transcript: list[tuple[str, ClientId, bytes, bytes]] = field(default_factory=list)

    def unsalted(self) -> Alignment:
        """The outcome without random salts, to be compared with others."""
        clients = {client: unsalted(layout) for client, layout in self.outcome.clients.items()}
        return Alignment(self.outcome.federation, clients)

    def ids_by_block(self, client: ClientId) -> dict[int, tuple[str, ...]]:
        layout = self.outcome.clients[client]
        return {
            int(block): tuple(self.tables[client].ids[row] for row in layout.rows_of([block]))
            for block in layout.block_ids
        }


def make_shard(ids: Sequence[str], features: Sequence[str], *, labels: bool = True) -> Shard:
    """A shard whose values depend on sample and feature alone, so that row order can vary and nothing else."""
    values = np.array([[float(sum((s + f).encode()) % 97) for f in features] for s in ids])
    y = np.array([1.0 if sum(s.encode()) % 2 else -1.0 for s in ids]) if labels else None
    return Shard(ids=tuple(ids), features=tuple(features), X=values.reshape(len(ids), len(features)), y=y)


def make_client(
    shard: Shard,
    *,
    method: AlignmentMethod = AlignmentMethod.RING,
    roster: Sequence[ClientId] = ALONE,
    own: ClientId = ALONE[0],
    key: bytes = RING_KEY,
) -> AlignmentClient:
    """The client half of one party of the roster; without a roster, of a party that is alone."""
    secret = SHARED_SECRET if method is AlignmentMethod.HMAC else None
    ring, table = Ring(roster, own, key=key, run=RUN), arrange(shard)
    blinding = make_blinding(table.ids, roster, own) if method is AlignmentMethod.BLINDERS else None
    return AlignmentClient(
        table, run=RUN, method=method, tag_secret=TAG_SECRET, ring=ring, blinding=blinding, shared_secret=secret
    )


def make_blinding(ids: Sequence[str], roster: Sequence[ClientId], own: ClientId) -> Blinding:
    """A party with fresh exponents; the first three parties are blinding parties, and each pair has a secret."""
    pairs = {other: hashlib.sha256("".join(sorted((own, other))).encode()).digest() for other in roster}
    ways = BlindingWays(tuple(roster), tuple(roster[:BLINDERS]))
    return Blinding(ways, own, ids, run=RUN, pairs=pairs, exponents=BlindingSecrets.fresh())


def align(
    shards: Mapping[ClientId, Shard],
    *,
    method: AlignmentMethod = AlignmentMethod.RING,
    slots: int = 4,
    seed: int = 7,
    overlap: OverlapRule = OverlapRule.ERROR,
) -> Aligned:
    roster = tuple(shards)
    clients = {client: make_client(shard, method=method, roster=roster, own=client) for client, shard in shards.items()}
    server = AlignmentServer(
        roster,
        method=method,
        slots=slots,
        feature_slots=slots,
        seed=seed,
        blinders=roster[:BLINDERS],
        overlap=overlap,
    )
    transcript: list[tuple[str, ClientId, bytes, bytes]] = []

    def answer(phase: str, client: ClientId, body: bytes) -> bytes:
        result = clients[client].answer(phase, body)
        transcript.append((phase, client, body, result))
        return result

    outcome = run_phases(server.begin(), server, answer)
    return Aligned(outcome, {client: arrange(shard) for client, shard in shards.items()}, transcript)
