"""The leakage ledger: counts of the values of each class that passed between the server and each party.

`proto/` gives the class of every field; visibility.proto explains the classes. A `Ledger` has counts only, never a
value. The server and its parties count the same messages and get the same counts, with one exception: a server that is
killed loses the counts of the current round, and a party that is killed loses those of the current task.
"""

import json
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, Self

from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId


class Visibility(StrEnum):
    """The class of a value: how much its reader learns from it. The class that tells most comes first."""

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
    """A kind of values: their field, their class and the class of their content, which differs in ciphertext only."""

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
        """Counts by party, direction, field and class; ciphertext has two classes, its own and that of its content."""
        mapping: dict[str, dict[str, dict[str, dict[str, int]]]] = {}
        for (party, direction), tally in sorted(self.tallies.items()):
            for sight, count in sorted(tally.items()):
                kinds = mapping.setdefault(party, {}).setdefault(direction, {}).setdefault(sight.field, {})
                encrypted = sight.visibility is not sight.content
                kinds[f"{sight.visibility} {sight.content}" if encrypted else sight.visibility.value] = count
        return mapping

    @classmethod
    def from_json(cls, text: str) -> Self:
        try:
            return cls.from_mapping(json.loads(text))
        except ValueError:
            raise InvalidInput("the ledger is not readable: it was cut or altered") from None

    @classmethod
    def from_mapping(cls, mapping: Any) -> Self:
        ledger = cls()
        try:
            for party, directions in mapping.items():
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
