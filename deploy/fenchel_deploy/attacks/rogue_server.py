"""A server that leaves the protocol in ways that a party can notice with its own data, terms and files alone.

Each function plays one such server against real parties and returns the values that it found; values that a party
refuses are missing.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Final

import numpy as np

from fenchel.v1 import hyfdca_pb2, labels_pb2
from fenchel_common.algorithms.dual import INNER_PRODUCT, LOCAL_DUAL, PRIMAL, PRODUCT_FORMAT
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
from fenchel_common.clientlayout import ClientLayout, IgnoredFeatures
from fenchel_common.crypto.vectors import EncryptedVector, Vector
from fenchel_common.errors import FenchelError
from fenchel_common.ids import ClientId
from fenchel_common.setup import INTRODUCE, KEY_TAKE, LAYOUT
from fenchel_common.wire import hyfdca as wire
from fenchel_common.wire.alignment import client_layout_to_bytes
from fenchel_common.wire.scope import Scope
from fenchel_common.wire.setup import terms_to_bytes
from fenchel_deploy.attacks.opened_figures import NO_STEP, encrypted_by_anybody
from fenchel_deploy.attacks.views import Array, Oracle, PublicEyes, Transcript

SWEEP_WIDTH: Final = 16.0
"""Inner products are looked for between minus and plus half of this."""
ROUNDING: Final = 1e-6
"""A loss below this counts as zero."""


def norms_in_clear(plain_run: Transcript, terms: Transcript, ask: Oracle, victim: ClientId) -> Array:
    """The squared lengths of rows, from a party that agreed to `terms` and is given the key blob of a run in clear."""
    given = {message.phase: message.task for message in plain_run.of(victim)}
    try:
        ask(victim, 0, INTRODUCE, terms_to_bytes(terms.config))
        ask(victim, 0, KEY_TAKE, given[KEY_TAKE])
        answer = labels_pb2.LayoutResult.FromString(ask(victim, 0, LAYOUT, given[LAYOUT]))
    except FenchelError:
        return np.zeros(0)
    norms = hyfdca_pb2.HyfdcaProductResult.FromString(answer.preparation).products.vector
    return PublicEyes(terms.key).read(norms)


@dataclasses.dataclass(frozen=True, slots=True)
class LoneCell:
    """A party that is given a layout of one row and one feature, and opens the figures of the model of that cell.

    From nothing, a hinge step gives α = min(1, λ/x²) and so w = α·x/λ; the loss then tells which of the two it was.
    """

    transcript: Transcript
    ask: Oracle
    victim: ClientId
    features: tuple[str, ...]
    """The pseudonyms of the party's features: the server knows them from the alignment."""

    def cell(self) -> float | None:
        """|x| of the first feature of the first row; None if the party refuses."""
        try:
            self.ask(self.victim, 0, LAYOUT, client_layout_to_bytes(self._layout()))
            return self._cell()
        except FenchelError:
            return None

    def _layout(self) -> ClientLayout:
        one = np.ones(1, dtype=np.int64)
        return ClientLayout(
            sample_count=1,
            slots=self.transcript.layout.slots,
            block_ids=0 * one,
            block_sizes=one,
            label_holder_counts=one,
            shared=one > 1,
            rows=0 * one,
            ignored=(IgnoredFeatures(np.arange(1, len(self.features)), 0 * one),),
            feature_blocks={0: np.arange(len(self.features))},
        )

    def _cell(self) -> float:
        lambda_ = float(str(self.transcript.config.settings["lambda"]))
        step = dataclasses.replace(
            NO_STEP, state=StateUpdate(reset=True), ranges=(SampleRange(0, 0, 1),), divisors=(1,)
        )
        alpha = self._dual(1, step).changes
        contribution = self._primal(1, PrimalTask(StateUpdate(alpha=alpha))).contribution
        measure = dataclasses.replace(
            NO_STEP, state=StateUpdate(model=contribution), report_blocks=(0,), norm_blocks=(0,), with_losses=True
        )
        opened = self._primal(2, PrimalTask(StateUpdate(), totals=self._dual(2, measure).figures)).figures
        assert isinstance(opened, Figures), "totals come back opened"
        if opened.mean_loss > ROUNDING:
            return math.sqrt(lambda_ * max(1.0 - opened.mean_loss, 0.0))
        return 1.0 / math.sqrt(2.0 * opened.regulariser / lambda_) if opened.regulariser else 0.0

    @property
    def _scope(self) -> Scope:
        key, privacy = self.transcript.key, self.transcript.config.privacy
        return Scope(key, key.by_feature(privacy), self.transcript.layout.slots, {0: 1}, {0: len(self.features)})

    def _dual(self, round_id: int, task: DualTask) -> DualResult:
        body = self.ask(self.victim, round_id, LOCAL_DUAL, wire.dual_task_to_bytes(task))
        return wire.dual_result_from_bytes(body, self._scope)

    def _primal(self, round_id: int, task: PrimalTask) -> PrimalResult:
        body = self.ask(self.victim, round_id, PRIMAL, wire.primal_task_to_bytes(task))
        return wire.primal_result_from_bytes(body, self._scope)


