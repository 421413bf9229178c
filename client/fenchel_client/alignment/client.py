"""A party's half of the alignment: lists its own samples blindly, and raises the lists of the others."""

from fenchel_client.alignment.blinders import Blinding
from fenchel_client.alignment.ecdh import RingSecret
from fenchel_client.alignment.hmac_ids import keyed_pseudonyms
from fenchel_client.alignment.names import pseudonyms
from fenchel_client.alignment.ring import Ring
from fenchel_client.alignment.sealednames import sealed_names
from fenchel_client.table import PartyTable
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import RunId
from fenchel_common.layout import MAX_FEATURES, MAX_PARTY_SAMPLES
from fenchel_common.wire.alignment import (
    NO_LIST,
    AlignmentMethod,
    Listing,
    listing_to_bytes,
    phase_step,
    raised_to_bytes,
    relay_from_bytes,
    start_from_bytes,
)
from fenchel_common.wire.pieces import is_blinding_phase, work_from_bytes


class AlignmentClient:
    """Answers the alignment phases of one set-up: lists the own samples, and raises the list of each other party once.

    Parameters
    ----------
    table
        This party's data; its rows are listed in the order of `PartyTable.ids`, and layouts count them in that order.
    run
        Separates the pseudonyms of this run from all others.
    method
        The method that this party agreed to; a start that asks for the other one is refused.
    tag_secret
        The run's secret under which the features get the pseudonyms that the server knows.
    ring
        This party's position among the others. It gives each list its tag and checks those of the others.
    blinding
        For `blinders` alone: this party's part in it.
    shared_secret
        For `hmac` alone: the secret that all parties of the run hold and the server does not.
    """

    def __init__(
        self,
        table: PartyTable,
        *,
        run: RunId,
        method: AlignmentMethod,
        tag_secret: bytes,
        ring: Ring,
        blinding: Blinding | None = None,
        shared_secret: bytes | None = None,
    ) -> None:
        if (method is AlignmentMethod.BLINDERS) != (blinding is not None):
            raise InvalidInput("blinding: needed for the method blinders, and for that alone")
        if (method is AlignmentMethod.HMAC) != (shared_secret is not None):
            raise InvalidInput("shared_secret: needed for the method hmac, and for that alone")
        if len(table.features) > MAX_FEATURES:
            raise InvalidInput(f"features: a shard can have at most {MAX_FEATURES} columns")
        if len(table.ids) > MAX_PARTY_SAMPLES:
            raise InvalidInput(f"ids: a shard can have at most {MAX_PARTY_SAMPLES} rows")
        self._table = table
        self._run = run
        self._method = method
        self._tag_secret = tag_secret
        self._ring = ring
        self._blinding = blinding
        self._shared_secret = shared_secret
        self._ring_secret = RingSecret(run)

    def close(self) -> None:
        """Ends the processes that raise lists, if there are any; a later task starts them again."""
        if self._blinding is not None:
            self._blinding.close()

    def answer(self, phase: str, body: bytes) -> bytes:
        """The result of one task."""
        if is_blinding_phase(phase):
            if self._blinding is None:
                raise InvalidInput("phase: lists come in pieces only with the method blinders")
            return self._blinding.answer(work_from_bytes(body))
        step = phase_step(phase)
        return self._list_own(body) if step == 0 else self._raise_other(step, body)

    def _list_own(self, body: bytes) -> bytes:
        asked = start_from_bytes(body)
        if asked is not self._method:
            raise InvalidInput(f"method: the server asks for {asked.value}, this party agreed to {self._method.value}")
        features = sorted(pseudonyms(self._table.features, tag_secret=self._tag_secret, run=self._run))
        return listing_to_bytes(
            Listing(
                features=bytes.fromhex("".join(features)),
                has_labels=self._table.y is not None,
                ids=NO_LIST if self._blinding else self._ring.tagged(0, self._whole_list()),
                sealed_names=sealed_names(
                    self._table.features, tag_secret=self._tag_secret, run=self._run, party=self._ring.own
                ),
                samples=len(self._table.ids) if self._blinding else 0,
                pieces=self._blinding.first_pieces() if self._blinding else (),
            )
        )

    def _whole_list(self) -> bytes:
        """The own list, for the ring or by keyed hash."""
        if self._shared_secret is None:
            return self._ring_secret.blind_ids(self._table.ids)
        return b"".join(keyed_pseudonyms(self._table.ids, secret=self._shared_secret, run=self._run))

    def _raise_other(self, step: int, body: bytes) -> bytes:
        if self._method is not AlignmentMethod.RING:
            raise InvalidInput("phase: lists are raised only in the ring")
        relayed = relay_from_bytes(body)
        self._ring.check(step, relayed)
        return raised_to_bytes(self._ring.tagged(step, self._ring_secret.raise_elements(relayed.elements)))
