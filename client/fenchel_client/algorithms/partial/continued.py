"""The client half of a run of all parties: corrective rounds, and rounds of pairs once parties have come and gone.

The records say which round is the first of pairs; all that follow are. They begin with the anchor on record.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import NotRequired, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.base import AlgorithmClient
from fenchel_client.algorithms.codec import Origins
from fenchel_client.algorithms.corrective.book import CorrectiveBook
from fenchel_client.algorithms.corrective.classes import ClassesClient
from fenchel_client.algorithms.corrective.client import CorrectiveClient
from fenchel_client.algorithms.partial.book import PartialBook, StartOrigins, of_block
from fenchel_client.algorithms.partial.client import PartialClient
from fenchel_client.crypto.plain import Cipher
from fenchel_client.crypto.seal import Seal
from fenchel_client.table import PartyTable
from fenchel_client.transcript import StampedRecord
from fenchel_common.algorithms.corrective.settings import CorrectiveSettings
from fenchel_common.algorithms.partial.progress import Progress
from fenchel_common.algorithms.partial.settings import settings_of_pairs
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.errors import InvalidInput
from fenchel_common.records import ROUND
from fenchel_common.setup import Company
from fenchel_common.wire.partial import pairs_round_from_bytes

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class WholeRunBook(CorrectiveBook):
    """The book of a run of all parties; `pairs` is that of its rounds of pairs, None before the first."""

    pairs: PartialBook | None = None

    def after(self, record: StampedRecord) -> "WholeRunBook":
        begins = record.moment.phase == ROUND
        choices = pairs_round_from_bytes(record.choices) if begins else None
        pairs = self.pairs
        if pairs is None and choices is None:
            book = CorrectiveBook.after(self, record)
            assert isinstance(book, WholeRunBook), "a book of the same class"
            return book
        if pairs is None:
            pairs = self._first_of_pairs(record.moment.round - 1)
        if begins:
            if choices is None:
                raise InvalidInput("record: rounds of pairs go on to the end of the run")
            record = replace(record, choices=choices)
        following = pairs.after(record)
        done = self.rounds_done + following.rounds_done - pairs.rounds_done
        return replace(self, pairs=following, rounds_done=done)

    def company(self, phase: str) -> Company | None:
        return CorrectiveBook.company(self, phase) if self.pairs is None else self.pairs.company(phase)

    def _first_of_pairs(self, round_id: int) -> PartialBook:
        """The book of the rounds of pairs, the first of which follows a round."""
        if self.settings.path is not None:
            raise InvalidInput("record: pairs: a run with a path needs all parties in every round")
        if self.choices is not None and self.choices.closing:
            raise InvalidInput("record: a round follows the one that was to be the last")
        return PartialBook(
            self.layout,
            settings_of_pairs(self.settings),
            preparations=self.preparations,
            progress=Progress.continuing(round_id),
            counted=self.pending,
            model=self.model,
            latest=self.latest,
            start=StartOrigins(round_id, self.alpha, self.weights),
        )


class PartsOfHalf(TypedDict):
    """The parameters of `ClientHalf` beside the settings."""

    layout: ClientLayout
    table: PartyTable
    cipher: Cipher
    key: RunKey
    seal: Seal
    serialising: NotRequired[Callable[[], AbstractContextManager[None]]]


class WholeRunClient(CorrectiveClient):
    """The client half of HyFDCA with `local = "corrective"` and `participation = "all"`, of one problem."""

    def __init__(self, settings: CorrectiveSettings, **parts: Unpack[PartsOfHalf]) -> None:
        super().__init__(settings, **parts)
        self._of_pairs = partial(PartialClient, settings_of_pairs(settings), **parts)
        self._pairs: PartialClient | None = None

    def first_book(self) -> WholeRunBook:
        return WholeRunBook(self._layout, self._settings)

    def answer(self, phase: str, body: bytes, book: CorrectiveBook) -> bytes:
        pairs = pairs_of(book)
        if pairs is None:
            self._pairs = None
            return super().answer(phase, body, book)
        if self._pairs is None:
            self._pairs = self._of_pairs()
        answer = self._pairs.answer(phase, body, pairs)
        self._norms = self._pairs.squared_norms
        self._ended = None
        return answer

    def certified_gap(self, book: CorrectiveBook) -> float | None:
        """As for `KnowsGap.certified_gap`."""
        pairs = pairs_of(book)
        if pairs is None or self._pairs is None:
            return super().certified_gap(book) if pairs is None else None
        return self._pairs.certified_gap(pairs)

    @property
    def last_gap(self) -> float | None:
        return super().last_gap if self._pairs is None else self._pairs.last_gap

    def _model_origins(self, book: CorrectiveBook) -> Origins:
        pairs = pairs_of(book)
        return super()._model_origins(book) if pairs is None else of_block(pairs.released)


def pairs_of(book: CorrectiveBook) -> PartialBook | None:
    """The book of the rounds of pairs; None before the first."""
    assert isinstance(book, WholeRunBook), "the first book of the half"
    return book.pairs


def whole_run_half(settings: CorrectiveSettings, **parts: Unpack[PartsOfHalf]) -> AlgorithmClient:
    """The client half of a run of all parties, of one problem or of several classes; as for `ClientHalf`."""
    half = ClassesClient if settings.classes else WholeRunClient
    return half(settings, **parts)
