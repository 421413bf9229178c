"""A server that leaves the protocol and has a party open what it takes for the figures of a round.

Whoever has the public key can encrypt, so the server hands out dual variables and models of its own making, and the
party opens whatever comes as the sum of all figures:

    α = e_i             the party's share is x_i/(λN); one that has labels refuses it if y_i is −1, and takes −e_i
    w = share + c·e_j   handed back as the model; λ/2 ‖w‖² is one of the figures, and the party opens it

From ‖share + c·e_j‖² and ‖share‖² follows entry j of the share: a row takes two tasks for each feature, and a few more.
"""

from dataclasses import replace
from typing import Final

import numpy as np

from fenchel_common.algorithms.hyfdca import (
    ALPHA_FORMAT,
    LOCAL_DUAL,
    PRIMAL,
    PRODUCT_FORMAT,
    BlockVector,
    DualTask,
    HyfdcaSettings,
    PrimalResult,
    PrimalTask,
    StateUpdate,
)
from fenchel_common.crypto.packing import VectorFormat, slot_layout
from fenchel_common.crypto.paillier import PublicKey, concatenate
from fenchel_common.crypto.vectors import EncryptedVector, PlainCipher, Vector
from fenchel_common.ids import ClientId
from fenchel_common.wire import hyfdca as wire
from fenchel_common.wire.scope import Scope
from fenchel_deploy.attacks.traces import Frame
from fenchel_deploy.attacks.views import Array, Oracle, Transcript

PROBE: Final = 1000.0
"""c: large beside the share, so that rounding does not matter, and its square well within the format."""


class OpenedFigures:
    """One party, made to open what the server wants to know; `tasks` counts what it was asked."""

    def __init__(self, transcript: Transcript, ask: Oracle, client: ClientId) -> None:
        settings = transcript.config.algorithm_settings()
        assert isinstance(settings, HyfdcaSettings), "the attack is on the figures of HyFDCA"
        layout = transcript.layout
        self._scope = Scope.of_federation(
            layout, client, key=transcript.key, sealed=transcript.config.privacy == "sealed"
        )
        self._frame = Frame.seen_by_server(layout, client)
        self._lambda, self._sample_count = settings.lambda_, layout.sample_count
        self._ask, self._client = ask, client
        self._round = transcript.messages[-1].round_id
        self.tasks = 0

    def label(self, row: int) -> float:
        """The label of a row, of a party that has labels: the sign of the dual variable that it does not refuse."""
        return -1.0 if self._share_of(row, 1.0).impossible else 1.0

    def row(self, row: int, *, sign: float) -> Array:
        """A row; `sign` is that of its label, and any if the party has no labels."""
        share = self._share_of(row, sign).share
        assert share is not None, "a dual variable with the label's sign is feasible"
        nothing = self._squared_norm(share)
        moved = np.array([self._squared_norm(self._moved(share, place)) for place in range(self._frame.width)])
        return (moved - nothing - PROBE**2) / (2.0 * PROBE) * sign * self._lambda * self._sample_count

    def _share_of(self, row: int, value: float) -> PrimalResult:
        block, places = next(item for item in self._frame.samples.items() if row in item[1])
        alpha = np.zeros(self._frame.slots)
        alpha[row - places[0]] = value
        own = BlockVector((block,), encrypted_by_anybody(alpha, ALPHA_FORMAT, self._scope.key))
        return self._primal(PrimalTask(StateUpdate(reset=True, alpha=own)))

    def _moved(self, share: BlockVector, place: int) -> BlockVector:
        """The share with c added to one feature."""
        probe = np.zeros((len(share.blocks), self._frame.slots))
        for number, block in enumerate(share.blocks):
            probe[number, : len(self._frame.features[block])] = PROBE * (self._frame.features[block] == place)
        added = encrypted_by_anybody(probe.reshape(-1), PRODUCT_FORMAT, self._scope.share_key)
        return replace(share, vector=share.vector.plus(added))

    def _squared_norm(self, model: BlockVector) -> float:
        task = DualTask(
            StateUpdate(model=model), None, None, (), (), gamma=1.0, step_scale=1.0, norm_blocks=model.blocks
        )
        told = wire.dual_result_from_bytes(self._asked(LOCAL_DUAL, wire.dual_task_to_bytes(task)), self._scope)
        opened = self._primal(PrimalTask(StateUpdate(), totals=told.figures)).figures
        assert opened is not None, "totals come back opened"
        return opened.regulariser * 2.0 / self._lambda

    def _primal(self, task: PrimalTask) -> PrimalResult:
        return wire.primal_result_from_bytes(self._asked(PRIMAL, wire.primal_task_to_bytes(task)), self._scope)

    def _asked(self, phase: str, body: bytes) -> bytes:
        self.tasks += 1
        return self._ask(self._client, self._round, phase, body)


def encrypted_by_anybody(values: Array, vector_format: VectorFormat, key: PublicKey | int) -> Vector:
    """A vector as parties take them, with no more than the public key; where there is none, in clear.

    It needs no nonce: nobody is to be kept from reading it.
    """
    if isinstance(key, int):
        return PlainCipher(key).encrypt(values, vector_format)
    plaintexts = slot_layout(vector_format, key.bits).pack(vector_format.quantise(values))
    numbers = [(1 + m * key.n) % key.n_squared for m in plaintexts]
    return EncryptedVector(key, vector_format, values.size, 1, concatenate(numbers, key.ciphertext_bytes))
