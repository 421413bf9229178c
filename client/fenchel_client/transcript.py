"""The records of a run at a party, and the stamps of the messages that they name.

A record is taken only if every party that it names has confirmed it: each contribution bears an HMAC by its maker over
the maker's view, the phase and the nonce. So the server can leave a contribution out of a record, but cannot invent or
exchange one, and it cannot tell parties different stories without their sums failing to open.

The server may repeat the last round in a higher attempt, because it was killed or because parties failed. Then the
party goes back to the end of the round before, and forgets what it had on record of the repeated round.
"""

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Generic, Protocol, Self, TypeVar

from fenchel_client.crypto.stamps import Stamp
from fenchel_common.errors import InvalidInput, Refusal
from fenchel_common.framing import framed
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.records import CONFIRMATION_BYTES, ROUND, Moment, Record, seed_to_bytes, view_after
from fenchel_common.setup import BEFORE_ROUNDS, LAYOUT, Company
from fenchel_common.wire.records import record_from_bytes

MAX_REPEATS: Final = 64
"""A server repeats a round at most so often; each time it may hear the figures of that round."""
OTHER_STORY: Final = "the records that the server sends are not those that this party has seen or that others confirmed"


@dataclass(frozen=True, slots=True)
class StampedRecord:
    """A record with the stamps of the messages that it names, in roster order."""

    moment: Moment
    stamps: Mapping[ClientId, Stamp]
    choices: bytes


class Book(Protocol):
    """What a party knows of a run by the records alone: which contributions the sums that it gets consist of."""

    @property
    def rounds_done(self) -> int:
        """The number of training rounds to which everybody contributed whom the rule of participation names."""
        ...

    def company(self, phase: str) -> Company | None:
        """The company of this party's contributions in a phase of the round under way.

        None if the party contributes to no sum that a round begun anew could have from the same state over other
        parties: where a sum needs all holders of a block, or nobody but two parties can open it.
        """
        ...

    def after(self, record: StampedRecord) -> Self:
        """The book with one record more; `InvalidInput` if the server's choices in it are not admissible."""
        ...


B = TypeVar("B", bound=Book)


@dataclass(frozen=True, slots=True)
class _RoundEnd(Generic[B]):
    records: int
    book: B


