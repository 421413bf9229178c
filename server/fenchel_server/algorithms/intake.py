"""Takes the answers to a phase as they come: each is read, checked and added, and its body is dropped.

Several threads may hand in answers at once. The sums are exact, so that they do not depend on the order of arrival.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from fenchel_common.blocks import BlockSum, BlockVector
from fenchel_common.crypto.vectors import Vector
from fenchel_common.errors import FenchelError, InvalidInput
from fenchel_common.ids import ClientId
from fenchel_common.wire.parsing import Body

NO_RESULT: Final = "no result"

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class PhaseSums:
    """The sums of the vectors in the answers to a phase, by the name of a field.

    `numbers` has the sums of vectors of numbers by their length too: only vectors of one length can be added.
    """

    blocks: Mapping[str, BlockSum] = field(default_factory=dict)
    numbers: Mapping[tuple[str, int], Vector] = field(default_factory=dict)

    @classmethod
    def of(cls, blocks: Mapping[str, BlockVector | None], numbers: Mapping[str, Vector | None]) -> "PhaseSums":
        """The vectors of one answer."""
        return cls(
            {name: BlockSum.of(vector) for name, vector in blocks.items()},
            {(name, vector.length): vector for name, vector in numbers.items() if vector is not None},
        )

    @classmethod
    def of_problems(cls, parts: Mapping[int, "PhaseSums"]) -> "PhaseSums":
        """The sums of several problems beside each other; `of_problem` gives those of one."""
        return cls(
            {f"{problem}/{name}": added for problem, sums in parts.items() for name, added in sums.blocks.items()},
            {
                (f"{problem}/{name}", length): vector
                for problem, sums in parts.items()
                for (name, length), vector in sums.numbers.items()
            },
        )

    def of_problem(self, problem: int) -> "PhaseSums":
        """The sums of one of several problems."""
        prefix = f"{problem}/"
        return PhaseSums(
            {name.removeprefix(prefix): added for name, added in self.blocks.items() if name.startswith(prefix)},
            {
                (name.removeprefix(prefix), length): vector
                for (name, length), vector in self.numbers.items()
                if name.startswith(prefix)
            },
        )

    def plus(self, other: "PhaseSums") -> "PhaseSums":
        blocks, numbers = dict(self.blocks), dict(self.numbers)
        for name, added in other.blocks.items():
            blocks[name] = blocks[name].plus(added) if name in blocks else added
        for key, vector in other.numbers.items():
            numbers[key] = numbers[key].plus(vector) if key in numbers else vector
        return PhaseSums(blocks, numbers)

    def by_block(self, name: str) -> BlockSum:
        """The sums of a field by block; without any vector, the empty sum."""
        return self.blocks.get(name, BlockSum())

    def whole_vectors(self, names: Mapping[str, str]) -> dict[str, BlockVector]:
        """For each name, the sums of the field that it stands for as one vector; without those that have none."""
        vectors = {name: self.by_block(field_name).whole() for name, field_name in names.items()}
        return {name: vector for name, vector in vectors.items() if vector is not None}

    def total(self, name: str) -> Vector | None:
        """The sum of a field of numbers; None without any vector.

        Raises `InvalidInput` if clients gave vectors of different lengths.
        """
        found = [vector for (field_name, _), vector in self.numbers.items() if field_name == name]
        if len(found) > 1:
            raise InvalidInput(f"{name}: clients disagree on what they remember")
        return found[0] if found else None


@dataclass(frozen=True, slots=True)
class Answers(Generic[K]):
    """The outcome of a phase.

    `good` has what is kept of the good answers, `failed` the reason for every other client that had a task, both in the
    order in which the clients were asked. `sums` are those of the good answers.
    """

    good: dict[ClientId, K]
    failed: dict[ClientId, str]
    sums: PhaseSums = field(default_factory=PhaseSums)


class Intake(Generic[K]):
    """The answers to one phase.

    Parameters
    ----------
    asked
        The clients that have a task; answers of others do not count.
    read
        Reads and checks an answer, and gives what is kept of it and the vectors to add; raises a `FenchelError` to
        reject the answer. Called by several threads at once.
    """

    def __init__(self, asked: Iterable[ClientId], read: Callable[[ClientId, Body], tuple[K, PhaseSums]]) -> None:
        self._asked = tuple(asked)
        self._read = read
        self._lock = threading.Lock()
        self._kept: dict[ClientId, K] = {}
        self._rejected: dict[ClientId, str] = {}
        self._sums: PhaseSums | None = None

    def take(self, client: ClientId, body: Body) -> None:
        """Takes the answer of a client; the caller takes at most one of each client.

        An answer is checked as a whole before any of its vectors is added. Raises a `FenchelError` if vectors that are
        good by themselves cannot be added; the sums are then lost.
        """
        if client not in self._asked:
            return
        try:
            kept, sums = self._read(client, body)
        except FenchelError as error:
            with self._lock:
                self._rejected[client] = f"rejected: {error}"
            return
        self._add(sums)
        with self._lock:
            self._kept[client] = kept

    def _add(self, sums: PhaseSums) -> None:
        # No thread has the lock while it adds: it takes the sums so far, and puts theirs and its own back together.
        while True:
            with self._lock:
                before, self._sums = self._sums, None
                if before is None:
                    self._sums = sums
                    return
            sums = before.plus(sums)

    def answers(self) -> Answers[K]:
        """The outcome; called when no thread takes an answer any more."""
        good = {client: self._kept[client] for client in self._asked if client in self._kept}
        failed = {client: self._rejected.get(client, NO_RESULT) for client in self._asked if client not in good}
        return Answers(good, failed, self._sums or PhaseSums())
