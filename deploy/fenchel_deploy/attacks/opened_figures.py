"""A server that leaves the protocol: a party opens values of the server's choice as the figures of a round.

Whoever has the public key can encrypt, so the server hands out norms, inner products and models of its own making, and
the party opens whatever comes as the sum of all figures. It does nothing that a party refuses:

    x_j·w = 1 if j = i, else 0   as inner products; the sum of the losses is one of the figures, and tells y_i
    α = y_i·e_i                  is what a hinge step on sample i alone makes, from nothing and with norms of zero
    w = v + c·e_j                handed back as the model; λ/2 ‖w‖² is one of the figures

The contribution v of that α is y_i·x_i/(λN), and from ‖v + c·e_j‖² and ‖v‖² follows its entry j: a row takes two tasks
for each feature, and a few more. A party without labels takes α = e_i as it comes.
"""

from dataclasses import replace
from typing import Final

import numpy as np

from fenchel_common.algorithms.dual import ALPHA_FORMAT, LOCAL_DUAL, PRIMAL, PRODUCT_FORMAT
from fenchel_common.algorithms.hyfdca.messages import (
    DualResult,
    DualTask,
    Figures,
    PrimalResult,
    PrimalTask,
    SampleRange,
    StateUpdate,
)
from fenchel_common.blocks import BlockVector
from fenchel_common.crypto.packing import VectorFormat, slot_layout
from fenchel_common.crypto.paillier import concatenate
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.vectors import EncryptedVector, PlainCipher, Vector
from fenchel_common.ids import ClientId
from fenchel_common.wire import hyfdca as wire
from fenchel_common.wire.scope import Scope
from fenchel_deploy.attacks.traces import Frame
from fenchel_deploy.attacks.views import Array, Oracle, Transcript

PROBE: Final = 1000.0
"""c: large beside the contribution, so that rounding does not matter, and its square well within the format."""
NO_STEP: Final = DualTask(StateUpdate(), None, None, (), (), gamma=1.0, step_scale=1.0)


class OpenedFigures:
    """One party that opens values for the server; `tasks` counts the tasks that the server gave it."""

    def __init__(self, transcript: Transcript, ask: Oracle, client: ClientId) -> None:
        settings = transcript.config.algorithm_settings()
        layout = transcript.layout
        self._scope = Scope.of_federation(layout, client, key=transcript.key, privacy=transcript.config.privacy)
        self._frame = Frame.seen_by_server(layout, client)
        self._shared = layout.sample_index.shared_of(client)
        self._has_labels = client in layout.label_holders
        self._loss, self._lambda = settings.loss_function, settings.lambda_
        self._sample_count = layout.sample_count
        self._ask, self._client = ask, client
        self._round = transcript.messages[-1].round_id
        self.tasks = 0

    def label(self, row: int) -> float:
        """The label of a sample that another party holds too; the attacked party must have labels."""
        block, alone = self._alone(row)
        products = self._by_sample((block,), alone, PRODUCT_FORMAT)
        task = replace(NO_STEP, products=products, report_blocks=(block,), with_losses=True)
        losses = self._opened(task).mean_loss * self._sample_count
        indifferent = float(self._loss.value(np.zeros(1), np.ones(1))[0]) * len(self._frame.samples[block])
        return 1.0 if losses < indifferent else -1.0

    def row(self, row: int) -> Array:
        """The row of a sample that another party holds too; times its label if the attacked party has labels."""
        block, alone = self._alone(row)
        alpha = self._step(block, alone) if self._has_labels else self._by_sample((block,), alone, ALPHA_FORMAT)
        contribution = self._primal(PrimalTask(StateUpdate(reset=True, alpha=alpha))).contribution
        assert contribution is not None, "a party takes the dual variables that it made"
        nothing = self._squared_norm(contribution)
        moved = np.array(
            [self._squared_norm(self._moved(contribution, position)) for position in range(self._frame.width)]
        )
        return (moved - nothing - PROBE**2) / (2.0 * PROBE) * self._lambda * self._sample_count

    def _alone(self, row: int) -> tuple[int, Array]:
        """The block of a row, and values that are 1 at the row's position and 0 elsewhere."""
        block, positions = next(item for item in self._frame.samples.items() if row in item[1])
        return block, np.eye(self._frame.slots)[row - positions[0]]

    def _by_sample(self, blocks: tuple[int, ...], values: Array, vector_format: VectorFormat) -> BlockVector:
        return BlockVector(blocks, encrypted_by_anybody(values, vector_format, self._scope.key))

    def _step(self, block: int, alone: Array) -> BlockVector:
        """The party's step on one dual variable, from α = 0 and w = 0."""
        position = int(np.argmax(alone))
        task = replace(
            NO_STEP,
            state=StateUpdate(reset=True),
            products=self._by_sample((block,), np.zeros_like(alone), PRODUCT_FORMAT),
            norms=self._by_sample(self._shared, np.zeros(len(self._shared) * self._frame.slots), PRODUCT_FORMAT),
            ranges=(SampleRange(block, position, position + 1),),
            divisors=(1,),
        )
        changes = self._dual(task).changes
        assert changes is not None, "a step was asked for"
        return changes

    def _moved(self, contribution: BlockVector, position: int) -> BlockVector:
        """The contribution with c added to one feature."""
        probe = np.zeros((len(contribution.blocks), self._frame.slots))
        for number, block in enumerate(contribution.blocks):
            probe[number, : len(self._frame.features[block])] = PROBE * (self._frame.features[block] == position)
        added = encrypted_by_anybody(probe.reshape(-1), PRODUCT_FORMAT, self._scope.feature_key)
        return replace(contribution, vector=contribution.vector.plus(added))

    def _squared_norm(self, model: BlockVector) -> float:
        task = replace(NO_STEP, state=StateUpdate(model=model), norm_blocks=model.blocks)
        return self._opened(task).regulariser * 2.0 / self._lambda

    def _opened(self, task: DualTask) -> Figures:
        """One party's figures, which it takes for the sum of everybody's."""
        opened = self._primal(PrimalTask(StateUpdate(), totals=self._dual(task).figures)).figures
        assert opened is not None, "totals come back opened"
        return opened

    def _dual(self, task: DualTask) -> DualResult:
        return wire.dual_result_from_bytes(self._asked(LOCAL_DUAL, wire.dual_task_to_bytes(task)), self._scope)

    def _primal(self, task: PrimalTask) -> PrimalResult:
        return wire.primal_result_from_bytes(self._asked(PRIMAL, wire.primal_task_to_bytes(task)), self._scope)

    def _asked(self, phase: str, body: bytes) -> bytes:
        self.tasks += 1
        return self._ask(self._client, self._round, phase, body)


def encrypted_by_anybody(values: Array, vector_format: VectorFormat, key: RunKey) -> Vector:
    """A vector that parties accept, encrypted with the public key alone; in clear if the run has no key.

    It is made without a nonce, because nobody has to be kept from reading it.
    """
    public = key.public
    if public is None:
        return PlainCipher(key.bits).encrypt(values, vector_format)
    plaintexts = slot_layout(vector_format, key.bits).pack(vector_format.quantise(values))
    numbers = [(1 + m * public.n) % public.n_squared for m in plaintexts]
    return EncryptedVector(public, vector_format, values.size, 1, concatenate(numbers, public.ciphertext_bytes))
