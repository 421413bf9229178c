"""Corrective HyFDCA of several classes at a party: one problem for each class, which tells it from all others.

The problems share the party's matrix, the layout, the records and the messages, and nothing else: each has its own
labels, points, memory and best model. A problem that has reached the gap of the run stands still, and its messages are
left out.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.corrective.book import CorrectiveBook
from fenchel_client.algorithms.corrective.client import CorrectiveClient
from fenchel_client.algorithms.duals import NORMS
from fenchel_client.algorithms.rows import Positions
from fenchel_client.crypto.plain import Cipher
from fenchel_client.crypto.scopedseal import ScopedSeal
from fenchel_client.crypto.seal import Seal
from fenchel_client.table import OneClass, PartyTable
from fenchel_client.transcript import StampedRecord
from fenchel_common.algorithms.corrective.settings import CorrectiveSettings
from fenchel_common.algorithms.dual import PRIMAL
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.errors import InvalidInput
from fenchel_common.objectives import correct_predictions
from fenchel_common.records import ROUND
from fenchel_common.setup import LAYOUT, PREPARE, Company
from fenchel_common.wire.corrective import primal_choices_to_bytes
from fenchel_common.wire.corrective_classes import (
    class_primal_choices_from_bytes,
    class_results_to_bytes,
    class_round_choices_from_bytes,
    class_tasks_from_bytes,
)

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ClassesBook:
    """The books of the problems of all classes.

    Attributes
    ----------
    under_way
        The positions of the problems of the round under way, or of the last one; of all problems before the first.
    """

    problems: tuple[CorrectiveBook, ...]
    under_way: tuple[int, ...]

    @property
    def rounds_done(self) -> int:
        return max(book.rounds_done for book in self.problems)

    def company(self, phase: str) -> Company | None:
        """As for `Book.company`: all problems under way have the same participants, and the same rounds before."""
        return self.problems[self.under_way[0]].company(phase)

    def after(self, record: StampedRecord) -> "ClassesBook":
        phase = record.moment.phase
        if phase in (LAYOUT, PREPARE):
            return replace(self, problems=tuple(book.after(record) for book in self.problems))
        if phase == ROUND:
            chosen = class_round_choices_from_bytes(record.choices, len(self.problems))
            if not set(chosen.classes) <= set(self.under_way):
                raise InvalidInput("record: a problem that stood still is under way again")
            return replace(self, under_way=chosen.classes)._with(lambda _: replace(record, choices=chosen.round))
        if phase == PRIMAL:
            ended = class_primal_choices_from_bytes(record.choices, self.under_way)
            return self._with(lambda problem: replace(record, choices=primal_choices_to_bytes(ended[problem])))
        return self._with(lambda _: record)

    def _with(self, record_of: Callable[[int], StampedRecord]) -> "ClassesBook":
        """The books with one record more for each problem under way."""
        books = {problem: self.problems[problem].after(record_of(problem)) for problem in self.under_way}
        return replace(self, problems=tuple(books.get(number, book) for number, book in enumerate(self.problems)))


class ClassesClient:
    """The client half of a corrective run of several classes; parameters as for `CorrectiveClient`."""

    def __init__(
        self,
        settings: CorrectiveSettings,
        *,
        layout: ClientLayout,
        table: PartyTable,
        cipher: Cipher,
        key: RunKey,
        seal: Seal,
        serialising: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        if table.y is not None:
            settings.check_labels(table.y if table.y.ndim == 1 else table.y[:, 0], table.weights)
        self._serialising = serialising
        self._problems = [
            CorrectiveClient(
                settings.of_one_class(),
                layout=layout,
                table=OneClass(table, name, problem),
                cipher=cipher,
                key=key,
                seal=ScopedSeal(seal, name, common=(NORMS,)),
                serialising=serialising,
            )
            for problem, name in enumerate(settings.class_names)
        ]

    @property
    def squared_norms(self) -> Array | None:
        """As for `KnowsRows.squared_norms`."""
        return next((half.squared_norms for half in self._problems if half.squared_norms is not None), None)

    def preparation(self) -> bytes:
        """That of one problem: the norms of rows do not depend on the class."""
        return self._problems[0].preparation()

    def first_book(self) -> ClassesBook:
        return ClassesBook(tuple(half.first_book() for half in self._problems), tuple(range(len(self._problems))))

    def answer(self, phase: str, body: bytes, book: ClassesBook) -> bytes:
        with self._serialising():
            tasks = class_tasks_from_bytes(body, len(book.under_way))
        results: list[bytes] = []
        for problem, task in zip(book.under_way, tasks, strict=True):
            half = self._problems[problem]
            if results:
                # The server tells the norms of rows with the first problem under way.
                half.squared_norms = self._problems[book.under_way[0]].squared_norms
            half.right = partial(self._right, book, problem) if problem == book.under_way[-1] else None
            results.append(half.answer(phase, task, book.problems[problem]))
        with self._serialising():
            return class_results_to_bytes(results)

    def _right(self, book: ClassesBook, last: int, predictions: Array, samples: Positions) -> tuple[int, int]:
        """As for `CountRight`, in the problem that is `last` under way: all others have ended the round."""
        scores, labels = [], []
        for problem, half in enumerate(self._problems):
            if problem == last:
                found: Array | None = predictions
            elif problem in book.under_way:
                found = half.predictions_under_way()
            else:
                found = half.predictions_on_record(book.problems[problem])
            if found is None or half.labels is None:
                return 0, 0
            scores.append(found[samples])
            labels.append(half.labels[samples])
        of_all = np.stack(scores, axis=1)
        return len(samples), correct_predictions(of_all, np.stack(labels, axis=1).argmax(axis=1))

    def final_model(self, state: bytes, book: ClassesBook) -> Array:
        """(m, classes) the weights of this client's features for each class."""
        states = class_tasks_from_bytes(state, len(self._problems))
        parts = zip(self._problems, states, book.problems, strict=True)
        return np.stack([half.final_model(part, of_one) for half, part, of_one in parts], axis=1)

    def certified_gap(self, book: ClassesBook) -> float | None:
        """The largest P − D of the models on record; None if this half did not open the sums that show one of them."""
        pairs = zip(self._problems, book.problems, strict=True)
        return _largest([half.certified_gap(of_one) for half, of_one in pairs])

    @property
    def last_gap(self) -> float | None:
        return _largest([half.last_gap for half in self._problems])


def _largest(gaps: list[float | None]) -> float | None:
    known = [gap for gap in gaps if gap is not None]
    return max(known) if len(known) == len(gaps) else None
