"""A party's part in the alignment by blinding parties: its own list, and the pieces of other lists that it raises.

`fenchel_common.blinding` has the way of each list. Blinding party k has an exponent b_k, and the owner o of a list, if
it is no blinding party, has two, x_o and r_o; all are fresh in each set-up. With blinding parties 1, 2 and 3 a list is

    step 0  owner        x_o · H(id)                       step 0  blinding party 1   b_1 · H(id)
    step 1  party 1      x_o b_1 · H(id)                   step 1  party 2            b_1 b_2 · H(id)
    step 2  party 2      x_o b_1 b_2 · H(id)               step 2  party 3            b_1 b_2 b_3 · H(id)
    step 3  owner        r_o b_1 b_2 · H(id), sealed
    step 4  party 3      r_o b_1 b_2 b_3 · H(id)
    server               b_1 b_2 b_3 · H(id)

on the left for an owner, on the right for a blinding party. In step 3 the owner seals its list for the last blinding
party and gives the server the exponent that takes r_o off.

    tag    = HMAC-SHA-256(K, TAG_LABEL ‖ run, origin, step, number of the piece, who made it, SHA-256 of the elements)
    sealed = nonce ‖ AES-256-GCM(K', nonce, elements, SEAL_LABEL ‖ run, origin, number of the piece)

K and K' follow from a secret of two parties: the one that made the elements and the one that works on them next.

Protects: no party sees an id, a plain hash of one or its own pseudonyms, and no party can compare two lists. Without
b_k nobody can compute a pseudonym, so the server needs the help of all blinding parties. A server that relays the
pieces can put none of its own making into a list, alter none, and exchange none for another.

Does not protect: a party that invents ids, and colludes with the server, finds out who holds them.
"""

import hashlib
import hmac
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from fenchel_client.alignment.ring import NOT_DUE
from fenchel_client.crypto.derivedkeys import blinding_seal_key, blinding_tag_key
from fenchel_common.blinding import BlindingWays
from fenchel_common.crypto.curve import fresh_exponent, quotient
from fenchel_common.crypto.curvecores import CurveCores, Raising
from fenchel_common.errors import Refusal
from fenchel_common.framing import framed
from fenchel_common.identity import Roster
from fenchel_common.ids import ClientId, RunId
from fenchel_common.wire.pieces import PIECE_ELEMENTS, WORK_ELEMENTS, Piece, piece_sizes, worked_to_bytes

TAG_LABEL: Final = b"fenchel/v1/blinders/tag\x00"
SEAL_LABEL: Final = b"fenchel/v1/blinders/seal\x00"

_NONCE_BYTES: Final = 12
_NUMBER_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class BlindingSecrets:
    """A party's exponents in one set-up.

    `raising` is b_k of a blinding party, or x_o of another one; `remaining` is r_o.
    """

    raising: bytes = field(repr=False)
    remaining: bytes = field(repr=False)

    @classmethod
    def fresh(cls) -> "BlindingSecrets":
        return cls(fresh_exponent(), fresh_exponent())


def ways_of(roster: Roster) -> BlindingWays:
    """The ways of all lists in a federation."""
    return BlindingWays(roster.names, roster.blinders)