class Transcript(Generic[B]):
    """The records that a party has taken, in order; `book` is what follows from them.

    Parameters
    ----------
    view
        The view before the first record.
    book
        The book before the first record.
    key
        The key with which parties confirm records.
    seed
        The seed of the run, which must be in the record of the phase `layout`.
    attempt
        The attempt of the set-up, while the set-up is under way.
    passed
        A round that the party answered before it restarted, and its view before that round; the records must come to
        the same view there.
    """

    def __init__(
        self,
        view: bytes,
        book: B,
        *,
        party: ClientId,
        clients: Sequence[ClientId],
        key: bytes,
        seed: int,
        attempt: int = 0,
        passed: tuple[RoundId, bytes] | None = None,
    ) -> None:
        self.book = book
        self._party = party
        self._clients = tuple(clients)
        self._key = key
        self._seed = seed
        self._passed = passed
        self.preparations: Mapping[ClientId, Stamp] = {}
        """The stamps of the parties' answers in the newest phase between the layout and the first round."""
        self._views = [view]
        self._moment = Moment(attempt, RoundId(0), "")
        self._before: _RoundEnd[B] | None = None
        """The end of the round before the one under way; a server that was killed begins the latter anew."""
        self._repeats = 0
        self._repeated = RoundId(0)

    @property
    def round(self) -> RoundId:
        """The round of the newest record."""
        return self._moment.round

    @property
    def taken(self) -> int:
        """The number of records that the party has taken."""
        return len(self._views) - 1

    @property
    def view(self) -> bytes:
        return self._views[-1]

    @property
    def view_before_round(self) -> bytes:
        """The view before the beginning of the round under way."""
        return self._views[0] if self._before is None else self._views[self._before.records - 1]

    def take(self, first: int, records: Sequence[bytes]) -> None:
        """Takes records that begin with number `first`; those that the party has already are skipped.

        Raises
        ------
        Refusal
            A record is missing, contradicts one that the party has, or is not confirmed; records before it are taken.
        """
        if first >= len(self._views):
            raise Refusal("the server left out records", public_reason=OTHER_STORY)
        for number, data in enumerate(records, start=first):
            view = view_after(self._views[number], data)
            if number + 1 < len(self._views) and self._views[number + 1] == view:
                continue
            record = record_from_bytes(data, self._clients)
            if number + 1 < len(self._views):
                self._go_back(number, record)
            self._append(record, view)

    def take_one(self, record: bytes) -> None:
        """Takes the record after the newest, unless the newest is this very record; raises as `take` does."""
        if self.taken and view_after(self._views[-2], record) == self.view:
            return
        self.take(self.taken, [record])

    def answering(self, moment: Moment) -> Stamp:
        """The fresh stamp of an answer in this phase; `Refusal` unless the records have come to it."""
        if (moment.attempt, moment.round) != (self._moment.attempt, self._moment.round):
            raise Refusal("a task is of another round than the newest record", public_reason=OTHER_STORY)
        return Stamp.fresh(self._party, moment, self.view)

    def confirmation(self, stamp: Stamp) -> bytes:
        """This party's confirmation of its view, as part of the message with this stamp."""
        return _confirmation(self._key, stamp)

    def _append(self, record: Record, view: bytes) -> None:
        moment = record.moment
        self._check_turn(moment)
        stamps = {}
        for given in record.given:
            stamp = Stamp(given.party, moment, self.view, given.nonce)
            if not hmac.compare_digest(given.confirmation, _confirmation(self._key, stamp)):
                raise Refusal("a party has not confirmed a record that names it", public_reason=OTHER_STORY)
            stamps[given.party] = stamp
        if moment.phase == LAYOUT and record.choices != seed_to_bytes(self._seed):
            raise Refusal("the server names another seed than the parties derived", public_reason=OTHER_STORY)
        try:
            book = self.book.after(StampedRecord(moment, stamps, record.choices))
        except InvalidInput as error:
            raise Refusal(str(error), public_reason=f"it refused a choice of the server: {error}") from error
        if moment.phase == ROUND:
            self._repeats = 0 if moment.round > self._repeated else self._repeats
            self._repeated = moment.round
            self._before = _RoundEnd(len(self._views), self.book)
        if moment.phase in BEFORE_ROUNDS:
            self.preparations = stamps
        self.book, self._moment = book, moment
        self._views.append(view)

    def _check_turn(self, moment: Moment) -> None:
        """Raises `Refusal` unless the record follows the newest one.

        First comes that of the layout, then perhaps those of other phases before the rounds, in their order, then
        rounds without a gap.
        """
        newest = self._moment
        if len(self._views) == 1 or moment.phase == LAYOUT:
            in_turn = len(self._views) == 1 and moment.phase == LAYOUT and moment.round == 0
        elif moment.phase in BEFORE_ROUNDS:
            before = BEFORE_ROUNDS[: BEFORE_ROUNDS.index(moment.phase)]
            in_turn = newest.phase in before and moment == replace(newest, phase=moment.phase)
        elif moment.phase == ROUND:
            in_turn = moment.round == newest.round + 1 and moment.attempt >= newest.attempt
        else:
            in_turn = (moment.attempt, moment.round) == (newest.attempt, newest.round)
        if not in_turn:
            raise Refusal("a record is out of turn", public_reason=OTHER_STORY)
        elsewhere = self._passed is not None and self._passed[0] == moment.round and self._passed[1] != self.view
        if moment.phase == ROUND and elsewhere:
            raise Refusal("this party has answered in that round after other records", public_reason=OTHER_STORY)

    def _go_back(self, number: int, record: Record) -> None:
        """Returns to the end of the round before the one that a record begins anew."""
        end, moment = self._before, record.moment
        anew = moment.phase == ROUND and moment.round == self._moment.round and moment.attempt > self._moment.attempt
        if end is None or number + 1 != end.records or not anew:
            raise Refusal(
                "the server tells another story of earlier rounds: it was restored from an older backup, or it tells "
                "each party something else; such a run cannot go on",
                public_reason=OTHER_STORY,
            )
        self._repeats += 1
        if self._repeats > MAX_REPEATS:
            raise Refusal(f"the server began a round anew {self._repeats} times", public_reason=OTHER_STORY)
        self.book = end.book
        del self._views[end.records :]
        self._moment = Moment(moment.attempt, RoundId(moment.round - 1), "")


def _confirmation(key: bytes, stamp: Stamp) -> bytes:
    content = framed(stamp.party.encode(), stamp.moment.to_bytes(), stamp.view, stamp.nonce)
    return hmac.digest(key, content, "sha256")[:CONFIRMATION_BYTES]
