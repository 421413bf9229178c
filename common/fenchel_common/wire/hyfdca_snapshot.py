"""The HyFDCA server's state between two rounds, as bytes."""

from dataclasses import dataclass

from fenchel.v1 import hyfdca_pb2
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.vectors import Vector
from fenchel_common.errors import CryptoError, InvalidInput, StateDamaged
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.privacy import Privacy
from fenchel_common.wire.block_states import block_states_from_proto, block_states_to_proto
from fenchel_common.wire.parsing import parsed_message


@dataclass(frozen=True, slots=True)
class ClientSnapshot:
    """A client's contribution to the model by block of features, the round of its α, and the last enc(ip) by block."""

    contribution: dict[int, Vector]
    synced: RoundId
    products: dict[int, Vector]


@dataclass(frozen=True, slots=True)
class HyfdcaSnapshot:
    """The server's state, from which it can continue after a restart; the vector of each block is one ciphertext.

    `changed` is the round in which each block of α last changed. `model` is the model that entered the last round.
    `pace_…` are the state of the choice of H, `best_gap` and `poor_certificates` that of the detection of divergence.
    """

    round_id: RoundId
    alpha: dict[int, Vector]
    changed: dict[int, RoundId]
    norms: dict[int, Vector]
    clients: dict[ClientId, ClientSnapshot]
    model: dict[int, Vector]
    pace_fraction: float
    pace_earlier: float
    pace_dual: float | None
    best_gap: float | None
    poor_certificates: int


def snapshot_to_bytes(snapshot: HyfdcaSnapshot) -> bytes:
    clients = [
        hyfdca_pb2.HyfdcaClientState(
            client=client,
            contribution=block_states_to_proto(state.contribution),
            synced=state.synced,
            products=block_states_to_proto(state.products),
        )
        for client, state in snapshot.clients.items()
    ]
    return hyfdca_pb2.HyfdcaSnapshot(
        round=snapshot.round_id,
        alpha=block_states_to_proto(snapshot.alpha, snapshot.changed),
        norms=block_states_to_proto(snapshot.norms),
        clients=clients,
        model=block_states_to_proto(snapshot.model),
        pace_fraction=snapshot.pace_fraction,
        pace_earlier=snapshot.pace_earlier,
        pace_dual=snapshot.pace_dual,
        best_gap=snapshot.best_gap,
        poor_certificates=snapshot.poor_certificates,
    ).SerializeToString(deterministic=True)


def snapshot_from_bytes(data: bytes, key: RunKey, *, privacy: Privacy) -> HyfdcaSnapshot:
    """Reads a snapshot that `snapshot_to_bytes` wrote; raises `StateDamaged` for any other bytes."""
    by_feature = key.by_feature(privacy)
    try:
        message = parsed_message(hyfdca_pb2.HyfdcaSnapshot, data, limit=None)
        return HyfdcaSnapshot(
            round_id=RoundId(message.round),
            alpha=block_states_from_proto(message.alpha, key),
            changed={state.block: RoundId(state.changed) for state in message.alpha},
            norms=block_states_from_proto(message.norms, key),
            clients={
                ClientId(state.client): ClientSnapshot(
                    contribution=block_states_from_proto(state.contribution, by_feature),
                    synced=RoundId(state.synced),
                    products=block_states_from_proto(state.products, key),
                )
                for state in message.clients
            },
            model=block_states_from_proto(message.model, by_feature),
            pace_fraction=message.pace_fraction,
            pace_earlier=message.pace_earlier,
            pace_dual=message.pace_dual if message.HasField("pace_dual") else None,
            best_gap=message.best_gap if message.HasField("best_gap") else None,
            poor_certificates=message.poor_certificates,
        )
    except (InvalidInput, CryptoError) as error:
        raise StateDamaged(f"the snapshot of a HyFDCA run cannot be read: {error}") from None
