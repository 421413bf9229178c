"""The server's half of the alignment by blinding parties: it relays pieces of lists, and finishes lists of owners.

In each phase `blind_j` every party that has work gets the pieces that are due at it, up to a bound, each wherever it is
on the way of its list. So lists travel at once, no message grows with the length of a list, and only the pieces of the
phase under way are worked on again if the phase is repeated.

The server sees elements under secrets, and pseudonyms at the end. It gets from each owner the exponent that takes the
owner's last secret off.
"""

from collections.abc import Iterable, Mapping, Sequence

from fenchel_common.blinding import BlindingWays
from fenchel_common.crypto.curve import is_exponent
from fenchel_common.crypto.curvecores import CurveCores, Raising
from fenchel_common.errors import InvalidInput, ResultRejected
from fenchel_common.ids import ClientId
from fenchel_common.wire.alignment import Listing
from fenchel_common.wire.pieces import (
    MAX_PIECES,
    WORK_ELEMENTS,
    Piece,
    blinding_phase,
    piece_sizes,
    work_to_bytes,
    worked_from_bytes,
)
from fenchel_server.contract import PhaseRequest
from fenchel_server.rejection import read_or_reject


class BlindedLists:
    """All lists of one set-up on their way.

    Raises `ResultRejected` for a listing whose pieces are not the first ones of its list.
    """

    def __init__(self, ways: BlindingWays, listings: Mapping[ClientId, Listing]) -> None:
        self._ways = ways
        self._phase = 0
        self._sizes = {client: piece_sizes(listing.samples) for client, listing in listings.items()}
        self._finished: dict[ClientId, list[bytes]] = {
            client: [b""] * len(self._sizes[client]) for client in ways.clients
        }
        self._finishers: dict[ClientId, bytes] = {}
        self._cores = CurveCores()
        self._under_way: dict[tuple[int, int], Piece] = {}
        for origin, client in enumerate(ways.clients):
            asked = [Piece(origin, 0, number) for number in range(len(self._sizes[client]))]
            given = listings[client].pieces
            self._under_way.update({(origin, piece.number): piece for piece in asked})
            self._check_worked(client, asked[: len(given)], given)
            self._move_on(client, given)

    def request(self) -> PhaseRequest | None:
        """The next phase; None once all lists are finished."""
        if not self._under_way:
            self._cores.close()
            return None
        self._phase += 1
        self._asked: dict[ClientId, list[Piece]] = {}
        room = dict.fromkeys(self._ways.clients, WORK_ELEMENTS)
        # The pieces that have come furthest are first: finished ones take the least memory.
        for piece in sorted(self._under_way.values(), key=lambda piece: -self._due(piece)):
            worker = self._ways.way(self._origin(piece))[self._due(piece)]
            size = self._sizes[self._origin(piece)][piece.number]
            given = self._asked.setdefault(worker, [])
            if room[worker] >= size and len(given) < MAX_PIECES:
                room[worker] -= size
                given.append(piece)
        tasks = {worker: work_to_bytes(pieces) for worker, pieces in self._asked.items()}
        return PhaseRequest(blinding_phase(self._phase), tasks)

    def advance(self, phase: str, results: Mapping[ClientId, bytes]) -> PhaseRequest | None:
        """Takes the results of the phase under way, and gives the next one."""
        assert phase == blinding_phase(self._phase), "results of another phase than the one under way"
        for client, asked in self._asked.items():
            pieces, finisher = read_or_reject(client, worked_from_bytes, results[client])
            self._check_worked(client, asked, pieces)
            if any(piece.sealed for piece in pieces):
                self._keep_finisher(client, finisher)
            self._move_on(client, pieces)
        return self.request()

    def elements(self, client: ClientId) -> bytes:
        """The pseudonyms of a party's samples, end to end, once all lists are finished."""
        return b"".join(self._finished[client])

    def _origin(self, piece: Piece) -> ClientId:
        return self._ways.clients[piece.origin]

    @staticmethod
    def _due(piece: Piece) -> int:
        """The step in which a piece is worked on next."""
        return piece.step + 1 if piece.count else 0

    def _check_worked(self, client: ClientId, asked: Sequence[Piece], worked: Sequence[Piece]) -> None:
        due = [(piece.origin, piece.number, self._due(piece)) for piece in asked]
        if [(piece.origin, piece.number, piece.step) for piece in worked] != due:
            raise ResultRejected(client, "its pieces are not those that it was asked for")
        for piece in worked:
            expected = self._sizes[self._origin(piece)][piece.number]
            if piece.count != expected:
                raise ResultRejected(client, f"a piece has {piece.count} elements where {expected} are due")
            if bool(piece.sealed) != self._ways.is_owners_turn(self._origin(piece), piece.step):
                raise ResultRejected(client, "a piece is sealed where it must not be, or is not where it must be")

    def _keep_finisher(self, client: ClientId, finisher: bytes) -> None:
        if not is_exponent(finisher) or self._finishers.setdefault(client, finisher) != finisher:
            raise ResultRejected(client, "the exponent that finishes its list is none, or not the one of before")

    def _move_on(self, client: ClientId, pieces: Iterable[Piece]) -> None:
        """Puts the pieces that a party worked on where they are due next."""
        arrived = []
        for piece in pieces:
            key = piece.origin, piece.number
            if self._due(piece) < len(self._ways.way(self._origin(piece))):
                self._under_way[key] = piece
            else:
                del self._under_way[key]
                arrived.append(piece)
        owned = [piece for piece in arrived if self._origin(piece) in self._finishers]
        try:
            raised = self._cores.raised(
                [Raising(self._finishers[self._origin(piece)], piece.elements) for piece in owned]
            )
        except InvalidInput as error:
            raise ResultRejected(client, str(error)) from error
        whole = dict(zip(((piece.origin, piece.number) for piece in owned), raised, strict=True))
        for piece in arrived:
            elements = whole.get((piece.origin, piece.number), piece.elements)
            self._finished[self._origin(piece)][piece.number] = elements
