"""A scoring run at a party: its part of the scores, and at the asking party the scores.

The table of such a run has the terms of the scores instead of values: the value of a feature of a row times the weight
of the feature in the model. So a party's part of a score is the sum of a row. The asking party alone has labels, which
mean nothing: a run uses the samples of parties with labels, here the rows that are asked for.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.codec import RowCodec, all_holders, together
from fenchel_client.algorithms.rows import PartyRows
from fenchel_client.crypto.plain import Cipher
from fenchel_client.crypto.seal import Seal
from fenchel_client.crypto.stamps import Origin, Stamp
from fenchel_client.table import PartyTable
from fenchel_client.transcript import StampedRecord
from fenchel_common.algorithms.dual import PRODUCT_FORMAT
from fenchel_common.algorithms.scoring.family import SCORES
from fenchel_common.algorithms.scoring.settings import ScoringSettings
from fenchel_common.blocks import BlockVector
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId
from fenchel_common.records import ROUND
from fenchel_common.setup import BEFORE_ROUNDS, Company
from fenchel_common.wire import scoring as wire
from fenchel_common.wire.scope import Scope

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ScoringBook:
    """The book of a scoring run: who has given its part of the scores."""

    layout: ClientLayout
    phase: str = ""
    given: Mapping[ClientId, Stamp] = field(default_factory=dict)

    @property
    def rounds_done(self) -> int:
        return int(bool(self.given))

    def company(self, phase: str) -> Company | None:
        """None: a sum needs all holders of a block."""
        del phase
        return None

    def after(self, record: StampedRecord) -> "ScoringBook":
        phase = record.moment.phase
        if record.choices and phase not in BEFORE_ROUNDS:
            raise InvalidInput("record: there is nothing to choose in a scoring run")
        if phase == ROUND:
            return replace(self, phase=ROUND, given={})
        if phase == SCORES:
            if self.phase != ROUND or set(record.stamps) != set(self.layout.clients):
                raise InvalidInput("record: all parties must have answered, once in a round")
            return replace(self, phase=SCORES, given=record.stamps)
        if phase not in BEFORE_ROUNDS:
            raise InvalidInput(f"record: a scoring run has no phase {phase!r}")
        return self

    def origins(self, block: int) -> Sequence[Origin]:
        """The parts of all holders of a block."""
        return [Origin(self.given[holder], SCORES) for holder in self.layout.holders[block] if holder in self.given]


class ScoringClient:
    """The client half of a scoring run; parameters as for `ClientHalf`."""

    def __init__(
        self,
        settings: ScoringSettings,
        *,
        layout: ClientLayout,
        table: PartyTable,
        cipher: Cipher,
        key: RunKey,
        seal: Seal,
        serialising: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        if layout.label_holders != {ClientId(settings.asker)}:
            raise InvalidInput(f"label_holders: {settings.asker} asks, and nobody else may")
        self._asks = layout.party == settings.asker
        self._layout, self._seal, self._serialising = layout, seal, serialising
        self._rows = PartyRows(layout, table)
        self._codec = RowCodec(self._rows, layout=layout, cipher=cipher, key=key, privacy=settings.privacy, seal=seal)
        self._scope = Scope.of_client(layout, key=key, privacy=settings.privacy)

    def preparation(self) -> bytes:
        return b""

    def first_book(self) -> ScoringBook:
        return ScoringBook(self._layout)

    def answer(self, phase: str, body: bytes, book: ScoringBook) -> bytes:
        if phase != SCORES or book.phase != ROUND:
            raise InvalidInput(f"phase: a scoring run has no phase {phase!r} here")
        with self._serialising():
            wire.scoring_task_from_bytes(body)
        blocks = () if self._asks else tuple(self._rows.positions)
        part = self._part(blocks) if blocks else None
        with self._serialising():
            return wire.scoring_result_to_bytes(part)

    def final_model(self, state: bytes, book: ScoringBook) -> Array:
        """(n,) the scores of the asked rows, in the order of the layout; nothing at a party that has not asked."""
        sums = wire.scoring_sums_from_bytes(state, self._scope)
        if not self._asks:
            return np.zeros(0)
        shared = tuple(block for block in self._rows.positions if block in self._rows.shared)
        if shared != (() if sums is None else sums.blocks) or not book.given:
            raise InvalidInput("scores: must be of all asked rows that other parties hold too")
        scores = self._terms()
        if sums is None:
            return scores
        # The part that this party has kept, under the stamp of its answer, so that its masks cancel those of others.
        self._seal.stamp = book.given[self._layout.party]
        whole = BlockVector(shared, sums.vector.plus(self._part(shared).vector))
        scores[self._rows.positions_of(shared)] = self._codec.from_blocks(whole, book.origins)
        return scores

    def _terms(self) -> Array:
        """(n,) this party's part of the score of each row."""
        return self._rows.products(np.arange(self._rows.count), np.ones(self._rows.width))

    def _part(self, blocks: tuple[int, ...]) -> BlockVector:
        return self._codec.to_blocks(SCORES, blocks, self._terms(), PRODUCT_FORMAT, among=together(all_holders))