class Reaction:
    """Learns a value in a ciphertext by whether a party accepts it: parties refuse values beyond the public bound.

    The server adds a shift near the bound to another party's encrypted inner products and hands them to `victim`, who
    holds the same samples. `tasks` counts the victim's tasks.
    """

    def __init__(self, transcript: Transcript, ask: Oracle, victim: ClientId) -> None:
        layout = transcript.layout
        self._ask, self._victim = ask, victim
        self._round = transcript.messages[-1].round_id
        self._key = transcript.key
        self.block, self.target = _foreign_products(transcript, victim)
        self._slots = layout.slots
        self.tasks = 0

    def accepted(self, slot: int, shift: float) -> bool:
        """Whether the value in a slot plus `shift` is within the bound, as far as the party lets on."""
        self.tasks += 1
        probe = np.zeros(self._slots)
        probe[slot] = shift / 2.0  # A single vector has no value above the bound.
        half = encrypted_by_anybody(probe, PRODUCT_FORMAT, self._key)
        shifted = self.target.plus(half).plus(half)
        assert isinstance(shifted, EncryptedVector), "there is nothing to guess at in a run in clear"
        vector = dataclasses.replace(shifted, terms=1)
        task = dataclasses.replace(
            NO_STEP, products=BlockVector((self.block,), vector), report_blocks=(self.block,), with_losses=True
        )
        try:
            self._ask(self._victim, self._round, LOCAL_DUAL, wire.dual_task_to_bytes(task))
        except FenchelError:
            return False
        return True

    def by_bisection(self, slot: int, precision: float) -> float:
        return _bisected(lambda shift: self.accepted(slot, shift), precision)

    def by_sweeps(self, slot: int, precision: float, *, refusals: int) -> float:
        """Makes `refusals` sweeps, each finer than the last; a sweep ends at its first refusal."""
        low, width = PRODUCT_FORMAT.bound - SWEEP_WIDTH / 2.0, SWEEP_WIDTH
        steps = math.ceil((SWEEP_WIDTH / precision) ** (1.0 / refusals))
        for _ in range(refusals):
            width /= steps
            while self.accepted(slot, low + width):
                low += width
        return PRODUCT_FORMAT.bound - (low + width / 2.0)


def _bisected(accepted: Callable[[float], bool], precision: float) -> float:
    low, high = PRODUCT_FORMAT.bound - SWEEP_WIDTH / 2.0, PRODUCT_FORMAT.bound + SWEEP_WIDTH / 2.0
    while high - low > precision:
        middle = (low + high) / 2.0
        low, high = (middle, high) if accepted(middle) else (low, middle)
    return PRODUCT_FORMAT.bound - low


def _foreign_products(transcript: Transcript, victim: ClientId) -> tuple[int, Vector]:
    """A block that the victim and another party hold, and the other party's last inner products of it."""
    own_blocks = transcript.layout.sample_index.of(victim)
    privacy = transcript.config.privacy
    for message in reversed(transcript.messages):
        if message.phase != INNER_PRODUCT or message.client == victim:
            continue
        scope = Scope.of_federation(transcript.layout, message.client, key=transcript.key, privacy=privacy)
        products = wire.product_result_from_bytes(message.result, scope).products
        for position, block in enumerate(products.blocks):
            if block in own_blocks:
                return block, products.vector.select([position])
    raise AssertionError("no other party holds a block of the victim's")