class Blinding:
    """One party in one set-up.

    Parameters
    ----------
    ids
        The party's own sample ids, in the order of its list.
    pairs
        The secrets that the party has in common with each party next to it on the way of a list.
    """

    def __init__(
        self,
        ways: BlindingWays,
        own: ClientId,
        ids: Sequence[str],
        *,
        run: RunId,
        pairs: Mapping[ClientId, bytes],
        exponents: BlindingSecrets,
    ) -> None:
        self._ways = ways
        self._own = own
        self._ids = ids
        self._run = run
        self._pairs = pairs
        self._exponents = exponents
        self._cores = CurveCores()
        self._taken: dict[tuple[int, int, int], bytes] = {}
        """The digest of the elements of each piece that this party has worked on, by origin, step and number."""

    def close(self) -> None:
        """Ends the processes that raise lists, if there are any."""
        self._cores.close()

    def first_pieces(self) -> tuple[Piece, ...]:
        """The beginning of this party's own list, as much as it works on in one phase."""
        origin = self._ways.clients.index(self._own)
        asked = [Piece(origin, 0, number) for number in range(len(piece_sizes(len(self._ids))))]
        return tuple(self._worked(asked[: WORK_ELEMENTS // PIECE_ELEMENTS]))

    def answer(self, pieces: Sequence[Piece]) -> bytes:
        """The pieces one step further; `Refusal` if one of them is not due at this party."""
        worked = self._worked(pieces)
        own_turn = any(piece.sealed for piece in worked)
        return worked_to_bytes(worked, quotient(None, self._exponents.remaining) if own_turn else b"")

    def _worked(self, pieces: Sequence[Piece]) -> list[Piece]:
        steps = [self._step_of(piece) for piece in pieces]
        raised = self._cores.raised([self._work_on(piece, step) for piece, step in zip(pieces, steps, strict=True)])
        return [self._made(*one) for one in zip(pieces, steps, raised, strict=True)]

    def _step_of(self, piece: Piece) -> int:
        """The step in which this party is to work on a piece."""
        step = piece.step + 1 if piece.count else 0
        clients = self._ways.clients
        way = self._ways.way(clients[piece.origin]) if piece.origin < len(clients) else ()
        if step >= len(way) or way[step] != self._own:
            raise self._not_due(piece, f"step {step} of its way is not this party's")
        return step

    def _work_on(self, piece: Piece, step: int) -> Raising:
        """What this party does to a piece, once it knows that the piece is the one that is due."""
        origin, exponents = self._ways.clients[piece.origin], self._exponents
        if step == 0:
            ids = self._ids[piece.number * PIECE_ELEMENTS : (piece.number + 1) * PIECE_ELEMENTS]
            if not ids:
                raise self._not_due(piece, "the list has no such piece")
            return Raising(exponents.raising, ids=ids, run=self._run)
        elements = self._opened(piece, origin) if self._ways.is_sealed_to(origin, step) else self._tagged(piece, origin)
        digest = hashlib.sha256(elements).digest()
        if self._taken.setdefault((piece.origin, step, piece.number), digest) != digest:
            raise self._not_due(piece, "this party has worked on other elements in its place")
        if self._ways.is_owners_turn(origin, step):
            return Raising(quotient(exponents.remaining, exponents.raising), elements)
        return Raising(exponents.raising, elements)

    def _made(self, piece: Piece, step: int, elements: bytes) -> Piece:
        """The piece for the next party on the way, or for the server."""
        origin = self._ways.clients[piece.origin]
        way = self._ways.way(origin)
        made = Piece(piece.origin, step, piece.number)
        if self._ways.is_owners_turn(origin, step):
            return sealed_piece(made, elements, origin, pair=self._pairs[way[step + 1]], run=self._run)
        # Nobody verifies the tag of a finished piece.
        tag = (
            self._tag(made, origin, elements, way[step + 1])
            if step + 1 < len(way)
            else bytes(hashlib.sha256().digest_size)
        )
        return Piece(made.origin, made.step, made.number, elements, tag)

    def _tagged(self, piece: Piece, origin: ClientId) -> bytes:
        """The elements of a piece, if the party before this one made them for it."""
        maker = self._ways.way(origin)[piece.step]
        if not hmac.compare_digest(piece.tag, self._tag(piece, origin, piece.elements, maker, maker=maker)):
            raise self._not_due(piece, f"it is not as {maker!r} gave it: the server slipped it in or altered it")
        return piece.elements

    def _tag(
        self, piece: Piece, origin: ClientId, elements: bytes, other: ClientId, *, maker: ClientId | None = None
    ) -> bytes:
        """The tag of elements between this party and another one; this party makes them unless `maker` does."""
        numbers = [number.to_bytes(_NUMBER_BYTES, "big") for number in (piece.step, piece.number)]
        digest = hashlib.sha256(elements).digest()
        message = framed(self._run.encode(), origin.encode(), *numbers, (maker or self._own).encode(), digest)
        return hmac.digest(blinding_tag_key(self._pairs[other], self._run), TAG_LABEL + message, "sha256")

    def _opened(self, piece: Piece, origin: ClientId) -> bytes:
        """The elements that the owner sealed for this party."""
        try:
            return opened_piece(piece, origin, pair=self._pairs[origin], run=self._run)
        except (InvalidTag, ValueError) as error:
            raise self._not_due(piece, f"{origin!r} has not sealed it for this party") from error

    def _not_due(self, piece: Piece, reason: str) -> Refusal:
        return Refusal(
            f"piece {piece.number} of the list of party {piece.origin} is not due: {reason}", public_reason=NOT_DUE
        )


def sealed_piece(piece: Piece, elements: bytes, owner: ClientId, *, pair: bytes, run: RunId) -> Piece:
    """The piece with its elements sealed; `pair` is the secret of the owner and the last blinding party."""
    nonce = secrets.token_bytes(_NONCE_BYTES)
    sealed = AESGCM(blinding_seal_key(pair, run)).encrypt(nonce, elements, _sealed_with(piece, owner, run))
    return Piece(piece.origin, piece.step, piece.number, sealed=nonce + sealed)


def opened_piece(piece: Piece, owner: ClientId, *, pair: bytes, run: RunId) -> bytes:
    """The elements of a sealed piece; `InvalidTag` or `ValueError` if it is none of this owner, run and number."""
    nonce, sealed = piece.sealed[:_NONCE_BYTES], piece.sealed[_NONCE_BYTES:]
    return AESGCM(blinding_seal_key(pair, run)).decrypt(nonce, sealed, _sealed_with(piece, owner, run))


def _sealed_with(piece: Piece, owner: ClientId, run: RunId) -> bytes:
    return SEAL_LABEL + framed(run.encode(), owner.encode(), piece.number.to_bytes(_NUMBER_BYTES, "big"))
