"""The records of a run at the server, and what each client has of them.

The server puts a record at the end of every phase and at the beginning of every round, and sends each client with its
next task the records that it lacks. It keeps all records of a run: a client that restarts needs them from the first on.
"""

from collections.abc import Iterable, Mapping, Sequence

from fenchel_common.ids import ClientId
from fenchel_common.records import Given, Moment, Record, seed_from_bytes
from fenchel_common.wire.parsing import Body
from fenchel_common.wire.records import record_from_bytes, record_to_bytes, round_result_from_bytes, round_task_to_bytes


class Transcript:
    """The records of a run.

    Parameters
    ----------
    clients
        The parties in roster order.
    records
        The records so far, as every party gets them, at least the first.
    """

    def __init__(self, clients: Sequence[ClientId], records: Iterable[bytes]) -> None:
        self._clients = tuple(clients)
        self._records = list(records)
        self._told: dict[ClientId, int] = dict.fromkeys(clients, 0)
        self._given: dict[ClientId, Given] = {}

    @property
    def seed(self) -> int:
        """The seed of the run, which is in the first record."""
        return seed_from_bytes(record_from_bytes(self._records[0], self._clients).choices)

    @property
    def records(self) -> tuple[bytes, ...]:
        return tuple(self._records)

    def forget(self, clients: Iterable[ClientId]) -> None:
        """Notes that these clients have none of the records any more."""
        self._told |= dict.fromkeys(clients, 0)

    def add(self, moment: Moment, *, contributors: Iterable[ClientId] = (), choices: bytes = b"") -> None:
        """Adds a record; `contributors` are clients whose results were opened since the record before."""
        named = frozenset(contributors)
        given = tuple(self._given[client] for client in self._clients if client in named)
        self._told |= {client: len(self._records) for client in named}
        self._given = {}
        self._records.append(record_to_bytes(Record(moment, given, choices), self._clients))

    def enclosed(self, client: ClientId, body: bytes) -> bytes:
        """A task with the records that the client lacks."""
        first = self._told[client]
        return round_task_to_bytes(body, first=first, records=self._records[first:])

    def all_enclosed(self, tasks: Mapping[ClientId, bytes]) -> dict[ClientId, bytes]:
        """The tasks of a phase with the records that each client lacks; clients with the same task share its bytes."""
        made: dict[tuple[int, int], bytes] = {}
        for client, body in tasks.items():
            same = self._told[client], id(body)
            if same not in made:
                made[same] = self.enclosed(client, body)
        return {client: made[self._told[client], id(body)] for client, body in tasks.items()}

    def opened(self, client: ClientId, result: Body) -> memoryview:
        """A result of the phase under way without its envelope; several threads may open results at once.

        Raises `InvalidInput` if the envelope cannot be read.
        """
        body, self._given[client] = round_result_from_bytes(memoryview(result), client)
        return body
