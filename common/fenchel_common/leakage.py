"""The leakage ledger: how many values of each class whoever sees a message has seen.

Which class a field has is said in `proto/`, at the field; visibility.proto says what the classes mean. A `Ledger` has
numbers alone, never a value. What a server and its parties count of the same messages is the same, as far as it is on
record: a server that is killed loses the counts of the round in work, and a party those of the task in work.
"""

import json
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, Self

from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId


class Visibility(StrEnum):
    """What whoever sees a value learns from it, the most telling first."""

    INDIVIDUAL = "individual"
    AGGREGATE = "aggregate"
    PSEUDONYM = "pseudonym"
    CIPHERTEXT = "ciphertext"
    PUBLIC = "public"
    TRANSPORT = "transport"


class Direction(StrEnum):
    """From a party to the server, or from the server to a party."""

    UP = "up"
    DOWN = "down"


class Sight(NamedTuple):
    """A kind of values: the field that they are in, their class, and, of ciphertext, the class of what is in it."""

    field: str
    visibility: Visibility
    content: Visibility


Tally = Counter[Sight]


@dataclass(slots=True)
class Ledger:
    """Values that passed between each party and the server, by direction and kind."""

    tallies: dict[tuple[ClientId, Direction], Tally] = field(default_factory=dict)

    @property
    def parties(self) -> tuple[ClientId, ...]:
        return tuple(sorted({party for party, _ in self.tallies}))

    def tally(self, party: ClientId, direction: Direction) -> Tally:
        return self.tallies.get((party, direction), Tally())

    def add(self, party: ClientId, direction: Direction, tally: Tally) -> None:
        self.tallies.setdefault((party, direction), Tally()).update(tally)

    def add_all(self, other: "Ledger") -> None:
        for (party, direction), tally in other.tallies.items():
            self.add(party, direction, tally)

    def to_json(self) -> str:
        return json.dumps(self.to_mapping(), separators=(",", ":"))

    def to_mapping(self) -> dict[str, dict[str, dict[str, dict[str, int]]]]:
        """By party, direction, field and class, or classes of ciphertext and of what is in it; each has a number."""
        held: dict[str, dict[str, dict[str, dict[str, int]]]] = {}
        for (party, direction), tally in sorted(self.tallies.items()):
            for sight, count in sorted(tally.items()):
                kinds = held.setdefault(party, {}).setdefault(direction, {}).setdefault(sight.field, {})
                closed = sight.visibility is not sight.content
                kinds[f"{sight.visibility} {sight.content}" if closed else sight.visibility.value] = count
        return held

    @classmethod
    def from_json(cls, text: str) -> Self:
        try:
            return cls.from_mapping(json.loads(text))
        except ValueError:
            raise InvalidInput("the ledger is not readable: it was cut or altered") from None

    @classmethod
    def from_mapping(cls, held: Any) -> Self:
        ledger = cls()
        try:
            for party, directions in held.items():
                for direction, fields in directions.items():
                    tally = Tally(
                        {
                            _sight_of(name, *map(Visibility, kind.split())): int(count)
                            for name, kinds in fields.items()
                            for kind, count in kinds.items()
                        }
                    )
                    ledger.add(ClientId(party), Direction(direction), tally)
        except (ValueError, TypeError, AttributeError):
            raise InvalidInput("the ledger is not readable: it was cut or altered") from None
        return ledger


def _sight_of(name: str, visibility: Visibility, content: Visibility | None = None) -> Sight:
    return Sight(name, visibility, content or visibility)
