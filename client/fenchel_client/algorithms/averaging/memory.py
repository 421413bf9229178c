"""A party's copy of the state of a run on the averaging rails, and of the vectors that it keeps between rounds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.averaging.blocks import CoordinateBlocks
from fenchel_client.algorithms.averaging.book import AveragingBook, RoundOnRecord
from fenchel_client.algorithms.averaging.log import Due, LoggedEntry, same_origins
from fenchel_client.algorithms.averaging.work import State, Update, trained_among, vector_field
from fenchel_client.algorithms.codec import BlockCodec
from fenchel_client.crypto.plain import Cipher
from fenchel_client.crypto.seal import Seal
from fenchel_client.crypto.stamps import Stamp
from fenchel_common.algorithms.averaging.rails import (
    MODEL_FORMAT,
    Positions,
    StateUpdate,
    Sums,
    Vectors,
    chosen_blocks,
)
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import RoundId

Array = NDArray[np.float64]
Apply = Callable[[State, Update], State]
"""The state after a round's sums; see `AveragingClient.apply`."""


@dataclass(frozen=True, slots=True)
class _Held:
    """The state before a round of an attempt."""

    attempt: int
    round_id: RoundId
    state: State


class Memory:
    """Opens updates of the state, as far as the records name who made them, and remembers the result.

    Memory of one attempt at the run is not used in the next: the server sends the state anew.

    Parameters
    ----------
    names
        The name of each coordinate, the same at every party that holds it.
    apply
        How the sums of a round change the state.
    in_own_order
        The positions among the party's coordinates of those that the server names.
    """

    def __init__(
        self,
        own: CoordinateBlocks,
        *,
        names: Sequence[str],
        vectors: Vectors,
        cipher: Cipher,
        seal: Seal,
        apply: Apply,
        in_own_order: Callable[[Positions], Positions],
    ) -> None:
        self._own = own
        self._names = names
        self._vectors = vectors
        self._cipher = cipher
        self._seal = seal
        self._apply = apply
        self._in_own_order = in_own_order
        self.coordinates = BlockCodec("coordinates", own.positions, names, own.holders, own.slots, cipher, seal)
        alone = dict.fromkeys(own.positions, (own.party,))
        self.own_coordinates = BlockCodec("own coordinates", own.positions, names, alone, own.slots, cipher, seal)
        """Of vectors that nobody but this party opens."""
        self._held: _Held | None = None
        self.kept: State = self._zeros(vectors.kept)
        self._kept_in: Stamp | None = None

    def codec_of(self, coordinates: Positions | None) -> BlockCodec:
        """The codec of coordinates as the server names them, cut into blocks; None stands for all coordinates."""
        if coordinates is None:
            return self.coordinates
        blocks = chosen_blocks(self._in_own_order(coordinates), self._own.slots)
        by_everybody = dict.fromkeys(blocks, ())
        return BlockCodec(
            "chosen coordinates", blocks, self._names, by_everybody, self._own.slots, self._cipher, self._seal
        )

    def take(self, update: StateUpdate, book: AveragingBook, current: RoundOnRecord) -> State:
        """Brings the memory to the state before the round under way, and gives this state.

        Raises `InvalidInput` or `CryptoError`, and leaves the memory as it was, unless the update is exactly what the
        records say that this party lacks.
        """
        attempt = current.moment.attempt
        lacks_kept = update.reset or book.kept != self._kept_in
        names = self._vectors.kept if lacks_kept and book.kept is not None else ()
        _check_blocks(update.kept, names, tuple(self._own.positions), "state.kept")
        state = self.opened(update, book, attempt=attempt)
        if lacks_kept:
            self.kept, self._kept_in = self._opened_kept(update.kept, book), book.kept
        self._held = _Held(attempt, current.id, state)
        return state

    def opened(self, update: StateUpdate, book: AveragingBook, *, attempt: int | None = None) -> State:
        """The state after an update; without an attempt the memory is not used."""
        before: State = self._zeros(self._vectors.state)
        since = None
        if not update.reset:
            if self._held is None or self._held.attempt != attempt:
                raise InvalidInput("state.reset: is due, because this party does not have the state")
            before, since = self._held.state, RoundId(self._held.round_id - 1)
        due = book.log.due(since)
        self._check_due(update, due)
        state = self._rebased(before, update.base, due)
        for entry, sums in zip(due.entries, update.entries, strict=True):
            state = self._applied(state, entry, sums)
        return state

    def state_before(self, current: RoundOnRecord) -> State:
        """The state that entered the round under way; `InvalidInput` if the party has lost it since."""
        if self._held is None or (self._held.attempt, self._held.round_id) != (current.moment.attempt, current.id):
            raise InvalidInput("state: this party has lost the state that entered the round")
        return self._held.state

    def keep(self, given: State) -> None:
        """Remembers the party's own vectors as it gives them in the message that is being made."""
        self.kept = {name: MODEL_FORMAT.rounded(given[name]) for name in self._vectors.kept}
        self._kept_in = self._seal.stamp

    def _check_due(self, update: StateUpdate, due: Due) -> None:
        """Raises `InvalidInput`, before anything is opened, unless an update has exactly the vectors that are due."""
        _check_blocks(update.base, self._vectors.state if due.base else (), tuple(due.base), "state.base")
        if len(update.entries) != len(due.entries):
            raise InvalidInput("state.entries: must be exactly those that this party lacks")
        for entry, sums in zip(due.entries, update.entries, strict=True):
            _check_blocks(sums, self._vectors.summed, entry.blocks, "state.entries")

    def _opened_kept(self, kept: Sums, book: AveragingBook) -> State:
        opened = self._zeros(self._vectors.kept)
        if book.kept is not None:
            for name, vector in kept.items():
                shared = name in self._vectors.summed
                opened[name] = (self.coordinates if shared else self.own_coordinates).put_into(
                    opened[name],
                    vector,
                    same_origins([book.kept], vector_field(name)),
                    among=trained_among(book.kept_among) if shared else None,
                )
        return opened

    def _rebased(self, state: State, base: Sums, due: Due) -> State:
        rebased = {
            name: self.coordinates.put_into(state[name], vector, due.base_origins(name))
            for name, vector in base.items()
        }
        return {**state, **rebased}

    def _applied(self, before: State, entry: LoggedEntry, sums: Sums) -> State:
        codec = self.codec_of(entry.coordinates)
        weights = np.zeros(self._own.length)
        for block in entry.blocks:
            weights[codec.positions[block]] = entry.weight(block)
        zeros = np.zeros(self._own.length)
        opened = {name: codec.put_into(zeros, vector, entry.origins(name)) for name, vector in sums.items()}
        after = self._apply(before, Update(entry.round_id, entry.told, opened, weights))
        changed = (weights > 0.0) | (entry.coordinates is not None)
        return {name: MODEL_FORMAT.rounded(np.where(changed, after[name], old)) for name, old in before.items()}

    def _zeros(self, names: Sequence[str]) -> dict[str, Array]:
        return {name: np.zeros(self._own.length) for name in names}


def _check_blocks(vectors: Sums, names: Sequence[str], blocks: tuple[int, ...], field: str) -> None:
    if set(vectors) != set(names) or any(vector.blocks != blocks for vector in vectors.values()):
        raise InvalidInput(f"{field}: must be exactly the vectors that this party lacks, on the blocks that are due")
