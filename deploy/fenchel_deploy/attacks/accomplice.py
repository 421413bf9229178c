"""A server to which one party of a run of HyFDCA with masks has given all its keys.

The server has every contribution of every party, and makes sums of them as it likes. With the keys of its accomplice it
opens those whose masks it can take off, on blocks that the accomplice holds; the tag says whether it has the values. Of
other contributions to these blocks it takes the mask of the group off, and takes what remains for the values.
"""

from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fenchel.v1 import hyfdca_pb2, vectors_pb2
from fenchel_client.algorithms.rows import PartyRows
from fenchel_client.alignment import columns_by_pseudonym
from fenchel_client.crypto.plain import Cipher
from fenchel_client.crypto.stamps import Origin, Place, Stamp, block_places, block_token
from fenchel_client.runcipher import run_cipher
from fenchel_common.algorithms.dual import INNER_PRODUCT, LOCAL_DUAL, PRIMAL
from fenchel_common.algorithms.hyfdca.messages import INNER_PRODUCT_AFTER, SYNC
from fenchel_common.crypto.words import MaskedVector
from fenchel_common.errors import CryptoError
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.records import Moment, view_after
from fenchel_common.wire.records import round_result_from_bytes
from fenchel_common.wire.vectors import format_from_proto, vector_from_proto
from fenchel_deploy.attacks.traces import ids_in
from fenchel_deploy.attacks.views import Array, Message, PartyView, PublicEyes, Transcript, words_of
from fenchel_deploy.inprocess.parties import ATTEMPT

_BY_FEATURE: Final = "features"
_BY_SAMPLE: Final = "samples"
_Block = tuple[str, int]


@dataclass(frozen=True, slots=True)
class _Piece:
    """A vector of one block, and the contributions of which it is the sum."""

    vector: MaskedVector
    origins: tuple[Origin, ...]

    def plus(self, other: "_Piece") -> "_Piece":
        return _Piece(self.vector.plus(other.vector), self.origins + other.origins)


@dataclass(slots=True)
class AccompliceEyes:
    """Reads the blocks that the keys of one party open.

    Of other blocks of the party the guess is what remains without the mask of the group; of any other block the words.
    """

    public: PublicEyes
    cipher: Cipher
    places: dict[_Block, Place]
    _known: dict[bytes, Array] = field(default_factory=dict, repr=False)
    _stripped: dict[bytes, MaskedVector] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, view: PartyView, transcript: Transcript) -> "AccompliceEyes":
        """The eyes of a server with the keys of the party of `view`, after all messages of the transcript."""
        kept = view.kept
        assert kept.secrets is not None, "the run is under way"
        columns = columns_by_pseudonym(view.own_table.features, tag_secret=kept.secrets.tag_secret, run=transcript.run)
        layout = view.layout.in_columns(columns)
        rows = PartyRows(layout, view.own_table)
        cipher, _, _ = run_cipher(transcript.run, kept, kept.secrets, layout)
        places: dict[_Block, Place] = {}
        for kind, positions, names, holders in (
            (_BY_SAMPLE, rows.positions, rows.ids, layout.holders),
            (_BY_FEATURE, layout.feature_blocks, rows.features, layout.feature_holders),
        ):
            tokens = {block: block_token(kind, block, [names[one] for one in own]) for block, own in positions.items()}
            places |= {(kind, block): place for block, place in block_places(tokens, holders).items()}
        eyes = cls(PublicEyes(transcript.key), cipher, places)
        eyes._listen(view, transcript)
        return eyes

    def read(self, vector: vectors_pb2.Vector) -> Array:
        guess = self.public.read(vector)
        if vector.WhichOneof("kind") != "masked":
            return guess
        for start, words in self._blocks(vector):
            known, stripped = self._known.get(words.tobytes()), self._stripped.get(words.tobytes())
            if known is not None:
                guess[start : start + len(known)] = known
            elif stripped is not None:
                guess[start : start + len(words)] = _values(stripped)
        return guess

    def difference(self, later: vectors_pb2.Vector, earlier: vectors_pb2.Vector) -> Array:
        guess = self.public.difference(later, earlier)
        if later.WhichOneof("kind") != "masked":
            return guess
        for (start, after), (_, before) in zip(self._blocks(later), self._blocks(earlier), strict=True):
            one, other = self._known.get(after.tobytes()), self._known.get(before.tobytes())
            if one is not None and other is not None:
                guess[start : start + len(one)] = one - other
                continue
            left, taken = self._stripped.get(after.tobytes()), self._stripped.get(before.tobytes())
            if left is not None and taken is not None:
                difference = replace(left, integers=left.integers - taken.integers)
                guess[start : start + len(after)] = _values(difference)
        return guess

    def _blocks(self, vector: vectors_pb2.Vector) -> list[tuple[int, NDArray[Any]]]:
        """The words of each block, and the position of the first."""
        words, slots = words_of(vector.masked), self.cipher.slots_of(format_from_proto(vector.masked.format))
        return [(start, words[start : start + slots]) for start in range(0, len(words), slots)]

    def _listen(self, view: PartyView, transcript: Transcript) -> None:
        """Opens contributions, sums of the latest contributions of all parties, and sums of all contributions."""
        views = _views(view)
        latest: dict[tuple[_Block, str], dict[ClientId, _Piece]] = {}
        totals: dict[tuple[_Block, str], _Piece] = {}
        rounds = (message for message in transcript.messages if message.round_id > 0)
        for moment, messages in groupby(rounds, lambda message: (message.round_id, message.phase)):
            touched: set[tuple[_Block, str]] = set()
            for message in messages:
                for block, name, piece in self._contributed(message, views[moment], transcript):
                    key = (block, name)
                    latest.setdefault(key, {})[message.client] = piece
                    totals[key] = totals[key].plus(piece) if key in totals else piece
                    touched.add(key)
                    self._open(block, piece)
                    self._strip(block, piece)
            for key in touched:
                first, *others = latest[key].values()
                for other in others:
                    first = first.plus(other)
                self._open(key[0], first)
                self._open(key[0], totals[key])

    def _contributed(self, message: Message, view: bytes, transcript: Transcript) -> list[tuple[_Block, str, _Piece]]:
        """The masked blocks of a result that the accomplice holds too, with the names of their fields."""
        found = _vector_of(message)
        if found is None:
            return []
        kind, name, blocks = found
        if blocks.vector.WhichOneof("kind") != "masked":
            return []
        _, given = round_result_from_bytes(message.result, message.client)
        moment = Moment(ATTEMPT, RoundId(message.round_id), message.phase)
        origin = Origin(Stamp(message.client, moment, view, given.nonce), name)
        vector = vector_from_proto(blocks.vector, transcript.key)
        assert isinstance(vector, MaskedVector)
        return [
            ((kind, block), name, _Piece(vector.select([position]), (origin,)))
            for position, block in enumerate(ids_in(blocks.blocks))
            if (kind, block) in self.places
        ]

    def _open(self, block: _Block, piece: _Piece) -> None:
        try:
            values = self.cipher.decrypt(piece.vector, origins=[piece.origins], places=[self.places[block]])
        except CryptoError:
            return
        self._known[piece.vector.integers.tobytes()] = values

    def _strip(self, block: _Block, piece: _Piece) -> None:
        """Takes the mask of the group off one contribution; masks between pairs remain."""
        vector, (origin,) = piece.vector, piece.origins
        nothing = self.cipher.encrypt(
            np.zeros(vector.length), vector.format, origin=origin, places=[self.places[block]]
        )
        assert isinstance(nothing, MaskedVector)
        self._stripped[vector.integers.tobytes()] = replace(vector, integers=vector.integers - nothing.integers)


def _values(vector: MaskedVector) -> Array:
    return vector.format.dequantise(vector.integers.view(np.int64))


def _views(view: PartyView) -> dict[tuple[int, str], bytes]:
    """The accomplice's view in each phase, which is that of all parties."""
    views: dict[tuple[int, str], bytes] = {}
    current = view.kept.view
    for message in view.messages:
        if message.round_id > 0:
            for record in message.records:
                current = view_after(current, record)
            views[message.round_id, message.phase] = current
    return views


def _vector_of(message: Message) -> tuple[str, str, hyfdca_pb2.BlockVector] | None:
    """The kind of blocks, the field and the vector of a result of HyFDCA."""
    body = message.result_body
    if message.phase in (SYNC, PRIMAL):
        return _BY_FEATURE, "contribution", hyfdca_pb2.HyfdcaPrimalResult.FromString(body).contribution
    if message.phase in (INNER_PRODUCT, INNER_PRODUCT_AFTER):
        return _BY_SAMPLE, "products", hyfdca_pb2.HyfdcaProductResult.FromString(body).products
    if message.phase == LOCAL_DUAL:
        return _BY_SAMPLE, "changes", hyfdca_pb2.HyfdcaDualResult.FromString(body).changes
    return None
